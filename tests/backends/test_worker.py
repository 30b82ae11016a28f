"""What the worker says of kernel files that cannot be used. Needs tvm, but no engine."""

import importlib.util
from pathlib import Path

import pytest

from rungwatch.backends.exchange import JobFolder
from rungwatch.backends.job import Failure, Job, JobFailure, JobResult, KernelSource, Stage, Tool
from rungwatch.backends.simulator.backend import result_of
from rungwatch.backends.simulator.cache import SimulatorCache
from rungwatch.backends.simulator.launch import launch
from rungwatch.backends.simulator.toolchain import Toolchain
from rungwatch.backends.supervise import Limits
from rungwatch.trusted.buffers import make
from tests.backends.kernels import SHAPE, tiny, write

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tirx_harness") is None, reason="needs the extra `sim`"
)

LIMITS = Limits(deadline_s=120.0, memory_bytes=4 * 1024**3)
NO_RUST = Toolchain("/nowhere/cargo", "/nowhere/rustc", "/nowhere/cc", "", "")


def run(folder: Path, source: KernelSource, toolchain: Toolchain) -> JobResult:
    job = Job(Tool.NUMERICS, source, SHAPE, ("normal",))
    work = folder / "job"
    work.mkdir()
    cache = SimulatorCache(folder / "cache", "cpu")
    inputs = {"normal": make(SHAPE, "normal", 0)}
    ended, answer = launch(job, inputs, work, toolchain, cache, LIMITS, threads=1)
    return result_of(job, JobFolder(work), LIMITS, ended, answer)


def failure_of(
    folder: Path, code: str, factory: str = "get_kernel", toolchain: Toolchain = NO_RUST
) -> JobFailure:
    failure = run(folder, KernelSource(factory, path=write(folder, code)), toolchain).failure
    assert failure is not None
    assert str(folder) not in failure.message
    return failure


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def get_kernel(:", "fake.py:1: SyntaxError: invalid syntax"),
        ("x = 1\nraise ValueError('no luck')", "fake.py:2: ValueError: no luck"),
        ("import sys\nsys.exit(0)", "fake.py:2: SystemExit: 0"),
        ("raise KeyboardInterrupt", "fake.py:1: KeyboardInterrupt"),
        ("import json.nothing", "fake.py:1: ModuleNotFoundError: No module named 'json.nothing'"),
    ],
)
def test_a_file_that_does_not_load(tmp_path: Path, code: str, message: str) -> None:
    failure = failure_of(tmp_path, code)
    assert (failure.failure, failure.stage) == (Failure.KERNEL_LOAD, Stage.LOAD)
    assert failure.message.startswith(message)


def test_a_package_that_is_not_installed_is_named(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "import no_such_package_here.sub")
    assert failure.failure is Failure.MISSING_DEPENDENCY
    assert "'no_such_package_here'" in failure.message


def test_a_neighbour_is_no_missing_package(tmp_path: Path) -> None:
    write(tmp_path, "", name="helpers_of_mine.py")
    failure = failure_of(tmp_path, "import helpers_of_mine")
    assert failure.failure is Failure.KERNEL_LOAD


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "there is no function 'get_kernel'"),
        ("def get_kernel(): ...", "does not take (M, N, K)"),
        ("def get_kernel(M, N, K): ...", "gave a NoneType, not one PrimFunc"),
        (tiny({'B: T.Buffer((N, K), "float16"),': 'B: T.Buffer((N, K), "float32"),'}),
         "'B' is float32 (8, 8), B must be float16 (8, 8)"),
        (tiny({"A: T.Buffer((M, K)": "A: T.Buffer((K, M)"}), "'A' is float16 (8, 32)"),
        (tiny({'B: T.Buffer((N, K), "float16"),': "", "B[column, 0]": "A[row, 1]"}),
         "takes (A, D), not the three buffers"),
        ("KERNEL_META = {}\nCONFIGS = []\ndef get_kernel(shape): ...", "CONFIGS has no fp16 entry"),
    ],
)  # fmt: skip
def test_a_file_that_follows_no_protocol(tmp_path: Path, code: str, message: str) -> None:
    failure = failure_of(tmp_path, code)
    assert failure.failure is Failure.PROTOCOL
    assert message in failure.message


