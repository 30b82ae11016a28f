"""Start a worker on a job and read what it answered."""

import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rungwatch.backends.exchange import Arrays, JobFolder
from rungwatch.backends.job import Job
from rungwatch.backends.simulator.cache import SimulatorCache
from rungwatch.backends.simulator.exchange import Answer, Order
from rungwatch.backends.simulator.toolchain import Toolchain, worker_environment
from rungwatch.backends.supervise import Ended, Limits, supervise
from rungwatch.record.files import read_regular

_WORKER = "rungwatch.backends.simulator.worker"
_MOST_ANSWER_BYTES = 64 * 2**20  # a checker can have many findings


def launch(
    job: Job,
    inputs: Mapping[str, Arrays],
    folder: Path,
    toolchain: Toolchain,
    cache: SimulatorCache,
    limits: Limits,
    threads: int,
    cancel: threading.Event | None = None,
) -> tuple[Ended, Answer | None]:
    """Run `job` in a worker; the answer is None where the worker left none that can be read."""
    files = JobFolder(folder)
    files.make(Order(job, threads, str(cache.lock)), inputs)
    ended = supervise(
        [sys.executable, "-P", "-m", _WORKER, str(folder)],
        folder,
        worker_environment(job.tool, toolchain, cache.numsim, files.temporary),
        limits,
        cancel,
    )
    try:
        return ended, msgspec.json.decode(
            read_regular(files.answer, _MOST_ANSWER_BYTES), type=Answer
        )
    except (OSError, msgspec.MsgspecError):
        return ended, None
