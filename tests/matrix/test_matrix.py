"""The required matrix, a test a row: every kernel of the repository in the simulator.

Rows of one kernel and shape share one worker process, as in `rungwatch check`; xdist keeps them
together. What `--quick` leaves out is marked slow.
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from rungwatch.backends.simulator.backend import SimulatorBackend
from rungwatch.check.execute import Progress, execute
from rungwatch.check.plan import SIMULATED_TARGETS, Plan, PlannedJob, Selection, plan_check
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Problem
from rungwatch.declare.registry import KernelFile, discover
from rungwatch.declare.subject import from_file
from rungwatch.record.model import Row
from rungwatch.trusted.matrix import Depth, refused_shapes

FILES = discover(Path(__file__).resolve().parents[2] / "kernels")
SILENT = Progress(lambda planned: None, lambda planned, rows: None)


def jobs(depth: Depth) -> tuple[PlannedJob, ...]:
    return plan_check(map(from_file, FILES), Selection(depth=depth)).jobs


def cases() -> Iterator[object]:
    """Yield (job, problem): the rows of quick first, then those that only full has, as slow."""
    quick = {job.row_id(problem) for job in jobs(Depth.QUICK) for problem in job.problems}
    for job in jobs(Depth.FULL):
        for is_quick in (True, False):
            problems = tuple(p for p in job.problems if (job.row_id(p) in quick) is is_quick)
            part = PlannedJob(job.subject, job.target, job.tool, problems)
            for problem in problems:
                row_id = job.row_id(problem)
                group = f"{job.subject.name}-{problem.shape}-{job.tool}-{is_quick}"
                marks = [pytest.mark.sim, pytest.mark.xdist_group(group)]
                if not is_quick:
                    marks.append(pytest.mark.slow)
                yield pytest.param(part, problem, id=row_id, marks=marks)


@functools.cache
def rows(job: PlannedJob) -> dict[Problem, Row]:
    found = execute(Plan((job,), ()), SimulatorBackend(), "sim", None, SILENT, worker_count=1)
    return {row.problem: row for row in found if row.problem is not None}


@pytest.mark.parametrize(("job", "problem"), list(cases()))
def test_kernel(job: PlannedJob, problem: Problem) -> None:
    row = rows(job)[problem]
    assert row.reason is Reason.OK, f"{row.message}\n{row.rerun}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.key)
def test_every_file_declares_a_kernel_that_the_matrix_covers(file: KernelFile) -> None:
    subject = from_file(file)
    assert subject.error is None
    declaration = subject.declaration
    assert declaration is not None
    plan = plan_check([subject], Selection(depth=Depth.FULL))
    names = {job.tool for job in plan.jobs}
    if SIMULATED_TARGETS.isdisjoint(declaration.targets):
        assert [row.reason for row in plan.rows] == [Reason.TARGET_NOT_SIMULATED]
        assert names == set()
    else:
        assert names == {"numerics", "synccheck", "racecheck"}
    for shape in refused_shapes(declaration):
        assert "Nearest valid" in (declaration.rules.refusal(shape) or "")
