"""The size limit of the simulator's cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rungwatch.backends.simulator.cache import (
    CacheLimitError,
    SimulatorCache,
    in_use,
    limit_bytes,
    prune,
)

KB = 1000


@pytest.fixture
def cache(tmp_path: Path) -> SimulatorCache:
    made = SimulatorCache(tmp_path / "simulator", "cpu")
    made.numsim.mkdir(parents=True)
    return made


def add(cache: SimulatorCache, name: str, used_s: float, size: int = 10 * KB) -> Path:
    folder = cache.numsim / name
    folder.mkdir(parents=True)
    (folder / "module.so").write_bytes(bytes(size))
    os.utime(folder, (used_s, used_s))
    return folder


def test_what_was_not_used_for_longest_goes_first(cache: SimulatorCache) -> None:
    old = add(cache, "artifacts/a", used_s=1000)
    middle = add(cache, "compile/entries/b", used_s=2000)
    new = add(cache, "artifacts/c", used_s=3000)
    assert prune(cache, 25 * KB, frozenset()) == 10 * KB
    assert (old.exists(), middle.exists(), new.exists()) == (False, True, True)
    assert prune(cache, 25 * KB, frozenset()) == 0


def test_an_engine_in_use_stays_and_an_old_one_goes_whole(cache: SimulatorCache) -> None:
    kept = add(cache, "cargo-target/kept", used_s=1000)
    old = add(cache, "cargo-target/old", used_s=1000)
    manifest = add(cache, "dependencies/old", used_s=1000, size=1)
    cache.ready.mkdir()
    stamp = cache.ready / "racecheck-0.old"
    stamp.touch()
    os.utime(stamp, (1500, 1500))
    prune(cache, 1, frozenset({"kept"}))
    assert kept.exists()
    assert not any(path.exists() for path in (old, manifest, stamp))


def test_leftovers_of_killed_workers_go_whatever_the_limit(cache: SimulatorCache) -> None:
    leftover = add(cache, "tmp/half-built", used_s=1000)
    assert prune(cache, 10**9, frozenset()) == 10 * KB
    assert not leftover.exists()


def test_nothing_is_deleted_while_another_process_uses_the_cache(cache: SimulatorCache) -> None:
    old = add(cache, "artifacts/a", used_s=1000)
    hold = (
        "import sys; from pathlib import Path\n"
        "from rungwatch.backends.simulator.cache import in_use\n"
        f"with in_use(Path({str(cache.lock)!r})):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", hold]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"held\n"
        assert prune(cache, 1, frozenset()) == 0
        assert old.exists()
        user.communicate()
    assert prune(cache, 1, frozenset()) == 10 * KB


def test_two_workers_can_use_the_cache_at_once(cache: SimulatorCache) -> None:
    with in_use(cache.lock), in_use(cache.lock):
        assert prune(cache, 1, frozenset()) == 0


def test_no_cache_is_no_error(tmp_path: Path) -> None:
    assert prune(SimulatorCache(tmp_path / "none", "cpu"), 1, frozenset()) == 0


def test_the_limit_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNGWATCH_CACHE_LIMIT_GB", raising=False)
    assert limit_bytes() == 10 * 10**9
    monkeypatch.setenv("RUNGWATCH_CACHE_LIMIT_GB", "0.5")
    assert limit_bytes() == 5 * 10**8


@pytest.mark.parametrize("text", ["", "ten", "0", "-1", "nan"])
def test_a_limit_that_is_no_size_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RUNGWATCH_CACHE_LIMIT_GB", text)
    with pytest.raises(CacheLimitError, match="RUNGWATCH_CACHE_LIMIT_GB"):
        limit_bytes()
