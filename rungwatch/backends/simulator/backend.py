"""The simulator backend: runs jobs in supervised workers and checks what they answer."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rungwatch.backends.ending import died, failure_of, is_sound, seconds_of
from rungwatch.backends.exchange import Arrays, JobFolder
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
from rungwatch.backends.simulator.exchange import Answer
from rungwatch.backends.simulator.launch import launch
from rungwatch.backends.supervise import Ended, Limits
from rungwatch.cache import cache_dir

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
    return _START_S + job.work * _MULTIPLY_ADD_S[job.tool]


def result_of(
    job: Job, folder: JobFolder, limits: Limits, ended: Ended, answer: Answer | None
) -> JobResult:
    """Return the result of a job from how its worker ended and what it answered.

    Nothing that a worker claims is taken as it is: an output counts where its file holds arrays
    of the right names, type and size.
    """
    failure = failure_of(limits, ended)
    if answer is None:
        answer = Answer()
        if failure is None:
            failure = died(ended, "the worker left no answer that can be read")
    elif failure is None:
        failure = answer.failure
    outputs = {
        name: folder.output(name)
        for name in answer.outputs
        if name in job.inputs and is_sound(folder, name, job)
    }
    return JobResult(
        outputs=outputs,
        failed=answer.failed,
        report=answer.report,
        work=answer.work,
        failure=failure,
        self_contained=answer.self_contained,
        seconds=seconds_of(ended),
    )
