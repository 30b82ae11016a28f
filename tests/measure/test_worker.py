"""What one worker does with its device, step by step."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from rungwatch.backends.job import Failure
from rungwatch.declare.problem import Shape
from rungwatch.measure import budget
from rungwatch.measure.device import Running
from rungwatch.measure.messages import Entered, Message, Refused, Timed
from rungwatch.measure.order import (
    CUBLAS,
    FIRST_KERNEL,
    NOTHING,
    MeasureFolder,
    MeasureSettings,
    Order,
    TimedCase,
    grouped,
)
from rungwatch.measure.worker import Task, work

from .fake_server import FakeDevice

SHAPE = Shape(32, 16, 24, 4)


class Watched:
    """One run of a worker, on one group of kernels with these names."""

    def __init__(
        self, folder: Path, *names: str, worker: int = 0, left_out: frozenset[int] = frozenset()
    ) -> None:
        cases = [TimedCase(name, "a" * 64, SHAPE, SHAPE) for name in names]
        order = Order(grouped(cases), "sm_90a", MeasureSettings(rounds=20))
        task = Task(worker, (0,), frozenset((0, slot) for slot in left_out))
        self.told: list[Message] = []
        self.devices: list[FakeDevice] = []

        def make(order: Order, folder: MeasureFolder, running: Running) -> FakeDevice:
            self.devices.append(FakeDevice(order, folder, running))
            return self.devices[-1]

        work(order, MeasureFolder(folder), task, make, Running(), self.told.append)

    @property
    def device(self) -> FakeDevice:
        [device] = self.devices
        return device

    @property
    def timed(self) -> Timed:
        [timed] = [message for message in self.told if isinstance(message, Timed)]
        return timed


def test_each_thing_is_timed_once_a_round_in_random_order(tmp_path: Path) -> None:
    captured = Watched(tmp_path, "one", "two", "three").device.captured
    rounds = [slots for rounds in captured for slots in rounds]
    assert all(sorted(slots) == [0, 1, 2, 3, 4] for slots in rounds)
    firsts = Counter(slots[0] for slots in rounds)
    assert len(firsts) > 2
    assert len({tuple(slots) for slots in rounds}) > len(rounds) / 2


def test_workers_differ_in_their_orders_and_one_can_be_repeated(tmp_path: Path) -> None:
    first, again, other = (
        Watched(tmp_path, "one", worker=worker).device.captured for worker in (0, 0, 3)
    )
    assert first == again
    assert first != other


def test_a_kernel_is_checked_before_it_is_timed_and_buffers_move(tmp_path: Path) -> None:
    device = Watched(tmp_path, "one", "two").device
    calls = [call for call, following in pairwise([*device.calls, ""]) if call != following]
    assert calls[:5] == ["open", "check 2", "check 3", "place", "capture"]
    assert device.calls.count("place") == 1 + 20 // budget.PLACEMENT_ROUNDS
    assert device.calls.count("conditions") == 2
    # After the warm-up every placement is captured, run once for nothing, and once for samples.
    after = device.calls[device.calls.index("conditions") + 1 : -4]
    assert after == ["place", "capture", "replay", "replay"] * 4
    assert device.calls[-4:] == ["conditions", "check 2 again", "check 3 again", "close"]
    assert device.open_captures == 0


def test_samples_of_a_round_stand_at_one_place(tmp_path: Path) -> None:
    timed = Watched(tmp_path, "one", "two").timed
    assert {len(taken) for taken in timed.samples_ns.values()} == {20}
    assert set(timed.samples_ns) == {NOTHING, CUBLAS, FIRST_KERNEL, FIRST_KERNEL + 1}
    assert timed.conditions.settled
    for slot, typical in ((NOTHING, 1_500), (CUBLAS, 204_000), (FIRST_KERNEL, 200_000)):
        assert all(abs(ns / typical - 1) < 0.002 for ns in timed.samples_ns[slot])


def test_what_is_wrong_or_left_out_is_not_timed(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "one", "wrong", "two", left_out=frozenset({FIRST_KERNEL}))
    [refused] = [message for message in watched.told if isinstance(message, Refused)]
    assert (refused.slot, refused.failure.failure) == (FIRST_KERNEL + 1, Failure.NUMERICS)
    assert set(watched.timed.samples_ns) == {NOTHING, CUBLAS, FIRST_KERNEL + 2}
    assert "check 2" not in watched.device.calls
    assert all(sorted(slots) == [0, 1, 4] for rounds in watched.device.captured for slots in rounds)


def test_cublas_alone_is_not_timed(tmp_path: Path) -> None:
    device = Watched(tmp_path, "wrong").device
    assert device.calls == ["open", "check 2", "close"]


def test_every_step_has_a_deadline(tmp_path: Path) -> None:
    told = Watched(tmp_path, "one").told
    steps = [message for message in told if isinstance(message, Entered)]
    assert [step.what for step in steps] == [
        "inputs", "check of one", "first round", "timing", "check of one after its timing",
    ]  # fmt: skip
    assert all(0 < step.within_s < 100 for step in steps)


def test_a_warm_up_that_never_settles_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_WARM_UP_S", 0.02)
    timed = Watched(tmp_path, "drifting").timed
    assert not timed.conditions.settled


def test_a_time_that_is_no_number_is_told_as_none(tmp_path: Path) -> None:
    assert set(Watched(tmp_path, "timeless").timed.samples_ns[FIRST_KERNEL]) == {0.0}
