"""Run the jobs of a plan, a few at a time, and collect their rows."""

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
import psutil

from rungwatch.backends.job import BackendUnavailableError, Job, JobResult, Tool
from rungwatch.check.outcome import Arrays, judge, make_row
from rungwatch.check.plan import Plan, PlannedJob
from rungwatch.check.verdict_cache import VerdictCache
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.declare.problem import Problem
from rungwatch.record.model import Row
from rungwatch.trusted import buffers

GIB = 1024**3
_LARGEST_WORKER_BYTES = 8 * GIB
_SMALLEST_WORKER_BYTES = 1 * GIB  # below that no worker gets through its imports and compiles
_SHARE_OF_MEMORY = 0.8
_BYTES_AN_ELEMENT = 4  # fp16, as given and as left behind


class Backend(Protocol):
    """What runs a job: see `rungwatch.backends.simulator.backend`."""

    def prepare(self, tools: Iterable[Tool]) -> None:
        """Do what must be done once, before the first job that uses one of `tools`.

        Raises:
            BackendUnavailableError: the backend can't work here.
        """

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
        """Run one job in `folder`, within its deadline and memory."""


@dataclass(frozen=True)
class Progress:
    """What a progress display is told: a job began, or ended with rows."""

    started: Callable[[PlannedJob], None]
    finished: Callable[[PlannedJob, list[Row]], None]


def execute(
    plan: Plan,
    backend: Backend,
    backend_name: str,
    cache: VerdictCache | None,
    progress: Progress,
    worker_count: int | None = None,
) -> list[Row]:
    """Return every row of `plan`, in its order.

    Jobs run in worker processes, `worker_count` at once (one a core by default), long ones
    first. A checker that ran out of its budget is run again alone at the end. On an interrupt
    the workers are ended before it is passed on.
    """
    count = worker_count or os.cpu_count() or 1
    runner = _Runner(backend, backend_name, cache, count)
    rows: dict[int, list[Row]] = {}
    waiting: dict[int, tuple[PlannedJob, list[Problem]]] = {}
    for index, planned in enumerate(plan.jobs):
        remembered, missing = runner.look_up(planned)
        rows[index] = remembered
        if missing:
            waiting[index] = (planned, missing)
        else:
            progress.finished(planned, remembered)
    if waiting:
        try:
            backend.prepare({planned.tool for planned, _ in waiting.values()})
        except BackendUnavailableError as error:
            for index, (planned, missing) in waiting.items():
                rows[index] += [
                    make_row(planned, problem, Reason.BACKEND_UNAVAILABLE, str(error))
                    for problem in missing
                ]
        else:
            # Closed at once on an interrupt, wherever it strikes: that ends the workers.
            with contextlib.closing(_run_all(waiting, runner, progress, count)) as ended:
                for index, given in ended:
                    rows[index] += given
                    progress.finished(waiting[index][0], given)
    return [*plan.rows, *_in_plan_order(plan, rows)]


def _run_all(
    waiting: dict[int, tuple[PlannedJob, list[Problem]]],
    runner: "_Runner",
    progress: Progress,
    count: int,
) -> Generator[tuple[int, list[Row]]]:
    """Yield the rows of each waiting job as it ends, long jobs first."""
    order = sorted(waiting, key=lambda index: -waiting[index][0].work)
    retry: list[int] = []
    with ThreadPoolExecutor(count) as pool:
        futures = {
            pool.submit(runner.run, *waiting[index], progress.started, alone=False): index
            for index in order
        }
        try:
            for future in _as_completed(futures):
                given = future.result()
                if any(row.reason is Reason.CHECKER_BUDGET for row in given):
                    retry.append(futures[future])
                else:
                    yield futures[future], given
            for index in retry:
                yield index, runner.run(*waiting[index], progress.started, alone=True)
        except BaseException:
            runner.cancel.set()
            for future in futures:
                future.cancel()
            raise


