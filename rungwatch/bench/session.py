"""Time the cases of a plan on this machine's GPU: one row a case, whatever happens."""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from rungwatch.backends.cuda.artifacts import ArtifactFolder, UnusableArtifactError
from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.job import BackendUnavailableError, Job, Tool
from rungwatch.bench.noise import AGAIN
from rungwatch.bench.plan import BenchCase
from rungwatch.bench.rows import Rerun, reason_of, untimed_row
from rungwatch.decide.timing import judge_timing
from rungwatch.decide.verdict import Reason
from rungwatch.measure.order import TimedCase
from rungwatch.measure.session import Measured
from rungwatch.record.model import Row

Measure = Callable[[Sequence[TimedCase], ArtifactFolder], list[Measured]]


def time_all(
    cases: Sequence[BenchCase],
    device: CudaBackend,
    rerun: Rerun,
    measure: Measure,
    *,
    twice: bool = False,
) -> list[Row]:
    """Return one row a case, in their order; where each is timed twice, its second one after it.

    `measure` times cases with the artifacts of a folder, and answers in their order.
    """
    try:
        device.prepare(())
        folder = device.artifacts
        wanted = list(_wanted(cases, folder, rerun, twice=twice))
        timed = [what for _, what in wanted if isinstance(what, TimedCase)]
        measured = dict(zip(timed, measure(timed, folder), strict=True)) if timed else {}
    except BackendUnavailableError as error:
        return [_untimed(case, Reason.BACKEND_UNAVAILABLE, str(error), rerun) for case in cases]
    return [
        what if isinstance(what, Row) else _row(case, measured[what], rerun)
        for case, what in wanted
    ]


def _wanted(
    cases: Sequence[BenchCase], folder: ArtifactFolder, rerun: Rerun, *, twice: bool
) -> Iterator[tuple[BenchCase, TimedCase | Row]]:
    """Yield what is to be timed of each case, or the row of one that can't be."""
    for case in cases:
        key = case.subject.key
        job = Job(Tool.NUMERICS, case.subject.source, case.launched, (), key, case.target)
        try:
            artifact = folder.find(job).id
        except UnusableArtifactError as error:
            yield case, _untimed(case, *reason_of(error.failure), rerun)
            continue
        for name in (key, key + AGAIN) if twice else (key,):
            yield case, TimedCase(name, artifact, case.shape, case.launched)


def _untimed(case: BenchCase, reason: Reason, message: str, rerun: Rerun) -> Row:
    return untimed_row(case.subject, case.target, case.shape, reason, message, rerun)


def _row(case: BenchCase, done: Measured, rerun: Rerun) -> Row:
    if done.timing is not None:
        reason, message = judge_timing(done.timing, case.shape)
    else:
        assert done.failure is not None
        reason, message = reason_of(done.failure)
    row = _untimed(case, reason, message, rerun)
    if done.case.kernel.endswith(AGAIN):
        row = replace(row, id=f"{row.id}-again", kernel=done.case.kernel)
    return replace(row, timing=done.timing)
