"""Measuring through real processes, on a GPU that is not there (`fake_server`)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.manifest import MANIFEST_FILE, Item, Manifest, encode_manifest
from rungwatch.artifact.store import Store
from rungwatch.backends.cuda.artifacts import ArtifactFolder
from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.backends.job import BackendUnavailableError, Failure
from rungwatch.decide.timing import judge_timing
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.measure import session
from rungwatch.measure.order import MeasureSettings, TimedCase
from rungwatch.measure.session import Measured, measure

from ..artifact.samples import cubin
from ..backends.cuda.conftest import PLAN

SMALL = Shape(32, 16, 24, 4)
LARGE = Shape(64, 32, 24, 4)
FACTS = DeviceFacts("Fake GPU", (9, 0), 4, 2**33, 2**34, (13, 0), None)
WORKERS = 7

type Measure = Callable[..., dict[tuple[str, Shape], Measured]]


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactFolder:
    """Return a folder with one artifact, built for both shapes."""
    identity = Store(tmp_path).put(Artifact(cubin("sm_90a", PLAN.entry), PLAN))
    items = tuple(
        Item("step9", "hash", shape, "sm_90a", identity, "code", Reason.OK, "")
        for shape in (SMALL, LARGE)
    )
    (tmp_path / MANIFEST_FILE).write_bytes(encode_manifest(Manifest(None, {}, items)))
    return ArtifactFolder(tmp_path)


@pytest.fixture
def run(artifacts: ArtifactFolder, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Measure kernels of these names, each as (name, shape) or a name for the small shape."""
    monkeypatch.setattr(session, "find_device", lambda: FACTS)
    monkeypatch.setattr(session, "SERVER", "fake_server")
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}{os.pathsep}{inherited}")
    identity = artifacts.manifest.items[0].artifact or ""

    def run(
        *names: str | tuple[str, Shape], workers: int = WORKERS, rounds: int = 6
    ) -> dict[tuple[str, Shape], Measured]:
        pairs = [(name, SMALL) if isinstance(name, str) else name for name in names]
        cases = [TimedCase(name, identity, shape, shape) for name, shape in pairs]
        told: list[tuple[int, int]] = []
        settings = MeasureSettings(workers, rounds)
        found = measure(cases, artifacts, settings, lambda *progress: told.append(progress))
        assert [one.case for one in found] == cases
        assert all((one.timing is None) != (one.failure is None) for one in found)
        assert told[-1][1] == workers * len({shape for _, shape in pairs} & {SMALL, LARGE})
        return {(one.case.kernel, one.case.shape): one for one in found}

    return run


def failure(measured: Measured) -> tuple[Failure, str]:
    assert measured.failure is not None
    return measured.failure.failure, measured.failure.message


def judged(measured: Measured) -> Reason:
    assert measured.timing is not None, measured.failure
    return judge_timing(measured.timing, measured.case.shape)[0]


def workers_of(measured: Measured) -> list[int]:
    """Return the workers that timed a case, the same in every part of it."""
    assert measured.timing is not None, measured.failure
    kernel, cublas = measured.timing.arms
    found = [samples.worker for samples in kernel.workers]
    assert [samples.worker for samples in cublas.workers] == found
    assert [state.worker for state in measured.timing.conditions] == found
    return found


def test_every_case_is_timed_in_every_worker(run: Measure) -> None:
    found = run("one", "two", ("one", LARGE))
    for measured in found.values():
        assert judged(measured) is Reason.OK
        assert workers_of(measured) == list(range(WORKERS))
        timing = measured.timing
        assert timing is not None
        assert (timing.cache, timing.peak_flops, timing.launched) == (
            "cold", 1e15, measured.case.launched,
        )  # fmt: skip
        assert 1_490 < timing.floor_ns < 1_510
        for arm, typical in zip(timing.arms, (200_000, 204_000), strict=True):
            for samples in arm.workers:
                assert len(samples.samples_ns) == 6
                assert all(abs(ns / typical - 1) < 0.002 for ns in samples.samples_ns)
                assert all(round(ns, 1) == ns for ns in samples.samples_ns)
    assert [arm.artifact for arm in found["one", LARGE].timing.arms] == [  # type: ignore[union-attr]
        found["one", LARGE].case.artifact,
        None,
    ]


