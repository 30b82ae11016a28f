"""What a worker needs of a GPU: a protocol, so that a worker can be tested without one."""

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Protocol

from rungwatch.measure.order import NOTHING, Group, MeasureFolder, Order
from rungwatch.record.model import Conditions


class Running:
    """The slot that the GPU works at: one word, shared by the fork server and its workers.

    The GPU itself writes it in the order of its work, so that the server knows what ran when a
    worker can no longer say.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)  # stays shared over a fork
        self._word = ctypes.c_uint32.from_buffer(self._memory)
        self.size_bytes = mmap.PAGESIZE

    @property
    def address(self) -> int:
        """Where the word is: the start of a page."""
        return ctypes.addressof(self._word)

    @property
    def slot(self) -> int:
        """What runs now, or ran last."""
        return self._word.value

    @slot.setter
    def slot(self, slot: int) -> None:
        self._word.value = slot

    def rest(self) -> None:
        """Note that nothing runs."""
        self.slot = NOTHING


class Captured(Protocol):
    """Rounds that were captured on the buffers of one placement."""

    def replay(self) -> list[list[float]]:
        """Run them all; return the time in ns of each slot of each round, as they were captured.

        Raises:
            CudaError: a call failed, or a kernel did: `Running` says which.
        """

    def close(self) -> None:
        """Give them back: before the buffers are moved."""


class Device(Protocol):
    """One GPU, in one worker process. Every call may raise `CudaError`.

    `peak_flops` is the most that its tensor cores can do in a second, at its highest clock.
    """

    @property
    def peak_flops(self) -> float:
        """See above."""

    def conditions(self) -> Conditions:
        """Return how the GPU is now.

        Raises:
            BackendUnavailableError: NVML does not say.
        """

    def open(self, group: Group, seed: int) -> None:
        """Make the inputs of a group from `seed`, and cuBLAS's D to compare with."""

    def check(self, slot: int) -> str | None:
        """Run a kernel once on poisoned D; say how D differs from cuBLAS's, None where it fits."""

    def check_again(self, slot: int) -> str | None:
        """Do so once more after the timing: a kernel may be right once and no more."""

    def place(self) -> None:
        """Move the buffers of the group to other memory, with the same inputs in them."""

    def capture(self, rounds: Sequence[Sequence[int]]) -> Captured:
        """Capture rounds, each the slots in the order in which they are timed."""

    def close(self) -> None:
        """Give the buffers of the group back."""


type MakeDevice = Callable[[Order, MeasureFolder, Running], Device]
