"""Say, before any job, whether this machine's GPU can run artifacts, and what is missing if not."""

import sys
import tempfile
from pathlib import Path

import msgspec

from rungwatch.backends.cuda.facts import FACTS_FILE, DeviceFacts, Look
from rungwatch.backends.environment import import_path, passed_on
from rungwatch.backends.job import BackendUnavailableError
from rungwatch.backends.supervise import Ending, Limits, supervise
from rungwatch.declare.protocol import Target
from rungwatch.record.files import read_regular

# Machine code of an "a" target runs on its own compute capability and on no other.
COMPUTE_CAPABILITY_OF: dict[Target, tuple[int, int]] = {"sm_90a": (9, 0), "sm_100a": (10, 0)}
# A driver loads what a compiler of its own CUDA major version made; artifacts come from CUDA 13.
OLDEST_CUDA = (13, 0)
# A context, a kernel and the small problems of the matrix need less.
LEAST_FREE_BYTES = 2**30
_MOST_FACTS_BYTES = 2**16
_GIB = 2**30
_FACTS = "rungwatch.backends.cuda.facts"
_LIMITS = Limits(deadline_s=90.0, memory_bytes=8 * _GIB)
# All that a process that uses the GPU sees of the caller's environment.
_PASSED_ON = (
    "PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
)  # fmt: skip


def find_device() -> DeviceFacts:
    """Return what the driver says of this machine's GPU.

    Raises:
        BackendUnavailableError: there is none, or the driver does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="rungwatch-gpu-") as name:
        folder = Path(name)
        command = [sys.executable, "-P", "-m", _FACTS, name]
        ended = supervise(command, folder, worker_environment(folder), _LIMITS)
        if ended.ending is Ending.DEADLINE:
            raise BackendUnavailableError(
                f"the driver did not answer in {_LIMITS.deadline_s:.0f} s: see nvidia-smi"
            )
        try:
            data = read_regular(folder / FACTS_FILE, _MOST_FACTS_BYTES)
            found = msgspec.json.decode(data, type=Look)
        except (OSError, msgspec.MsgspecError):
            raise BackendUnavailableError(
                f"the process that looks at the GPU died, {ended.describe()}"
            ) from None
    if found.facts is None:
        raise BackendUnavailableError(found.problem)
    return found.facts


def known_target(facts: DeviceFacts) -> Target | None:
    """Return the target of a GPU's compute capability, None where kernels have no such target."""
    for target, capability in COMPUTE_CAPABILITY_OF.items():
        if capability == facts.compute_capability:
            return target
    return None


def target_of(facts: DeviceFacts) -> Target:
    """Return the target that this GPU runs.

    Raises:
        BackendUnavailableError: kernels have no such target, the driver is too old, or the
            memory is in use.
    """
    target = known_target(facts)
    if target is None:
        known = ", ".join(
            f"{name} needs {major}.{minor}"
            for name, (major, minor) in COMPUTE_CAPABILITY_OF.items()
        )
        major, minor = facts.compute_capability
        raise BackendUnavailableError(
            f"{facts.name} has compute capability {major}.{minor}: {known}"
        )
    if facts.cuda_version < OLDEST_CUDA:
        raise BackendUnavailableError(
            f"driver {facts.driver} is too old: artifacts need one for CUDA {OLDEST_CUDA[0]}."
            f"{OLDEST_CUDA[1]} (580) or newer"
        )
    if facts.free_bytes < LEAST_FREE_BYTES:
        raise BackendUnavailableError(
            f"{facts.free_bytes / _GIB:.1f} of {facts.total_bytes / _GIB:.0f} GiB of GPU memory"
            f" are free, at least {LEAST_FREE_BYTES / _GIB:.0f} is needed: nvidia-smi names who"
            " uses it"
        )
    return target


def worker_environment(temporary: Path) -> dict[str, str]:
    """Return the whole environment of a process that uses the GPU."""
    return passed_on(_PASSED_ON) | import_path() | {
        "TMPDIR": str(temporary),
        # Nothing may be compiled by the driver, so there is nothing to keep.
        "CUDA_CACHE_DISABLE": "1",
        "CUDA_DISABLE_PTX_JIT": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
    }  # fmt: skip