def test_a_factory_that_refuses(tmp_path: Path) -> None:
    code = "def get_kernel(M, N, K):\n    raise ValueError(f'{M} is odd')"
    failure = failure_of(tmp_path, code)
    assert (failure.failure, failure.stage) == (Failure.KERNEL_BUILD, Stage.BUILD)
    assert failure.message == "fake.py:2: ValueError: 32 is odd"


def test_a_tvmscript_error_shows_its_line(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, tiny({"A[row, 0]": "nonsense"}))
    assert failure.failure is Failure.KERNEL_BUILD
    where, source = failure.message.splitlines()
    assert where == "fake.py:14: Undefined variable: nonsense"
    assert source.strip() == "D[row, column] = nonsense + B[column, 0]"


@pytest.mark.parametrize(
    "factory",
    [
        "def make(M, N, K): return get_kernel(M, N, K)",
        "def make(M, N, K, sm_count): return get_kernel(M, N, K + 0 * sm_count)",
        "def make(M, N, K, debug=False, *, sm_count=148): return get_kernel(M, N, sm_count * K)",
        "def make(m, n, k, sms): return get_kernel(m, n, sms * k)",
    ],
)
def test_a_factory_is_called_as_its_signature_says(tmp_path: Path, factory: str) -> None:
    # The shape has one SM, so that multiplying by the SM count changes nothing; what fails is
    # only the compiler, which is not there.
    failure = failure_of(tmp_path, f"{tiny()}\n{factory}", factory="make")
    assert failure.stage is Stage.TRANSPILE


def test_the_entry_of_a_foreign_protocol_is_used(tmp_path: Path) -> None:
    code = tiny({"def get_kernel(M, N, K):": "def build(M, N, K):"}) + (
        "\nKERNEL_META = {'name': 'x'}\n"
        "CONFIGS = [\n"
        "    {'dtype': 'bf16', 'M': 32, 'N': 8, 'K': 8, 'knob': 1, 'label': 'a'},\n"
        "    {'dtype': 'fp16', 'M': 32, 'N': 8, 'K': 8, 'knob': 2, 'label': 'b'},\n"
        "]\n"
        "def get_kernel(dtype, M, N, K, knob):\n"
        "    raise RuntimeError(f'{dtype} {M} {N} {K} {knob}')\n"
    )
    assert failure_of(tmp_path, code).message.endswith("RuntimeError: fp16 32 8 8 2")


def test_without_compiler_the_backend_is_to_blame(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, tiny())
    assert failure.failure is Failure.BACKEND_UNAVAILABLE


def test_a_module_is_found_by_name(tmp_path: Path) -> None:
    result = run(tmp_path, KernelSource("get_kernel", module="no_such_package_here.gemm"), NO_RUST)
    assert result.failure is not None
    assert result.failure.failure is Failure.MISSING_DEPENDENCY


def test_a_process_that_exits_in_the_kernel_file_is_reported(tmp_path: Path) -> None:
    failure = failure_of(
        tmp_path, "import os\nprint('bye', file=__import__('sys').stderr, flush=True)\nos._exit(3)"
    )
    assert failure.failure is Failure.WORKER_DIED
    assert failure.stage is Stage.LOAD
    assert "exit code 3: bye" in failure.message


def test_an_operation_that_is_not_modelled_names_its_line(tmp_path: Path) -> None:
    # The compiler is needed for nothing here, but its versions are asked for first.
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nprintf 'rustc 1.95.0\\nhost: x86_64-unknown-linux-gnu\\n'\n")
    program.chmod(0o755)
    toolchain = Toolchain(str(program), str(program), "/nowhere/cc", "", "")
    code = tiny({"for column": "T.ptx.wgmma.fence.sync.aligned()\n        for column"})
    failure = failure_of(tmp_path, code, toolchain=toolchain)
    assert (failure.failure, failure.stage) == (Failure.UNMODELLED, Stage.TRANSPILE)
    assert failure.message.startswith("fake.py:13: T.ptx.wgmma.fence.sync.aligned(): ")
    assert "WGMMA is not supported" in failure.message
