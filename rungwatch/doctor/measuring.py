"""Is a GPU in a state in which a timing says something about a kernel? From NVML's facts: pure.

What can't be read is said to be unknown, and is unknown for measuring where a timing depends on
it. Source: NVML API reference, nvmlClocksEventReasons.
"""

from collections.abc import Iterator

from rungwatch.backends.cuda.nvml import GpuStatus
from rungwatch.doctor.facts import Facts
from rungwatch.doctor.finding import ON_GPU, Activity, Finding, note, ok, trouble, unknown
from rungwatch.doctor.host import gigabytes

_MEASURE = (Activity.MEASURE,)
_UNREADABLE = "measure on a machine where NVML can read it"
# What holds clocks down at no fault of the GPU or its cooling; a power cap is normal under load.
_HARMLESS = frozenset({"applications_clocks_setting", "display_clock_setting", "sw_power_cap"})
_NEAR_SLOWDOWN_C = 5
# What is in use on an idle GPU, as NVML samples it, and what a driver alone may hold of its memory.
_IDLE_PERCENT = 5
_IDLE_BYTES = 10**9
# Limits are set in whole watts; NVML gives milliwatts.
_SAME_POWER_W = 1.0


def judge_measuring(facts: Facts) -> Iterator[Finding]:
    """Say what NVML's facts mean for a measurement."""
    status = facts.gpu.status
    if status is None:
        if facts.has_gpu:
            next_step = "without NVML nobody knows whether the GPU was slowed down"
            yield trouble("nvml", facts.gpu.status_problem, next_step, _MEASURE)
        return
    yield _others(status)
    yield _mig(status)
    yield _clocks(status)
    yield _slowed(status)
    yield _power(status)
    yield _temperature(status)
    yield _ecc(status)
    yield _compute_mode(status)
    yield _persistence(status)


def _others(status: GpuStatus) -> Finding:
    name, next_step = "gpu-use", "wait until the GPU is free: nvidia-smi names who uses it"
    if status.processes:
        count = len(status.processes)
        who = "another process uses" if count == 1 else f"{count} other processes use"
        held = [process.memory_bytes for process in status.processes]
        known = sum(size for size in held if size is not None)
        memory = f" ({gigabytes(known)})" if known else ""
        return trouble(name, f"{who} the GPU{memory}", next_step, _MEASURE)
    if status.processes is None or status.busy_percent is None or status.used_bytes is None:
        seen = "whether something else uses the GPU is not known"
        return unknown(name, seen, _UNREADABLE, _MEASURE)
    hidden = "something that NVML does not show, maybe outside this container,"
    if status.used_bytes > _IDLE_BYTES:
        seen = f"{hidden} holds {gigabytes(status.used_bytes)} of GPU memory"
        return trouble(name, seen, next_step, _MEASURE)
    if status.busy_percent > _IDLE_PERCENT:
        seen = f"{hidden} keeps the GPU {status.busy_percent} % busy"
        return trouble(name, seen, next_step, _MEASURE)
    return ok(name, "nothing else uses the GPU", _MEASURE)


def _mig(status: GpuStatus) -> Finding:
    if status.mig is None:
        return unknown("mig", "whether MIG splits the GPU is not known", _UNREADABLE, _MEASURE)
    if status.mig:
        seen = "MIG is on: a part of the GPU can't be measured as the whole"
        return trouble("mig", seen, "switch it off: nvidia-smi -mig 0", _MEASURE)
    return ok("mig", "off", _MEASURE)


def _clocks(status: GpuStatus) -> Finding:
    now, highest = status.sm_mhz, status.highest_sm_mhz
    if now is None or highest is None or status.memory_mhz is None:
        return unknown("clocks", "the clocks are not known", _UNREADABLE, _MEASURE)
    seen = f"SM {now} MHz now, {highest} at most; memory {status.memory_mhz}"
    usual, chosen = status.default_application_sm_mhz, status.application_sm_mhz
    if usual is not None and chosen is not None and chosen < usual:
        lowered = f"{seen}; SM set to {chosen}, by default {usual}"
        return note("clocks", lowered, "nvidia-smi -rac sets them back", _MEASURE)
    return ok("clocks", seen, _MEASURE)


