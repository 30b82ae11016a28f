"""Measuring on this machine's GPU: samples are sane, and what goes wrong is named."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.manifest import MANIFEST_FILE, Item, Manifest, encode_manifest
from rungwatch.artifact.plan import LaunchPlan, Pointer, Scalar
from rungwatch.artifact.store import Store
from rungwatch.backends.cuda.artifacts import ArtifactFolder
from rungwatch.backends.job import Failure
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.measure.order import MeasureSettings, TimedCase
from rungwatch.measure.session import Measured, measure

from ..cost.nvrtc import compiled

pytestmark = pytest.mark.gpu

SHAPE = Shape(96, 64, 1024, 4)
WORKERS = 3
CONTROLS = Path(__file__).parents[1] / "backends" / "cuda" / "controls.cu"
# D is NaN in the checked launch alone: what is late goes wrong where it is timed.
OLD = "half_bits old = d[blockIdx.x * blockDim.x + threadIdx.x] & 0x7fff;"
EXTRA = {
    "right": "",
    "other": "",
    "wrong": "if (blockIdx.x == 0 && threadIdx.x == 0) d[0] ^= 0x4000;",
    "hang": "while (shared[threadIdx.x] >= 0) { }",
    "stray": "if (threadIdx.x == 0) *(volatile int *)0x10 = 1;",
    "late_hang": "if (old <= 0x7c00) while (shared[threadIdx.x] >= 0) { }",
    "late_stray": "if (old <= 0x7c00) *(volatile int *)0x10 = 1;",
}


def run(
    folder: Path, device_target: str, *kernels: str, asked: Shape = SHAPE, cache: str = "cold"
) -> dict[str, Measured]:
    """Time the controls of these names, in three workers."""
    store = Store(folder)
    items, cases = [], []
    for kernel in kernels:
        text = CONTROLS.read_text().replace("KERNEL(", f"{kernel}(")
        text = text.replace("    __shared__", f"    {OLD}\n    __shared__", 1)
        source = text.replace("    EXTRA", f"    {EXTRA[kernel]}")
        plan = LaunchPlan(
            entry=kernel,
            grid=(4, 1, 1),
            block=(128, 1, 1),
            cluster=(1, 1, 1),
            dynamic_smem_bytes=0,
            parameters=(
                *(Pointer(buffer=name) for name in ("A", "B", "D")),
                *(Scalar(dtype="int32", value=value) for value in (SHAPE.m, SHAPE.n, SHAPE.k)),
            ),
        )
        identity = store.put(Artifact(compiled(source, device_target)[0], plan))
        items.append(Item(kernel, "hash", SHAPE, device_target, identity, "code", Reason.OK, ""))  # type: ignore[arg-type]
        cases.append(TimedCase(kernel, identity, asked, SHAPE))
    (folder / MANIFEST_FILE).write_bytes(encode_manifest(Manifest(None, {}, tuple(items))))
    settings = MeasureSettings(WORKERS, 10, cache)  # type: ignore[arg-type]
    found = measure(cases, ArtifactFolder(folder), settings, lambda *_: None)
    return {measured.case.kernel: measured for measured in found}


def require_timed(measured: Measured) -> None:
    timing = measured.timing
    assert timing is not None, measured.failure
    assert 5e14 < timing.peak_flops < 5e15
    assert 100 < timing.floor_ns < 20_000
    kernel, cublas = timing.arms
    for arm in (kernel, cublas):
        assert [one.worker for one in arm.workers] == list(range(WORKERS))
        assert {len(one.samples_ns) for one in arm.workers} == {10}
        assert all(timing.floor_ns < ns < 1e8 for one in arm.workers for ns in one.samples_ns)
    # 12 elements a thread, each of 1024 dependent steps of some nanoseconds.
    assert min(ns for one in kernel.workers for ns in one.samples_ns) > 20_000


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_right_kernels_are_timed(tmp_path: Path, device_target: str, cache: str) -> None:
    for measured in run(tmp_path, device_target, "right", "other", cache=cache).values():
        require_timed(measured)
        assert measured.timing is not None
        assert measured.timing.cache == cache


def test_a_padded_problem(tmp_path: Path, device_target: str) -> None:
    require_timed(run(tmp_path, device_target, "right", asked=replace(SHAPE, m=1))["right"])


@pytest.mark.parametrize(
    ("kernel", "expected", "said"),
    [
        ("wrong", Failure.NUMERICS, f"1 of {96 * 64} elements of D differ"),
        ("hang", Failure.EXECUTION, "(check of hang)"),
        ("stray", Failure.EXECUTION, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("late_hang", Failure.EXECUTION, "did not end in"),
        ("late_stray", Failure.EXECUTION, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)
def test_a_kernel_that_goes_wrong_is_named_and_the_rest_go_on(
    tmp_path: Path, device_target: str, kernel: str, expected: Failure, said: str
) -> None:
    found = run(tmp_path, device_target, "right", kernel)
    failure = found[kernel].failure
    assert failure is not None
    assert failure.failure is expected
    assert said in failure.message
    require_timed(found["right"])
