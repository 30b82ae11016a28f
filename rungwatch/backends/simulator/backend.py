"""The simulator backend: runs jobs in supervised workers and checks what they answer."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rungwatch.backends.job import (
    BackendUnavailableError,
    Failure,
    Job,
    JobFailure,
    JobResult,
    Stage,
    Tool,
)
from rungwatch.backends.simulator.cache import simulator_cache
from rungwatch.backends.simulator.engines import Engines
from rungwatch.backends.simulator.exchange import Answer, Arrays, JobFolder, read_arrays
from rungwatch.backends.simulator.launch import launch
from rungwatch.backends.supervise import Ended, Ending, Limits
from rungwatch.cache import cache_dir
from rungwatch.trusted.buffers import malformed

_GIB = 1024**3
# Deadlines are for hangs, so they are generous. Measured on two cores that were shared by ten other
# processes: up to 35 s to start and translate, and 6e-8 s a multiply-add to run or check.
_START_S = 300.0
# A checker's code is compiled unoptimised: slower to run, and it runs once.
_MULTIPLY_ADD_S = {Tool.NUMERICS: 3e-7, Tool.SYNCCHECK: 5e-6, Tool.RACECHECK: 5e-6}


class SimulatorBackend:
    """Runs kernels in the CPU simulator. May be used from several threads at once."""

    def __init__(
        self, say: Callable[[str], None] = lambda text: None, cache: Path | None = None
    ) -> None:
        """Use the cache folder `cache` (the user's by default); `say` is told of long steps."""
        self._cache = simulator_cache(cache or cache_dir())
        self.engines = Engines(self._cache, say)

    def prepare(self, tools: Iterable[Tool]) -> None:
        """Build the engines of `tools` that are not there yet: minutes, once a user.

        Raises:
            BackendUnavailableError: something is missing, or a build failed.
        """
        self.engines.ensure_all(tools)

    def run(
        self,
        job: Job,
        inputs: Mapping[str, Arrays],
        folder: Path,
        *,
        memory_limit_bytes: int,
        alone: bool = False,
        cancel: threading.Event | None = None,
        deadline_s: float | None = None,
    ) -> JobResult:
        """Run one job in `folder`, which must be empty and is the caller's to delete.

        `inputs` holds the guarded arrays of each name in `job.inputs`. Where a job runs `alone`
        its worker uses every core; results do not depend on that.
        """
        try:
            toolchain = self.engines.ensure(job.tool, cancel)
        except BackendUnavailableError as error:
            failure = JobFailure(Failure.BACKEND_UNAVAILABLE, Stage.START, str(error))
            return JobResult(failure=failure)
        limits = Limits(
            deadline_s or default_deadline_s(job), memory_limit_bytes, Stage.RUN, _START_S
        )
        threads = (os.cpu_count() or 1) if alone else 1
        ended, answer = launch(job, inputs, folder, toolchain, self._cache, limits, threads, cancel)
        return result_of(job, JobFolder(folder), limits, ended, answer)


def default_deadline_s(job: Job) -> float:
    """Return the wall time after which a job is taken for hung, also on a busy machine."""
    shape = job.shape
    work = shape.m * shape.n * shape.k * len(job.inputs)
    return _START_S + work * _MULTIPLY_ADD_S[job.tool]


def result_of(
    job: Job, folder: JobFolder, limits: Limits, ended: Ended, answer: Answer | None
) -> JobResult:
    """Return the result of a job from how its worker ended and what it answered.

    Nothing that a worker claims is taken as it is: an output counts where its file holds arrays
    of the right names, type and size.
    """
    failure = _worker_failure(limits, ended)
    if answer is None:
        answer = Answer()
        if failure is None:
            failure = _died(ended, "the worker left no answer that can be read")
    elif failure is None:
        failure = answer.failure
    outputs = {
        name: folder.output(name)
        for name in answer.outputs
        if name in job.inputs and _is_sound(folder.output(name), job)
    }
    return JobResult(
        outputs=outputs,
        failed=answer.failed,
        report=answer.report,
        work=answer.work,
        failure=failure,
        self_contained=answer.self_contained,
        seconds={
            Stage(name): seconds
            for name, seconds in ended.seconds_by_stage.items()
            if name in set(Stage)
        },
    )


def _worker_failure(limits: Limits, ended: Ended) -> JobFailure | None:
    match ended.ending:
        case Ending.DEADLINE:
            message = f"ended from outside after {ended.seconds:.0f} s, in {_where(ended)}"
            return JobFailure(Failure.DEADLINE, _stage(ended), message)
        case Ending.MEMORY:
            message = (
                f"used {ended.peak_memory_bytes / _GIB:.1f} GiB of memory, more than the"
                f" {limits.memory_bytes / _GIB:.1f} GiB that it may, in {_where(ended)}"
            )
            return JobFailure(Failure.MEMORY_LIMIT, _stage(ended), message)
        case Ending.CANCELLED:
            return _died(ended, "cancelled")
        case Ending.EXITED:
            if ended.ok:
                return None
            return _died(ended, f"the worker died in {_where(ended)}, {ended.describe()}")


def _died(ended: Ended, message: str) -> JobFailure:
    return JobFailure(Failure.WORKER_DIED, _stage(ended), message)


def _stage(ended: Ended) -> Stage:
    return Stage(ended.last_stage) if ended.last_stage in set(Stage) else Stage.START


def _where(ended: Ended) -> str:
    detail = ended.events[-1].detail if ended.events else ""
    return f"stage {_stage(ended)}{f' of {detail}' if detail else ''}"


def _is_sound(path: Path, job: Job) -> bool:
    try:
        return malformed(read_arrays(path), job.shape) is None
    except Exception:  # a hostile file can make numpy's reader raise nearly anything
        return False
