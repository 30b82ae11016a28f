"""What is said where something is missing, and what a worker sees of the environment."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rungwatch.backends.job import Tool
from rungwatch.backends.simulator import toolchain
from rungwatch.backends.simulator.toolchain import (
    BackendUnavailableError,
    Toolchain,
    find_toolchain,
    worker_environment,
)

find: Callable[[], Toolchain] = find_toolchain.__wrapped__
SOME = Toolchain("/rust/bin/cargo", "/rust/bin/rustc", "/usr/bin/cc", "cargo 1.95.0", "rustc 1.95")


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], str]:
    def make(name: str, script: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture(autouse=True)
def rust(monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], str]) -> None:
    """A toolchain that has everything; the tests take parts of it away."""
    monkeypatch.setenv("NUMSIM_CARGO", program("cargo", "echo 'cargo 1.95.0 (f2d3ce0bd)'"))
    monkeypatch.setenv("NUMSIM_RUSTC", program("rustc", "echo 'rustc 1.95.0 (abc)'"))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(
        toolchain.shutil,
        "which",
        lambda name: name if Path(name).exists() else ("/usr/bin/cc" if name == "cc" else None),
    )


def test_a_whole_toolchain_is_found() -> None:
    found = find()
    assert found.cargo_version == "cargo 1.95.0 (f2d3ce0bd)"


@pytest.mark.parametrize("version", ["cargo 1.88.0 (abc 2025-05-01)", "cargo 0.99.0", "nonsense"])
def test_an_old_cargo_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], str], version: str
) -> None:
    monkeypatch.setenv("NUMSIM_CARGO", program("cargo", f"echo '{version}'"))
    with pytest.raises(BackendUnavailableError, match=r"too old, 1\.89 is needed.*rustup"):
        find()


def test_everything_that_is_missing_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMSIM_CARGO", "/nowhere/cargo")
    monkeypatch.setenv("NUMSIM_RUSTC", "/nowhere/rustc")
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None)
    monkeypatch.setattr(toolchain.sys, "version_info", (3, 11, 2))
    with pytest.raises(BackendUnavailableError) as caught:
        find()
    lines = str(caught.value).splitlines()
    wanted = ("Python 3.12", "rungwatch[sim]", "cargo was not found", "rustc was not found", "gcc")
    assert len(lines) == len(wanted)
    assert all(any(want in line for line in lines) for want in wanted)


def test_a_cargo_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], str]
) -> None:
    script = "echo 'error: no default toolchain' >&2; exit 1"
    monkeypatch.setenv("NUMSIM_CARGO", program("cargo", script))
    with pytest.raises(BackendUnavailableError, match="no default toolchain"):
        find()


def test_a_cargo_that_hangs_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], str]
) -> None:
    monkeypatch.setattr(toolchain, "_COMMAND_DEADLINE_S", 0.3)
    monkeypatch.setenv("NUMSIM_CARGO", program("cargo", "exec sleep 60"))
    with pytest.raises(BackendUnavailableError, match="cargo does not run"):
        find()


def test_a_worker_sees_no_secret_and_no_activated_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI_TOKEN", "secret")
    monkeypatch.setenv("CFLAGS", "-O0")
    monkeypatch.setenv("PATH", "/somewhere/venv/bin:/usr/bin")
    environment = worker_environment(Tool.SYNCCHECK, SOME, tmp_path / "cache", tmp_path / "tmp")
    assert "secret" not in environment.values()
    assert "CFLAGS" not in environment
    assert environment["PATH"] == "/rust/bin:/usr/bin:/usr/local/bin:/bin"
    assert environment["NUMSIM_CACHE_DIR"] == str(tmp_path / "cache")


def test_engines_are_known_by_their_toolchain() -> None:
    other = Toolchain(SOME.cargo, SOME.rustc, SOME.linker, SOME.cargo_version, "rustc 1.96")
    assert toolchain.identity(SOME) == toolchain.identity(SOME)
    assert toolchain.identity(SOME) != toolchain.identity(other)
