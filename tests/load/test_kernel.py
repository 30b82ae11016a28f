"""What a worker loads: exactly the bytes that were hashed, and it notices what lies outside them.

Each load runs in a process of its own: an audit hook can't be taken off again.
"""

import hashlib
import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rungwatch.backends.job import KernelSource

from ..backends.kernels import SHAPE, tiny

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tvm") is None, reason="needs the extra `sim`"
)

LOAD = """
import sys, msgspec
from rungwatch.backends.job import KernelSource
from rungwatch.load.failures import JobError
from rungwatch.load.kernel import build_kernel
from rungwatch.declare.problem import Shape
source = msgspec.json.decode(sys.argv[1], type=KernelSource)
try:
    kernel = build_kernel(source, Shape({m}, {n}, {k}, 1), lambda stage: None)
    print("self-contained" if kernel.self_contained else "more than its file")
except JobError as error:
    print(error.failure.failure, error.failure.message)
"""


def load(folder: Path, source: KernelSource) -> str:
    code = LOAD.format(m=SHAPE.m, n=SHAPE.n, k=SHAPE.k)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    finished = subprocess.run(
        [sys.executable, "-c", code, msgspec.json.encode(source).decode()],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return finished.stdout.strip()


def kernel(folder: Path, code: str) -> Path:
    path = folder / "kernel.py"
    path.write_text(code)
    return path


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("", "self-contained"),
        ("import json, decimal", "self-contained"),
        ("from pathlib import Path; Path(__file__).read_text()", "self-contained"),
        ("(__import__('pathlib').Path(__file__).parent / 'data.txt').read_text()", "more"),
        ("import runpy; runpy.run_path(__file__[:-9] + 'helper.py')", "more"),
        ("import pytest", "more"),
        ("import subprocess; subprocess.run(['true'])", "more"),
    ],
)
def test_what_a_kernel_depends_on_is_noticed(tmp_path: Path, extra: str, expected: str) -> None:
    (tmp_path / "data.txt").write_text("1")
    (tmp_path / "helper.py").write_text("x = 1\n")
    path = kernel(tmp_path, f"{extra}\n{tiny()}")
    assert load(tmp_path, KernelSource("get_kernel", path=str(path))).startswith(expected)


def test_reading_in_the_factory_counts_too(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("1")
    code = tiny(
        {"    @T.prim_func": "    open(__file__[:-9] + 'data.txt').read()\n    @T.prim_func"}
    )
    path = kernel(tmp_path, code)
    assert load(tmp_path, KernelSource("get_kernel", path=str(path))).startswith("more")


def test_a_file_that_was_edited_meanwhile_is_refused(tmp_path: Path) -> None:
    path = kernel(tmp_path, tiny())
    source = KernelSource(
        "get_kernel", path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest()
    )
    assert load(tmp_path, source) == "self-contained"
    path.write_text(tiny() + "# edited\n")
    assert load(tmp_path, source) == "kernel-load kernel.py changed during the run"


def test_a_stale_pyc_takes_no_part(tmp_path: Path) -> None:
    path = kernel(tmp_path, tiny() + "FLAG = 1\nassert FLAG == 1, FLAG\n")
    stat = path.stat()
    py_compile.compile(str(path))
    path.write_text(tiny() + "FLAG = 2\nassert FLAG == 1, FLAG\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert "AssertionError: 2" in load(tmp_path, KernelSource("get_kernel", path=str(path)))
