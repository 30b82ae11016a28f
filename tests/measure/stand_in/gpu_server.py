"""The real fork server and its real device, over a driver and a torch that need no GPU.

python -P -m gpu_server FOLDER
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rungwatch.backends.cuda import nvml
from rungwatch.backends.cuda.driver import Driver
from rungwatch.measure import budget, gpu, server
from rungwatch.record.model import Conditions


class Nvml:
    def conditions(self) -> Conditions:
        return Conditions(1900, 3201, 500.0, 55, ())

    def highest_sm_mhz(self) -> int:
        return 1980


class Watched(gpu.GpuDevice):
    """Sees that kernels are given the buffers that there are, and that L2 is flushed, or not."""

    def capture(self, rounds: Sequence[Sequence[int]]) -> gpu.Rounds:
        now = [matrix.data_ptr().to_bytes(8, "little") for matrix in (self._a, self._b, self._d)]
        assert all(parameters[:3] == now for parameters in self._parameters.values())
        filled: list[int] = []
        launched: list[int] = []
        fill, launch = Driver.fill, self._launch
        Driver.fill = lambda driver, *given: filled.append(fill(driver, *given))  # type: ignore
        self._launch = lambda slot: launched.append(launch(slot) or slot)  # type: ignore
        captured = super().capture(rounds)
        Driver.fill, self._launch = fill, launch  # type: ignore[method-assign]
        slots = [slot for slots in rounds for slot in slots]
        assert len(filled) == (0 if self._warm else len(slots))
        assert launched == [slot for slot in slots for _ in range(2 if self._warm else 1)]
        return captured


if __name__ == "__main__":
    nvml.open_device = Nvml  # type: ignore[assignment]
    gpu.FLUSH_BYTES = 4096
    server.GpuDevice = Watched  # type: ignore[misc]
    budget.START_S = 20.0
    budget._STEP_S = 4.0
    budget.MOST_WARM_UP_S = 0.05
    server.main(Path(sys.argv[1]))
