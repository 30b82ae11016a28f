"""Correct outputs to start from, made without a kernel."""

from collections.abc import Callable

import numpy as np
import pytest

from rungwatch.declare.problem import Shape
from rungwatch.trusted import buffers

type Arrays = dict[str, buffers.Flat]


def _correct(shape: Shape, distribution: str) -> tuple[Arrays, Arrays]:
    before = buffers.make(shape, distribution, seed=0)
    after = {name: flat.copy() for name, flat in before.items()}
    a = buffers.view(after["A"], shape.m, shape.k).astype(np.float32)
    b = buffers.view(after["B"], shape.n, shape.k).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        buffers.view(after["D"], shape.m, shape.n)[:] = a @ b.T
    return before, after


@pytest.fixture
def correct() -> Callable[[Shape, str], tuple[Arrays, Arrays]]:
    """Return a function that gives the buffers before and after a correct fp32 kernel."""
    return _correct
