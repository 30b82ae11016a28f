"""This machine's GPU as a worker's `Device`: kernels by the driver, cuBLAS by torch.

Both use the same primary context and one stream. What is timed is captured into a CUDA graph, so
that nothing the host does falls between two of its nodes: for each slot of each round

    a word that says which slot begins; the flush of L2, or one untimed launch (warm);
    an event; the launch; an event

Source: CUDA driver API (stream capture, event record nodes).
"""

import random
from collections.abc import Sequence
from typing import Any

from rungwatch.artifact.plan import decode_plan
from rungwatch.backends.cuda import launch, nvml
from rungwatch.backends.cuda.driver import Driver
from rungwatch.cost.targets import SM_FACTS
from rungwatch.measure.budget import FLUSH_BYTES
from rungwatch.measure.cublas import Cublas, import_torch
from rungwatch.measure.device import Running
from rungwatch.measure.order import CUBLAS, NOTHING, Group, MeasureFolder, Order
from rungwatch.record.model import Conditions

# Something of a random size is held while the buffers are moved.
_SPACER_BYTES = 2**21
_MOST_SPACERS = 64


def preload() -> None:
    """Import what is slow to import. Touches no GPU.

    Raises:
        BackendUnavailableError: a package is not installed.
    """
    Driver()
    import_torch()


