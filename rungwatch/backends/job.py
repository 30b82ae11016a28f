"""What a backend is asked to do and what it answers: the contract between tool and worker.

A job is one tool on one kernel and one shape, in a process of its own. The worker is handed
inputs as files and hands raw bytes back: references and comparison stay with the caller, which
never imports the code under test.
"""

from enum import StrEnum
from pathlib import Path

import msgspec

from rungwatch.cost.work import Work
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Target


class BackendUnavailableError(RuntimeError):
    """The backend can't work on this machine; the message says what to install."""


class Tool(StrEnum):
    """What is done with a kernel."""

    NUMERICS = "numerics"
    SYNCCHECK = "synccheck"
    RACECHECK = "racecheck"
    SANITIZER_MEMCHECK = "sanitizer-memcheck"
    SANITIZER_RACECHECK = "sanitizer-racecheck"
    SANITIZER_SYNCCHECK = "sanitizer-synccheck"


# What each backend does. The simulator's checkers read the program; those of compute-sanitizer
# watch the machine code run on the device.
SIMULATOR_TOOLS = (Tool.NUMERICS, Tool.SYNCCHECK, Tool.RACECHECK)
SANITIZERS = (Tool.SANITIZER_MEMCHECK, Tool.SANITIZER_RACECHECK, Tool.SANITIZER_SYNCCHECK)
DEVICE_TOOLS = (Tool.NUMERICS, *SANITIZERS)


class KernelSource(msgspec.Struct, frozen=True):
    """Where a worker finds the factory of a kernel.

    Exactly one of `path` (a .py file) and `module` (an importable name) is set; `sha256` is the
    hash that the file must have, so that no verdict is given on a version of it that was edited
    meanwhile. `factory` is
    called with (M, N, K) or (M, N, K, sm_count), whichever its signature takes; a factory of the
    tirx-kernels protocol is called with the keywords of the matching entry of CONFIGS.
    """

    factory: str
    path: str | None = None
    module: str | None = None
    sha256: str | None = None


class Job(msgspec.Struct, frozen=True):
    """One tool on one kernel and one shape.

    `inputs` names the problems, each stored as an .npz file of that name with the flat
    uint16 arrays A, B and D, guard bands included (`rungwatch.trusted.buffers`). The worker
    writes the arrays as the kernel left them to the file of the same name in `outputs/`. The
    simulator runs `source`; a device runs the artifact of `kernel` (its key in the registry) for
    `target`, built from that source.
    """

    tool: Tool
    source: KernelSource
    shape: Shape
    inputs: tuple[str, ...]
    kernel: str | None = None
    target: Target | None = None

    @property
    def work(self) -> int:
        """Multiply-adds of all problems together."""
        return self.shape.m * self.shape.n * self.shape.k * len(self.inputs)


class Stage(StrEnum):
    """How far a worker got: named when it is ended at its deadline."""

    START = "start"
    LOAD = "load"
    BUILD = "build"
    TRANSPILE = "transpile"
    COMPILE = "compile"
    COUNT = "count"
    COPY = "copy"
    RUN = "run"


class Failure(StrEnum):
    """Why a job, or one of its problems, has no output. Maps to one reason each."""

    KERNEL_LOAD = "kernel-load"
    KERNEL_BUILD = "kernel-build"
    PROTOCOL = "protocol"
    UNMODELLED = "unmodelled"
    MISSING_DEPENDENCY = "missing-dependency"
    BACKEND_UNAVAILABLE = "backend-unavailable"
    EXECUTION = "execution"
    NUMERICS = "numerics"
    DEADLINE = "deadline"
    MEMORY_LIMIT = "memory-limit"
    WORKER_DIED = "worker-died"
    BAD_OUTPUT = "bad-output"
    NO_ARTIFACT = "no-artifact"
    ARTIFACT_REFUSED = "artifact-refused"
    CHECKER_BUDGET = "checker-budget"


class Finding(msgspec.Struct, frozen=True):
    """One thing that a checker found, in its own words, with the source line it names."""

    status: str
    kind: str
    message: str
    source: str | None = None


class CheckerReport(msgspec.Struct, frozen=True):
    """What a checker said: `verdict` is clean, review, incomplete or error."""

    verdict: str
    findings: tuple[Finding, ...]


class JobFailure(msgspec.Struct, frozen=True):
    """Why there is no output, where it happened, and the text a person should see."""

    failure: Failure
    stage: Stage
    message: str


class JobResult(msgspec.Struct, frozen=True):
    """What a job gave.

    `failure` is set where the whole job ended early; `outputs` names the .npz files that were
    written, `failed` the problems that have none and why; `unstable` says of a problem how its
    output changed when it was run once more; `report` is a checker's answer;
    `work` what the program executes for the shape, None where that can't be counted.
    `self_contained` says that loading the kernel brought in no local file but its own, so that
    its file's hash stands for its code. `seconds` is wall time by stage: never a measurement.
    """

    outputs: dict[str, Path] = {}
    failed: dict[str, JobFailure] = {}
    unstable: dict[str, str] = {}
    report: CheckerReport | None = None
    work: Work | None = None
    failure: JobFailure | None = None
    self_contained: bool = False
    seconds: dict[Stage, float] = {}
