"""Nothing that a worker claims is taken as it is."""

from pathlib import Path

import numpy as np
import pytest

from rungwatch.backends.exchange import JobFolder, write_arrays
from rungwatch.backends.job import (
    CheckerReport,
    Failure,
    Job,
    JobFailure,
    JobResult,
    KernelSource,
    Stage,
    Tool,
)
from rungwatch.backends.simulator.backend import default_deadline_s, result_of
from rungwatch.backends.simulator.exchange import Answer
from rungwatch.backends.supervise import Ended, Ending, Event, Limits
from rungwatch.declare.problem import Shape
from rungwatch.trusted.buffers import make

SHAPE = Shape(32, 8, 8, 1)
JOB = Job(Tool.NUMERICS, KernelSource("f", path="f.py"), SHAPE, ("normal", "other"))
LIMITS = Limits(60.0, 2**30)


def ended(ending: Ending = Ending.EXITED, exit_code: int = 0) -> Ended:
    events = (Event("start", 0.0), Event("run", 1.0, "normal"))
    return Ended(ending, exit_code, 3.0, 2**31, events, {"start": 1.0, "run": 2.0}, "last words")


def result(folder: Path, how: Ended, answer: Answer | None) -> JobResult:
    return result_of(JOB, JobFolder(folder), LIMITS, how, answer)


def test_sound_outputs_are_passed_on(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    for name in JOB.inputs:
        write_arrays(folder.output(name), make(SHAPE, "normal", 0))
    got = result(tmp_path, ended(), Answer(outputs=JOB.inputs, self_contained=True))
    assert got.outputs == {name: folder.output(name) for name in JOB.inputs}
    assert got.failure is None
    assert got.self_contained
    assert got.seconds == {Stage.START: 1.0, Stage.RUN: 2.0}


@pytest.mark.parametrize("flaw", ["absent", "no npz", "empty", "missing array", "short", "float"])
def test_a_claimed_output_that_is_unsound_does_not_count(tmp_path: Path, flaw: str) -> None:
    folder = JobFolder(tmp_path)
    arrays = make(SHAPE, "normal", 0)
    match flaw:
        case "missing array":
            del arrays["D"]
        case "short":
            arrays["D"] = arrays["D"][:-1]
        case "float":
            arrays["D"] = arrays["D"].astype(np.float32)  # type: ignore[assignment]
    write_arrays(folder.output("normal"), make(SHAPE, "normal", 0))
    write_arrays(folder.output("other"), arrays)
    if flaw == "absent":
        folder.output("other").unlink()
    if flaw == "no npz":
        folder.output("other").write_bytes(b"PK\x03\x04 not really")
    if flaw == "empty":
        folder.output("other").write_bytes(b"")
    got = result(tmp_path, ended(), Answer(outputs=JOB.inputs))
    assert list(got.outputs) == ["normal"]


def test_an_output_that_nobody_asked_for_does_not_count(tmp_path: Path) -> None:
    write_arrays(JobFolder(tmp_path).output("more"), make(SHAPE, "normal", 0))
    assert not result(tmp_path, ended(), Answer(outputs=("more",))).outputs


@pytest.mark.parametrize(
    ("how", "failure", "words"),
    [
        (
            ended(Ending.DEADLINE, -9),
            Failure.DEADLINE,
            "ended from outside after 3 s, in stage run of normal",
        ),
        (ended(Ending.MEMORY, -9), Failure.MEMORY_LIMIT, "2.0 GiB of memory, more than the 1.0"),
        (ended(exit_code=-11), Failure.WORKER_DIED, "signal SIGSEGV: last words"),
        (ended(exit_code=1), Failure.WORKER_DIED, "exit code 1: last words"),
        (ended(Ending.CANCELLED, -9), Failure.WORKER_DIED, "cancelled"),
    ],
)
def test_how_a_worker_ended_outranks_what_it_said(
    tmp_path: Path, how: Ended, failure: Failure, words: str
) -> None:
    report = CheckerReport("clean", ())
    for answer in (None, Answer(report=report)):
        got = result(tmp_path, how, answer)
        assert got.failure is not None
        assert got.failure.failure is failure
        assert got.failure.stage is Stage.RUN
        assert words in got.failure.message


def test_a_worker_that_says_nothing_died(tmp_path: Path) -> None:
    got = result(tmp_path, ended(), None)
    assert got.failure is not None
    assert got.failure.failure is Failure.WORKER_DIED


def test_a_failure_of_the_job_is_passed_on(tmp_path: Path) -> None:
    failure = JobFailure(Failure.KERNEL_LOAD, Stage.LOAD, "f.py:1: SyntaxError")
    assert result(tmp_path, ended(), Answer(failure=failure)).failure == failure


def test_a_deadline_grows_with_the_work() -> None:
    def job(shape: Shape, *inputs: str) -> Job:
        return Job(Tool.NUMERICS, JOB.source, shape, inputs)

    small = default_deadline_s(job(Shape(128, 128, 64, 1), "a"))
    large = default_deadline_s(job(Shape(2048, 2048, 512, 4), "a"))
    assert 300 <= small < 310
    # 15 s of run time were measured for this one.
    assert 300 + 10 * 15 < large < 3600
    assert default_deadline_s(job(Shape(2048, 2048, 512, 4), "a", "b")) > large
