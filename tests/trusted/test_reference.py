"""The float64 reference against exact arithmetic, and what NaN and Inf do to it."""

from fractions import Fraction

import numpy as np
import pytest

from rungwatch.trusted import reference
from rungwatch.trusted.inputs import draw


def test_matches_exact_rational_sums():
    a, b = draw("normal", 3, 5, 192, seed=0)
    exact = [
        [sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(r, c, strict=True)) for c in b]
        for r in a
    ]
    scale = reference.magnitude(a, b)
    error = np.array(reference.product(a, b) - np.array(exact, dtype=np.float64))
    assert (np.abs(error) <= 192 * 2.0**-53 * scale).all()


@pytest.mark.parametrize("size", [(128, 192, 64), (129, 65, 77), (512, 384, 320), (1, 1, 1)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("seed", range(4))
def test_special_values_stay_in_their_row_and_column(size, value, seed):
    m, n, k = size
    a, b = draw("positive", m, n, k, seed=seed)
    rng = np.random.default_rng(seed)
    row, column = int(rng.integers(m)), int(rng.integers(n))
    a[row, rng.integers(k)] = value
    d, s = reference.product(a, b), reference.magnitude(a, b)
    b[column, rng.integers(k)] = value
    both = reference.product(a, b)
    assert not np.isfinite(d[row]).any()
    assert not np.isfinite(s[row]).any()
    assert np.isfinite(np.delete(d, row, axis=0)).all()
    assert np.isfinite(np.delete(s, row, axis=0)).all()
    expected = np.zeros((m, n), bool)
    expected[row], expected[:, column] = True, True
    assert (np.isfinite(both) == ~expected).all()


def test_magnitude_is_the_product_of_magnitudes():
    a = np.array([[1.0, -2.0]], np.float16)
    b = np.array([[3.0, 4.0], [-1.0, 0.5]], np.float16)
    assert reference.product(a, b).tolist() == [[-5.0, -2.0]]
    assert reference.magnitude(a, b).tolist() == [[11.0, 2.0]]
