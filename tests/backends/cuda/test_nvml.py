"""What NVML's answers become; the API is NVIDIA's own binding with the GPU's answers replaced."""

import os
import sys
from types import SimpleNamespace
from typing import Any, ClassVar

import pynvml
import pytest

from rungwatch.backends.cuda import nvml
from rungwatch.backends.cuda.errors import CudaError
from rungwatch.backends.cuda.nvml import GpuProcess, GpuStatus, Nvml
from rungwatch.backends.job import BackendUnavailableError
from rungwatch.record.model import Conditions

HERE = "00000000:3b:00.0"
ANSWERS: dict[str, Any] = {
    "HandleByPciBusId": {(HERE,): "gpu"},
    "ClockInfo": {("gpu", pynvml.NVML_CLOCK_SM): 345, ("gpu", pynvml.NVML_CLOCK_MEM): 3201},
    "MaxClockInfo": {("gpu", pynvml.NVML_CLOCK_SM): 1980},
    "ApplicationsClock": {("gpu", pynvml.NVML_CLOCK_SM): 1200},
    "DefaultApplicationsClock": {("gpu", pynvml.NVML_CLOCK_SM): 1980},
    "PowerUsage": {("gpu",): 76_250},
    "EnforcedPowerLimit": {("gpu",): 500_000},
    "PowerManagementDefaultLimit": {("gpu",): 700_000},
    "Temperature": {("gpu", pynvml.NVML_TEMPERATURE_GPU): 31},
    "TemperatureThreshold": {("gpu", pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN): 87},
    "CurrentClocksEventReasons": {("gpu",): 0b100101},
    "MemoryInfo": {("gpu", pynvml.nvmlMemory_v2): SimpleNamespace(used=2**20, total=2**37)},
    "UtilizationRates": {("gpu",): SimpleNamespace(gpu=3, memory=1)},
    "ComputeRunningProcesses": {
        ("gpu",): [
            SimpleNamespace(pid=os.getpid(), usedGpuMemory=7),
            SimpleNamespace(pid=1, usedGpuMemory=2**30),
        ]
    },
    "GraphicsRunningProcesses": {("gpu",): [SimpleNamespace(pid=1, usedGpuMemory=2**30)]},
    "MPSComputeRunningProcesses": {("gpu",): [SimpleNamespace(pid=2, usedGpuMemory=None)]},
    "EccMode": {("gpu",): [1, 0]},
    "MigMode": {("gpu",): [0, 1]},
    "PersistenceMode": {("gpu",): 1},
    "ComputeMode": {("gpu",): 3},
    "TotalEccErrors": {
        ("gpu", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC): 0
    },
}


class Api:
    """The module pynvml on a machine whose GPU gives `answers`, by arguments, or an error's code.

    What it has no answer to is not supported.
    """

    def __init__(self, answers: dict[str, Any], init_error: int | None = None) -> None:
        self._answers = answers
        self._init_error = init_error

    def nvmlInit(self) -> None:
        if self._init_error is not None:
            raise pynvml.NVMLError(self._init_error)

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.159.04"

    def __getattr__(self, name: str) -> Any:
        real = getattr(pynvml, name)  # what is called must be there
        if not name.startswith("nvmlDeviceGet"):
            return real
        answers = self._answers.get(name.removeprefix("nvmlDeviceGet"), {})

        def answer(*arguments: Any) -> Any:
            if isinstance(answers, int):
                raise pynvml.NVMLError(answers)
            if arguments not in answers:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return answers[arguments]

        answer.__name__ = name
        return answer


def gpu(**changes: Any) -> Nvml:
    """Return a GPU with some answers changed; None takes an answer away."""
    answers = ANSWERS | changes
    return Nvml(Api({k: v for k, v in answers.items() if v is not None}), HERE)


def test_conditions_are_in_the_units_of_the_record() -> None:
    assert gpu().conditions() == Conditions(
        sm_mhz=345,
        memory_mhz=3201,
        power_w=76.25,
        temperature_c=31,
        slowed_by=("sw_power_cap", "sw_thermal_slowdown"),
    )
    assert gpu().highest_sm_mhz() == 1980


def test_the_whole_status() -> None:
    assert gpu().status() == GpuStatus(
        driver="580.159.04",
        sm_mhz=345,
        memory_mhz=3201,
        highest_sm_mhz=1980,
        application_sm_mhz=1200,
        default_application_sm_mhz=1980,
        slowed_by=("sw_power_cap", "sw_thermal_slowdown"),
        power_w=76.25,
        power_limit_w=500.0,
        default_power_limit_w=700.0,
        temperature_c=31,
        slowdown_c=87,
        used_bytes=2**20,
        total_bytes=2**37,
        busy_percent=3,
        processes=(GpuProcess(2**30), GpuProcess(None)),
        ecc=True,
        uncorrected_errors=0,
        mig=False,
        persistence=True,
        compute_mode="exclusive-process",
    )


