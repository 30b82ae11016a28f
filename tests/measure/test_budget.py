"""How long is measured, and when durations have settled."""

import math

import pytest
from msgspec.structs import replace

from rungwatch.declare.problem import Shape
from rungwatch.measure import budget
from rungwatch.measure.budget import Rounds, has_settled, level, rounds_for
from rungwatch.measure.order import (
    CUBLAS,
    FIRST_KERNEL,
    NOTHING,
    MeasureSettings,
    Order,
    TimedCase,
    grouped,
)

SETTINGS = MeasureSettings(rounds=20)


@pytest.mark.parametrize(
    ("round_s", "expected"),
    [
        (0.0, Rounds(4, 5)),
        (0.001, Rounds(4, 5)),
        (0.075, Rounds(4, 5)),
        (0.08, Rounds(3, 5)),  # 18 fit; 15 are whole placements
        (0.2, Rounds(2, 3)),
        (0.5, Rounds(2, 2)),
        (60.0, Rounds(2, 2)),
    ],
)
def test_rounds_fit_the_time(round_s: float, expected: Rounds) -> None:
    assert rounds_for(round_s, SETTINGS) == expected


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 20, 200])
@pytest.mark.parametrize("round_s", [1e-6, 0.01, 0.1, 100.0])
def test_no_more_rounds_than_were_asked_for(most: int, round_s: float) -> None:
    rounds = rounds_for(round_s, replace(SETTINGS, rounds=most))
    assert 1 <= rounds.placements * rounds.each <= most
    if most > 1:
        assert rounds.placements > 1


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([], False),
        ([1.0, 1.0], False),
        ([1.0, 1.0, 1.0], True),
        ([2.0, 1.0, 1.005, 1.009], True),
        ([1.0, 1.005, 1.011], False),
        ([1.0, 1.0, math.nan], False),
    ],
)
def test_settled(levels: list[float], expected: bool) -> None:
    assert has_settled(levels) is expected


def test_a_level_is_the_typical_time_of_what_was_launched() -> None:
    samples = {NOTHING: [1.0], CUBLAS: [100.0, 1.0, 1000.0], FIRST_KERNEL: [400.0]}
    assert level(samples) == pytest.approx(math.log(200.0))


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_a_level_of_what_is_no_time(value: float) -> None:
    assert math.isnan(level({CUBLAS: [1.0], FIRST_KERNEL: [value]}))


def test_the_whole_may_take_longer_than_all_steps_together() -> None:
    def deadline(m: int, names: str, workers: int) -> float:
        shape = Shape(m, m, m, 132)
        cases = [TimedCase(name, "a", shape, shape) for name in names]
        settings = replace(SETTINGS, workers=workers)
        return budget.outer_deadline_s(Order(grouped(cases), "sm_90a", settings))

    steps_s = budget.START_S + 4 * budget.launch_deadline_s(Shape(512, 512, 512, 132))
    assert deadline(512, "ab", 12) > 12 * steps_s
    assert deadline(16384, "ab", 12) > deadline(512, "ab", 12)
    assert deadline(512, "abc", 12) > deadline(512, "ab", 12)