def _slowed(status: GpuStatus) -> Finding:
    name = "slowed-by"
    if status.slowed_by is None:
        return unknown(name, "what slows the clocks is not known", _UNREADABLE, _MEASURE)
    harmful = [reason for reason in status.slowed_by if reason not in _HARMLESS]
    if harmful:
        next_step = "see to cooling and power supply: nvidia-smi -q -d PERFORMANCE"
        return trouble(name, f"clocks are held down: {', '.join(harmful)}", next_step, _MEASURE)
    if status.slowed_by:
        seen = f"clocks are held down: {', '.join(status.slowed_by)}"
        return note(name, seen, affects=_MEASURE)
    return ok(name, "nothing", _MEASURE)


def _power(status: GpuStatus) -> Finding:
    limit, usual = status.power_limit_w, status.default_power_limit_w
    if status.power_w is None or limit is None or usual is None:
        return unknown("power", "power or its limit is not known", _UNREADABLE, _MEASURE)
    seen = f"{status.power_w:.0f} W now, limit {limit:.0f} W"
    if limit < usual - _SAME_POWER_W:
        return trouble(
            "power",
            f"the power limit is {limit:.0f} W, by default {usual:.0f} W",
            f"set it back: nvidia-smi -pl {usual:.0f}",
            _MEASURE,
        )
    if limit > usual + _SAME_POWER_W:
        return note("power", f"{seen}, by default {usual:.0f} W", affects=_MEASURE)
    return ok("power", f"{seen} as by default", _MEASURE)


def _temperature(status: GpuStatus) -> Finding:
    now, slowdown = status.temperature_c, status.slowdown_c
    if now is None:
        return unknown("temperature", "the temperature is not known", _UNREADABLE, _MEASURE)
    if slowdown is None:
        seen = f"{now} C; at which one it slows down is not known"
        return note("temperature", seen, affects=_MEASURE)
    seen = f"{now} C, slows down at {slowdown} C"
    if now > slowdown - _NEAR_SLOWDOWN_C:
        hot = f"the GPU is hot: {seen}"
        return trouble("temperature", hot, "let it cool down, see to its cooling", _MEASURE)
    return ok("temperature", seen, _MEASURE)


def _ecc(status: GpuStatus) -> Finding:
    if status.uncorrected_errors:
        seen = f"{status.uncorrected_errors} uncorrected memory errors: results may be wrong"
        return trouble("ecc", seen, "reset the GPU, and have it looked at", ON_GPU)
    if status.ecc is None or (status.ecc and status.uncorrected_errors is None):
        return note("ecc", "its mode or error count is not known", affects=ON_GPU)
    if not status.ecc:
        seen = "off: memory errors go unseen"
        return note("ecc", seen, "switch it on: nvidia-smi -e 1", ON_GPU)
    return ok("ecc", "on, no uncorrected errors", ON_GPU)


def _compute_mode(status: GpuStatus) -> Finding:
    mode = status.compute_mode
    if mode == "prohibited":
        seen = "the compute mode is prohibited: no process may compute"
        return trouble("compute-mode", seen, "allow it: nvidia-smi -c 0", ON_GPU)
    if mode is None:
        return note("compute-mode", "not known", affects=ON_GPU)
    return ok("compute-mode", mode, ON_GPU)


def _persistence(status: GpuStatus) -> Finding:
    if status.persistence is None:
        return note("persistence", "not known", affects=_MEASURE)
    if not status.persistence:
        seen = "off: the driver is loaded anew for each process"
        return note("persistence", seen, "switch it on: nvidia-smi -pm 1", _MEASURE)
    return ok("persistence", "on", _MEASURE)
