"""A GEMM problem and the names that cases have in every table, log and test id."""

import re
from typing import Self

import msgspec

_SHAPE = re.compile(r"([1-9]\d{0,6})x([1-9]\d{0,6})x([1-9]\d{0,6})", re.ASCII)


class Shape(msgspec.Struct, frozen=True, order=True):
    """D (m, n) = A (m, k) @ B (n, k)^T on `sm_count` streaming multiprocessors.

    The SM count belongs to the shape since it is compiled into persistent kernels.
    """

    m: int
    n: int
    k: int
    sm_count: int

    @classmethod
    def parse(cls, text: str, sm_count: int) -> Self:
        """Read "MxNxK".

        Raises:
            ValueError: the text is not three positive integers joined by "x".
        """
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise ValueError(f"'{text}' is not a shape: write MxNxK, as in 512x768x320")
        m, n, k = map(int, match.groups())
        return cls(m, n, k, sm_count)

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}-sm{self.sm_count}"


class Problem(msgspec.Struct, frozen=True, order=True):
    """A shape with the distribution and the seed that its inputs are drawn from."""

    shape: Shape
    distribution: str
    seed: int = 0

    def __str__(self) -> str:
        suffix = f"-seed{self.seed}" if self.seed else ""
        return f"{self.shape}-{self.distribution}{suffix}"
