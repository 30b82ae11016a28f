"""The interval that each element of D must lie in: fp32 accumulation in any order, then RN16.

The kernel computes s, the fp32 sum of products that are exact in fp32 (11 + 11 bits), and stores
D = RN16(s) (PTX `cvt.rn.f16.f32`: round to nearest even, Inf from 65520 on, subnormals kept).
If |s - reference| <= e, then RN16(reference - e) <= D <= RN16(reference + e), as RN16 is
monotone. The bound is

    e = gamma_n * S,   S = sum |a_i b_i|,   gamma_n = n u / (1 - n u),   u = 2^-23,   n = K + K/16

Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1
(gamma_n) and 4.2 (sums in any order: at most one factor 1 + delta, |delta| <= u, an addition);
M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ
Computer Science 7:e330, 2021 (tensor cores align the addends of a block to the largest one and
truncate: hence u = 2^-23, not the 2^-24 of round to nearest).

Why n: one MMA block adds 16 products to the running sum c. Each of the 17 addends but the
largest may lose less than u times the largest, and the normalised result less than u of itself.
With E_j the error and S_j the magnitude after block j, this gives S_j + E_j <= (S_j + E_{j-1})
(1 + 16 u)(1 + u) <= (S_j + E_{j-1})(1 + u)^17, so E_j <= ((1 + u)^{17 j} - 1) S_j, which is at
most gamma_{17 j} S_j. A sum in another order (one FMA a product, pairwise, a wider block) has
fewer rounding errors. The first block adds to zero, which leaves one u spare: more than the
float64 errors of the reference and of this module.
"""

import numpy as np
from numpy.typing import NDArray

_UNIT = 2.0**-23
_BLOCK = 16
_MAGNITUDE_BITS = 0x7FFF


def gamma(k: int) -> float:
    """Return the bound of |s - reference| / S for a sum of k products.

    Raises:
        ValueError: k is so large (7.9 million) that the bound says nothing.
    """
    errors = (k + -(-k // _BLOCK)) * _UNIT
    if errors >= 1:
        raise ValueError(f"no error bound for K = {k}")
    return errors / (1 - errors)


def interval(
    reference: NDArray[np.float64], magnitude: NDArray[np.float64] | None, k: int
) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Return the lowest and the highest right value of each element; both NaN where D must be.

    `magnitude` is S, of the shape of `reference`, or None where the accumulation is exact.
    """
    if magnitude is None:
        exact = round_to_half(reference)
        return exact, exact
    error = np.where(np.isfinite(reference), gamma(k) * magnitude, 0.0)
    return round_to_half(reference - error), round_to_half(reference + error)


def round_to_half(values: NDArray[np.float64]) -> NDArray[np.float16]:
    """Return RN16 of `values`: nearest even in one rounding, Inf beyond the range."""
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(np.float16)


def ordinal(values: NDArray[np.float16]) -> NDArray[np.int32]:
    """Number the fp16 values in order, -0 and 0 both 0, Inf next after 65504; NaN has no place."""
    bits = np.ascontiguousarray(values).view(np.int16)
    steps = (bits & _MAGNITUDE_BITS).astype(np.int32)
    return np.where(bits < 0, -steps, steps)


def steps_outside(
    values: NDArray[np.float16], low: NDArray[np.float16], high: NDArray[np.float16]
) -> NDArray[np.int32]:
    """Return how many fp16 steps each value is outside [low, high]: 0 inside, and for NaNs."""
    place = ordinal(values)
    outside = np.maximum(ordinal(low) - place, place - ordinal(high))
    comparable = ~(np.isnan(values) | np.isnan(low))
    return np.where(comparable, np.maximum(outside, 0), 0)
