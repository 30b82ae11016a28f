"""What one worker does, in a process of its own: it times one group after the other.

A group is one problem. Each of its kernels is first run once and compared with cuBLAS: what is
wrong is never timed. Then all are timed in rounds, each thing once a round, in random order.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rungwatch.backends.cuda.errors import CudaError, failure_of
from rungwatch.backends.job import BackendUnavailableError, Failure, JobFailure, Stage
from rungwatch.measure import budget
from rungwatch.measure.child import Tell
from rungwatch.measure.device import Device, MakeDevice, Running
from rungwatch.measure.messages import Entered, Lost, Refused, Timed
from rungwatch.measure.order import CUBLAS, FIRST_KERNEL, NOTHING, Group, MeasureFolder, Order
from rungwatch.record.model import WorkerConditions

type Samples = dict[int, list[float]]

_LONGEST_WORDS = 400


@dataclass(frozen=True)
class Task:
    """What one worker process is asked for: some groups in this order, without `left_out`.

    `left_out` holds (group, slot) of kernels that were wrong, faulted or hung before.
    """

    worker: int
    groups: tuple[int, ...]
    left_out: frozenset[tuple[int, int]]


def work(
    order: Order,
    folder: MeasureFolder,
    task: Task,
    make_device: MakeDevice,
    running: Running,
    tell: Tell,
) -> None:
    """Time the groups of `task`. Returns early after an error that stays with the process."""
    try:
        device = make_device(order, folder, running)
    except (BackendUnavailableError, CudaError) as error:
        tell(Lost(task.worker, None, _failure(error, Stage.START)))
        return
    for index in task.groups:
        try:
            _Group(order, task, index, device, tell).time()
        except Exception as error:  # torch raises many kinds, and each says something
            slot = running.slot
            if slot in order.groups[index].slots:
                tell(Refused(task.worker, index, slot, _failure(error, Stage.RUN)))
            else:
                tell(Lost(task.worker, index, _failure(error, Stage.START)))
            return


class _Group:
    """One group in one worker."""

    def __init__(self, order: Order, task: Task, index: int, device: Device, tell: Tell) -> None:
        self._settings = order.settings
        self._group: Group = order.groups[index]
        self._task, self._index = task, index
        self._device, self._tell = device, tell
        self._random = random.Random(f"{order.settings.seed}, {task.worker}, {index}")

    def time(self) -> None:
        """Check all kernels, time those that are right, and tell the samples."""
        group = self._group
        self._enter("inputs", budget.launch_deadline_s(group.shape))
        self._device.open(group, self._random.getrandbits(31))
        kernels = [slot for slot in group.slots if self._is_right(slot)]
        if kernels:
            self._time((NOTHING, CUBLAS, *kernels))
        self._device.close()

    def _is_right(self, slot: int) -> bool:
        if (self._index, slot) in self._task.left_out:
            return False
        return self._agrees(slot, f"check of {self._group.case(slot).kernel}", self._device.check)

    def _agrees(self, slot: int, what: str, check: Callable[[int], str | None]) -> bool:
        """Say whether a kernel's D is cuBLAS's; where it is not, tell so."""
        self._enter(what, budget.launch_deadline_s(self._group.case(slot).launched))
        wrong = check(slot)
        if wrong is not None:
            failure = JobFailure(Failure.NUMERICS, Stage.RUN, wrong)
            self._tell(Refused(self._task.worker, self._index, slot, failure))
        return wrong is None

    def _time(self, slots: tuple[int, ...]) -> None:
        shape, device = self._group.shape, self._device
        self._enter("first round", budget.launch_deadline_s(shape, launches=len(slots)))
        device.place()
        round_s = self._seconds_of_a_round(slots)
        rounds = budget.rounds_for(round_s, self._settings)
        self._enter("timing", budget.timing_deadline_s(round_s, rounds))
        settled = self._warm_up(slots, rounds.each)
        before = device.conditions()
        samples: Samples = {slot: [] for slot in slots}
        for _ in range(rounds.placements):
            device.place()
            for slot, taken in self._timed_rounds(slots, rounds.each).items():
                samples[slot] += taken
        state = WorkerConditions(self._task.worker, before, device.conditions(), settled)
        for slot in slots[FIRST_KERNEL:]:
            what = f"check of {self._group.case(slot).kernel} after its timing"
            self._agrees(slot, what, device.check_again)
        self._tell(
            Timed(
                self._index,
                {slot: tuple(map(_finite, taken)) for slot, taken in samples.items()},
                state,
                device.peak_flops,
            )
        )

    def _seconds_of_a_round(self, slots: Sequence[int]) -> float:
        """Return the wall time of one round, once code and tables are in place."""
        captured = self._device.capture(self._orders(slots, 1))
        captured.replay()
        begun = time.monotonic()
        captured.replay()
        seconds = time.monotonic() - begun
        captured.close()
        return seconds

    def _warm_up(self, slots: Sequence[int], each: int) -> bool:
        """Run until the durations agree, or for as long as a warm-up may take; say which."""
        orders = self._orders(slots, each)
        captured = self._device.capture(orders)
        ends_s = time.monotonic() + budget.MOST_WARM_UP_S
        levels: list[float] = []
        while not budget.has_settled(levels):
            if len(levels) >= budget.SETTLED_WINDOWS and time.monotonic() > ends_s:
                break
            levels.append(budget.level(_by_slot(orders, captured.replay())))
        captured.close()
        return budget.has_settled(levels)

    def _timed_rounds(self, slots: Sequence[int], each: int) -> Samples:
        """Return the samples of one placement; the first run finds cold page tables and clocks."""
        orders = self._orders(slots, each)
        captured = self._device.capture(orders)
        captured.replay()
        samples = _by_slot(orders, captured.replay())
        captured.close()
        return samples

    def _orders(self, slots: Sequence[int], count: int) -> list[list[int]]:
        return [self._random.sample(slots, len(slots)) for _ in range(count)]

    def _enter(self, what: str, within_s: float) -> None:
        self._tell(Entered(what, within_s, self._index))


def _by_slot(orders: Sequence[Sequence[int]], times: Sequence[Sequence[float]]) -> Samples:
    """Return the times of each slot, one a round, in the order of the rounds."""
    samples: Samples = {}
    for slots, taken in zip(orders, times, strict=True):
        for slot, value in zip(slots, taken, strict=True):
            samples.setdefault(slot, []).append(value)
    return samples


def _finite(value: float) -> float:
    """Return a value that JSON can hold: 0, which is no time either, for one that is no number."""
    return value if math.isfinite(value) else 0.0


def _failure(error: Exception, stage: Stage) -> JobFailure:
    """Say what an error means: a kernel can be blamed for one at stage RUN, nobody at START."""
    match error:
        case CudaError():
            return JobFailure(failure_of(error, stage), stage, str(error))
        case BackendUnavailableError():
            return JobFailure(Failure.BACKEND_UNAVAILABLE, stage, str(error))
        case _:
            words = " ".join(f"{type(error).__name__}: {error}".split())
            return JobFailure(Failure.WORKER_DIED, stage, words[:_LONGEST_WORDS])
