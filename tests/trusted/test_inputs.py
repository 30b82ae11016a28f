"""Each distribution does what its description says, for every K that the matrix uses."""

import hashlib

import numpy as np
import pytest

from rungwatch.trusted.bounds import round_to_half
from rungwatch.trusted.inputs import DISTRIBUTIONS, draw

SIZES = [(128, 192, 64), (128, 256, 320), (256, 128, 4096)]
EXACT = [name for name, distribution in DISTRIBUTIONS.items() if distribution.exact]


def _exact_product(a, b):
    with np.errstate(invalid="ignore"):
        return a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_vary_and_depend_on_seed_alone(name, size):
    a, b = draw(name, *size, seed=0)
    assert (a.shape, b.shape) == ((size[0], size[2]), (size[1], size[2]))
    assert a.dtype == b.dtype == np.float16
    assert len(np.unique(a)) > 2
    assert len(np.unique(b)) > 2
    again = draw(name, *size, seed=0)
    assert a.tobytes() == again[0].tobytes()
    assert b.tobytes() == again[1].tobytes()
    other = draw(name, *size, seed=1)
    assert a.tobytes() != other[0].tobytes()
    assert b.tobytes() != other[1].tobytes()


def test_draws_differ_between_distributions():
    digests = {
        hashlib.sha256(b"".join(x.tobytes() for x in draw(name, 16, 24, 64, 0))).digest()
        for name in DISTRIBUTIONS
    }
    assert len(digests) == len(DISTRIBUTIONS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_distributions_have_exact_partial_sums(name, size):
    a, b = (np.nan_to_num(x.astype(np.float64), posinf=0.0) for x in draw(name, *size, seed=3))
    if name.startswith("onehot"):
        one_hot = a if name == "onehot" else b
        assert (np.count_nonzero(one_hot, axis=1) == 1).all()
    else:
        assert (a == np.round(a)).all()
        assert (b == np.round(b)).all()
        assert (np.abs(a) @ np.abs(b).T).max() <= 2**24


@pytest.mark.parametrize("size", SIZES)
def test_large_has_finite_and_overflowing_results(size):
    a, b = draw("large", *size, seed=0)
    assert np.isfinite(a).all()
    assert np.isfinite(b).all()
    overflowing = np.isinf(round_to_half(_exact_product(a, b))).mean()
    assert 0.05 < overflowing < 0.3


@pytest.mark.parametrize("size", SIZES)
def test_integer_reaches_ties_beyond_2048(size):
    d = _exact_product(*draw("integer", *size, seed=0))
    ties = (np.abs(d) > 2048) & (np.abs(d) < 4096) & (d % 2 == 1)
    assert ties.mean() > 0.05
    assert np.isinf(round_to_half(d)).mean() < 0.01


@pytest.mark.parametrize("size", SIZES)
def test_cancel_is_zero_and_shows_each_dropped_k_tile(size):
    a, b = draw("cancel", *size, seed=0)
    assert (_exact_product(a, b) == 0).all()
    if size[2] > 64:
        for start in range(0, size[2], 64):
            tile = slice(start, start + 64)
            assert (_exact_product(a[:, tile], b[:, tile]) != 0).mean() > 0.9


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "one_hot", "other"), [("onehot", 0, 1), ("onehot-b", 1, 0)])
def test_one_hot_hits_every_k_tile_and_position(name, one_hot, other, size):
    operands = draw(name, *size, seed=0)
    k = size[2]
    positions = np.abs(operands[one_hot]).argmax(axis=1)
    assert set(positions // 64) == set(range(k // 64))
    assert set(positions % 64) == set(range(64))
    if len(positions) >= k:
        assert set(positions) == set(range(k))
    assert set(np.unique(operands[one_hot])) == {-1.0, 0.0, 1.0}
    bits = operands[other].view(np.uint16)
    assert np.isfinite(operands[other]).all()
    assert (bits & 0x7FFF).all()
    assert np.unique(bits.ravel()[:63_486]).size == min(bits.size, 63_486)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["nan-a", "nan-b", "inf-a", "inf-b"])
def test_special_value_fills_one_row_or_column(name, size):
    a, b = draw(name, *size, seed=0)
    value, operand = name.split("-")
    special = np.isnan if value == "nan" else np.isinf
    source = a if operand == "a" else b
    assert np.count_nonzero(special(source)) == 1
    assert np.count_nonzero(~np.isfinite(a)) + np.count_nonzero(~np.isfinite(b)) == 1
    d = _exact_product(a, b)
    if operand == "b":
        d = d.T
    [row] = np.flatnonzero(special(source).any(axis=1))
    assert special(d[row]).all()
    assert np.isfinite(np.delete(d, row, axis=0)).all()


def test_unknown_name_is_an_error():
    with pytest.raises(KeyError):
        draw("nope", 1, 1, 1, 0)
