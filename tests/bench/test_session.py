"""From cases to rows: every case has one, whatever the workers say."""

from dataclasses import replace

import pytest

from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.backends.job import BackendUnavailableError, Failure, JobFailure, KernelSource, Stage
from rungwatch.bench.noise import AGAIN
from rungwatch.bench.plan import BenchCase
from rungwatch.bench.rows import Rerun
from rungwatch.bench.session import time_all
from rungwatch.decide.timing import judge_timing
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.measure.session import Measured

from ..backends.cuda.conftest import PLAN, SHAPE, SOURCE, artifacts
from ..fakes import make_subject
from .samples import timing

RERUN = Rerun("artifacts", "warm")
H200 = DeviceFacts("NVIDIA H200", (9, 0), 132, 2**37, 2**37, (13, 0), "580.1")
HANG = JobFailure(Failure.EXECUTION, Stage.RUN, "did not end")


def case(name):
    subject = replace(make_subject(name), source=SOURCE)
    return BenchCase(subject, "sm_90a", SHAPE, SHAPE)


class Measure:
    """Answers for the workers, and notes what it was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def __call__(self, cases, folder):
        self.asked += cases
        return [self.answer(case) for case in cases]


def timed(case):
    return Measured(case, timing(9.0, 9.2, launched=SHAPE), None)


@pytest.fixture
def device(tmp_path):
    plans = {f"family/{name}": PLAN for name in ("one", "two")}
    return CudaBackend(artifacts(tmp_path / "artifacts", plans), lambda: H200)


def test_what_was_timed_becomes_a_row_with_its_samples(device):
    measure = Measure(timed)
    (row,) = time_all([case("one")], device, RERUN, measure)
    assert (row.verdict, row.check, row.id) == (Verdict.PASS, "timing", f"one-{SHAPE}-timing")
    assert row.timing == timing(9.0, 9.2, launched=SHAPE)
    assert row.message == judge_timing(row.timing, SHAPE)[1]
    shape = f"{SHAPE.m}x{SHAPE.n}x{SHAPE.k}"
    assert row.rerun == (
        f"rungwatch bench --artifacts artifacts --kernel family/one --shape {shape} --cache warm"
    )


def test_rows_keep_their_order_whatever_could_be_timed(device):
    measure = Measure(
        lambda case: Measured(case, None, HANG) if case.kernel == "family/one" else timed(case)
    )
    rows = time_all([case("lost"), case("one"), case("two")], device, RERUN, measure)
    assert [row.reason for row in rows] == [Reason.NO_ARTIFACT, Reason.EXECUTION, Reason.OK]
    assert [row.kernel for row in rows] == ["family/lost", "family/one", "family/two"]
    assert [case.kernel for case in measure.asked] == ["family/one", "family/two"]
    assert rows[1].message == "did not end"


def test_nothing_is_started_where_there_is_no_artifact(device):
    measure = Measure(timed)
    assert [row.reason for row in time_all([case("lost")], device, RERUN, measure)] == [
        Reason.NO_ARTIFACT
    ]
    assert measure.asked == []


def test_a_second_arm_is_the_same_artifact_under_a_name_of_its_own(device):
    measure = Measure(timed)
    rows = time_all([case("one"), case("two")], device, RERUN, measure, twice=True)
    assert [row.kernel.partition("family/")[2] for row in rows] == [
        "one", f"one{AGAIN}", "two", f"two{AGAIN}",
    ]  # fmt: skip
    first, second, *_ = measure.asked
    assert (first.artifact, first.shape) == (second.artifact, second.shape)


def test_an_artifact_of_another_version_of_the_file_is_not_timed(device):
    changed = KernelSource("get_kernel", path="/nowhere/kernel.py", sha256="other")
    edited = replace(case("one"), subject=replace(case("one").subject, source=changed))
    (row,) = time_all([edited], device, RERUN, Measure(timed))
    assert row.reason is Reason.NO_ARTIFACT
    assert "another version" in row.message


def test_without_a_gpu_every_case_is_invalid(device):
    def none():
        raise BackendUnavailableError("there is no GPU")

    rows = time_all(
        [case("one"), case("two")], CudaBackend(device.folder, none), RERUN, Measure(timed)
    )
    assert [(row.reason, row.message) for row in rows] == [
        (Reason.BACKEND_UNAVAILABLE, "there is no GPU")
    ] * 2


def test_what_the_measurement_needs_and_lacks_is_said_of_every_case(device):
    def lacking(case):
        raise BackendUnavailableError("torch is not installed")

    (row,) = time_all([case("one")], device, RERUN, Measure(lacking))
    assert (row.reason, row.message) == (Reason.BACKEND_UNAVAILABLE, "torch is not installed")
