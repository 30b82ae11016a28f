"""Rounding, ordering and the interval, as properties."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwatch.trusted import bounds

HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)
FINITE = np.sort(np.unique(HALVES[np.isfinite(HALVES)].astype(np.float64)))
reals = st.floats(-1e5, 1e5, allow_nan=False) | st.floats(-1e-4, 1e-4, allow_nan=False)


def _nearest_even(value: float) -> float:
    """Round to fp16 by exact comparison with both neighbours."""
    upper = int(np.searchsorted(FINITE, value))
    if upper < FINITE.size and FINITE[upper] == value:
        return value
    beyond = 65536.0  # where the next fp16 number would be
    below = FINITE[upper - 1] if upper else -beyond
    above = FINITE[upper] if upper < FINITE.size else beyond
    to_below, to_above = Fraction(value) - Fraction(below), Fraction(above) - Fraction(value)
    if to_below == to_above:
        even = above == beyond or (
            below != -beyond and int(np.float16(above).view(np.uint16)) % 2 == 0
        )
        nearest = above if even else below
    else:
        nearest = below if to_below < to_above else above
    return math.copysign(math.inf, nearest) if abs(nearest) == beyond else nearest


def _round(value: float) -> float:
    return float(bounds.round_to_half(np.array([value]))[0])


@given(reals)
def test_rounding_is_to_nearest_even(value):
    assert _round(value) == _nearest_even(value)


@given(st.integers(0, FINITE.size - 2), st.sampled_from([-(2.0**-40), 0.0, 2.0**-40]))
def test_rounding_near_ties_is_not_double(index, nudge):
    # An fp32 step in between would take the nudged value to the tie first.
    middle = (FINITE[index] + FINITE[index + 1]) / 2
    value = middle + nudge * (FINITE[index + 1] - FINITE[index])
    assert _round(value) == _nearest_even(value)


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (65504.0, 65504.0),
        (65519.99, 65504.0),
        (65520.0, math.inf),
        (-65520.0, -math.inf),
        (2.0**-24, 2.0**-24),
        (2.0**-25, 0.0),
        (2.0**-25 * (1 + 2.0**-30), 2.0**-24),
        (2049.0, 2048.0),
        (2051.0, 2052.0),
    ],
)
def test_rounding_at_the_edges(value, rounded):
    assert _round(value) == rounded


def test_ordinals_count_every_value_once():
    numbers = HALVES[~np.isnan(HALVES)]
    order = np.argsort(numbers.astype(np.float64), kind="stable")
    places = bounds.ordinal(numbers)[order]
    assert set(np.diff(places).tolist()) == {0, 1}
    assert np.count_nonzero(np.diff(places) == 0) == 1  # -0 and 0
    assert places[-1] == -places[0] == 31744


@given(
    reference=reals,
    magnitude=st.floats(0, 1e6),
    k=st.integers(1, 4096),
    part=st.floats(-1, 1),
)
def test_interval_holds_every_sum_in_the_error_bound(reference, magnitude, k, part):
    low, high = bounds.interval(np.array([reference]), np.array([magnitude]), k)
    rounded = bounds.round_to_half(np.array([reference + part * bounds.gamma(k) * magnitude]))
    assert bounds.steps_outside(rounded, low, high)[0] == 0


@given(
    reference=st.floats(-6e4, 6e4),
    magnitude=st.floats(0, 1e6),
    k=st.integers(1, 4096),
    steps=st.integers(1, 100),
    above=st.booleans(),
)
def test_steps_outside_counts_from_the_nearer_end(reference, magnitude, k, steps, above):
    low, high = bounds.interval(np.array([reference]), np.array([magnitude]), k)
    end = bounds.ordinal(high if above else low)[0]
    place = int(end) + (steps if above else -steps)
    if abs(place) <= 31744:
        bits = place if place >= 0 else -place | 0x8000
        value = np.array([bits], np.uint16).view(np.float16)
        assert bounds.steps_outside(value, low, high)[0] == steps


def test_special_references_have_one_value():
    reference = np.array([np.nan, np.inf, -np.inf, 0.0])
    low, high = bounds.interval(reference, np.array([np.nan, np.inf, np.inf, 0.0]), 64)
    np.testing.assert_array_equal(low, reference.astype(np.float16))
    np.testing.assert_array_equal(high, reference.astype(np.float16))


def test_gamma_counts_one_more_error_a_block_of_16():
    n = (64 + 4) * 2.0**-23
    assert bounds.gamma(64) == n / (1 - n)
    assert bounds.gamma(65) > 69 * 2.0**-23


def test_gamma_refuses_what_it_cannot_bound():
    with pytest.raises(ValueError, match="no error bound"):
        bounds.gamma(2**23)
