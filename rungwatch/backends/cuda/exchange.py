"""What the CUDA backend tells its worker, and what that answers."""

from pathlib import Path

import msgspec

from rungwatch.backends.job import JobFailure
from rungwatch.record.files import read_regular

CUBIN_FILE = "kernel.cubin"
PLAN_FILE = "plan.json"
_MOST_ANSWER_BYTES = 2**20


class Order(msgspec.Struct, frozen=True):
    """Run the artifact beside this file on each of `inputs`, twice, or once where `watched` is set.

    What is watched runs in buffers without guard bands: the watcher then sees any access past
    their ends, also one that only reads.
    """

    inputs: tuple[str, ...]
    watched: bool


class Answer(msgspec.Struct, frozen=True):
    """What the worker did: see `rungwatch.backends.job.JobResult` for the fields.

    A problem that is in neither `outputs` nor `failed` was not run: after a fault of the kernel
    a process can't use the device again.
    """

    outputs: tuple[str, ...] = ()
    failed: dict[str, JobFailure] = {}
    unstable: dict[str, str] = {}
    failure: JobFailure | None = None


def read_answer(path: Path) -> Answer | None:
    """Return what a worker answered; None where it left nothing that can be read."""
    try:
        return msgspec.json.decode(read_regular(path, _MOST_ANSWER_BYTES), type=Answer)
    except (OSError, msgspec.MsgspecError):
        return None
