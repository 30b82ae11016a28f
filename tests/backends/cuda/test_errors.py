"""Whose fault an error of the driver is."""

import pytest

from rungwatch.backends.cuda.errors import CudaError, failure_of
from rungwatch.backends.job import Failure, Stage


@pytest.mark.parametrize(
    ("name", "stage", "expected"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS", Stage.RUN, Failure.EXECUTION),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", Stage.COPY, Failure.EXECUTION),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", Stage.RUN, Failure.EXECUTION),
        ("CUDA_ERROR_LAUNCH_FAILED", Stage.RUN, Failure.EXECUTION),
        ("CUDA_ERROR_INVALID_CLUSTER_SIZE", Stage.RUN, Failure.EXECUTION),
        # Before any launch nothing can be the kernel's doing.
        ("CUDA_ERROR_ILLEGAL_ADDRESS", Stage.LOAD, Failure.BACKEND_UNAVAILABLE),
        ("CUDA_ERROR_INVALID_IMAGE", Stage.LOAD, Failure.ARTIFACT_REFUSED),
        ("CUDA_ERROR_NO_BINARY_FOR_GPU", Stage.LOAD, Failure.ARTIFACT_REFUSED),
        ("CUDA_ERROR_INVALID_VALUE", Stage.RUN, Failure.ARTIFACT_REFUSED),
        ("CUDA_ERROR_OUT_OF_MEMORY", Stage.COPY, Failure.MEMORY_LIMIT),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", Stage.RUN, Failure.BACKEND_UNAVAILABLE),
        ("CUDA_ERROR_UNKNOWN", Stage.RUN, Failure.BACKEND_UNAVAILABLE),
        ("CUDA error 12345", Stage.RUN, Failure.BACKEND_UNAVAILABLE),
    ],
)
def test_an_error_is_blamed_on_whom_it_shows(name: str, stage: Stage, expected: Failure) -> None:
    assert failure_of(CudaError("cuCall", name, "words"), stage) is expected


def test_an_error_is_told_with_its_name_meaning_and_call() -> None:
    known = CudaError("cuCtxSynchronize", "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address")
    assert str(known) == (
        "CUDA_ERROR_MISALIGNED_ADDRESS: an address is no multiple of what its access needs"
        " (from cuCtxSynchronize)"
    )
    other = CudaError("cuInit", "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized")
    assert str(other) == "CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized (from cuInit)"
