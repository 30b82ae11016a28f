"""cuBLAS through torch: the reference for speed, and for whether a timed kernel does its work.

torch is imported on first use. All is done on one stream of its own, in fp16 with fp32
accumulation.
"""

from collections.abc import Callable
from typing import Any

from rungwatch.backends.cuda.errors import CudaError
from rungwatch.backends.job import BackendUnavailableError
from rungwatch.trusted.bounds import gamma

# |A| |B|^T is asked of cuBLAS in fp16, scaled down so that it can't overflow (K up to 10^7).
_MAGNITUDE_SCALE = 2.0**-8
# More than what fp16 takes off it, by rounding the operands and the result.
_SLACK = 1.01
_HALF_UNIT = 2.0**-11
_LEAST_HALF = 2.0**-24


def import_torch() -> Any:
    """Return torch, without touching the GPU.

    Raises:
        BackendUnavailableError: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise BackendUnavailableError(
            f"torch, which brings cuBLAS, is not installed: pip install 'rungwatch[gpu]' ({error})"
        ) from None
    return torch


class Cublas:
    """cuBLAS on the first GPU. Matrices are torch tensors, fp16 and row-major."""

    def __init__(self) -> None:
        """Start torch on the GPU, in this process.

        Raises:
            BackendUnavailableError: torch is not installed, or does not see the GPU.
        """
        self._torch = torch = import_torch()
        try:
            torch.cuda.init()
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
            stream = torch.cuda.Stream()
            torch.cuda.set_stream(stream)
        except (RuntimeError, AssertionError) as error:
            raise BackendUnavailableError(f"torch can't use the GPU: {error}") from None
        self.stream: int = stream.cuda_stream

    def bytes(self, count: int) -> Any:
        """Return `count` bytes of memory of the device."""
        return self._new((count,), self._torch.uint8)

    def matrix(self, rows: int, columns: int) -> Any:
        """Return a matrix whose elements are not set."""
        return self._new((rows, columns), self._torch.float16)

    def give_back(self) -> None:
        """Return what is no longer used to the driver: the next matrix then lies elsewhere."""
        self._torch.cuda.empty_cache()

    def fill_normal(self, matrix: Any, rows: int, seed: int) -> None:
        """Fill `rows` rows from a normal(0, 1) distribution, the ones after them with zeros."""
        generator = self._torch.Generator("cuda")
        generator.manual_seed(seed)
        matrix[:rows].normal_(generator=generator)
        matrix[rows:].zero_()

    def poison(self, matrix: Any) -> None:
        """Fill a matrix with NaNs."""
        matrix.fill_(float("nan"))

    def multiply(self, a: Any, b: Any, d: Any) -> None:
        """Set D (m, n) to A (m, k) @ B (n, k)^T."""
        self._torch.matmul(a, b.t(), out=d)

    def magnitude(self, a: Any, b: Any) -> Any:
        """Return |A| @ |B|^T, scaled as `difference` expects it."""
        return self._on_memory(lambda: self._torch.matmul(a.abs() * _MAGNITUDE_SCALE, b.abs().t()))

    def difference(self, actual: Any, reference: Any, magnitude: Any, k: int) -> str | None:
        """Say where `actual` is not what fp32 sums can give beside `reference`, None where it is.

        Both are RN16(s) with |s - exact| <= e = gamma_k |A||B|^T (`rungwatch.trusted.bounds`), so
        they differ by at most 2 e and half a step of fp16 each. A NaN or an Inf fits nothing.
        """
        return self._on_memory(lambda: self._difference(actual, reference, magnitude, k))

    def _difference(self, actual: Any, reference: Any, magnitude: Any, k: int) -> str | None:
        wanted = reference.float()
        sums = magnitude.float() * (2 * gamma(k) / _MAGNITUDE_SCALE)
        allowed = (sums + wanted.abs() * (2 * _HALF_UNIT) + _LEAST_HALF) * _SLACK
        right = (actual.float() - wanted).abs() <= allowed  # a NaN is not
        right &= allowed.isfinite()
        wrong = right.numel() - int(right.sum())
        if wrong == 0:
            return None
        row, column = divmod(int((~right).byte().argmax()), right.shape[1])
        return (
            f"{wrong} of {right.numel()} elements of D differ from cuBLAS's by more than fp32 sums"
            f" can; the first, D[{row}, {column}], is {float(actual[row, column]):.6g}, cuBLAS's"
            f" {float(wanted[row, column]):.6g}, and {float(allowed[row, column]):.2g} are allowed"
        )

    def _new(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._on_memory(lambda: self._torch.empty(shape, dtype=dtype, device="cuda"))

    def _on_memory[T](self, work: Callable[[], T]) -> T:
        """Do `work`; what the GPU's memory can't hold is an error like any other call's."""
        try:
            return work()
        except self._torch.OutOfMemoryError as error:
            words = str(error).partition("\n")[0]
            raise CudaError("torch", "CUDA_ERROR_OUT_OF_MEMORY", words) from None
