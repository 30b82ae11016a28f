"""Run mutants through the same code as `rungwatch check`, up to the first check that refuses."""

import functools
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rungwatch.backends.job import Job, JobResult, Tool
from rungwatch.backends.simulator.backend import SimulatorBackend
from rungwatch.check.execute import Progress, execute
from rungwatch.check.outcome import Arrays
from rungwatch.check.plan import Plan, PlannedJob, Selection, plan_check
from rungwatch.check.verdict_cache import VerdictCache
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.declare.registry import read_file
from rungwatch.declare.subject import Subject, from_file
from rungwatch.record.model import Row
from rungwatch.trusted.matrix import Depth
from rungwatch.trusted.source_rules import broken_rules

from .mutant import KERNELS, Mutant
from .results import Outcome, Result

_SILENT = Progress(lambda planned: None, lambda planned, rows: None)
_BUILD = frozenset({Reason.KERNEL_LOAD, Reason.KERNEL_BUILD, Reason.UNMODELLED})
_NOTHING_LEARNT = frozenset({Reason.BACKEND_UNAVAILABLE, Reason.MISSING_DEPENDENCY})
# A mutant may loop for ever. These are shorter than the deadlines of `rungwatch check`, where no
# kernel does; a job of quick takes 6 s on a free core, and 100 s were seen where ten shared two.
_START_S = 180.0
_MULTIPLY_ADD_S = 5e-7


class NothingLearntError(RuntimeError):
    """The backend could not work, or an unchanged kernel was refused: no result would count."""


@dataclass(frozen=True)
class HurriedBackend:
    """The simulator with deadlines for mutants, and one switch that ends all workers."""

    simulator: SimulatorBackend
    stop: threading.Event

    def prepare(self, tools: Iterable[Tool]) -> None:
        """Build the engines."""
        self.simulator.prepare(tools)

    def run(
        self,
        job: Job,
        inputs: dict[str, Arrays],
        folder: Path,
        *,
        memory_limit_bytes: int,
        alone: bool,
        cancel: threading.Event,
    ) -> JobResult:
        """Run one job."""
        shape = job.shape
        work = shape.m * shape.n * shape.k * len(job.inputs)
        return self.simulator.run(
            job,
            inputs,
            folder,
            memory_limit_bytes=memory_limit_bytes,
            alone=alone,
            cancel=self.stop,
            deadline_s=_START_S + work * _MULTIPLY_ADD_S,
        )


@functools.cache
def original(rung: str) -> Subject:
    """Return the unchanged kernel of a rung: its rules choose the problems of its mutants."""
    path = KERNELS / f"{rung}.py"
    return from_file(read_file(path, path.parent))


def jobs(rung: str, depth: Depth) -> tuple[PlannedJob, ...]:
    """Return the jobs of the required matrix that `depth` adds, in the order they are tried.

    For quick, the general numerics first, then the checkers, then the small numerics; for full,
    what quick has not, the least work first.
    """
    quick = plan_check([original(rung)], Selection(depth=Depth.QUICK)).jobs
    if depth is Depth.QUICK:
        numerics = [job for job in quick if job.tool is Tool.NUMERICS]
        first, *others = sorted(numerics, key=lambda job: len(job.problems))
        checkers = [
            job for tool in (Tool.RACECHECK, Tool.SYNCCHECK) for job in quick if job.tool is tool
        ]
        return (first, *checkers, *others)
    known = {(job.tool, problem) for job in quick for problem in job.problems}
    full = plan_check([original(rung)], Selection(depth=Depth.FULL)).jobs
    rest = [
        PlannedJob(
            job.subject,
            job.target,
            job.tool,
            tuple(problem for problem in job.problems if (job.tool, problem) not in known),
        )
        for job in full
    ]
    return tuple(sorted((job for job in rest if job.problems), key=lambda job: job.work))


def run(mutant: Mutant, depths: Iterable[Depth], backend: HurriedBackend) -> Result:
    """Run one mutant through the checks of `depths`, until one refuses it.

    The source rules come after quick: they cost nothing, but what a run can show is worth more.

    Raises:
        NothingLearntError: the backend can't work here.
    """
    with tempfile.TemporaryDirectory(prefix="rungwatch-mutant-") as folder:
        path = Path(folder) / f"{mutant.rung}.py"
        path.write_text(mutant.source, encoding="utf-8")
        depth = Depth.QUICK
        for depth in depths:
            for row in _rows(path, jobs(mutant.rung, depth), backend):
                if row.reason in _NOTHING_LEARNT or backend.stop.is_set():
                    raise NothingLearntError(row.message)
                if row.verdict is not Verdict.PASS:
                    return _refused(mutant, row, depth)
            if depth is Depth.QUICK and (refused := by_source_rules(mutant)) is not None:
                return refused
    return Result.of(mutant, Outcome.SURVIVED, depth)


def by_source_rules(mutant: Mutant) -> Result | None:
    """Return the result of a mutant that breaks a source rule."""
    broken = broken_rules(mutant.source)
    if not broken:
        return None
    first = broken[0]
    return Result.of(mutant, Outcome.SOURCE, Depth.QUICK, first.rule, message=first.message)


def _rows(path: Path, planned: Iterable[PlannedJob], backend: HurriedBackend) -> Iterator[Row]:
    for job in planned:
        subject = replace(
            from_file(read_file(path, path.parent)),
            key=job.subject.key,
            declaration=job.subject.declaration,
            error=None,
        )
        mutated = PlannedJob(subject, job.target, job.tool, job.problems)
        yield from execute(Plan((mutated,), ()), backend, "sim", None, _SILENT, 1)


def _refused(mutant: Mutant, row: Row, depth: Depth) -> Result:
    outcome = Outcome.BUILD if row.reason in _BUILD else Outcome(row.check)
    case = "" if outcome is Outcome.BUILD else row.id
    return Result.of(mutant, outcome, depth, case, row.reason, row.message)


def check_unchanged(
    rungs: Iterable[str], backend: HurriedBackend, cache: VerdictCache, worker_count: int
) -> None:
    """Run the unchanged kernels through the problems of quick: all must pass.

    Raises:
        NothingLearntError: one was refused, so that a refusal says nothing of a mutant.
    """
    planned = tuple(job for rung in rungs for job in jobs(rung, Depth.QUICK))
    for row in execute(Plan(planned, ()), backend, "sim", cache, _SILENT, worker_count):
        if row.verdict is not Verdict.PASS:
            why = f"{row.verdict}({row.reason}) {row.message}"
            raise NothingLearntError(f"the unchanged kernel was refused: {row.id}: {why}")
