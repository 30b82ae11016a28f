"""What a worker tells the fork server, and that the parent: one JSON object a line."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rungwatch.backends.job import JobFailure
from rungwatch.record.files import read_regular
from rungwatch.record.model import WorkerConditions

_MOST_RESULT_BYTES = 2**28


class Entered(msgspec.Struct, frozen=True, tag=True):
    """A worker begins a step, which must end within `within_s`. `group` is None at its start."""

    what: str
    within_s: float
    group: int | None = None


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A kernel is not timed, and why: it was wrong, it faulted, or it did not end."""

    worker: int
    group: int
    slot: int
    failure: JobFailure


class Lost(msgspec.Struct, frozen=True, tag=True):
    """A worker ended in a group, and no kernel can be blamed; without a group: before any."""

    worker: int
    group: int | None
    failure: JobFailure


class Timed(msgspec.Struct, frozen=True, tag=True):
    """What one worker measured of one group.

    `samples_ns` holds a list for each slot that was timed, one sample a round: those of one
    round stand at the same place in every list. `peak_flops` is of the GPU, in a second.
    """

    group: int
    samples_ns: dict[int, tuple[float, ...]]
    conditions: WorkerConditions
    peak_flops: float


Message = Entered | Refused | Lost | Timed


def encode(message: Message) -> bytes:
    """Return `message` as one line."""
    return msgspec.json.encode(message) + b"\n"


def decode(line: bytes) -> Message:
    """Read one line.

    Raises:
        msgspec.MsgspecError: it is no message.
    """
    return msgspec.json.decode(line, type=Message)


def read_results(path: Path) -> Iterator[Message]:
    """Yield the messages in a file; a line that was not finished is left out."""
    lines: list[bytes] = []
    with contextlib.suppress(OSError):
        lines = read_regular(path, _MOST_RESULT_BYTES).splitlines()
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError):
            yield decode(line)
