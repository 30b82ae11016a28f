"""The reference: D = A @ B^T in float64, from the fp16 inputs.

A product of two fp16 numbers has 22 bits, so float64 holds it exactly, and the sum of k of them
is off by less than k * 2^-53 of the sum of their magnitudes: what `bounds` leaves room for.
NaN and Inf follow IEEE 754 and stay in their row or column.
"""

import numpy as np
from numpy.typing import NDArray

type Operand = NDArray[np.float16] | NDArray[np.float64]


def product(a: Operand, b: Operand) -> NDArray[np.float64]:
    """Return D (m, n) of A (m, k) and B (n, k)."""
    left, right = a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):
        d: NDArray[np.float64] = left @ right.T
    return d


def magnitude(a: Operand, b: Operand) -> NDArray[np.float64]:
    """Return S = |A| @ |B|^T (m, n), the scale of an element's rounding errors.

    Where D is NaN or Inf, S is too: no bound is taken from it there.
    """
    return product(np.abs(a), np.abs(b))
