"""One worker process on the GPU: start it on an artifact, and read what it answered."""

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.plan import encode_plan
from rungwatch.backends.cuda.device_check import worker_environment
from rungwatch.backends.cuda.exchange import CUBIN_FILE, PLAN_FILE, Answer, Order, read_answer
from rungwatch.backends.exchange import Arrays, JobFolder
from rungwatch.backends.supervise import Ended, Limits, supervise

_WORKER = "rungwatch.backends.cuda.worker"


@dataclass(frozen=True)
class Attempt:
    """How a worker ended, and what it answered: None where it left nothing that can be read."""

    folder: JobFolder
    limits: Limits
    ended: Ended
    answer: Answer | None


def attempt(
    artifact: Artifact,
    inputs: Mapping[str, Arrays],
    folder: Path,
    limits: Limits,
    *,
    under: Callable[[Sequence[str]], Sequence[str]] | None = None,
    cancel: threading.Event | None = None,
) -> Attempt:
    """Run `artifact` on each of `inputs` in a fresh process.

    `under` turns the worker's command into that of a program which runs and watches it.
    """
    files = JobFolder(folder)
    files.make(Order(tuple(inputs), watched=under is not None), inputs)
    (folder / CUBIN_FILE).write_bytes(artifact.cubin)
    (folder / PLAN_FILE).write_bytes(encode_plan(artifact.plan))
    command: Sequence[str] = [sys.executable, "-P", "-m", _WORKER, str(folder)]
    if under is not None:
        command = under(command)
    ended = supervise(command, folder, worker_environment(files.temporary), limits, cancel)
    return Attempt(files, limits, ended, read_answer(files.answer))
