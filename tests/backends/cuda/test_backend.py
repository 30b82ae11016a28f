"""Artifacts run by the real worker and bindings, on a driver that needs no GPU."""

import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from rungwatch.artifact.manifest import MANIFEST_FILE, decode_manifest, encode_manifest
from rungwatch.artifact.plan import TensorMap
from rungwatch.backends.cuda import backend as module
from rungwatch.backends.cuda.backend import CudaBackend, limits_of
from rungwatch.backends.exchange import read_arrays
from rungwatch.backends.job import (
    BackendUnavailableError,
    Failure,
    JobFailure,
    JobResult,
    Stage,
    Tool,
)
from rungwatch.backends.supervise import Limits
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.trusted import buffers
from rungwatch.trusted.compare import compare

from .conftest import PLAN, SHAPE, Machine, artifacts, job, run

pytestmark = pytest.mark.usefixtures("machine")


def verdict(result: JobResult, name: str) -> Reason:
    before = buffers.make(SHAPE, name, 0)
    return compare(read_arrays(result.outputs[name]), before, SHAPE, name, (32, 16))[0]


def failed(result: JobResult, name: str) -> JobFailure:
    assert name not in result.outputs
    return result.failed[name]


def test_a_right_kernel_is_run_on_every_problem(tmp_path: Path) -> None:
    names = ("normal", "integer", "nan-a")
    result = run(tmp_path, job("right", *names))
    assert (result.failure, result.failed, result.unstable) == (None, {}, {})
    assert [verdict(result, name) for name in names] == [Reason.OK] * 3
    assert {Stage.LOAD, Stage.COPY, Stage.RUN} <= result.seconds.keys()


def test_what_a_kernel_writes_beside_d_comes_back(tmp_path: Path) -> None:
    result = run(tmp_path, job("wide"))
    assert verdict(result, "normal") is Reason.GUARD_BAND


def test_poison_comes_back_from_a_kernel_that_writes_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, job("lazy"))
    assert verdict(result, "normal") is Reason.NOT_WRITTEN


def test_a_second_run_with_other_bits_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, job("noisy"))
    assert "other bits in 1 elements of D; the first, element 3, was" in result.unstable["normal"]
    assert list(result.outputs) == ["normal"]


def test_a_fault_is_named_and_the_others_go_on_in_a_fresh_process(tmp_path: Path) -> None:
    result = run(tmp_path, job("picky", "normal", "nan-a", "integer", "nan-b"))
    failure = failed(result, "nan-a")
    assert failure.failure is Failure.EXECUTION
    assert failure.stage is Stage.RUN
    assert failure.message.startswith("CUDA_ERROR_ILLEGAL_ADDRESS: it read or wrote an address")
    assert sorted(result.outputs) == ["integer", "nan-b", "normal"]
    assert [verdict(result, name) for name in result.outputs] == [Reason.OK] * 3


def test_a_kernel_that_faults_on_all_is_run_on_all(tmp_path: Path) -> None:
    result = run(tmp_path, job("stray", "normal", "integer"))
    assert {failed(result, name).failure for name in ("normal", "integer")} == {Failure.EXECUTION}


def test_a_hang_is_the_kernels_fault_and_the_rest_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "limits_of", lambda *_: Limits(8.0, 2**31, Stage.RUN, 60.0))
    result = run(tmp_path, job("stuck", "normal", "integer"))
    failure = failed(result, "normal")
    assert failure.failure is Failure.EXECUTION
    assert "did not end in" in failure.message
    assert failed(result, "integer").failure is Failure.DEADLINE
    assert "not run: the kernel did not end on normal" in failed(result, "integer").message


def test_a_worker_that_dies_takes_one_problem_along(tmp_path: Path) -> None:
    result = run(tmp_path, job("crash", "normal", "integer"))
    assert {failed(result, name).failure for name in job("", "normal", "integer").inputs} == {
        Failure.WORKER_DIED
    }
    assert "SIGABRT" in failed(result, "normal").message


