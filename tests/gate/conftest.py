"""A project whose kernels are really compiled, and a simulator that is not really run."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rungwatch.__main__ import main
from rungwatch.record.model import Record, Row, decode
from rungwatch.trusted import matrix

from ..fakes import FakeBackend
from ..projects import Project

type Run = Callable[..., int]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all tests share, so that each version of a kernel is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """What stands for the simulator: every kernel is right unless a test says otherwise."""
    fake = FakeBackend()
    monkeypatch.setattr("rungwatch.cli.gate.SimulatorBackend", lambda say: fake)
    return fake


@pytest.fixture
def project(tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project that guards step 3, as the current directory."""
    made = Project.make(tmp_path / "project", "step3")
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(built))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("RUNGWATCH_KERNELS", raising=False)
    monkeypatch.setattr(matrix, "COMPARED_SIZES", (512,))
    return made


@dataclass
class Gate:
    """Runs commands, and holds what the last one wrote."""

    root: Path

    def __call__(self, *words: str) -> int:
        """Run `rungwatch` with these words."""
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert isinstance(ended.value.code, int)
        return int(ended.value.code)

    def gate(self, *words: str) -> int:
        """Run the gate from `main` to the work tree, without the cache of verdicts."""
        return self("gate", "--base", "main", "--no-cache", "--json", "gate.json", *words)

    @property
    def record(self) -> Record:
        """The record of the last gate."""
        return decode((self.root / "gate.json").read_bytes())

    def rows(self, check: str) -> list[Row]:
        """The rows of one check in it."""
        return [row for row in self.record.rows if row.check == check]

    def reasons(self) -> set[str]:
        """The reasons of all rows in it."""
        return {row["reason"] for row in json.loads((self.root / "gate.json").read_text())["rows"]}


@pytest.fixture
def rungwatch(project: Project) -> Gate:
    """What runs commands in the project."""
    return Gate(project.root)
