"""From what a backend gave to rows with verdicts: no process is started here."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from rungwatch.backends.job import SANITIZERS, CheckerReport, JobFailure, JobResult, Tool
from rungwatch.check.plan import PlannedJob
from rungwatch.cost.work import mismatches
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.problem import Problem
from rungwatch.record.model import Comparison, Row
from rungwatch.trusted.compare import compare

Arrays = Mapping[str, NDArray[np.uint16]]

_CHECKER_REASON = {
    Tool.SYNCCHECK: Reason.SYNCCHECK,
    Tool.RACECHECK: Reason.RACECHECK,
    **dict.fromkeys(SANITIZERS, Reason.SANITIZER),
}


def make_row(
    planned: PlannedJob,
    problem: Problem,
    reason: Reason,
    message: str,
    *,
    seconds: float = 0.0,
    comparison: Comparison | None = None,
    report: CheckerReport | None = None,
) -> Row:
    """Return the row of one problem of a job."""
    return Row(
        id=planned.row_id(problem),
        kernel=planned.subject.key,
        target=planned.target,
        problem=problem,
        check=planned.tool.value,
        verdict=verdict_of(reason),
        reason=reason,
        message=message,
        rerun=planned.rerun(problem),
        seconds=seconds,
        comparison=comparison,
        report=report,
    )


def judge(
    planned: PlannedJob,
    given: Mapping[Problem, Arrays],
    result: JobResult,
    load: Callable[[Problem], Arrays | None],
) -> list[Row]:
    """Return one row a problem in `given`.

    `load` reads the arrays that the kernel left for a problem, or returns None where the worker
    wrote none: such a row is INVALID(bad-output), never silently missing.
    """
    seconds = sum(result.seconds.values()) / max(len(given), 1)
    if result.failure is not None:
        reason, message = _failure(result.failure)
        return [make_row(planned, problem, reason, message, seconds=seconds) for problem in given]
    if planned.tool is not Tool.NUMERICS:
        return [_checker_row(planned, problem, result, seconds) for problem in given]
    rows = []
    for problem, before in given.items():
        failed = result.failed.get(str(problem))
        after = None if failed is not None else load(problem)
        comparison = None
        if failed is not None:
            reason, message = _failure(failed)
        elif after is None:
            reason, message = Reason.BAD_OUTPUT, "the worker gave no output for this problem"
        else:
            reason, message, comparison = compare(
                after, before, problem.shape, problem.distribution, planned.tile
            )
            wrong = mismatches(result.work, problem.shape) if result.work is not None else ()
            if reason is Reason.OK and wrong:
                reason, message = Reason.WORK_MISMATCH, f"D is right, but {'; '.join(wrong)}"
            if (change := result.unstable.get(str(problem))) is not None:
                message = f"{message}; {change}"
                if reason is Reason.OK:
                    reason = Reason.NONDETERMINISTIC
        rows.append(
            make_row(planned, problem, reason, message, seconds=seconds, comparison=comparison)
        )
    return rows


def _failure(failure: JobFailure) -> tuple[Reason, str]:
    return Reason(failure.failure.value), failure.message


def _checker_row(planned: PlannedJob, problem: Problem, result: JobResult, seconds: float) -> Row:
    report = result.report
    if report is None:
        message = f"the worker gave no {planned.tool} report"
        return make_row(planned, problem, Reason.BAD_OUTPUT, message, seconds=seconds)
    if report.verdict == "clean":
        reason, message = Reason.OK, "clean"
    else:
        reason = _CHECKER_REASON[planned.tool]
        first = report.findings[0] if report.findings else None
        what = f"{first.kind}: {first.message}" if first else "no finding was given"
        more = f" (and {len(report.findings) - 1} more)" if len(report.findings) > 1 else ""
        message = f"{report.verdict}: {what}{more}"
    return make_row(planned, problem, reason, message, seconds=seconds, report=report)