def test_a_cancelled_job_starts_no_more_workers(tmp_path: Path) -> None:
    backend = CudaBackend(artifacts(tmp_path / "artifacts", {"right": PLAN}))
    cancel = threading.Event()
    cancel.set()
    given = {name: buffers.make(SHAPE, name, 0) for name in ("normal", "integer")}
    (tmp_path / "job").mkdir()
    result = backend.run(
        job("right", *given), given, tmp_path / "job", memory_limit_bytes=2**31, cancel=cancel
    )
    assert {failure.message for failure in result.failed.values()} == {"cancelled"}
    assert len(list((tmp_path / "job").iterdir())) == 1


def test_tensor_maps_and_clusters_reach_the_driver(tmp_path: Path) -> None:
    def over(buffer: str, rows: int, stride: int) -> TensorMap:
        return TensorMap(
            buffer=buffer,  # type: ignore[arg-type]
            dtype="float16",
            offset_bytes=0,
            dims=(16, rows),
            strides_bytes=(stride,),
            box=(16, 8),
            element_strides=(1, 1),
            interleave="none",
            swizzle="32B",
            l2_promotion="128B",
            out_of_bounds="zero",
        )

    plan = replace(
        PLAN,
        entry="mapped",
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
        parameters=(over("A", 32, 48), over("D", 32, 32)),
    )
    result = run(tmp_path, job("mapped"), plan)
    assert result.failed == {}
    left = read_arrays(result.outputs["normal"])
    a, d = (buffers.view(left[name], *buffers.extents(SHAPE)[name]) for name in "AD")
    assert np.array_equal(d, a[:, :16])


def test_a_launch_that_the_gpu_refuses_is_the_kernels_fault(tmp_path: Path) -> None:
    plan = replace(PLAN, dynamic_smem_bytes=200_704)
    failure = failed(run(tmp_path, job("right"), plan), "normal")
    assert failure.failure is Failure.EXECUTION
    assert failure.message.startswith("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: a CTA needs more")


def test_code_that_the_driver_refuses_is_no_verdict_on_the_kernel(
    tmp_path: Path, machine: Machine
) -> None:
    machine("bad-image", 1)
    failure = failed(run(tmp_path, job("right")), "normal")
    assert (failure.failure, failure.stage) == (Failure.ARTIFACT_REFUSED, Stage.LOAD)