def _as_completed(futures: Iterable[Future[list[Row]]]) -> Iterable[Future[list[Row]]]:
    """Yield futures as they end, waking up often enough for Ctrl-C to be heard at once."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        yield from done


def _in_plan_order(plan: Plan, rows: dict[int, list[Row]]) -> Iterable[Row]:
    for index, planned in enumerate(plan.jobs):
        position = {problem: place for place, problem in enumerate(planned.problems)}
        yield from sorted(rows[index], key=lambda row: position[row.problem] if row.problem else 0)


def _read_arrays(path: Path | None) -> Arrays | None:
    """Return the arrays of a worker's output; None where there is none or it is no .npz file.

    Whether they are the right ones is for the comparison to say.
    """
    if path is None:
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except Exception:  # a hostile file can make numpy's reader raise nearly anything
        return None


class _Runner:
    def __init__(
        self, backend: Backend, backend_name: str, cache: VerdictCache | None, count: int
    ) -> None:
        self.cancel = threading.Event()
        self._backend = backend
        self._backend_name = backend_name
        self._cache = cache
        self._memory_limit = min(
            _LARGEST_WORKER_BYTES,
            max(
                _SMALLEST_WORKER_BYTES,
                int(psutil.virtual_memory().total * _SHARE_OF_MEMORY / count),
            ),
        )

    def look_up(self, planned: PlannedJob) -> tuple[list[Row], list[Problem]]:
        """Return the remembered rows of a job, and its problems without one."""
        rows, missing = [], []
        for problem in planned.problems:
            row = self._remembered(planned, problem)
            if row is None:
                missing.append(problem)
            else:
                rows.append(msgspec.structs.replace(row, rerun=planned.rerun(problem)))
        return rows, missing

    def run(
        self,
        planned: PlannedJob,
        problems: list[Problem],
        started: Callable[[PlannedJob], None],
        *,
        alone: bool,
    ) -> list[Row]:
        """Run `problems` of a job in one worker and judge what it left."""
        started(planned)
        needed = (
            _BYTES_AN_ELEMENT
            * len(problems)
            * sum(rows * columns for rows, columns in buffers.extents(planned.shape).values())
        )
        if needed > self._memory_limit:
            message = (
                f"the inputs alone take {needed / GIB:.0f} GiB, more than the"
                f" {self._memory_limit / GIB:.0f} GiB that a case may use"
            )
            return [make_row(planned, p, Reason.MEMORY_LIMIT, message) for p in problems]
        try:
            return self._run(planned, problems, alone=alone)
        except OSError as error:
            message = f"the case could not be run here: {error}"
            return [make_row(planned, p, Reason.BACKEND_UNAVAILABLE, message) for p in problems]

    def _run(self, planned: PlannedJob, problems: list[Problem], *, alone: bool) -> list[Row]:
        given: dict[Problem, Arrays] = {
            problem: buffers.make(problem.shape, problem.distribution, problem.seed)
            for problem in problems
        }
        with tempfile.TemporaryDirectory(prefix="rungwatch-") as folder:
            result = self._backend.run(
                planned.job(problems),
                {str(problem): arrays for problem, arrays in given.items()},
                Path(folder),
                memory_limit_bytes=self._memory_limit,
                alone=alone,
                cancel=self.cancel,
            )
            rows = judge(
                planned,
                given,
                result,
                lambda problem: _read_arrays(result.outputs.get(str(problem))),
            )
        if result.self_contained:
            for problem, row in zip(problems, rows, strict=True):
                if row.verdict is Verdict.PASS:
                    self._remember(planned, problem, row)
        return rows

    def _remembered(self, planned: PlannedJob, problem: Problem) -> Row | None:
        if self._cache is None or planned.subject.sha256 is None:
            return None
        key = self._cache.key(planned, problem, self._backend_name)
        return self._cache.get(key, planned.row_id(problem))

    def _remember(self, planned: PlannedJob, problem: Problem, row: Row) -> None:
        if self._cache is not None and planned.subject.sha256 is not None:
            self._cache.put(self._cache.key(planned, problem, self._backend_name), row)
