"""Correct kernels pass: fp32 accumulation in several orders, under every distribution."""

import numpy as np
import pytest

from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.trusted import buffers
from rungwatch.trusted.bounds import round_to_half
from rungwatch.trusted.compare import compare
from rungwatch.trusted.inputs import DISTRIBUTIONS

SHAPES = [Shape(32, 48, 64, 1), Shape(64, 32, 320, 1), Shape(32, 16, 1024, 1)]


def _products(a, b, start, stop):
    return a[:, None, start:stop] * b[None, :, start:stop]


def one_fma_a_product(a, b):
    """Add one product after another: float64 holds product and sum, then one rounding."""
    total = np.zeros((len(a), len(b)), np.float32)
    for p in range(a.shape[1]):
        total = (total + np.multiply.outer(a[:, p], b[:, p])).astype(np.float32)
    return total


def blocks_of_16(a, b):
    total = np.zeros((len(a), len(b)), np.float32)
    for start in range(0, a.shape[1], 16):
        total += _products(a, b, start, start + 16).astype(np.float32).sum(2, dtype=np.float32)
    return total


def pairwise(a, b):
    terms = _products(a, b, 0, a.shape[1]).astype(np.float32)
    while terms.shape[2] > 1:
        if terms.shape[2] % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[..., :1])], axis=2)
        terms = terms[..., ::2] + terms[..., 1::2]
    return terms[..., 0]


def numpy_float32(a, b):
    return a.astype(np.float32) @ b.astype(np.float32).T


def backwards(a, b):
    return one_fma_a_product(a[:, ::-1], b[:, ::-1])


def truncating_blocks(a, b):
    """Align 16 products and the sum to the largest, cut off, add, cut off the normalised sum."""
    total = np.zeros((len(a), len(b), 1))
    for start in range(0, a.shape[1], 16):
        terms = np.concatenate([total, _products(a, b, start, start + 16)], axis=2)
        largest = np.abs(terms).max(axis=2, keepdims=True)
        total = _cut(_cut(terms, largest).sum(axis=2, keepdims=True))
    return total[..., 0].astype(np.float32)


def _cut(values, like=None):
    """Truncate to the last of the 24 bits that fp32 has at the size of `like`."""
    like = np.abs(values) if like is None else like
    step = np.ldexp(1.0, np.frexp(like)[1] - 24)
    return np.where(np.isfinite(values) & np.isfinite(like), np.trunc(values / step) * step, values)


ORDERS = [
    one_fma_a_product,
    backwards,
    blocks_of_16,
    pairwise,
    numpy_float32,
    truncating_blocks,
]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_every_order_is_right(distribution, shape, order):
    before = buffers.make(shape, distribution, seed=0)
    after = {name: flat.copy() for name, flat in before.items()}
    a = buffers.view(after["A"], shape.m, shape.k).astype(np.float64)
    b = buffers.view(after["B"], shape.n, shape.k).astype(np.float64)
    buffers.view(after["D"], shape.m, shape.n)[:] = round_to_half(order(a, b).astype(np.float64))
    reason, message, comparison = compare(after, before, shape, distribution, (32, 16))
    assert (reason, message) == (Reason.OK, f"all {shape.m * shape.n} elements are right")
    assert comparison.worst is None
    assert comparison.wrong_elements == 0
    assert comparison.elements == shape.m * shape.n
