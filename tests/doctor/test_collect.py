"""What is collected here is what is here, also where a process that looks at it goes wrong."""

import sys
import time
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rungwatch.backends.cuda import facts as device_facts
from rungwatch.backends.cuda import nvml
from rungwatch.backends.job import BackendUnavailableError
from rungwatch.backends.supervise import Limits
from rungwatch.doctor import collect as module
from rungwatch.doctor import gpu_look, torch_look
from rungwatch.doctor.collect import collect, size_bytes
from rungwatch.doctor.examine import examine
from rungwatch.doctor.facts import ArtifactFacts, GpuLook, TorchLook
from rungwatch.doctor.packages import EXTRAS

from ..backends.cuda.conftest import PLAN, Machine, artifacts
from .machines import DEVICE, STATUS

ROOT = Path(__file__).parents[2]
PRESENT = {"right": PLAN, "wide": PLAN}


def test_the_packages_are_those_of_the_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["optional-dependencies"]
    for extra, names in EXTRAS.items():
        assert tuple(line.split("=")[0].rstrip(">") for line in declared[extra]) == names


def test_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(tmp_path / "not" / "yet"))
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    found = collect()
    assert found.system.startswith("Linux ")
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert 0 < found.memory_free_bytes <= found.memory_bytes
    assert found.disk.cache_writable
    assert found.disk.cache_bytes == 0
    assert found.disk.cache_free_bytes > 0
    assert "apache-tvm" in found.packages
    assert bool(found.simulator.parts) != bool(found.simulator.problems)
    assert not (tmp_path / "not").exists()


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "one").write_bytes(b"x" * 10)
    (tmp_path / "a" / "b" / "two").write_bytes(b"x" * 5)
    (tmp_path / "link").symlink_to("/dev/zero")
    later = time.monotonic() + 60
    assert size_bytes(tmp_path, later) == 15 + len("/dev/zero")
    assert size_bytes(tmp_path / "none", later) == 0
    assert size_bytes(tmp_path, time.monotonic() - 1) is None


def test_a_cache_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._disk(tmp_path).cache_writable
    monkeypatch.setattr(module.os, "access", lambda *_: False)
    assert not module._disk(tmp_path).cache_writable
    monkeypatch.undo()
    (tmp_path / "file").touch()
    assert not module._disk(tmp_path / "file").cache_writable


def test_a_limit_that_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._disk(tmp_path).limit_problem == ""
    monkeypatch.setenv("RUNGWATCH_CACHE_LIMIT_GB", "much")
    assert "'much': give a number" in module._disk(tmp_path).limit_problem


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        ("", ""),
        ("1,0", "1,0"),
        ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,1", "a UUID,1"),
        ("MIG-GPU-8932f937/1/0", "a UUID"),
    ],
)
def test_no_uuid_is_taken_up(
    monkeypatch: pytest.MonkeyPatch, value: str | None, shown: str | None
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert module._variables(False).visible_devices == shown


def test_artifacts_are_counted_and_looked_at(tmp_path: Path) -> None:
    folder = artifacts(tmp_path, PRESENT)
    assert module._artifacts(folder) == ArtifactFacts({"sm_90a": 2})
    cubin = next(folder.glob("objects/*/*/kernel.cubin"))
    cubin.write_bytes(cubin.read_bytes() + b"x")
    assert module._artifacts(folder).damaged == 1
    next(folder.glob("*.json")).unlink()
    assert "no artifacts can be read" in module._artifacts(folder).problem


def test_a_missing_simulator_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise BackendUnavailableError("one: a\ntwo: b")

    monkeypatch.setattr(module, "find_toolchain", missing)
    assert module._simulator().problems == ("one: a", "two: b")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("print('oh', file=sys.stderr); sys.exit(3)", "died, exit code 3: oh"),
        ("open(sys.argv[1] + '/answer', 'w').write('{]')", "died, exit code 0"),
        ("import time; time.sleep(60)", "did not end in 1 s and was ended"),
    ],
)
def test_a_process_that_gives_no_answer_is_a_problem(script: str, problem: str) -> None:
    limits = Limits(deadline_s=1.0, memory_bytes=2**31)
    command = (sys.executable, "-c", f"import sys; {script}")
    answer, said = module._ask(command, "answer", limits, GpuLook)
    assert answer is None
    assert problem in said


def test_a_gpu_that_nobody_can_look_at_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ask", lambda *_: (None, "gpu_look died"))
    assert module._look_at_gpu() == GpuLook(problem="gpu_look died", status_problem="gpu_look died")
    assert module._look_with_torch() == TorchLook(problem="gpu_look died")


def test_a_gpu_of_which_nvml_says_nothing(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real processes, on a driver of ours that says where no GPU is."""
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(tmp_path))
    machine("capability", 100)
    found = collect()
    assert found.gpu.device is not None
    assert found.gpu.device.compute_capability == (10, 0)
    assert found.gpu.status is None
    assert "can't say where its GPU is" in found.gpu.status_problem
    assert found.torch is not None
    assert "torch" in found.torch.problem
    troubles = {one.name for one in examine() if one.status == "trouble"}
    assert {"nvml", "torch"} <= troubles


class TestGpuLook:
    @pytest.fixture
    def order(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Return who was asked, in order; both answer."""
        asked: list[str] = []

        def status() -> Any:
            asked.append("nvml")
            return STATUS

        def look() -> Any:
            asked.append("driver")
            return DEVICE

        monkeypatch.setattr(nvml, "open_device", lambda: SimpleNamespace(status=status))
        monkeypatch.setattr(device_facts, "look", look)
        return asked

    def test_nvml_is_asked_before_there_is_a_context(self, order: list[str]) -> None:
        assert gpu_look.look() == GpuLook(DEVICE, "", STATUS)
        assert order == ["nvml", "driver"]

    def test_each_can_fail_alone(self, order: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> None:
            raise BackendUnavailableError("broken")

        monkeypatch.setattr(nvml, "open_device", fail)
        assert gpu_look.look() == GpuLook(DEVICE, "", None, "broken")
        monkeypatch.setattr(device_facts, "look", fail)
        assert gpu_look.look() == GpuLook(None, "broken", None, "broken")


class TestTorchLook:
    def use(self, monkeypatch: pytest.MonkeyPatch, **cuda: Any) -> TorchLook:
        torch = ModuleType("torch")
        torch.__version__ = "2.11.0"  # type: ignore[attr-defined]
        torch.cuda = SimpleNamespace(**cuda)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torch", torch)
        return torch_look.look()

    def test_a_gpu_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = self.use(
            monkeypatch, is_available=lambda: True, get_device_name=lambda _: "NVIDIA H200"
        )
        assert seen == TorchLook("2.11.0", "NVIDIA H200")

    def test_no_gpu_is_a_problem(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = self.use(monkeypatch, is_available=lambda: False)
        assert (seen.gpu, seen.problem) == ("", "torch 2.11.0 sees no GPU")

    def test_an_error_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> None:
            raise RuntimeError("CUDA error\nmany lines")

        seen = self.use(monkeypatch, is_available=fail)
        assert seen.problem == "torch 2.11.0 can't use the GPU: CUDA error"

    def test_without_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        assert "can't be imported" in torch_look.look().problem


def test_a_folder_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    found = module._artifacts(tmp_path / "none")
    assert "no artifacts can be read from none/manifest.json" in found.problem
