"""What is in the wheel: the tool and its schema, never a kernel."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the names of the files in the wheel, less its metadata."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return [name for name in archive.namelist() if ".dist-info/" not in name]


def test_it_holds_the_tool_and_nothing_else(wheel: list[str]) -> None:
    assert {name.partition("/")[0] for name in wheel} == {"rungwatch"}


def test_it_holds_every_module(wheel: list[str]) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "rungwatch").rglob("*.py")}
    assert modules <= set(wheel)
