"""The device of a worker, with NVIDIA's real bindings over a driver that needs no GPU."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.manifest import MANIFEST_FILE, Item, Manifest, encode_manifest
from rungwatch.artifact.store import Store
from rungwatch.backends.cuda.artifacts import ArtifactFolder
from rungwatch.backends.job import BackendUnavailableError, Failure
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.measure import session
from rungwatch.measure.order import MeasureSettings, TimedCase
from rungwatch.measure.session import Measured, measure

from ..artifact.samples import cubin
from ..backends.cuda.conftest import PLAN, SHAPE, library, machine

__all__ = ["library", "machine"]

STAND_IN = Path(__file__).parent / "stand_in"
ROUNDS = 10
WORKERS = 2


@pytest.fixture
def stand_in(machine: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a torch and a fork server that need no GPU on the path of the processes."""
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{STAND_IN}{os.pathsep}{inherited}")
    monkeypatch.setattr(session, "SERVER", "gpu_server")


def run(
    folder: Path, *entries: str, asked: Shape = SHAPE, settings: MeasureSettings | None = None
) -> dict[str, Measured]:
    """Time kernels that are named by their entries."""
    store = Store(folder)
    items, cases = [], []
    for entry in entries:
        identity = store.put(Artifact(cubin("sm_90a", entry), replace(PLAN, entry=entry)))
        items.append(Item(entry, "hash", SHAPE, "sm_90a", identity, "code", Reason.OK, ""))
        cases.append(TimedCase(entry, identity, asked, SHAPE))
    (folder / MANIFEST_FILE).write_bytes(encode_manifest(Manifest(None, {}, tuple(items))))
    settings = settings or MeasureSettings(WORKERS, ROUNDS)
    found = measure(cases, ArtifactFolder(folder), settings, lambda *_: None)
    return {measured.case.kernel: measured for measured in found}


def require_timed(measured: Measured) -> None:
    timing = measured.timing
    assert timing is not None, measured.failure
    assert timing.peak_flops == 132 * 4096 * 1.98e9
    assert timing.floor_ns > 0
    kernel, cublas = timing.arms
    for arm in (kernel, cublas):
        assert [one.worker for one in arm.workers] == list(range(WORKERS))
        for one in arm.workers:
            assert len(one.samples_ns) == ROUNDS
            # The fake driver takes some microseconds for this product, and none for an interval
            # with nothing in it.
            assert min(one.samples_ns) > timing.floor_ns


@pytest.mark.usefixtures("stand_in")
class TestOnAFakeDriver:
    def test_right_kernels_are_timed_beside_cublas(self, tmp_path: Path) -> None:
        for measured in run(tmp_path, "right", "noisy").values():
            require_timed(measured)

    def test_warm(self, tmp_path: Path) -> None:
        settings = MeasureSettings(WORKERS, ROUNDS, cache="warm")
        measured = run(tmp_path, "right", settings=settings)["right"]
        require_timed(measured)
        assert measured.timing is not None
        assert measured.timing.cache == "warm"

    def test_a_problem_that_was_padded(self, tmp_path: Path) -> None:
        measured = run(tmp_path, "right", asked=replace(SHAPE, m=5))["right"]
        require_timed(measured)
        assert measured.timing is not None
        assert measured.timing.launched == SHAPE

    @pytest.mark.parametrize(
        ("entry", "expected", "said"),
        [
            ("lazy", Failure.NUMERICS, "512 of 512 elements of D differ from cuBLAS's by more"),
            ("stray", Failure.EXECUTION, "CUDA_ERROR_ILLEGAL_ADDRESS"),
            ("late_stray", Failure.EXECUTION, "CUDA_ERROR_ILLEGAL_ADDRESS"),
            ("stuck", Failure.EXECUTION, "did not end in 4 s on the GPU (check of stuck)"),
            ("late_stuck", Failure.EXECUTION, "did not end in"),
            ("crash", Failure.WORKER_DIED, "signal SIGABRT"),
        ],
    )
    def test_a_kernel_that_goes_wrong(
        self, tmp_path: Path, entry: str, expected: Failure, said: str
    ) -> None:
        found = run(tmp_path, "right", entry)
        failure = found[entry].failure
        assert failure is not None
        assert failure.failure is expected
        assert said in failure.message
        require_timed(found["right"])

    def test_a_problem_beyond_the_gpus_memory(self, tmp_path: Path) -> None:
        huge = Shape(32, 2**20, 2**16, 4)
        failure = run(tmp_path, "right", asked=huge)["right"].failure
        assert failure is not None
        assert failure.failure is Failure.MEMORY_LIMIT


def test_without_torch_it_is_said_what_to_install(
    tmp_path: Path, machine: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('No module named torch')")
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{inherited}")
    with pytest.raises(BackendUnavailableError, match=r"pip install 'rungwatch\[gpu\]'"):
        run(tmp_path / "built", "right")