def test_the_bits_are_those_of_nvidias_binding() -> None:
    named = {
        name.removeprefix("nvmlClocksEventReason"): getattr(pynvml, name)
        for name in dir(pynvml)
        if name.startswith("nvmlClocksEventReason")
    }
    for bit, ours in nvml._REASON_OF_BIT.items():
        theirs = {name.lower() for name, value in named.items() if value == 1 << bit}
        assert not theirs or ours.replace("_", "") in theirs
    assert named["GpuIdle"] == 1 << nvml._IDLE_BIT
    assert sum(value.bit_count() == 1 for value in named.values()) >= 9


@pytest.mark.parametrize(
    ("bits", "names"),
    [(0, ()), (1, ()), (1 << 3, ("hw_slowdown",)), (1 << 40, ("unknown_bit_40",))],
)
def test_only_idleness_is_left_out(bits: int, names: tuple[str, ...]) -> None:
    assert gpu(CurrentClocksEventReasons={("gpu",): bits}).conditions().slowed_by == names


def test_what_a_gpu_does_not_support_is_not_known() -> None:
    bare = Nvml(Api({"HandleByPciBusId": ANSWERS["HandleByPciBusId"]}), HERE).status()
    assert bare == GpuStatus(driver="580.159.04")


@pytest.mark.parametrize(
    "error",
    [
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
    ],
)
def test_what_may_not_be_asked_is_not_known(error: int) -> None:
    assert gpu(EccMode=error).status().ecc is None


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("ClockInfo", "the SM clock"),
        ("PowerUsage", "the power"),
        ("Temperature", "the temperature"),
        ("CurrentClocksEventReasons", "what slows the clocks down"),
    ],
)
def test_conditions_are_whole_or_refused(query: str, what: str) -> None:
    with pytest.raises(BackendUnavailableError, match=f"does not know {what} of this GPU"):
        gpu(**{query: None}).conditions()


def test_a_gpu_without_a_highest_clock_has_no_peak() -> None:
    with pytest.raises(BackendUnavailableError, match="the highest SM clock"):
        gpu(MaxClockInfo=None).highest_sm_mhz()


def test_a_gpu_that_is_lost_is_no_unknown_value() -> None:
    with pytest.raises(BackendUnavailableError, match=r"GPU is lost \(from nvmlDeviceGetPower"):
        gpu(PowerUsage=pynvml.NVML_ERROR_GPU_IS_LOST).status()


def test_processes_are_known_where_one_list_is() -> None:
    some = gpu(GraphicsRunningProcesses=None, MPSComputeRunningProcesses=None).status()
    assert some.processes == (GpuProcess(2**30),)
    empty = gpu(
        ComputeRunningProcesses={("gpu",): []},
        GraphicsRunningProcesses=None,
        MPSComputeRunningProcesses=None,
    )
    assert empty.status().processes == ()


def test_without_the_library_the_driver_is_named() -> None:
    with pytest.raises(BackendUnavailableError, match=r"libnvidia-ml.so.1"):
        Nvml(Api(ANSWERS, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND), HERE)


def test_a_gpu_that_nvml_does_not_have_is_refused() -> None:
    with pytest.raises(BackendUnavailableError, match="does not find the GPU that CUDA uses"):
        Nvml(Api(ANSWERS), "00000000:99:00.0")


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(BackendUnavailableError, match=r"nvidia-ml-py.*rungwatch\[gpu\]"):
        nvml.open_device()


class FakeDriver:
    """The driver of a machine whose first GPU, as CUDA counts, is at PCI 1:3b:0."""

    attributes: ClassVar[dict[str, int]] = {
        "PCI_DOMAIN_ID": 1,
        "PCI_BUS_ID": 0x3B,
        "PCI_DEVICE_ID": 0,
    }

    def start(self) -> None:
        pass

    def device(self) -> str:
        return "device 0"

    def attribute(self, device: str, name: str) -> int:
        assert device == "device 0"
        if name not in self.attributes:
            raise CudaError("cuDeviceGetAttribute", "CUDA_ERROR_INVALID_VALUE", "no such")
        return self.attributes[name]


def test_the_gpu_is_the_one_that_cuda_shows_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {("00000001:3b:00.0",): "gpu"}
    monkeypatch.setattr(nvml, "Driver", FakeDriver)
    monkeypatch.setitem(sys.modules, "pynvml", Api(ANSWERS | {"HandleByPciBusId": there}))  # type: ignore[arg-type]
    assert nvml.open_device().highest_sm_mhz() == 1980


def test_a_driver_that_does_not_say_where_it_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "Driver", FakeDriver)
    monkeypatch.setattr(FakeDriver, "attributes", {})
    with pytest.raises(BackendUnavailableError, match="can't say where its GPU is"):
        nvml.open_device()
