"""tox passes exit codes on, and the plugin in toxfile.py keeps a shared environment."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = """
[tox]
no_package = true
venv_redirect = false
env_list = one

[testenv]
env_dir = {work_dir}/common
commands = python -c "import sys; sys.exit(int(sys.argv[1]))" {posargs:0}

[testenv:two]
description = shares the folder

[testenv:apart]
env_dir = {work_dir}/apart
"""
Tox = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tox(tmp_path: Path) -> Tox:
    """Return a function that runs tox in a small project with this project's toxfile.py."""
    (tmp_path / "tox.ini").write_text(SETTINGS, encoding="utf-8")
    shutil.copy(ROOT / "toxfile.py", tmp_path)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOX")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tox", *arguments],
            cwd=tmp_path,
            env=kept | {"NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130])
def test_the_code_of_the_command_is_the_code_of_tox(tox: Tox, code: int) -> None:
    assert tox("run", "-e", "one", "--", str(code)).returncode == code


def test_a_shared_folder_is_kept_when_another_environment_uses_it(tox: Tox, tmp_path: Path) -> None:
    tox("run", "-e", "one")
    installed = tmp_path / ".tox" / "common" / "installed-by-hand"
    installed.touch()
    assert tox("run", "-e", "two", "--", "3").returncode == 3
    assert tox("run", "-e", "one").returncode == 0
    assert installed.exists()


def test_a_folder_of_its_own_is_made_anew_for_another_environment(tox: Tox, tmp_path: Path) -> None:
    tox("run", "-e", "apart")
    installed = tmp_path / ".tox" / "apart" / "installed-by-hand"
    installed.touch()
    settings = (tmp_path / "tox.ini").read_text(encoding="utf-8")
    (tmp_path / "tox.ini").write_text(
        f"{settings}\n[testenv:thief]\nenv_dir = {{work_dir}}/apart\n", encoding="utf-8"
    )
    done = tox("run", "-e", "thief")
    assert "recreate env" in done.stdout
    assert not installed.exists()
