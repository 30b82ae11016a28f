"""A backend without a simulator: kernels are Python functions on the fp16 matrices."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rungwatch.backends.cuda.artifacts import ArtifactFolder
from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.backends.job import (
    BackendUnavailableError,
    CheckerReport,
    Failure,
    Finding,
    Job,
    JobFailure,
    JobResult,
    KernelSource,
    Stage,
    Tool,
)
from rungwatch.check.execute import Progress
from rungwatch.declare.protocol import Declaration, Dtypes, Rule, Rules, Target
from rungwatch.declare.subject import Subject
from rungwatch.trusted import buffers

Matrix = NDArray[np.float16]
Kernel = Callable[[Matrix, Matrix, Matrix], None]


def right(a: Matrix, b: Matrix, d: Matrix) -> None:
    """Write A @ B^T, accumulated in fp32."""
    with np.errstate(all="ignore"):
        d[:] = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)


def make_subject(name: str, step: int = 1, **changes: object) -> Subject:
    """Return a subject whose kernel takes whole 128 x 128 x 64 tiles."""
    tile = Rule(multiple_of=128, min=128)
    fields: dict[str, object] = {
        "name": name,
        "step": step,
        "adds": "something",
        "operation": "gemm_nt",
        "dtypes": Dtypes("float16", "float16", "float16", "float32"),
        "targets": ("sm_100a",),
        "tile": (128, 128, 64),
        "ring_depth": 2,
        "cta_group": 1,
        "l2_group": 8,
        "persistent": True,
        "rules": Rules(tile, tile, Rule(multiple_of=64, min=64), Rule()),
        **changes,
    }
    source = KernelSource(factory="get_kernel", path=f"/nowhere/{name}.py")
    return Subject(f"family/{name}", source, f"hash-of-{name}", Declaration(**fields))  # type: ignore[arg-type]


@dataclass
class FakeBackend:
    """Runs `kernels` by subject file; `reports` are what the checkers say, in turn."""

    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    reports: Mapping[str, list[CheckerReport | Failure]] = field(default_factory=dict)
    unavailable: str | None = None
    self_contained: bool = True
    jobs: list[tuple[Job, bool]] = field(default_factory=list)
    prepared: int = 0

    def prepare(self, tools: Iterable[Tool]) -> None:
        self.prepared += len(set(tools))
        if self.unavailable is not None:
            raise BackendUnavailableError(self.unavailable)

    def run(
        self,
        job: Job,
        inputs: Mapping[str, Mapping[str, NDArray[np.uint16]]],
        folder: Path,
        *,
        memory_limit_bytes: int,
        alone: bool,
        cancel: threading.Event,
    ) -> JobResult:
        self.jobs.append((job, alone))
        assert memory_limit_bytes > 0
        name = Path(job.source.path or "").stem
        if job.tool is not Tool.NUMERICS:
            queue = self.reports.get(job.tool.value)
            answer = queue.pop(0) if queue else CheckerReport("clean", ())
            if isinstance(answer, Failure):
                return JobResult(failure=JobFailure(answer, Stage.RUN, "why"))
            return JobResult(report=answer, self_contained=self.self_contained)
        outputs = {}
        kernel = self.kernels.get(name, right)
        for problem, given in inputs.items():
            arrays = {key: array.copy() for key, array in given.items()}
            kernel(
                *(
                    buffers.view(arrays[key], *extent)
                    for key, extent in buffers.extents(job.shape).items()
                )
            )
            outputs[problem] = folder / f"{problem}.npz"
            np.savez(outputs[problem], **arrays)
        return JobResult(outputs=outputs, self_contained=self.self_contained)


@dataclass
class FakeDevice(FakeBackend):
    """A GPU for kernels of one target, `runs`; `unstable` says that a second run differs."""

    runs: Target = "sm_100a"
    unstable: bool = False
    folder: Path = Path("artifacts")

    @property
    def artifacts(self) -> ArtifactFolder:
        """What was built: it names the commit of kernels that are in no repository."""
        return ArtifactFolder(self.folder)

    @property
    def device(self) -> DeviceFacts | BackendUnavailableError:
        if self.unavailable is not None:
            return BackendUnavailableError(self.unavailable)
        return DeviceFacts("Fake GPU", (10, 0), 148, 2**33, 2**34, (13, 0), "580.1")

    def target(self) -> Target:
        if self.unavailable is not None:
            raise BackendUnavailableError(self.unavailable)
        return self.runs

    def run(self, job: Job, *arguments: Any, **options: Any) -> JobResult:
        result = super().run(job, *arguments, **options)
        if self.unstable and job.tool is Tool.NUMERICS:
            return replace(result, unstable=dict.fromkeys(job.inputs, "other bits"))
        return result


def finding(verdict: str) -> CheckerReport:
    """Return a report with one finding."""
    return CheckerReport(verdict, (Finding("error", "deadlock", "nobody arrives", "k.py:3"),))


SILENT = Progress(lambda planned: None, lambda planned, rows: None)
