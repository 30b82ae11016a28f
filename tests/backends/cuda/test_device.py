"""Controls on this machine's GPU: right and wrong kernels are seen for what they are."""

import os
from pathlib import Path

import pytest

from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.manifest import MANIFEST_FILE, Item, Manifest, encode_manifest
from rungwatch.artifact.plan import LaunchPlan, Pointer, Scalar
from rungwatch.artifact.store import Store
from rungwatch.backends.cuda import backend as module
from rungwatch.backends.cuda import sanitizer
from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.exchange import read_arrays
from rungwatch.backends.job import (
    SANITIZERS,
    Failure,
    Job,
    JobResult,
    KernelSource,
    Stage,
    Tool,
)
from rungwatch.backends.supervise import Limits
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.trusted.buffers import make
from rungwatch.trusted.compare import compare
from rungwatch.trusted.inputs import DISTRIBUTIONS

from ...cost.nvrtc import compiled

pytestmark = pytest.mark.gpu

SHAPE = Shape(96, 64, 80, 4)
SOURCE = KernelSource("get_kernel", path="/nowhere/kernel.py", sha256="hash")
EXTRA = {
    "right": "",
    "hang": "while (shared[threadIdx.x] >= 0) { }",
    "stray": "if (threadIdx.x == 0) *(volatile int *)0x10 = 1;",
    "misaligned": "if (threadIdx.x == 0) *(volatile int *)((char *)d + 2) = 0;",
    "trap": 'asm volatile("trap;");',
    "wide": "if (threadIdx.x == 0) d[m * n] = 1;",
    "read_past": "if (threadIdx.x == 0 && a[m * k] == 0x1234) shared[0] = 1;",
    "noisy": "if (blockIdx.x == 0 && threadIdx.x == 0) {"
    ' unsigned t; asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(t)); d[0] = t >> 5; }',
    "race": "shared[threadIdx.x / 2] = threadIdx.x; if (shared[127 - threadIdx.x] < 0) d[0] = 0;",
    # Half a warp names the other half in its mask, and not itself.
    "unmasked": "if (threadIdx.x % 32 < 16) __syncwarp(0xffff0000u); shared[threadIdx.x] = 1;",
}


def run(folder: Path, target: str, kernel: str, *inputs: str, tool: Tool) -> JobResult:
    text = (Path(__file__).parent / "controls.cu").read_text()
    source = text.replace("KERNEL(", f"{kernel}(").replace("    EXTRA", f"    {EXTRA[kernel]}")
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
    built = folder / "artifacts"
    identity = Store(built).put(Artifact(compiled(source, target)[0], plan))
    item = Item(kernel, "hash", SHAPE, target, identity, "code", Reason.OK, "")  # type: ignore[arg-type]
    (built / MANIFEST_FILE).write_bytes(encode_manifest(Manifest(None, {}, (item,))))
    backend = CudaBackend(built)
    backend.prepare([tool])
    work = folder / "job"
    work.mkdir()
    job = Job(tool, SOURCE, SHAPE, inputs, kernel, target)  # type: ignore[arg-type]
    given = {name: make(SHAPE, name, 0) for name in inputs}
    return backend.run(job, given, work, memory_limit_bytes=2**33)


def verdict(result: JobResult, name: str = "normal") -> Reason:
    before = make(SHAPE, name, 0)
    return compare(read_arrays(result.outputs[name]), before, SHAPE, name, (32, 16))[0]


def test_a_right_kernel_is_right_under_every_distribution(
    tmp_path: Path, device_target: str
) -> None:
    result = run(tmp_path, device_target, "right", *DISTRIBUTIONS, tool=Tool.NUMERICS)
    assert (result.failed, result.unstable) == ({}, {})
    assert {name: verdict(result, name) for name in DISTRIBUTIONS} == dict.fromkeys(
        DISTRIBUTIONS, Reason.OK
    )


def test_a_write_past_d_is_seen_in_the_guard_band(tmp_path: Path, device_target: str) -> None:
    result = run(tmp_path, device_target, "wide", "normal", tool=Tool.NUMERICS)
    assert verdict(result) is Reason.GUARD_BAND


def test_a_result_that_changes_is_seen(tmp_path: Path, device_target: str) -> None:
    result = run(tmp_path, device_target, "noisy", "normal", tool=Tool.NUMERICS)
    assert "of D" in result.unstable["normal"]


@pytest.mark.parametrize(
    ("kernel", "error"),
    [
        ("stray", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("misaligned", "CUDA_ERROR_MISALIGNED_ADDRESS"),
        ("trap", "CUDA_ERROR_LAUNCH_FAILED"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, device_target: str, kernel: str, error: str) -> None:
    result = run(tmp_path, device_target, kernel, "normal", "integer", tool=Tool.NUMERICS)
    assert sorted(result.failed) == ["integer", "normal"]
    for failure in result.failed.values():
        assert failure.failure is Failure.EXECUTION
        assert failure.message.startswith(error)


def test_a_hang_is_ended_and_the_gpu_goes_on(
    tmp_path: Path, device_target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "limits_of", lambda *_: Limits(20.0, 2**33, Stage.RUN, 60.0))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    result = run(tmp_path / "a", device_target, "hang", "normal", "integer", tool=Tool.NUMERICS)
    assert result.failed["normal"].failure is Failure.EXECUTION
    assert "did not end in" in result.failed["normal"].message
    assert result.failed["integer"].failure is Failure.DEADLINE
    after = run(tmp_path / "b", device_target, "right", "normal", tool=Tool.NUMERICS)
    assert verdict(after) is Reason.OK


needs_sanitizer = pytest.mark.skipif(
    sanitizer.find() is None and os.environ.get("RUNGWATCH_REQUIRE_GPU") != "1",
    reason=sanitizer.NOT_FOUND,
)


@needs_sanitizer
@pytest.mark.parametrize("tool", SANITIZERS)
def test_a_right_kernel_is_clean(tmp_path: Path, device_target: str, tool: Tool) -> None:
    result = run(tmp_path, device_target, "right", "normal", tool=tool)
    assert result.failure is None
    assert result.report is not None
    assert result.report.verdict == "clean"


@needs_sanitizer
@pytest.mark.parametrize(
    ("kernel", "tool"),
    [
        ("stray", Tool.SANITIZER_MEMCHECK),
        ("wide", Tool.SANITIZER_MEMCHECK),
        ("read_past", Tool.SANITIZER_MEMCHECK),
        ("race", Tool.SANITIZER_RACECHECK),
    ],
)
def test_a_fault_is_found(tmp_path: Path, device_target: str, kernel: str, tool: Tool) -> None:
    result = run(tmp_path, device_target, kernel, "normal", tool=tool)
    assert result.failure is None
    assert result.report is not None
    assert result.report.verdict in ("error", "review")
    assert result.report.findings


@needs_sanitizer
def test_what_synccheck_ends_as_a_fault_is_no_pass(tmp_path: Path, device_target: str) -> None:
    """On an H200 synccheck ends this kernel's launch before it writes its summary."""
    result = run(tmp_path, device_target, "unmasked", "normal", tool=Tool.SANITIZER_SYNCCHECK)
    if result.failure is not None:
        assert result.failure.failure is Failure.EXECUTION
    else:
        assert result.report is not None
        assert result.report.verdict == "error"
