"""Which compiler builds a revision: the one that its lock names, or a reason why not."""

import os
import stat
from pathlib import Path
from textwrap import dedent

import pytest

from rungwatch.artifact import toolchain as module
from rungwatch.artifact.toolchain import (
    COMPILERS,
    ToolchainError,
    installed,
    pins_in,
    toolchain_for,
    worker_environment,
)


def lock(**versions: str) -> bytes:
    pins = {**installed().versions, **{k.replace("_", "-"): v for k, v in versions.items()}}
    return "".join(f"{name}=={version}\n" for name, version in pins.items()).encode()


def test_everything_that_compiles_is_installed_and_known_by_version() -> None:
    assert set(installed().versions) == set(COMPILERS)
    assert (installed().cuda_home / "include" / "cuda_fp16.h").is_file()
    assert (installed().cuda_home / "include" / "cccl").is_dir()


def test_a_lock_that_names_what_is_installed_needs_no_environment(tmp_path: Path) -> None:
    assert toolchain_for(lock(), tmp_path, pytest.fail) == installed()
    assert toolchain_for(None, tmp_path, pytest.fail) == installed()
    assert list(tmp_path.iterdir()) == []


def test_pins_are_read_as_pip_reads_them() -> None:
    text = dedent(
        """
        # a comment
        --index-url https://example.org/simple
        Apache_TVM==1.2.post1  # another
        nvidia-cuda-nvrtc == 13.0.1
        nvidia-cuda-crt==1.0 \\
            --hash=sha256:abc \\
            --hash=sha256:def
        nvidia-cuda-cccl==9; python_version < "3"
        pytest>=3
        """
    )
    assert pins_in(text.encode()) == {
        "apache-tvm": "1.2.post1",
        "nvidia-cuda-nvrtc": "13.0.1",
        "nvidia-cuda-crt": "1.0",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("apache-tvm>=1", "one version"),
        ("apache-tvm", "one version"),
        ("apache-tvm==1.*", "one version"),
        ("apache-tvm===1", "one version"),
        ("apache-tvm[all]==1", "one version"),
        ("apache-tvm @ https://example.org/x.whl", "one version"),
        ("apache-tvm==1\napache_tvm==2", "twice"),
        ("-r other.txt", "no pin"),
        ("--requirement other.txt", "no pin"),
        ("apache-tvm==", "no pin"),
        ("<html>", "no pin"),
        ("pytest==9", "pins none"),
        ("", "pins none"),
    ],
)
def test_a_lock_that_leaves_the_compiler_open_is_refused(text: str, said: str) -> None:
    with pytest.raises(ToolchainError, match=said):
        pins_in(text.encode())
    with pytest.raises(ToolchainError, match="UTF-8"):
        pins_in(b"\xff\xfe")


def fake_uv(folder: Path, script: str) -> Path:
    path = folder / "uv"
    path.write_text("#!/bin/sh\n" + dedent(script))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


MAKES_A_VENV = """
echo "$@" >> "$(dirname "$0")/calls"
[ "$1" = venv ] && mkdir -p "$4/bin"
exit 0
"""


def test_another_compiler_is_installed_once_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = fake_uv(tmp_path, MAKES_A_VENV)
    monkeypatch.setattr(module, "_find_uv", lambda: str(uv))
    said: list[str] = []
    other = lock(nvidia_cuda_nvrtc="13.2.86")
    for _ in range(2):
        found = toolchain_for(other, tmp_path / "cache", said.append)
    assert said == ["installing the compiler that the revision names: nvidia-cuda-nvrtc 13.2.86"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 2
    assert "nvidia-cuda-nvrtc==13.2.86" in calls[1]
    assert f"apache-tvm=={installed().versions['apache-tvm']}" in calls[1]
    assert found.versions["nvidia-cuda-nvrtc"] == "13.2.86"
    assert found.python.is_relative_to(tmp_path / "cache")
    assert found.import_folder is not None
    assert (found.import_folder / "rungwatch" / "artifact" / "worker.py").is_file()
    environment = worker_environment(found, tmp_path)
    assert environment["PYTHONPATH"] == str(found.import_folder)


def test_a_compiler_that_cannot_be_had_says_why_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = "[ $1 = venv ] || { echo 'no version of apache-tvm==9.9' >&2; exit 1; }"
    monkeypatch.setattr(module, "_find_uv", lambda: str(fake_uv(tmp_path, failing)))
    for _ in range(2):
        with pytest.raises(ToolchainError, match=r"uv pip: .*no version of apache-tvm==9\.9"):
            toolchain_for(lock(apache_tvm="9.9"), tmp_path / "cache", lambda text: None)
    monkeypatch.setattr(module, "_find_uv", lambda: str(fake_uv(tmp_path, MAKES_A_VENV)))
    toolchain_for(lock(apache_tvm="9.9"), tmp_path / "cache", lambda text: None)


def test_a_worker_sees_nothing_of_the_callers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TVM_CUDA_NVRTC_EXTRA_OPTS", "TVM_CUDA_PTXAS_REG_LEVEL", "SECRET_TOKEN"):
        monkeypatch.setenv(name, "x")
    environment = worker_environment(installed(), tmp_path)
    assert not {"TVM_CUDA_NVRTC_EXTRA_OPTS", "SECRET_TOKEN"} & set(environment)
    assert environment["CUDA_PATH"] == str(installed().cuda_home)
    assert environment["HOME"] == str(tmp_path)
    assert os.environ["SECRET_TOKEN"] == "x"
