"""The CUDA backend: runs artifacts on this machine's GPU, one job at a time."""

import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rungwatch.artifact.artifact import Artifact
from rungwatch.backends.cuda import sanitizer
from rungwatch.backends.cuda.artifacts import ArtifactFolder, UnusableArtifactError
from rungwatch.backends.cuda.attempt import attempt
from rungwatch.backends.cuda.device_check import find_device, target_of
from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.backends.cuda.settle import Settled, watched
from rungwatch.backends.exchange import Arrays
from rungwatch.backends.job import (
    SANITIZERS,
    BackendUnavailableError,
    Failure,
    Job,
    JobResult,
    Stage,
    Tool,
)
from rungwatch.backends.supervise import Limits
from rungwatch.declare.protocol import Target

_GIB = 2**30
_LOG_FILE = "sanitizer.txt"
# Deadlines are for hangs. The slowest kernel, a single CTA that works through the whole matrix,
# takes about 1e-12 s a multiply-add; the files and copies of a problem take 1e-9 s a byte.
_START_S = 60.0
_PROBLEM_S = 3.0
_MULTIPLY_ADD_S = 1e-10
_BYTE_S = 1e-8
# compute-sanitizer looks at each access: 10 to 1000 times slower.
_WATCHED_S = 240.0
_WATCHED_MULTIPLY_ADD_S = 1e-6


class CudaBackend:
    """Runs kernels on the GPU. May be called from several threads: jobs wait for each other."""

    def __init__(self, folder: Path, look: Callable[[], DeviceFacts] = find_device) -> None:
        """Take artifacts from `folder`; `look` says what the GPU is, and is asked once."""
        self.folder = folder
        self._look = look
        self._gpu = threading.Lock()

    @functools.cached_property
    def device(self) -> DeviceFacts | BackendUnavailableError:
        """What the GPU is, or why there is none."""
        try:
            return self._look()
        except BackendUnavailableError as error:
            return error

    @functools.cached_property
    def artifacts(self) -> ArtifactFolder:
        """What was built.

        Raises:
            BackendUnavailableError: the folder holds no manifest.
        """
        return ArtifactFolder(self.folder)

    def target(self) -> Target:
        """Return what this GPU runs.

        Raises:
            BackendUnavailableError: nothing, and why.
        """
        if isinstance(self.device, BackendUnavailableError):
            raise self.device
        return target_of(self.device)

    def prepare(self, tools: Iterable[Tool]) -> None:
        """See that there are a GPU, artifacts for it, and the programs that `tools` need.

        Raises:
            BackendUnavailableError: something is missing; one line.
        """
        target = self.target()
        held = self.artifacts.targets
        if target not in held:
            names = ", ".join(sorted(held)) or "nothing"
            raise BackendUnavailableError(
                f"{self.artifacts.name} holds artifacts for {names}, this GPU runs {target}:"
                f" make them with `rungwatch build --target {target}`"
            )
        if not set(SANITIZERS).isdisjoint(tools) and sanitizer.find() is None:
            raise BackendUnavailableError(sanitizer.NOT_FOUND)

    def run(
        self,
        job: Job,
        inputs: Mapping[str, Arrays],
        folder: Path,
        *,
        memory_limit_bytes: int,
        alone: bool = False,
        cancel: threading.Event | None = None,
    ) -> JobResult:
        """Run one job in `folder`, which must be empty and is the caller's to delete.

        `inputs` holds the guarded arrays of each name in `job.inputs`. `alone` changes nothing:
        every job has the GPU alone. A problem whose kernel faults ends its process, and the
        others go on in a fresh one.
        """
        try:
            artifact = self.artifacts.find(job)
            self._require_memory(job, inputs)
        except UnusableArtifactError as error:
            return JobResult(failure=error.failure)
        with self._gpu:
            if job.tool in SANITIZERS:
                return _watch(job, artifact, inputs, folder, memory_limit_bytes, cancel)
            settled = Settled(job, job.inputs)
            while settled.left:
                place = folder / f"worker-{len(job.inputs) - len(settled.left)}"
                settled.take(
                    attempt(
                        artifact,
                        {name: inputs[name] for name in settled.left},
                        place,
                        limits_of(job, settled.left, memory_limit_bytes),
                        cancel=cancel,
                    )
                )
            return settled.result()

    def _require_memory(self, job: Job, inputs: Mapping[str, Arrays]) -> None:
        """Refuse a job whose buffers the GPU can't hold.

        Raises:
            UnusableArtifactError: they are larger than what was free at the start.
        """
        if isinstance(self.device, BackendUnavailableError):
            raise self.device
        needed = max(sum(array.nbytes for array in arrays.values()) for arrays in inputs.values())
        free = self.device.free_bytes
        if needed > free:
            raise UnusableArtifactError(
                Failure.MEMORY_LIMIT,
                f"A, B and D take {needed / _GIB:.1f} GiB of GPU memory, of which"
                f" {free / _GIB:.1f} are free",
            )


def limits_of(job: Job, names: Sequence[str], memory_limit_bytes: int) -> Limits:
    """Return what a worker may use that runs the problems `names` of a job."""
    shape = job.shape
    work = shape.m * shape.n * shape.k * len(names)
    moved_bytes = 2 * (shape.m * shape.k + shape.n * shape.k + shape.m * shape.n) * len(names)
    if job.tool in SANITIZERS:
        seconds = _WATCHED_S + work * _WATCHED_MULTIPLY_ADD_S
        return Limits(seconds, memory_limit_bytes, Stage.RUN, _WATCHED_S)
    seconds = _START_S + len(names) * _PROBLEM_S
    seconds += work * _MULTIPLY_ADD_S + moved_bytes * _BYTE_S
    return Limits(seconds, memory_limit_bytes, Stage.RUN, _START_S)


def _watch(
    job: Job,
    artifact: Artifact,
    inputs: Mapping[str, Arrays],
    folder: Path,
    memory_limit_bytes: int,
    cancel: threading.Event | None,
) -> JobResult:
    """Run a job with one problem under compute-sanitizer, once."""
    program = sanitizer.find()
    if program is None:
        raise BackendUnavailableError(sanitizer.NOT_FOUND)
    log = folder / _LOG_FILE
    done = attempt(
        artifact,
        inputs,
        folder,
        limits_of(job, job.inputs, memory_limit_bytes),
        under=lambda command: sanitizer.watching(program, job.tool, log, command),
        cancel=cancel,
    )
    return watched(job, done, log)
