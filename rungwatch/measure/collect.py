"""From what the workers told to one answer a case: pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from rungwatch.backends.job import Failure, JobFailure, Stage
from rungwatch.measure.messages import Lost, Message, Refused, Timed
from rungwatch.measure.order import CUBLAS, NOTHING, Order, TimedCase
from rungwatch.record.model import Arm, Timing, WorkerSamples


@dataclass(frozen=True)
class Measured:
    """What became of a case: exactly one of `timing` and `failure` is set."""

    case: TimedCase
    timing: Timing | None
    failure: JobFailure | None


def collect(
    order: Order, messages: Iterable[Message], ended: JobFailure | None
) -> dict[TimedCase, Measured]:
    """Return an answer for every case of `order`.

    A kernel that any worker refused has no time, however many others timed it. `ended` is why
    the fork server ended early, None where it did not: what was timed until then counts.
    """
    refused: dict[tuple[int, int], JobFailure] = {}
    lost: dict[int | None, JobFailure] = {}
    timed: dict[int, list[Timed]] = {}
    for message in messages:
        match message:
            case Refused():
                refused.setdefault((message.group, message.slot), message.failure)
            case Lost():
                lost.setdefault(message.group, message.failure)
            case Timed():
                timed.setdefault(message.group, []).append(message)
    answers = {}
    for index, group in enumerate(order.groups):
        for slot in group.slots:
            case = group.case(slot)
            failure = refused.get((index, slot))
            timing = None
            if failure is None and index in timed:
                timing = _timing(order, case, slot, timed[index])
            elif failure is None:
                failure = lost.get(index) or lost.get(None) or ended or _NOTHING
            answers[case] = Measured(case, timing, failure)
    return answers


_NOTHING = JobFailure(Failure.BAD_OUTPUT, Stage.RUN, "the workers gave nothing for this case")


def _timing(order: Order, case: TimedCase, slot: int, told: list[Timed]) -> Timing:
    """Return what all workers measured of a case: each timed every kernel that none refused."""
    return Timing(
        method="graph-events",
        cache=order.settings.cache,
        launched=case.launched,
        floor_ns=median(value for one in told for value in one.samples_ns[NOTHING]),
        peak_flops=max(one.peak_flops for one in told),
        arms=(
            Arm("kernel", case.artifact, _samples(told, slot)),
            Arm("cublas", None, _samples(told, CUBLAS)),
        ),
        conditions=tuple(one.conditions for one in told),
        workers_asked=order.settings.workers,
    )


def _samples(told: list[Timed], slot: int) -> tuple[WorkerSamples, ...]:
    return tuple(
        WorkerSamples(one.conditions.worker, tuple(round(ns, 1) for ns in one.samples_ns[slot]))
        for one in told
    )
