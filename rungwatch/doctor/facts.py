"""What is known of a machine before anything is judged. None stands for: not known."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.backends.cuda.nvml import GpuStatus


class GpuLook(msgspec.Struct, frozen=True):
    """What a process that looked at the GPU found: facts, or the problem that kept it from them.

    `device` is what the driver says, `status` what NVML does.
    """

    device: DeviceFacts | None = None
    problem: str = ""
    status: GpuStatus | None = None
    status_problem: str = ""


class TorchLook(msgspec.Struct, frozen=True):
    """What torch said in a process of its own: its version and the GPU it sees, or a problem."""

    version: str = ""
    gpu: str = ""
    problem: str = ""


@dataclass(frozen=True)
class SimulatorFacts:
    """What the simulator is made of, in words, or a line "what is wrong: what to do" a problem."""

    parts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    engines_to_build: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiskFacts:
    """The cache folder and the one for temporary files, in bytes.

    `cache_bytes` is None where counting took too long; `limit_problem` says what is wrong with
    the limit that the environment sets.
    """

    cache_writable: bool
    cache_bytes: int | None
    cache_free_bytes: int
    temporary_free_bytes: int
    limit_problem: str = ""


@dataclass(frozen=True)
class ArtifactFacts:
    """An artifacts folder: how many cases it holds for each target, and what is wrong with it.

    `unbuilt` cases were refused when it was built; `damaged` artifacts are missing or altered.
    """

    cases_by_target: Mapping[str, int]
    unbuilt: int = 0
    damaged: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Variables:
    """What the environment says: which GPU CUDA shows, and whether it is led to libraries.

    `visible_devices` never holds a UUID.
    """

    visible_devices: str | None = None
    library_path: bool = False
    gpu_required: bool = False


@dataclass(frozen=True)
class Facts:
    """One machine. `packages` maps what is installed to its version.

    `gpu_nodes` counts the device files of NVIDIA's driver: with none, and nothing in `gpu`, there
    is no GPU. `torch` is None where there was no GPU to show it.
    """

    system: str
    cores: int
    python: str
    memory_free_bytes: int
    memory_bytes: int
    disk: DiskFacts
    packages: Mapping[str, str]
    simulator: SimulatorFacts
    git: str | None
    gpu_nodes: int
    gpu: GpuLook
    torch: TorchLook | None
    sanitizer: bool
    variables: Variables
    artifacts: ArtifactFacts | None = None

    @property
    def has_gpu(self) -> bool:
        """Whether there is a GPU, also one that can't be used."""
        return self.gpu_nodes > 0 or self.gpu.device is not None
