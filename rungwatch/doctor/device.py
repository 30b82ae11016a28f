"""What is good and bad about the GPU as the driver and torch see it: pure.

What NVML says of it is judged in `measuring`.
"""

from collections.abc import Iterator

from rungwatch.backends.cuda import sanitizer
from rungwatch.backends.cuda.device_check import (
    COMPUTE_CAPABILITY_OF,
    LEAST_FREE_BYTES,
    OLDEST_CUDA,
    known_target,
)
from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.doctor.facts import Facts, Variables
from rungwatch.doctor.finding import ON_GPU, Activity, Finding, note, ok, trouble
from rungwatch.doctor.host import gigabytes, not_installed, pip_install
from rungwatch.doctor.packages import split

_MEASURE = (Activity.MEASURE,)
# The operands of 16384 x 16384 x 16384, what flushes L2, and torch's own.
_LEAST_TO_MEASURE_BYTES = 4 * 10**9


def judge_device(facts: Facts) -> Iterator[Finding]:
    """Say whether there is a GPU that runs artifacts, and what is there to run and watch them."""
    yield from _device(facts)
    if not facts.has_gpu:
        return
    yield _packages(facts)
    yield _torch(facts)
    yield _sanitizer(facts)
    yield from _variables(facts.variables)


def _device(facts: Facts) -> Iterator[Finding]:
    device = facts.gpu.device
    if not facts.has_gpu:
        next_step = f"use a machine that has one; why none is seen: {facts.gpu.problem}"
        yield trouble("gpu", "there is no GPU here", next_step, ON_GPU)
        return
    if device is None:
        next_step = "see what nvidia-smi says; CUDA_VISIBLE_DEVICES chooses the GPU"
        yield trouble("gpu", facts.gpu.problem, next_step, ON_GPU)
        return
    yield _target(device)
    if facts.gpu_nodes > 1:
        seen = f"{facts.gpu_nodes} here, and CUDA's first is used"
        yield note("gpus", seen, "choose by CUDA_VISIBLE_DEVICES")
    yield _driver(device)
    yield _memory(device)


def _target(device: DeviceFacts) -> Finding:
    major, minor = device.compute_capability
    capability = f"compute capability {major}.{minor}"
    if (target := known_target(device)) is not None:
        seen = f"{device.name}, {device.sm_count} SMs, {capability}: {target}"
        return ok("gpu", seen, ON_GPU)
    known = ", ".join(
        f"{name} ({major}.{minor})" for name, (major, minor) in COMPUTE_CAPABILITY_OF.items()
    )
    seen = f"kernels have no target for {device.name} ({capability})"
    return trouble("gpu", seen, f"use a GPU for {known}", ON_GPU)


def _driver(device: DeviceFacts) -> Finding:
    if device.cuda_version < OLDEST_CUDA:
        oldest = ".".join(map(str, OLDEST_CUDA))
        next_step = f"install a driver for CUDA {oldest} (580) or newer"
        return trouble("driver", f"the driver is too old: {device.driver}", next_step, ON_GPU)
    return ok("driver", device.driver, ON_GPU)


def _memory(device: DeviceFacts) -> Finding:
    free, total = gigabytes(device.free_bytes), gigabytes(device.total_bytes)
    seen = f"{free} of {total} of the GPU's memory are free"
    next_step = "nvidia-smi names who uses it"
    if device.free_bytes < LEAST_FREE_BYTES:
        return trouble("gpu-memory", f"only {seen}", next_step, ON_GPU)
    if device.free_bytes < _LEAST_TO_MEASURE_BYTES:
        return trouble("gpu-memory", f"only {seen}", next_step, _MEASURE)
    return ok("gpu-memory", seen, ON_GPU)


def _packages(facts: Facts) -> Finding:
    """Name the versions; whether the packages work is seen by using them."""
    there, missing = split("gpu", facts.packages)
    if missing:
        return note("gpu-packages", not_installed(missing), pip_install("gpu"), ON_GPU)
    return ok("gpu-packages", ", ".join(there), ON_GPU)


def _torch(facts: Facts) -> Finding:
    torch, device = facts.torch, facts.gpu.device
    if torch is None or torch.problem:
        seen = "torch was not asked" if torch is None else torch.problem
        next_step = f"{pip_install('gpu')}: cuBLAS, what kernels are timed against, is called by it"
        return trouble("torch", seen, next_step, _MEASURE)
    if device is not None and torch.gpu != device.name:
        seen = f"torch sees another GPU than the driver: {torch.gpu}"
        return trouble("torch", seen, "set CUDA_VISIBLE_DEVICES to one GPU", _MEASURE)
    return ok("torch", f"torch {torch.version} sees the GPU", _MEASURE)


def _sanitizer(facts: Facts) -> Finding:
    affects = (Activity.CUDA,)
    if facts.sanitizer:
        return ok("sanitizer", "compute-sanitizer was found", affects)
    next_step = "install the CUDA toolkit, which has it"
    if facts.variables.gpu_required:
        seen = f"{sanitizer.NOT_FOUND}, and RUNGWATCH_REQUIRE_GPU is set"
        return trouble("sanitizer", seen, next_step, affects)
    return note("sanitizer", f"{sanitizer.NOT_FOUND}: its checks are left out", next_step, affects)


def _variables(variables: Variables) -> Iterator[Finding]:
    if variables.visible_devices is not None:
        yield note("CUDA_VISIBLE_DEVICES", f"is '{variables.visible_devices}'")
    if variables.library_path:
        yield note("LD_LIBRARY_PATH", "is set: libraries are looked for there first")
