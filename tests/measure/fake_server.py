"""The real fork server, on a GPU that is not there: what a kernel does is said by its name.

python -P -m fake_server FOLDER
"""

import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rungwatch.backends.cuda.errors import CudaError
from rungwatch.backends.job import BackendUnavailableError
from rungwatch.measure import budget, server
from rungwatch.measure.device import Running
from rungwatch.measure.order import CUBLAS, NOTHING, Group, MeasureFolder, Order
from rungwatch.record.model import Conditions

CUBLAS_NS = 204_000.0
KERNEL_NS = 200_000.0
FLOOR_NS = 1_500.0


class FakeDevice:
    """Notes what it is asked in `calls`, and does what the names of its kernels say."""

    peak_flops = 1e15

    def __init__(self, order: Order, folder: MeasureFolder, running: Running) -> None:
        self.calls: list[str] = []
        self.captured: list[list[list[int]]] = []
        self.open_captures = 0
        self._folder, self._running = folder, running
        self._random = random.Random(os.getpid())
        self._group: Group | None = None
        names = {case.kernel for group in order.groups for case in group.cases}
        if "no-gpu" in names:
            raise BackendUnavailableError("NVML is not here")
        if "bad-start" in names and self._count("starts") > 7:
            raise CudaError("cuInit", "CUDA_ERROR_ECC_UNCORRECTABLE", "words")
        if "slow-start" in names:
            time.sleep(3600)
        if "dead-server" in names and self._count("starts") > 2:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(3600)

    def conditions(self) -> Conditions:
        self.calls.append("conditions")
        return Conditions(1900, 3201, 500.0, 55, ("sw_power_cap",))

    def open(self, group: Group, seed: int) -> None:
        self.calls.append("open")
        self._group = group
        if "no-memory" in self._names():
            raise CudaError("torch", "CUDA_ERROR_OUT_OF_MEMORY", "words")
        if "stuck-inputs" in self._names():
            time.sleep(3600)
        attempt = self._count("attempts")
        for name, attempts in {"stuck-1": (1,), "stuck-2": (2,), "stuck-1-2": (1, 2)}.items():
            if name in self._names() and attempt in attempts:
                time.sleep(3600)
        if "bug" in self._names():
            raise ZeroDivisionError("a fault of the tool")

    def check(self, slot: int) -> str | None:
        self.calls.append(f"check {slot}")
        name = self._name(slot)
        self._running.slot = slot
        if name == "hang" or (name == "third-hangs" and self._count("checks") == 3):
            time.sleep(3600)
        if name == "fault":
            raise CudaError("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", "words")
        if name == "refused":
            raise CudaError("cuModuleLoadData", "CUDA_ERROR_INVALID_IMAGE", "words")
        if name == "crash":
            os.abort()
        self._running.rest()
        return "3 elements of D differ" if name == "wrong" else None

    def check_again(self, slot: int) -> str | None:
        self.calls.append(f"check {slot} again")
        return "2 elements of D differ" if self._name(slot) == "wrong-later" else None

    def place(self) -> None:
        assert self.open_captures == 0
        self.calls.append("place")

    def capture(self, rounds: Sequence[Sequence[int]]) -> "FakeRounds":
        self.calls.append("capture")
        self.captured.append([list(slots) for slots in rounds])
        self.open_captures += 1
        return FakeRounds(self, self.captured[-1])

    def close(self) -> None:
        self.calls.append("close")

    def run(self, slot: int) -> float:
        """Return how long a slot takes."""
        self._running.slot = slot
        base = {NOTHING: FLOOR_NS, CUBLAS: CUBLAS_NS}.get(slot, KERNEL_NS)
        if slot > CUBLAS:
            name = self._name(slot)
            if name == "late-hang":
                time.sleep(3600)
            if name == "late-fault":
                raise CudaError("cuStreamSynchronize", "CUDA_ERROR_LAUNCH_FAILED", "words")
            if name == "late-crash":
                os._exit(3)
            if name == "timeless":
                return float("nan")
            if name == "drifting":
                return base * (1 + self._count("drift") % 7 / 10)
        return base * self._random.uniform(0.999, 1.001)

    def rest(self) -> None:
        self._running.rest()

    def _names(self) -> set[str]:
        assert self._group is not None
        return {case.kernel for case in self._group.cases}

    def _name(self, slot: int) -> str:
        assert self._group is not None
        return self._group.case(slot).kernel

    def _count(self, what: str) -> int:
        """Return how often this was asked of all workers together."""
        with (self._folder.path / what).open("ab") as file:
            file.write(b".")
            return file.tell()


class FakeRounds:
    def __init__(self, device: FakeDevice, rounds: list[list[int]]) -> None:
        self._device, self._rounds = device, rounds

    def replay(self) -> list[list[float]]:
        self._device.calls.append("replay")
        times = [[self._device.run(slot) for slot in slots] for slots in self._rounds]
        self._device.rest()
        return times

    def close(self) -> None:
        self._device.open_captures -= 1


if __name__ == "__main__":
    budget.START_S = 2.0
    budget._STEP_S = 1.5
    budget._TIMES_AS_LONG = 0.0
    budget.MOST_WARM_UP_S = 0.05
    server.serve(Path(sys.argv[1]), FakeDevice)
