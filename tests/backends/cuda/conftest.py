"""A machine with a GPU that is not there: a driver of our own, and artifacts that it can run."""

import functools
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.manifest import MANIFEST_FILE, Item, Manifest, encode_manifest
from rungwatch.artifact.plan import LaunchPlan, Pointer, Scalar
from rungwatch.artifact.store import Store
from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.job import Job, JobResult, KernelSource, Tool
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.trusted.buffers import make

from ...artifact.samples import cubin

SHAPE = Shape(32, 16, 24, 4)
SOURCE = KernelSource("get_kernel", path="/nowhere/kernel.py", sha256="hash")
PLAN = LaunchPlan(
    entry="right",
    grid=(1, 1, 1),
    block=(128, 1, 1),
    cluster=(1, 1, 1),
    dynamic_smem_bytes=2048,
    parameters=(
        Pointer(buffer="A"),
        Pointer(buffer="B"),
        Pointer(buffer="D"),
        Scalar(dtype="int32", value=SHAPE.m),
        Scalar(dtype="int32", value=SHAPE.n),
        Scalar(dtype="int64", value=SHAPE.k),
    ),
)


@functools.cache
def compiler() -> str | None:
    return shutil.which("cc")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a libcuda.so.1 that needs no GPU."""
    if compiler() is None:
        pytest.skip("needs a C compiler")
    path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = Path(__file__).parent / "libcuda.c"
    command = ["cc", "-shared", "-fPIC", "-O1", "-w", "-o", str(path), str(source), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return path


type Machine = Callable[[str, int], None]


@pytest.fixture
def machine(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Put this process on a machine with that driver; the function changes one of its settings."""
    folder = tmp_path / "driver"
    folder.mkdir()
    shutil.copy(library, folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))

    def set_to(name: str, value: int) -> None:
        (folder / name).write_text(str(value))

    return set_to


def artifacts(folder: Path, plans: Mapping[str, LaunchPlan], target: str = "sm_90a") -> Path:
    """Return a folder with an artifact a kernel, named by the entry that it runs."""
    store = Store(folder)
    items = []
    for kernel, plan in plans.items():
        artifact = Artifact(cubin(target, plan.entry), plan)
        items.append(
            Item(
                kernel=kernel,
                source_sha256=SOURCE.sha256,
                shape=SHAPE,
                target=target,  # type: ignore[arg-type]
                artifact=store.put(artifact),
                code_sha256="code",
                reason=Reason.OK,
                message="",
            )
        )
    (folder / MANIFEST_FILE).write_bytes(encode_manifest(Manifest(None, {}, tuple(items))))
    return folder


def job(kernel: str, *inputs: str, tool: Tool = Tool.NUMERICS) -> Job:
    return Job(tool, SOURCE, SHAPE, inputs or ("normal",), kernel, "sm_90a")


def run(folder: Path, job: Job, plan: LaunchPlan | None = None) -> JobResult:
    """Run a job of the kernel that its name says, in a worker of its own."""
    kernel = job.kernel or ""
    backend = CudaBackend(
        artifacts(folder / "artifacts", {kernel: plan or replace(PLAN, entry=kernel)})
    )
    backend.prepare([job.tool])
    work = folder / "job"
    work.mkdir()
    given = {name: make(SHAPE, name, 0) for name in job.inputs}
    return backend.run(job, given, work, memory_limit_bytes=2**31)
