"""Engines are built once, known by stamps, and a failed build says why."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rungwatch.backends.job import SIMULATOR_TOOLS, Failure, JobFailure, Stage, Tool
from rungwatch.backends.simulator import engines as module
from rungwatch.backends.simulator.cache import SimulatorCache
from rungwatch.backends.simulator.engines import Engines
from rungwatch.backends.simulator.exchange import Answer
from rungwatch.backends.simulator.toolchain import BackendUnavailableError, Toolchain
from rungwatch.backends.supervise import Ended, Ending

TOOLCHAIN = Toolchain("/rust/cargo", "/rust/rustc", "/usr/bin/cc", "cargo 1.95.0", "rustc 1.95.0")
BUILT = Ended(Ending.EXITED, 0, 1.0, 0, (), {}, "")
ENGINE = "0123abcd"


class FakeLaunch:
    """Stands in for the worker: makes the files of an engine, or fails."""

    def __init__(self, ended: Ended = BUILT, answer: Answer | None = None) -> None:
        self.calls: list[Tool] = []
        self.ended = ended
        self.answer = answer if answer is not None else Answer(engine=ENGINE)

    def __call__(
        self,
        job: Any,
        inputs: Any,
        folder: Path,
        toolchain: Any,
        cache: SimulatorCache,
        *args: Any,
        **options: Any,
    ) -> tuple[Ended, Answer]:
        self.calls.append(job.tool)
        time.sleep(0.2)
        make_engine(cache)
        return self.ended, self.answer


def make_engine(cache: SimulatorCache) -> None:
    (cache.numsim / "cargo-target" / ENGINE / "release" / "deps").mkdir(parents=True, exist_ok=True)
    manifest = cache.numsim / "dependencies" / ENGINE / "manifest.json"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text("{}")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatorCache:
    monkeypatch.setattr(module, "find_toolchain", lambda: TOOLCHAIN)
    monkeypatch.setattr(module, "identity", lambda toolchain: "id")
    return SimulatorCache(tmp_path / "simulator", "cpu")


def use(monkeypatch: pytest.MonkeyPatch, launch: FakeLaunch) -> FakeLaunch:
    monkeypatch.setattr(module, "launch", launch)
    return launch


def test_an_engine_is_built_once_and_known_afterwards(
    cache: SimulatorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = use(monkeypatch, FakeLaunch())
    said: list[str] = []
    engines = Engines(cache, said.append)
    threads = [threading.Thread(target=engines.ensure, args=(Tool.RACECHECK,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Engines(cache, said.append).ensure(Tool.RACECHECK)
    assert launch.calls == [Tool.RACECHECK]
    assert ["racecheck" in line for line in said] == [True, True]
    assert not engines.ready(Tool.NUMERICS, TOOLCHAIN)


def test_all_engines_are_built(cache: SimulatorCache, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = use(monkeypatch, FakeLaunch())
    Engines(cache, lambda text: None).ensure_all()
    assert sorted(launch.calls) == sorted(SIMULATOR_TOOLS)


def test_a_stamp_without_its_engine_does_not_count(
    cache: SimulatorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = use(monkeypatch, FakeLaunch())
    engines = Engines(cache, lambda text: None)
    engines.ensure(Tool.NUMERICS)
    (cache.numsim / "dependencies" / ENGINE / "manifest.json").unlink()
    engines.ensure(Tool.NUMERICS)
    assert len(launch.calls) == 2


def test_asking_for_an_engine_marks_it_as_used(
    cache: SimulatorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, FakeLaunch())
    engines = Engines(cache, lambda text: None)
    engines.ensure(Tool.NUMERICS)
    (stamp,) = cache.ready.iterdir()
    os.utime(stamp, (1000, 1000))
    assert engines.ready(Tool.NUMERICS, TOOLCHAIN)
    assert stamp.stat().st_mtime > 1000


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (
            FakeLaunch(
                answer=Answer(failure=JobFailure(Failure.BACKEND_UNAVAILABLE, Stage.START, "why"))
            ),
            "why",
        ),
        (FakeLaunch(Ended(Ending.EXITED, -9, 1.0, 0, (), {}, "oh"), Answer()), "SIGKILL: oh"),
        (FakeLaunch(Ended(Ending.DEADLINE, -9, 7.0, 0, (), {}, ""), Answer()), "deadline"),
    ],
)
def test_a_build_that_fails_says_why_and_leaves_no_stamp(
    cache: SimulatorCache, monkeypatch: pytest.MonkeyPatch, launch: FakeLaunch, words: str
) -> None:
    use(monkeypatch, launch)
    engines = Engines(cache, lambda text: None)
    with pytest.raises(BackendUnavailableError, match=f"synccheck engine.*{words}"):
        engines.ensure(Tool.SYNCCHECK)
    assert not engines.ready(Tool.SYNCCHECK, TOOLCHAIN)
