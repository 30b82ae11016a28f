"""The driver that needs no GPU, as the CUDA backend's tests have it."""

from ..backends.cuda.conftest import library, machine

__all__ = ["library", "machine"]
