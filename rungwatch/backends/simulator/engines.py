"""Build the simulator's engines: minutes, once a user and toolchain, before any kernel runs.

Each tool has an engine of its own, a Rust library that cargo builds on first use. The build runs
in a worker on a kernel that does almost nothing. The simulator's own file locks make a second
process wait for the first; a build that is killed leaves cargo's folder, which the next resumes.
"""

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rungwatch.backends.job import (
    SIMULATOR_TOOLS,
    BackendUnavailableError,
    Job,
    KernelSource,
    Tool,
)
from rungwatch.backends.simulator.cache import SimulatorCache, limit_bytes, prune
from rungwatch.backends.simulator.launch import launch
from rungwatch.backends.simulator.toolchain import (
    Toolchain,
    find_toolchain,
    identity,
)
from rungwatch.backends.supervise import Ending, Limits
from rungwatch.declare.problem import Shape
from rungwatch.trusted.buffers import make

# Measured on two cores, each alone.
TYPICAL_BUILD_S = {Tool.NUMERICS: 85, Tool.SYNCCHECK: 100, Tool.RACECHECK: 125}
_LIMITS = Limits(deadline_s=1800.0, memory_bytes=8 * 1024**3)
_SHAPE = Shape(32, 8, 8, 1)
_KERNEL = Path(__file__).with_name("engine_kernel.py")


class Engines:
    """The engines in one cache. Safe to use from several threads and several processes."""

    def __init__(self, cache: SimulatorCache, say: Callable[[str], None]) -> None:
        self._cache = cache
        self._say = say
        self._locks = {tool: threading.Lock() for tool in SIMULATOR_TOOLS}
        self._pruning = threading.Lock()
        self._pruned = False

    def ready(self, tool: Tool, toolchain: Toolchain) -> bool:
        """Say whether the engine of `tool` is built for `toolchain`; marks it as used now."""
        return self._name(tool, toolchain) is not None

    def ensure(self, tool: Tool, cancel: threading.Event | None = None) -> Toolchain:
        """Build the engine of `tool` unless it is there; return the toolchain it is built with.

        Raises:
            BackendUnavailableError: something is missing, or the build failed.
        """
        toolchain = find_toolchain()
        self._require_writable()
        self._prune_once(toolchain)
        with self._locks[tool]:
            if not self.ready(tool, toolchain):
                self._build(tool, toolchain, cancel)
        return toolchain

    def _require_writable(self) -> None:
        root = self._cache.root
        try:
            root.mkdir(parents=True, exist_ok=True)
            writable = os.access(root, os.W_OK)
        except OSError:
            writable = False
        if not writable:
            raise BackendUnavailableError(
                f"the cache folder {root} can't be written: set RUNGWATCH_CACHE_DIR to one that can"
            )

    def ensure_all(self, tools: Iterable[Tool] = SIMULATOR_TOOLS) -> None:
        """Build the engines of `tools`, two at a time: cargo alone leaves a core idle.

        Raises:
            BackendUnavailableError: something is missing, or a build failed.
        """
        cancel = threading.Event()
        with ThreadPoolExecutor(2) as pool:
            try:
                list(pool.map(lambda tool: self.ensure(tool, cancel), tools))
            except BaseException:
                cancel.set()
                raise

    def _build(self, tool: Tool, toolchain: Toolchain, cancel: threading.Event | None) -> None:
        self._say(
            f"building the simulator's {tool} engine, once for this user:"
            f" about {TYPICAL_BUILD_S[tool]} s on two free cores"
        )
        begun = time.monotonic()
        job = Job(tool, KernelSource("get_kernel", path=str(_KERNEL)), _SHAPE, ("engine",))
        with tempfile.TemporaryDirectory(prefix="rungwatch-engine-") as folder:
            ended, answer = launch(
                job,
                {"engine": make(_SHAPE, "normal", 0)},
                Path(folder),
                toolchain,
                self._cache,
                _LIMITS,
                threads=1,
                cancel=cancel,
            )
        if not ended.ok or answer is None or answer.failure or not answer.engine:
            if answer is not None and answer.failure is not None:
                why = answer.failure.message
            elif ended.ending is Ending.EXITED:
                why = f"the worker died, {ended.describe()}"
            else:
                why = f"ended from outside ({ended.ending}) after {ended.seconds:.0f} s"
            raise BackendUnavailableError(
                f"the {tool} engine could not be built (it needs cargo's crates registry): {why}"
            )
        self._cache.ready.mkdir(parents=True, exist_ok=True)
        self._stamp(tool, toolchain, answer.engine).touch()
        self._say(f"{tool} engine built in {time.monotonic() - begun:.0f} s")

    def _stamp(self, tool: Tool, toolchain: Toolchain, engine: str) -> Path:
        return self._cache.ready / f"{tool}-{identity(toolchain)}.{engine}"

    def _name(self, tool: Tool, toolchain: Toolchain) -> str | None:
        """Return the name of a built engine; a stamp whose engine was deleted does not count."""
        for stamp in self._cache.ready.glob(f"{tool}-{identity(toolchain)}.*"):
            engine = stamp.suffix.removeprefix(".")
            numsim = self._cache.numsim
            if (numsim / "dependencies" / engine / "manifest.json").is_file() and (
                numsim / "cargo-target" / engine / "release" / "deps"
            ).is_dir():
                with contextlib.suppress(OSError):  # a cache that can only be read still serves
                    stamp.touch()
                return engine
        return None

    def _prune_once(self, toolchain: Toolchain) -> None:
        with self._pruning:
            if not self._pruned:
                used = frozenset(
                    name
                    for tool in SIMULATOR_TOOLS
                    if (name := self._name(tool, toolchain)) is not None
                )
                prune(self._cache, limit_bytes(), used)
                self._pruned = True
