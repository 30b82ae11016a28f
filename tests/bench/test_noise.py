"""The same artifact in two arms: how they differ, and which slowdown that leaves visible."""

import math

import pytest
from msgspec.structs import replace

from rungwatch.bench.noise import AGAIN, noise_of, t_quantile
from rungwatch.record.model import Arm, WorkerSamples

from .samples import CUBE, row, square, timing


def arm(levels, rounds=3):
    """A timing whose kernel takes exactly these microseconds, a worker each."""
    workers = tuple(
        WorkerSamples(worker, (1000 * us,) * rounds) for worker, us in enumerate(levels)
    )
    made = timing(100.0, workers=len(levels), rounds=rounds)
    return replace(made, arms=(Arm("kernel", "a" * 64, workers), made.arms[1]))


def pair(first, second, shape=CUBE):
    return [row("step9", shape, arm(first)), row(f"step9{AGAIN}", shape, arm(second))]


def test_equal_arms_have_no_noise():
    (noise,) = noise_of(pair([100.0] * 12, [100.0] * 12))
    assert (noise.offset, noise.spread, noise.smallest_slowdown) == (0, 0, 0)
    assert noise.workers == 12
    assert not noise.biased


def test_drift_of_both_arms_cancels():
    levels = [100.0 * 1.1**worker for worker in range(12)]
    (noise,) = noise_of(pair(levels, levels))
    assert noise.spread == 0


def test_what_is_seen_grows_with_the_spread_and_shrinks_with_the_workers():
    def noise(workers, by):
        second = [100.0 * math.exp(by * (-1) ** worker) for worker in range(workers)]
        (found,) = noise_of(pair([100.0] * workers, second))
        return found

    one, wider, more = noise(12, 0.001), noise(12, 0.002), noise(48, 0.001)
    assert one.offset == pytest.approx(0, abs=1e-12)
    assert one.spread == pytest.approx(0.001 * math.sqrt(12 / 11))
    # (t(0.975, 11) + t(0.9, 11)) / sqrt(12), from printed tables.
    assert one.smallest_slowdown / one.spread == pytest.approx((2.201 + 1.363) / 12**0.5, rel=1e-3)
    assert wider.smallest_slowdown == pytest.approx(2 * one.smallest_slowdown)
    assert more.smallest_slowdown < one.smallest_slowdown / 2


def test_a_steady_difference_is_called_a_bias():
    second = [100.3 * math.exp(0.0005 * (-1) ** worker) for worker in range(12)]
    (noise,) = noise_of(pair([100.0] * 12, second))
    assert noise.offset == pytest.approx(math.log(1.003))
    assert noise.biased


def test_only_what_was_timed_twice_counts():
    rows = [*pair([100.0] * 6, [100.0] * 6), row("step9", square(1024), arm([9.0] * 6))]
    assert [(noise.kernel, noise.shape) for noise in noise_of(rows)] == [
        ("hgemm/hopper/step9", CUBE)
    ]
    assert noise_of(pair([100.0], [100.0])) == []
    assert noise_of([row("step9", timed=arm([1.0] * 6)), row(f"step9{AGAIN}")]) == []
    assert noise_of(pair([0.0] * 6, [100.0] * 6)) == []


@pytest.mark.parametrize(
    ("share", "freedom", "printed"),
    [(0.975, 5, 2.571), (0.975, 11, 2.201), (0.975, 30, 2.042), (0.9, 11, 1.363), (0.9, 5, 1.476)],
)
def test_students_t_is_that_of_printed_tables(share, freedom, printed):
    assert t_quantile(share, freedom) == pytest.approx(printed, abs=0.002)
