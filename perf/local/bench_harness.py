"""Wall times of the harness itself on this machine: a guide for whoever works on it, no verdict.

Kernels are not timed here: a CPU says nothing about their speed.
"""

from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.declare.registry import discover
from rungwatch.trusted import buffers
from rungwatch.trusted.compare import compare

KERNELS = Path(__file__).parents[2] / "kernels"
SHAPE = Shape(1024, 1024, 1024, sm_count=4)
TILE = (128, 128)


def bench_discover(benchmark: BenchmarkFixture) -> None:
    files = benchmark(discover, KERNELS)
    assert all(file.error is None for file in files)


@pytest.mark.parametrize("distribution", ["normal", "integer"])
def bench_make_inputs(benchmark: BenchmarkFixture, distribution: str) -> None:
    made = benchmark(buffers.make, SHAPE, distribution, 0)
    assert set(made) == {"A", "B", "D"}


@pytest.mark.parametrize("distribution", ["normal", "integer"])
def bench_reference_and_comparison(benchmark: BenchmarkFixture, distribution: str) -> None:
    before = buffers.make(SHAPE, distribution, 0)
    after = {name: flat.copy() for name, flat in before.items()}
    a = buffers.view(after["A"], SHAPE.m, SHAPE.k).astype(np.float32)
    b = buffers.view(after["B"], SHAPE.n, SHAPE.k).astype(np.float32)
    buffers.view(after["D"], SHAPE.m, SHAPE.n)[:] = a @ b.T
    reason, _, _ = benchmark(compare, after, before, SHAPE, distribution, TILE)
    assert reason is Reason.OK