class GpuDevice:
    """See `rungwatch.measure.device.Device`."""

    def __init__(self, order: Order, folder: MeasureFolder, running: Running) -> None:
        """Start CUDA, torch and NVML in this process.

        Raises:
            BackendUnavailableError: one of them can't be used.
            CudaError: a call failed.
        """
        self._folder, self._running = folder, running
        self._driver = driver = Driver()
        driver.start()
        device = driver.device()
        driver.open(device)
        self._nvml = nvml.open_device()
        self._cublas = Cublas()
        self._warm = order.settings.cache == "warm"
        self._flush = self._cublas.bytes(FLUSH_BYTES)
        self._word = driver.share(running.address, running.size_bytes)
        self._events: list[Any] = []
        self._random = random.Random(order.settings.seed)
        sm_count = driver.attribute(device, "MULTIPROCESSOR_COUNT")
        a_clock = SM_FACTS[order.target].fp16_flops_a_clock * sm_count
        self.peak_flops = a_clock * self._nvml.highest_sm_mhz() * 1e6
        self._group: Group
        self._seed = 0
        self._a: Any = None
        self._b: Any = None
        self._d: Any = None
        self._wanted: Any = None
        self._magnitude: Any = None
        self._kernels: dict[int, launch.Loaded] = {}
        self._parameters: dict[int, list[bytes]] = {}

    def conditions(self) -> Conditions:
        """Return how the GPU is now."""
        return self._nvml.conditions()

    def open(self, group: Group, seed: int) -> None:
        """Make inputs, and cuBLAS's D."""
        self._group, self._seed = group, seed
        self._kernels.clear()
        self._allocate()
        self._fill()
        self._refer()
        self._driver.wait(self._cublas.stream)

    def check(self, slot: int) -> str | None:
        """Load a kernel, run it once, and compare."""
        artifact = self._group.case(slot).artifact
        plan = decode_plan(self._folder.plan(artifact).read_bytes())
        cubin = self._folder.cubin(artifact).read_bytes()
        self._running.slot = slot
        self._kernels[slot] = launch.load(self._driver, cubin, plan)
        self._bind(slot)
        self._running.rest()
        return self._compared(slot)

    def check_again(self, slot: int) -> str | None:
        """Run a kernel once more, as it is loaded and placed, and compare."""
        return self._compared(slot)

    def place(self) -> None:
        """Allocate anew while the old buffers, and a spacer, still hold their places."""
        held = (self._a, self._b, self._d)
        spacer = self._cublas.bytes(self._random.randint(1, _MOST_SPACERS) * _SPACER_BYTES)
        self._wanted = self._magnitude = None
        self._allocate()
        self._fill()
        for slot in self._kernels:
            self._bind(slot)
        self._launch(CUBLAS)  # what torch and cuBLAS set up on first use is no part of a capture
        self._driver.wait(self._cublas.stream)
        del held, spacer
        self._cublas.give_back()

    def capture(self, rounds: Sequence[Sequence[int]]) -> "Rounds":
        """Capture the rounds into one graph."""
        stream, driver = self._cublas.stream, self._driver
        events = iter(self._events_for(2 * sum(map(len, rounds))))
        pairs: list[list[tuple[Any, Any]]] = []
        driver.begin_capture(stream)
        for slots in rounds:
            pairs.append([])
            for slot in slots:
                begin, end = next(events), next(events)
                driver.write_word(self._word, slot, stream)
                if self._warm:
                    self._launch(slot)
                else:
                    driver.fill(self._flush.data_ptr(), FLUSH_BYTES, stream)
                driver.record(begin, stream)
                self._launch(slot)
                driver.record(end, stream)
                pairs[-1].append((begin, end))
        graph = driver.end_capture(stream)
        return Rounds(driver, stream, graph, pairs, self._running)

    def close(self) -> None:
        """Give the buffers back."""
        self._a = self._b = self._d = self._wanted = self._magnitude = None
        self._cublas.give_back()

    def _compared(self, slot: int) -> str | None:
        """Run a kernel on inputs that no other kernel had and a poisoned D, and compare."""
        self._fill()
        if self._wanted is None:
            self._refer()
        self._cublas.poison(self._d)
        self._driver.wait(self._cublas.stream)
        self._running.slot = slot
        self._launch(slot)
        self._driver.wait(self._cublas.stream)
        self._running.rest()
        actual = self._d[: self._group.shape.m]
        return self._cublas.difference(actual, self._wanted, self._magnitude, self._group.shape.k)

    def _refer(self) -> None:
        """Have cuBLAS multiply the inputs: what a kernel's D is compared with."""
        a = self._a[: self._group.shape.m]
        self._wanted = self._cublas.matrix(self._group.shape.m, self._group.shape.n)
        self._cublas.multiply(a, self._b, self._wanted)
        self._magnitude = self._cublas.magnitude(a, self._b)

    def _allocate(self) -> None:
        shape, rows = self._group.shape, self._group.rows
        self._a = self._cublas.matrix(rows, shape.k)
        self._b = self._cublas.matrix(shape.n, shape.k)
        self._d = self._cublas.matrix(rows, shape.n)

    def _fill(self) -> None:
        shape = self._group.shape
        self._cublas.fill_normal(self._a, shape.m, self._seed)
        self._cublas.fill_normal(self._b, shape.n, self._seed + 1)

    def _bind(self, slot: int) -> None:
        """Make a kernel's parameters for the buffers as they lie now."""
        start = {"A": self._a.data_ptr(), "B": self._b.data_ptr(), "D": self._d.data_ptr()}
        self._parameters[slot] = launch.parameters_of(self._kernels[slot], start)

    def _launch(self, slot: int) -> None:
        """Put what is timed of a slot into the stream."""
        rows = self._group.shape.m
        if slot == CUBLAS:
            self._cublas.multiply(self._a[:rows], self._b, self._d[:rows])
        elif slot != NOTHING:
            kernel = self._kernels[slot]
            self._driver.launch(
                kernel.function, kernel.plan, self._parameters[slot], self._cublas.stream
            )

    def _events_for(self, count: int) -> list[Any]:
        self._events += [self._driver.event() for _ in range(count - len(self._events))]
        return self._events[:count]


class Rounds:
    """See `rungwatch.measure.device.Captured`."""

    def __init__(
        self,
        driver: Driver,
        stream: int,
        graph: Any,
        pairs: Sequence[Sequence[tuple[Any, Any]]],
        running: Running,
    ) -> None:
        self._driver, self._stream, self._graph = driver, stream, graph
        self._pairs, self._running = pairs, running

    def replay(self) -> list[list[float]]:
        """Launch the graph, wait for its end, and read the events."""
        self._driver.launch_graph(self._graph, self._stream)
        self._driver.wait(self._stream)
        self._running.rest()
        return [
            [self._driver.elapsed_ns(begin, end) for begin, end in pairs] for pairs in self._pairs
        ]

    def close(self) -> None:
        """Give the graph back."""
        self._driver.drop_graph(self._graph)