class TestPrepare:
    """What is missing is said in one line, before any job."""

    def message(self, folder: Path, target: str = "sm_90a") -> str:
        with pytest.raises(BackendUnavailableError) as caught:
            CudaBackend(artifacts(folder / "artifacts", {"right": PLAN}, target)).prepare(
                [Tool.NUMERICS]
            )
        message = str(caught.value)
        assert "\n" not in message
        return message

    def test_a_machine_that_has_all_is_taken(self, tmp_path: Path) -> None:
        backend = CudaBackend(artifacts(tmp_path, {"right": PLAN}))
        backend.prepare([Tool.NUMERICS])
        assert backend.target() == "sm_90a"
        assert not isinstance(backend.device, BackendUnavailableError)
        assert (backend.device.name, backend.device.sm_count) == ("Fake GPU", 132)

    def test_no_driver(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("LD_LIBRARY_PATH")
        assert "libcuda.so.1 can't be loaded" in self.message(tmp_path)

    def test_no_gpu(
        self, tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        machine("no-device", 1)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
        message = self.message(tmp_path)
        assert message.startswith("no GPU can be used: CUDA_ERROR_NO_DEVICE")
        assert "CUDA_VISIBLE_DEVICES is '7'" in message

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("capability", 89, "Fake GPU has compute capability 8.9: sm_90a needs 9.0, sm_100a"),
            ("capability", 120, "has compute capability 12.0"),
            ("cuda", 12080, "driver CUDA 12.8 is too old: artifacts need one for CUDA 13.0"),
            ("free-mib", 512, "0.5 of 16 GiB of GPU memory are free, at least 1 is needed"),
        ],
    )
    def test_a_gpu_that_will_not_do(
        self, tmp_path: Path, machine: Machine, name: str, value: int, words: str
    ) -> None:
        machine(name, value)
        assert words in self.message(tmp_path)

    def test_artifacts_for_another_gpu(self, tmp_path: Path) -> None:
        message = self.message(tmp_path, "sm_100a")
        assert "holds artifacts for sm_100a, this GPU runs sm_90a" in message

    def test_no_artifacts(self, tmp_path: Path) -> None:
        with pytest.raises(BackendUnavailableError, match="no artifacts can be read"):
            CudaBackend(tmp_path).prepare([Tool.NUMERICS])

    def test_no_sanitizer(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rungwatch.backends.cuda.sanitizer.find", lambda: None)
        backend = CudaBackend(artifacts(tmp_path, {"right": PLAN}))
        with pytest.raises(BackendUnavailableError, match="compute-sanitizer is neither"):
            backend.prepare([Tool.NUMERICS, Tool.SANITIZER_MEMCHECK])


class TestArtifacts:
    """What was not built, or may not be launched, reaches no GPU."""

    def failure(self, folder: Path, **changes: object) -> JobFailure:
        backend = CudaBackend(folder)
        wanted = msgspec.structs.replace(job("right"), **changes)
        result = backend.run(wanted, {}, folder / "job", memory_limit_bytes=2**31)
        assert result.failure is not None
        return result.failure

    @pytest.mark.parametrize(
        "changes", [{"kernel": "other"}, {"target": "sm_100a"}, {"shape": Shape(32, 16, 32, 4)}]
    )
    def test_one_that_is_absent(self, tmp_path: Path, changes: dict[str, object]) -> None:
        folder = artifacts(tmp_path / "built", {"right": PLAN})
        failure = self.failure(folder, **changes)
        assert failure.failure is Failure.NO_ARTIFACT
        assert "built holds no artifact of" in failure.message

    def test_one_of_another_version_of_the_file(self, tmp_path: Path) -> None:
        folder = artifacts(tmp_path, {"right": PLAN})
        source = msgspec.structs.replace(job("").source, sha256="newer")
        failure = self.failure(folder, source=source)
        assert failure.failure is Failure.NO_ARTIFACT
        assert "another version of the kernel's file" in failure.message

    def test_one_that_could_not_be_built_says_why(self, tmp_path: Path) -> None:
        folder = artifacts(tmp_path, {"right": PLAN})
        manifest = decode_manifest((folder / MANIFEST_FILE).read_bytes())
        [item] = manifest.items
        broken = replace(item, artifact=None, reason=Reason.KERNEL_BUILD, message="line 3")
        (folder / MANIFEST_FILE).write_bytes(encode_manifest(replace(manifest, items=(broken,))))
        assert "was not built: kernel-build: line 3" in self.failure(folder).message

    @pytest.mark.parametrize("identity", ["0" * 64, "../../etc/passwd", ""])
    def test_one_whose_id_leads_nowhere(self, tmp_path: Path, identity: str) -> None:
        folder = artifacts(tmp_path, {"right": PLAN})
        manifest = decode_manifest((folder / MANIFEST_FILE).read_bytes())
        [item] = manifest.items
        forged = replace(manifest, items=(replace(item, artifact=identity),))
        (folder / MANIFEST_FILE).write_bytes(encode_manifest(forged))
        assert self.failure(folder).failure is Failure.NO_ARTIFACT

    def test_a_hostile_plan(self, tmp_path: Path) -> None:
        folder = artifacts(tmp_path, {"right": replace(PLAN, grid=(2**20, 2, 1))})
        failure = self.failure(folder)
        assert failure.failure is Failure.ARTIFACT_REFUSED
        assert "CTAs, at most" in failure.message

    def test_buffers_beyond_the_gpus_memory(self, tmp_path: Path, machine: Machine) -> None:
        machine("free-mib", 1024)
        backend = CudaBackend(artifacts(tmp_path, {"right": PLAN}))
        given = {"normal": dict.fromkeys("ABD", np.empty(2**29, np.uint16))}
        result = backend.run(job("right"), given, tmp_path / "j", memory_limit_bytes=2**31)
        assert result.failure is not None
        assert result.failure.failure is Failure.MEMORY_LIMIT


def test_a_deadline_grows_with_the_work() -> None:
    small = limits_of(job("right"), ("normal",), 1)
    large = limits_of(
        msgspec.structs.replace(job("right"), shape=Shape(8192, 8192, 8192, 132)), ("normal",), 1
    )
    assert 60 < small.deadline_s < 70
    assert 110 < large.deadline_s < 180


def test_guard_bands_keep_what_tensor_maps_need() -> None:
    assert buffers.GUARD_ELEMENTS * 2 % 256 == 0
