"""What NVML, NVIDIA's management library, says of the GPU that this process computes on.

Thin over `pynvml`, NVIDIA's own binding (nvidia-ml-py), which is imported on first use. NVML knows
nothing of CUDA_VISIBLE_DEVICES: the GPU is found by the PCI address that the driver gives for
CUDA's device 0. Source: NVML API reference.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec

from rungwatch.backends.cuda.driver import Driver
from rungwatch.backends.cuda.errors import CudaError
from rungwatch.backends.job import BackendUnavailableError
from rungwatch.record.model import Conditions

# nvmlClocksEventReasons, bit by bit. The lowest, gpu_idle, holds no work back and is left out.
_IDLE_BIT = 0
_REASON_OF_BIT = {
    1: "applications_clocks_setting",
    2: "sw_power_cap",
    3: "hw_slowdown",
    4: "sync_boost",
    5: "sw_thermal_slowdown",
    6: "hw_thermal_slowdown",
    7: "hw_power_brake_slowdown",
    8: "display_clock_setting",
    9: "board_limit",
    10: "reliability",
}
_COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}


class GpuProcess(msgspec.Struct, frozen=True):
    """Another process on the GPU, without its name. `memory_bytes` None: not known."""

    memory_bytes: int | None


class GpuStatus(msgspec.Struct, frozen=True):
    """What NVML says of a GPU and of who uses it; None where it does not know.

    Clocks are of the SMs and the memory, `slowdown_c` the temperature at which the hardware slows
    down, `used_bytes` what processes hold of the memory (not what the driver reserves),
    `uncorrected_errors` the ECC errors since the driver was loaded, and `busy_percent` the share
    of NVML's last sample period in which a kernel ran. Without any of `processes` nobody is known
    to use the GPU, but a container hides those outside it.
    """

    driver: str | None = None
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    highest_sm_mhz: int | None = None
    application_sm_mhz: int | None = None
    default_application_sm_mhz: int | None = None
    slowed_by: tuple[str, ...] | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    temperature_c: int | None = None
    slowdown_c: int | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None
    busy_percent: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    ecc: bool | None = None
    uncorrected_errors: int | None = None
    mig: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None


class Nvml:
    """One GPU, as NVML sees it."""

    def __init__(self, api: Any, pci_address: str) -> None:
        """Find the GPU at `pci_address` (00000000:3B:00.0) through `api`, the module pynvml.

        Raises:
            BackendUnavailableError: NVML can't be loaded or does not know this GPU.
        """
        self._api = api
        try:
            api.nvmlInit()
            self._device = api.nvmlDeviceGetHandleByPciBusId(pci_address)
        except api.NVMLError_LibraryNotFound:
            raise BackendUnavailableError(
                "NVML is not here: libnvidia-ml.so.1, a part of NVIDIA's driver, can't be loaded"
            ) from None
        except api.NVMLError as error:
            raise BackendUnavailableError(
                f"NVML does not find the GPU that CUDA uses: {error}"
            ) from None

    def conditions(self) -> Conditions:
        """Return how the GPU is at this moment; power is NVML's average over the last second.

        Raises:
            BackendUnavailableError: NVML does not know one of these, or fails.
        """
        return Conditions(
            sm_mhz=_needed("the SM clock", self._clock("ClockInfo", "SM")),
            memory_mhz=_needed("the memory clock", self._clock("ClockInfo", "MEM")),
            power_w=_needed("the power", self._watts("PowerUsage")),
            temperature_c=_needed("the temperature", self._temperature()),
            slowed_by=_needed("what slows the clocks down", self._slowed_by()),
        )

    def highest_sm_mhz(self) -> int:
        """Return the highest clock that the SMs can reach.

        Raises:
            BackendUnavailableError: NVML does not know it, or fails.
        """
        return _needed("the highest SM clock", self._clock("MaxClockInfo", "SM"))

    def status(self) -> GpuStatus:
        """Return all that a person wants to know before this GPU is trusted with a measurement.

        Raises:
            BackendUnavailableError: NVML fails: the GPU is lost, for example.
        """
        api = self._api
        used, total = self._memory_bytes()
        compute_mode = self._ask("ComputeMode")
        return GpuStatus(
            driver=self._or_none(api.nvmlSystemGetDriverVersion),
            sm_mhz=self._clock("ClockInfo", "SM"),
            memory_mhz=self._clock("ClockInfo", "MEM"),
            highest_sm_mhz=self._clock("MaxClockInfo", "SM"),
            application_sm_mhz=self._clock("ApplicationsClock", "SM"),
            default_application_sm_mhz=self._clock("DefaultApplicationsClock", "SM"),
            slowed_by=self._slowed_by(),
            power_w=self._watts("PowerUsage"),
            power_limit_w=self._watts("EnforcedPowerLimit"),
            default_power_limit_w=self._watts("PowerManagementDefaultLimit"),
            temperature_c=self._temperature(),
            slowdown_c=self._ask("TemperatureThreshold", api.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
            used_bytes=used,
            total_bytes=total,
            busy_percent=getattr(self._ask("UtilizationRates"), "gpu", None),
            processes=self._processes(),
            ecc=self._is_on("EccMode"),
            uncorrected_errors=self._ask(
                "TotalEccErrors", api.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, api.NVML_VOLATILE_ECC
            ),
            mig=self._is_on("MigMode"),
            persistence=self._is_on("PersistenceMode"),
            compute_mode=None if compute_mode is None else _COMPUTE_MODES.get(compute_mode),
        )

    def _clock(self, query: str, domain: str) -> int | None:
        mhz: int | None = self._ask(query, getattr(self._api, f"NVML_CLOCK_{domain}"))
        return mhz

    def _watts(self, query: str) -> float | None:
        milliwatts: int | None = self._ask(query)
        return None if milliwatts is None else milliwatts / 1000

    def _temperature(self) -> int | None:
        celsius: int | None = self._ask("Temperature", self._api.NVML_TEMPERATURE_GPU)
        return celsius

    def _slowed_by(self) -> tuple[str, ...] | None:
        bits: int | None = self._ask("CurrentClocksEventReasons")
        if bits is None:
            return None
        return tuple(
            _REASON_OF_BIT.get(bit, f"unknown_bit_{bit}")
            for bit in range(bits.bit_length())
            if bits >> bit & 1 and bit != _IDLE_BIT
        )

    def _memory_bytes(self) -> tuple[int | None, int | None]:
        memory = self._ask("MemoryInfo", self._api.nvmlMemory_v2)
        return getattr(memory, "used", None), getattr(memory, "total", None)

    def _processes(self) -> tuple[GpuProcess, ...] | None:
        found: dict[int, GpuProcess] = {}
        known = False
        for kind in ("Compute", "Graphics", "MPSCompute"):
            processes = self._ask(f"{kind}RunningProcesses")
            known = known or processes is not None
            for process in processes or ():
                found[process.pid] = GpuProcess(process.usedGpuMemory)
        found.pop(os.getpid(), None)
        return tuple(found.values()) if known else None

    def _is_on(self, query: str) -> bool | None:
        """Return a mode: NVML gives its value, or its value now and that after the next reset."""
        mode = self._ask(query)
        if isinstance(mode, list | tuple):
            mode = mode[0]
        return None if mode is None else bool(mode)

    def _ask(self, query: str, *arguments: Any) -> Any:
        """Return nvmlDeviceGet<query>, None where this GPU, driver or user does not get it."""
        ask = getattr(self._api, f"nvmlDeviceGet{query}")
        return self._or_none(ask, self._device, *arguments)

    def _or_none(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        api = self._api
        try:
            return ask(*arguments)
        except (
            api.NVMLError_NotSupported,
            api.NVMLError_NoPermission,
            api.NVMLError_FunctionNotFound,
            api.NVMLLibraryMismatchError,
        ):
            return None
        except api.NVMLError as error:
            raise BackendUnavailableError(f"NVML fails: {error} (from {ask.__name__})") from None


def open_device() -> Nvml:
    """Return the GPU that is CUDA's device 0 in this process. Makes no CUDA context.

    Raises:
        BackendUnavailableError: a package or library is missing, or there is no GPU.
    """
    try:
        import pynvml
    except ImportError as error:
        raise BackendUnavailableError(
            f"nvidia-ml-py is not installed: pip install 'rungwatch[gpu]' ({error})"
        ) from None
    return Nvml(pynvml, _pci_address())


def _pci_address() -> str:
    driver = Driver()
    driver.start()
    try:
        device = driver.device()
        domain, bus, slot = (
            driver.attribute(device, f"PCI_{part}_ID") for part in ("DOMAIN", "BUS", "DEVICE")
        )
    except CudaError as error:
        raise BackendUnavailableError(f"the driver can't say where its GPU is: {error}") from None
    return f"{domain:08x}:{bus:02x}:{slot:02x}.0"


def _needed[T](what: str, value: T | None) -> T:
    if value is None:
        raise BackendUnavailableError(
            f"NVML does not know {what} of this GPU: without it no timing can be judged"
        )
    return value
