"""Input distributions, declared in one table: what A and B are filled with.

A distribution is *exact* where every partial sum of every element of D is an fp32 number in any
order of summation, also with the aligned and truncated block sums of tensor cores. D must then
equal the reference rounded once: a single wrong bit is an error (but -0 counts as 0). No
distribution is constant or all zero.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

type Matrix = NDArray[np.float16]
type Maker = Callable[[np.random.Generator, int, int, int], tuple[Matrix, Matrix]]

# fp32 holds every integer up to this one.
_EXACT_INTEGER = 2**24
_SIGN_BIT = 0x8000
_LARGEST_FINITE_BITS = 0x7BFF


@dataclass(frozen=True)
class Distribution:
    """How A (m, k) and B (n, k) are drawn, and whether fp32 accumulation of them is exact."""

    make: Maker
    description: str
    exact: bool = False


def draw(distribution: str, m: int, n: int, k: int, seed: int) -> tuple[Matrix, Matrix]:
    """Return A (m, k) and B (n, k) in fp16, the same for the same arguments.

    Raises:
        KeyError: `distribution` is not a name in `DISTRIBUTIONS`.
    """
    entropy = (seed, int.from_bytes(distribution.encode()), m, n, k)
    return DISTRIBUTIONS[distribution].make(np.random.default_rng(entropy), m, n, k)


def _normal(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
    a, b = (rng.standard_normal((rows, k), dtype=np.float32) for rows in (m, n))
    return a.astype(np.float16), b.astype(np.float16)


def _uniform(
    low: float, high: float, rng: np.random.Generator, m: int, n: int, k: int
) -> tuple[Matrix, Matrix]:
    a, b = (rng.uniform(low, high, (rows, k)) for rows in (m, n))
    return a.astype(np.float16), b.astype(np.float16)


def _large(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
    # The standard deviation of D is the root mean square of A, about 43,000, for every k: about
    # one result in eight is beyond 65,504.
    a = rng.uniform(2.0**14, 65504.0, (m, k)) * rng.choice((-1.0, 1.0), (m, k))
    b = rng.standard_normal((n, k)) / math.sqrt(k)
    return a.astype(np.float16), b.astype(np.float16)


def _nonzero_integers(rng: np.random.Generator, rows: int, columns: int, largest: int) -> Matrix:
    magnitudes = rng.integers(1, largest, (rows, columns), endpoint=True)
    return (magnitudes * rng.choice((-1, 1), (rows, columns))).astype(np.float16)


def _integer(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
    # Uniform in [-x, x]: a product has standard deviation x * x / 3, so D has about 4,000. Above
    # 2,048 fp16 steps by 2 and more, so odd sums are ties. x * x * k stays far below 2^24.
    largest = max(1, math.isqrt(int(12_000 / math.sqrt(k))))
    a, b = (rng.integers(-largest, largest, (rows, k), endpoint=True) for rows in (m, n))
    return a.astype(np.float16), b.astype(np.float16)


def _cancel(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
    # Column p of the first half and column p + k / 2 cancel: never in one k tile, but in a
    # problem of one k tile. So a k tile that is dropped or loaded twice leaves its whole sum.
    half = k // 2
    largest = min(63, math.isqrt(_EXACT_INTEGER // k))
    a, b = np.zeros((m, k), np.float16), np.zeros((n, k), np.float16)
    a[:, :half] = a[:, half : 2 * half] = _nonzero_integers(rng, m, half, largest)
    b[:, :half] = _nonzero_integers(rng, n, half, largest)
    b[:, half : 2 * half] = -b[:, :half]
    return a, b


def _one_hot_rows(rng: np.random.Generator, rows: int, k: int) -> Matrix:
    """Return rows with one element 1 or -1 each.

    The positions step by s, coprime to k and at least k / rows: they reach from one end of k to
    the other, all of it where rows >= k, and else every k tile of s or more and (s being odd)
    every position in a k tile of 64.
    """
    step = next(s for s in range(-(-k // rows) | 1, 2 * k + 2, 2) if math.gcd(s, k) == 1)
    matrix = np.zeros((rows, k), np.float16)
    positions = rng.permutation(np.arange(rows) * step % k)
    matrix[np.arange(rows), positions] = rng.choice((-1.0, 1.0), rows)
    return matrix


def _every_bit_pattern(rng: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Return finite numbers other than zero, each once in 63,486 neighbours along the rows."""
    positive = np.arange(1, _LARGEST_FINITE_BITS + 1, dtype=np.uint16)
    patterns = rng.permutation(np.concatenate([positive, positive | _SIGN_BIT]))
    return np.resize(patterns, (rows, columns)).view(np.float16)


def _one_hot(
    operand: Literal["A", "B"], rng: np.random.Generator, m: int, n: int, k: int
) -> tuple[Matrix, Matrix]:
    if operand == "A":
        return _one_hot_rows(rng, m, k), _every_bit_pattern(rng, n, k)
    return _every_bit_pattern(rng, m, k), _one_hot_rows(rng, n, k)


def _special(
    operand: Literal["A", "B"], value: float, rng: np.random.Generator, m: int, n: int, k: int
) -> tuple[Matrix, Matrix]:
    # No zeros: Inf times 0 would be NaN and hide which of the two leaked.
    a, b = _nonzero_integers(rng, m, k, 3), _nonzero_integers(rng, n, k, 3)
    target = a if operand == "A" else b
    target[rng.integers(target.shape[0]), rng.integers(k)] = value
    return a, b


DISTRIBUTIONS: dict[str, Distribution] = {
    "normal": Distribution(_normal, "standard normal"),
    "uniform": Distribution(partial(_uniform, -1.0, 1.0), "uniform in [-1, 1)"),
    "positive": Distribution(
        partial(_uniform, 0.25, 1.0), "uniform in [0.25, 1): sums grow, rounding errors add up"
    ),
    "large": Distribution(_large, "results around 65504: some overflow to Inf, most are finite"),
    "cancel": Distribution(
        _cancel,
        "integers that cancel across k: every result is 0. Exact: the magnitudes of all products"
        " of an element add up to 2^24 at most",
        exact=True,
    ),
    "onehot": Distribution(
        partial(_one_hot, "A"),
        "rows of A hold a single 1 or -1, B all fp16 bit patterns: each result is one element of"
        " B. Exact: one product is not zero",
        exact=True,
    ),
    "onehot-b": Distribution(
        partial(_one_hot, "B"),
        "as onehot, the other way round: each result is one element of A. Exact: one product is"
        " not zero",
        exact=True,
    ),
    "integer": Distribution(
        _integer,
        "integers whose sums pass 2048: rounding to fp16, ties included. Exact: the magnitudes of"
        " all products of an element add up to less than 2^24",
        exact=True,
    ),
    "nan-a": Distribution(
        partial(_special, "A", math.nan),
        "integers of 1 to 3 and one NaN in A: one row of D is NaN. Exact: small integers",
        exact=True,
    ),
    "nan-b": Distribution(
        partial(_special, "B", math.nan),
        "integers of 1 to 3 and one NaN in B: one column of D is NaN. Exact: small integers",
        exact=True,
    ),
    "inf-a": Distribution(
        partial(_special, "A", math.inf),
        "integers of 1 to 3 and one Inf in A: one row of D is Inf or -Inf. Exact: small integers",
        exact=True,
    ),
    "inf-b": Distribution(
        partial(_special, "B", math.inf),
        "integers of 1 to 3 and one Inf in B: one column of D is Inf or -Inf. Exact: small"
        " integers",
        exact=True,
    ),
}
