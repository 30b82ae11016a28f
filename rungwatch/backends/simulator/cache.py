"""The simulator's files below the cache folder, and how they are kept below a size.

    <cache>/simulator/in-use.lock        shared by workers, exclusive while pruning
    <cache>/simulator/<cpu>/ready/       one stamp for each engine that is built
    <cache>/simulator/<cpu>/numsim/      the simulator's own: engines, compiled kernels

Pruning needs the lock alone and gives up at once where a worker holds it, so that nothing is
ever deleted under a running worker, of this process or of another.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rungwatch.backends.simulator.toolchain import cpu_tag

LIMIT_VARIABLE = "RUNGWATCH_CACHE_LIMIT_GB"
DEFAULT_LIMIT_GB = 10.0
_GB = 10**9


class CacheLimitError(ValueError):
    """The environment variable for the limit holds no number above zero."""


@dataclass(frozen=True)
class SimulatorCache:
    """The folders of one user's simulator cache, on a machine of one instruction set."""

    root: Path
    tag: str

    @property
    def numsim(self) -> Path:
        """What the simulator manages itself."""
        return self.root / self.tag / "numsim"

    @property
    def ready(self) -> Path:
        """Stamps of engines that are built."""
        return self.root / self.tag / "ready"

    @property
    def lock(self) -> Path:
        """The lock that workers share and that pruning needs alone."""
        return self.root / "in-use.lock"


def simulator_cache(cache_dir: Path) -> SimulatorCache:
    """Return the simulator's part of the cache folder `cache_dir`."""
    return SimulatorCache(cache_dir / "simulator", cpu_tag())


def limit_bytes() -> int:
    """Return the size limit that the environment asks for.

    Raises:
        CacheLimitError: it is not a number above zero.
    """
    text = os.environ.get(LIMIT_VARIABLE, str(DEFAULT_LIMIT_GB))
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise CacheLimitError(f"{LIMIT_VARIABLE} is '{text}': give a number of gigabytes above 0")
    return int(limit * _GB)


@contextlib.contextmanager
def in_use(lock: Path) -> Iterator[None]:
    """Keep pruning away while a worker uses the cache; waits for a pruning that is going on."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@dataclass(frozen=True)
class _Entry:
    """Something that can be deleted as a whole: a compiled kernel, or an engine."""

    paths: tuple[Path, ...]
    used_s: float
    size_bytes: int


def prune(cache: SimulatorCache, limit: int, keep_engines: frozenset[str]) -> int:
    """Delete what was not used for longest until the cache is within `limit` bytes.

    `keep_engines` names engines that stay whatever their age. Returns the bytes freed: 0 where
    the cache is small enough, or in use.
    """
    if not cache.root.is_dir():
        return 0
    with cache.lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        freed = 0
        for pattern in ("*/numsim/tmp/*", "*/numsim/compile/tmp/*"):
            freed += sum(map(_delete, cache.root.glob(pattern)))  # of workers that were killed
        entries = [*_kernels(cache.root), *_engines(cache.root)]
        total = sum(entry.size_bytes for entry in entries)
        for entry in sorted(entries, key=lambda entry: entry.used_s):
            if total <= limit:
                break
            if entry.paths[0].name not in keep_engines:
                total -= entry.size_bytes
                freed += sum(map(_delete, entry.paths))
        return freed


def _kernels(root: Path) -> Iterator[_Entry]:
    for pattern in ("*/numsim/artifacts/*", "*/numsim/compile/entries/*"):
        for folder in root.glob(pattern):
            yield _Entry((folder,), folder.stat().st_mtime, size_bytes(folder))


def _engines(root: Path) -> Iterator[_Entry]:
    for target in root.glob("*/numsim/cargo-target/*"):
        manifest = target.parents[1] / "dependencies" / target.name
        stamps = list(target.parents[2].glob(f"ready/*.{target.name}"))
        used = max(path.stat().st_mtime for path in (target, *stamps))
        yield _Entry((target, manifest, *stamps), used, size_bytes(target))


def size_bytes(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    if path.is_dir() and not path.is_symlink():
        return sum(size_bytes(child) for child in path.iterdir())
    return path.lstat().st_size


def _delete(path: Path) -> int:
    if not path.exists():
        return 0
    size = size_bytes(path)
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return size
