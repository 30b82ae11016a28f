"""Rules: one statement of what a problem must satisfy, and the nearest one that does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwatch.declare.problem import Problem, Shape
from rungwatch.declare.protocol import Rule, Rules

TILE = Rule(multiple_of=128, min=128)
RULES = Rules(TILE, TILE, Rule(multiple_of=64, min=64), Rule(multiple_of=2, min=2))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    if draw(st.booleans()):
        return Rule(equal=draw(st.integers(1, 512)))
    step = draw(st.integers(1, 512))
    low = draw(st.integers(1, 1024))
    high = draw(st.none() | st.integers(low + step, low + 5 * step + 5))
    return Rule(multiple_of=step, min=low, max=high)


@given(rules(), st.integers(1, 10_000))
def test_the_nearest_value_is_valid_and_nothing_valid_is_nearer(rule: Rule, value: int) -> None:
    nearest = rule.nearest(value)
    assert rule.broken_by(nearest) is None
    distance = abs(nearest - value)
    for other in range(max(1, value - distance + 1), value + distance):
        assert rule.broken_by(other) is not None


@given(rules(), st.integers(1, 10_000))
def test_a_valid_value_is_its_own_nearest(rule: Rule, value: int) -> None:
    if rule.broken_by(value) is None:
        assert rule.nearest(value) == value


def test_a_refusal_names_each_broken_rule_and_the_nearest_shape() -> None:
    refusal = RULES.refusal(Shape(100, 128, 100, 3))
    assert refusal == (
        "M must be at least 128, not 100; K must be a multiple of 64, not 100; "
        "sm_count must be a multiple of 2, not 3. Nearest valid: --shape 128x128x128 --sms 4"
    )
    assert RULES.refusal(Shape(128, 128, 128, 4)) is None


@pytest.mark.parametrize(
    "text", ["", "1x2", "1x2x3x4", "0x1x1", "-1x1x1", "axbxc", "1X2X3", "\u0661x1x1"]
)
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write MxNxK"):
        Shape.parse(text, 1)


def test_ids_read_like_the_problem() -> None:
    shape = Shape.parse("512x768x320", 4)
    assert str(Problem(shape, "normal")) == "512x768x320-sm4-normal"
    assert str(Problem(shape, "normal", 7)) == "512x768x320-sm4-normal-seed7"


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        (Rule(), 7, 7),
        (Rule(multiple_of=128, min=128), 1, 128),
        (Rule(multiple_of=128, min=128), 128, 128),
        (Rule(multiple_of=128, min=128), 129, 256),
        (Rule(multiple_of=64, min=100), 1, 128),
        (Rule(multiple_of=64, max=256), 256, 256),
        (Rule(multiple_of=64, max=250), 200, None),
        (Rule(equal=128), 5, 128),
        (Rule(equal=128), 129, None),
    ],
    ids=str,
)
def test_the_next_valid_value_is_never_below(rule: Rule, value: int, expected: int | None) -> None:
    assert rule.next_up(value) == expected
    if expected is not None:
        assert rule.broken_by(expected) is None


def test_only_m_is_padded() -> None:
    tile = Rule(multiple_of=256, min=256)
    rules = Rules(tile, tile, Rule(multiple_of=64, min=64), Rule(multiple_of=2, min=2))
    assert rules.padded(Shape(1, 512, 64, 132)) == Shape(256, 512, 64, 132)
    assert rules.padded(Shape(512, 512, 64, 132)) == Shape(512, 512, 64, 132)
    assert rules.padded(Shape(512, 512, 64, 131)) == Shape(512, 512, 64, 132)
    assert rules.padded(Shape(512, 500, 64, 132)) is None
    assert rules.padded(Shape(512, 512, 63, 132)) is None
    short = Rules(Rule(equal=128), tile, tile, Rule())
    assert short.padded(Shape(129, 256, 256, 132)) is None
