"""The simulator itself, on kernels that take no time."""

from pathlib import Path

import numpy as np
import pytest

from rungwatch.backends.exchange import read_arrays
from rungwatch.backends.job import Failure, Job, JobResult, KernelSource, Tool
from rungwatch.backends.simulator.backend import SimulatorBackend
from rungwatch.trusted.buffers import extents, guard_breach, make, unwritten, view
from tests.backends.kernels import SHAPE, tiny, write

pytestmark = pytest.mark.sim

# One warp waits for a barrier of two, the other does not.
DEADLOCK = {
    "T.warp_id([1])": "T.warp_id([2])",
    "for column": "if warp == 0:\n            T.cuda.cta_sync()\n        for column",
}
# Both warps write all of D.
RACE = {"T.warp_id([1])": "T.warp_id([2])"}
OUT_OF_BOUNDS = {"D[row, column]": "D[row + 32, column]"}


def run(
    folder: Path, tool: Tool, changes: dict[str, str], *names: str, alone: bool = False
) -> JobResult:
    names = names or ("normal",)
    source = KernelSource("get_kernel", path=write(folder, tiny(changes)))
    work = folder / "job"
    work.mkdir()
    inputs = {name: make(SHAPE, "normal", seed) for seed, name in enumerate(names)}
    job = Job(tool, source, SHAPE, names)
    return SimulatorBackend().run(job, inputs, work, memory_limit_bytes=4 * 2**30, alone=alone)


@pytest.mark.parametrize("alone", [False, True])
def test_d_is_computed_and_nothing_else_is_touched(tmp_path: Path, alone: bool) -> None:
    result = run(tmp_path, Tool.NUMERICS, {}, "first", "second", alone=alone)
    assert result.failure is None
    assert result.self_contained
    for seed, name in enumerate(("first", "second")):
        before, after = make(SHAPE, "normal", seed), read_arrays(result.outputs[name])
        a, b, d = (view(after[part], *extent) for part, extent in extents(SHAPE).items())
        np.testing.assert_array_equal(d, a[:, :1] + b[:, 0])
        assert guard_breach(after) is None
        for part in ("A", "B"):
            np.testing.assert_array_equal(after[part], before[part])


def test_elements_that_are_never_written_keep_their_poison(tmp_path: Path) -> None:
    result = run(tmp_path, Tool.NUMERICS, {"T.serial(N)": "T.serial(N - 1)"})
    d = view(read_arrays(result.outputs["normal"])["D"], SHAPE.m, SHAPE.n)
    assert unwritten(d)[:, -1].all()
    assert not unwritten(d)[:, :-1].any()


def test_buffers_may_have_any_names(tmp_path: Path) -> None:
    names = {
        "A: T": "left: T",
        "B: T": "right: T",
        "D: T": "out: T",
        "D[row": "out[row",
        "A[row": "left[row",
        "B[column": "right[column",
    }
    result = run(tmp_path, Tool.NUMERICS, names)
    d = view(read_arrays(result.outputs["normal"])["D"], SHAPE.m, SHAPE.n)
    assert not unwritten(d).any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (DEADLOCK, ("deadlock", "warp 0 awaits bar.sync", "32/64")),
        (OUT_OF_BOUNDS, ("out-of-bounds access", "element 256")),
    ],
)
def test_a_run_that_cannot_end_is_an_execution_failure(
    tmp_path: Path, changes: dict[str, str], words: tuple[str, ...]
) -> None:
    result = run(tmp_path, Tool.NUMERICS, changes)
    assert result.failure is None
    failed = result.failed["normal"]
    assert failed.failure is Failure.EXECUTION
    assert all(word in failed.message for word in words)
    assert "NumSim" not in failed.message


@pytest.mark.parametrize("tool", [Tool.SYNCCHECK, Tool.RACECHECK])
def test_a_sound_kernel_is_clean(tmp_path: Path, tool: Tool) -> None:
    report = run(tmp_path, tool, {}).report
    assert report is not None
    assert (report.verdict, report.findings) == ("clean", ())


def test_synccheck_names_a_deadlock(tmp_path: Path) -> None:
    report = run(tmp_path, Tool.SYNCCHECK, DEADLOCK).report
    assert report is not None
    assert report.verdict == "error"
    assert report.findings[0].kind == "deadlock"
    assert (report.findings[0].source or "").startswith("fake.py:")


def test_racecheck_names_a_race_and_its_line(tmp_path: Path) -> None:
    report = run(tmp_path, Tool.RACECHECK, RACE).report
    assert report is not None
    assert report.verdict == "error"
    assert report.findings[0].source == "fake.py:14: D[row, column] = A[row, 0] + B[column, 0]"


def test_a_file_that_imports_a_local_one_is_not_self_contained(tmp_path: Path) -> None:
    write(tmp_path, "", name="helpers_of_mine.py")
    imports = f"import sys; sys.path.append({str(tmp_path)!r})\nimport helpers_of_mine\nimport tvm"
    result = run(tmp_path, Tool.NUMERICS, {"import tvm": imports})
    assert result.failure is None
    assert not result.self_contained
