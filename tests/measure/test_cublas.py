"""Whether a D is one that fp32 sums can give, beside cuBLAS's: element by element."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rungwatch.measure.cublas import Cublas
from rungwatch.trusted.bounds import gamma

M, N, K = 48, 32, 256


@pytest.fixture
def cublas(monkeypatch: pytest.MonkeyPatch) -> Cublas:
    """Return cuBLAS through a torch that needs no GPU."""
    path = Path(__file__).parent / "stand_in" / "torch.py"
    spec = importlib.util.spec_from_file_location("torch", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "torch", module)
    return Cublas()


class Products:
    """A, B, and what is right for D, exactly and in fp16."""

    def __init__(self, cublas: Cublas) -> None:
        self.a, self.b = cublas.matrix(M, K), cublas.matrix(N, K)
        cublas.fill_normal(self.a, M, 1)
        cublas.fill_normal(self.b, N, 2)
        a, b = (np.asarray(matrix, np.float64) for matrix in (self.a, self.b))
        self.exact = a @ b.T
        self.bound = gamma(K) * (np.abs(a) @ np.abs(b).T)
        self.wanted = self.half(self.exact)
        self.magnitude = cublas.magnitude(self.a, self.b)

    def half(self, values: Any) -> Any:
        return np.asarray(values).astype(np.float16).view(type(self.a))


def difference(cublas: Cublas, made: Products, actual: Any) -> str | None:
    return cublas.difference(made.half(actual), made.wanted, made.magnitude, K)


def test_all_that_fp32_sums_can_give_is_right(cublas: Cublas) -> None:
    made = Products(cublas)
    for share in (0.0, 1.0, -1.0):
        assert difference(cublas, made, made.exact + share * made.bound) is None
    above = cublas.difference(
        made.half(made.exact + made.bound), made.half(made.exact - made.bound), made.magnitude, K
    )
    assert above is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 0.0, 300.0])
def test_one_wrong_element_is_found_and_named(cublas: Cublas, value: float) -> None:
    made = Products(cublas)
    actual = made.exact.copy()
    assert abs(actual[7, 21]) > 0.5
    actual[7, 21] = value
    words = difference(cublas, made, actual)
    assert words is not None
    assert words.startswith(f"1 of {M * N} elements of D differ")
    assert "D[7, 21]" in words


def test_every_element_that_is_off_by_a_few_bounds_is_found(cublas: Cublas) -> None:
    made = Products(cublas)
    step = np.abs(np.spacing(made.half(made.exact))).astype(np.float64)
    words = difference(cublas, made, made.exact + 5 * made.bound + 2 * step)
    assert words is not None
    assert words.startswith(f"{M * N} of {M * N}")


def test_a_dropped_part_of_k_is_found(cublas: Cublas) -> None:
    made = Products(cublas)
    a, b = (np.asarray(matrix, np.float64) for matrix in (made.a, made.b))
    assert difference(cublas, made, a[:, :-16] @ b[:, :-16].T) is not None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reference_that_is_no_number_proves_nothing(cublas: Cublas, value: float) -> None:
    made = Products(cublas)
    made.wanted[3, 4] = value
    with np.errstate(invalid="ignore"):
        assert difference(cublas, made, made.exact) is not None
        assert difference(cublas, made, made.wanted) is not None


def test_rows_past_the_problem_are_zeros(cublas: Cublas) -> None:
    matrix = cublas.matrix(8, 64)
    cublas.fill_normal(matrix, 5, 3)
    assert not np.asarray(matrix[5:]).any()
    assert 0.8 < np.asarray(matrix[:5], np.float64).std() < 1.2