@pytest.mark.parametrize(
    ("name", "expected", "said"),
    [
        ("hang", Failure.EXECUTION, "did not end in 2 s on the GPU (check of hang)"),
        ("late-hang", Failure.EXECUTION, "did not end in 2 s on the GPU (first round)"),
        ("fault", Failure.EXECUTION, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("late-fault", Failure.EXECUTION, "CUDA_ERROR_LAUNCH_FAILED"),
        ("refused", Failure.ARTIFACT_REFUSED, "CUDA_ERROR_INVALID_IMAGE"),
        ("crash", Failure.WORKER_DIED, "check of crash, signal SIGABRT"),
        ("wrong-later", Failure.NUMERICS, "2 elements of D differ"),
        ("late-crash", Failure.WORKER_DIED, "first round, exit code 3"),
        ("wrong", Failure.NUMERICS, "3 elements of D differ"),
    ],
)
def test_a_kernel_that_goes_wrong_is_named_and_the_rest_go_on(
    run: Measure, name: str, expected: Failure, said: str
) -> None:
    found = run("one", name, "two", ("one", LARGE))
    reason, message = failure(found.pop((name, SMALL)))
    assert reason is expected
    assert said in message
    for measured in found.values():
        assert judged(measured) is Reason.OK
        assert workers_of(measured) == list(range(WORKERS))


def test_two_that_go_wrong_in_one_group(run: Measure) -> None:
    found = run("fault", "hang", "one")
    assert failure(found["fault", SMALL])[0] is Failure.EXECUTION
    assert "check of hang" in failure(found["hang", SMALL])[1]
    assert workers_of(found["one", SMALL]) == list(range(WORKERS))


def test_a_group_of_which_no_kernel_is_left(run: Measure) -> None:
    found = run("wrong", ("one", LARGE))
    assert failure(found["wrong", SMALL])[0] is Failure.NUMERICS
    assert judged(found["one", LARGE]) is Reason.OK


def test_a_kernel_that_hangs_once_has_no_time(run: Measure) -> None:
    found = run("third-hangs", "one")
    assert failure(found["third-hangs", SMALL])[0] is Failure.EXECUTION
    assert workers_of(found["one", SMALL]) == list(range(WORKERS))


@pytest.mark.parametrize(
    ("name", "expected", "said"),
    [
        ("no-memory", Failure.MEMORY_LIMIT, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("stuck-inputs", Failure.DEADLINE, "ended after 2 s at 32x16x24-sm4, inputs"),
        ("bug", Failure.WORKER_DIED, "ZeroDivisionError: a fault of the tool"),
    ],
)
def test_a_group_that_no_worker_comes_back_from_is_given_up(
    run: Measure, name: str, expected: Failure, said: str
) -> None:
    found = run(name, ("one", LARGE))
    reason, message = failure(found[name, SMALL])
    assert reason is expected
    assert said in message
    assert workers_of(found["one", LARGE]) == list(range(WORKERS))


def test_two_do_not_measure_at_once(run: Measure) -> None:
    with session._alone(), pytest.raises(BackendUnavailableError, match="another rungwatch"):
        run("one")
    assert judged(run("one")["one", SMALL]) is Reason.OK


def test_a_worker_that_is_lost_once_is_missing(run: Measure) -> None:
    found = run("stuck-1")
    assert workers_of(found["stuck-1", SMALL]) == list(range(1, WORKERS))
    assert judged(found["stuck-1", SMALL]) is Reason.TOO_FEW_WORKERS


def test_the_third_worker_is_not_lost_where_two_were(run: Measure) -> None:
    assert failure(run("stuck-1-2")["stuck-1-2", SMALL])[0] is Failure.DEADLINE


def test_a_kernel_is_not_blamed_for_what_happens_after_it(run: Measure) -> None:
    """The process after a crash hangs before it runs anything."""
    found = run("crash", "stuck-2")
    assert failure(found["crash", SMALL])[0] is Failure.WORKER_DIED
    assert workers_of(found["stuck-2", SMALL]) == list(range(1, WORKERS))


def test_times_that_are_none_are_implausible(run: Measure) -> None:
    assert judged(run("timeless")["timeless", SMALL]) is Reason.IMPLAUSIBLE


def test_durations_that_drift_are_unsettled(run: Measure) -> None:
    assert judged(run("drifting", rounds=2)["drifting", SMALL]) is Reason.UNSETTLED


def test_without_a_gpu_nothing_is_measured(run: Measure) -> None:
    with pytest.raises(BackendUnavailableError, match="NVML is not here"):
        run("no-gpu")


def test_a_gpu_that_does_not_start(run: Measure) -> None:
    with pytest.raises(BackendUnavailableError, match="ended after 2 s at its start"):
        run("slow-start")


def test_a_gpu_that_fails_later_leaves_what_was_timed(run: Measure) -> None:
    found = run("bad-start", workers=12)
    assert workers_of(found["bad-start", SMALL]) == list(range(7))
    assert judged(found["bad-start", SMALL]) is Reason.TOO_FEW_WORKERS


def test_a_server_that_dies_leaves_what_was_timed(run: Measure) -> None:
    found = run("dead-server")
    assert workers_of(found["dead-server", SMALL]) == [0, 1]
    assert judged(found["dead-server", SMALL]) is Reason.TOO_FEW_WORKERS


def test_the_whole_has_a_deadline(run: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.budget, "outer_deadline_s", lambda _: 1.0)
    reason, message = failure(run("hang")["hang", SMALL])
    assert reason is Failure.DEADLINE
    assert "32x16x24" in message


def test_an_artifact_that_is_not_there(run: Measure, artifacts: ArtifactFolder) -> None:
    other = Shape(128, 16, 24, 4)
    found = run("one", ("two", other))
    reason, message = failure(found["two", other])
    assert reason is Failure.NO_ARTIFACT
    assert "holds no artifact" in message
    assert judged(found["one", SMALL]) is Reason.OK
