"""Collect the facts of this machine. Takes a second or two without a GPU, and judges nothing."""

import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import msgspec
import psutil

from rungwatch.artifact.store import Store, StoreError
from rungwatch.backends.cuda import sanitizer
from rungwatch.backends.cuda.artifacts import ArtifactFolder
from rungwatch.backends.cuda.device_check import worker_environment
from rungwatch.backends.job import SIMULATOR_TOOLS, BackendUnavailableError
from rungwatch.backends.simulator.cache import CacheLimitError, limit_bytes, simulator_cache
from rungwatch.backends.simulator.engines import Engines
from rungwatch.backends.simulator.toolchain import find_toolchain
from rungwatch.backends.supervise import Ending, Limits, supervise
from rungwatch.cache import cache_dir
from rungwatch.doctor import gpu_look, torch_look
from rungwatch.doctor.facts import (
    ArtifactFacts,
    DiskFacts,
    Facts,
    GpuLook,
    SimulatorFacts,
    TorchLook,
    Variables,
)
from rungwatch.doctor.packages import EXTRAS
from rungwatch.record.files import read_regular
from rungwatch.record.surroundings import output_of

_GIB = 2**30
_GPU_LIMITS = Limits(deadline_s=90.0, memory_bytes=8 * _GIB)
_TORCH_LIMITS = Limits(deadline_s=180.0, memory_bytes=32 * _GIB)
_COUNTING_S = 1.0
_MOST_ANSWER_BYTES = 2**20
# NVIDIA's driver makes one such file a GPU; a container without a GPU has none.
_DEVICE_FILES = (Path("/dev"), "nvidia[0-9]*")
# A UUID of a GPU (GPU-...) or of a part of one (MIG-...) names a machine.
_UUID = re.compile(r"(GPU|MIG)-[^,]*")


def collect(artifacts: Path | None = None, *, gpu_required: bool = False) -> Facts:
    """Return the facts of this machine, and of the artifacts folder where one is given."""
    memory = psutil.virtual_memory()
    nodes = len(list(_DEVICE_FILES[0].glob(_DEVICE_FILES[1])))
    gpu = _look_at_gpu()
    seen = nodes > 0 or gpu.device is not None
    return Facts(
        system=f"{platform.system()} {platform.machine()}",
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        memory_free_bytes=memory.available,
        memory_bytes=memory.total,
        disk=_disk(cache_dir()),
        packages=_packages(),
        simulator=_simulator(),
        git=output_of("git", "--version"),
        gpu_nodes=nodes,
        gpu=gpu,
        torch=_look_with_torch() if seen else None,
        sanitizer=sanitizer.find() is not None,
        variables=_variables(gpu_required),
        artifacts=_artifacts(artifacts) if artifacts is not None else None,
    )


def _packages() -> dict[str, str]:
    found = {}
    for name in {name for names in EXTRAS.values() for name in names}:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _simulator() -> SimulatorFacts:
    try:
        toolchain = find_toolchain()
    except BackendUnavailableError as error:
        return SimulatorFacts(problems=tuple(str(error).splitlines()))
    packages = [f"{name} {metadata.version(name)}" for name in EXTRAS["sim"]]
    programs = [
        " ".join(version.split()[:2])  # cargo 1.95.0
        for version in (toolchain.cargo_version, toolchain.rustc_version)
    ]
    engines = Engines(simulator_cache(cache_dir()), lambda text: None)
    return SimulatorFacts(
        parts=(*packages, *programs, "a C linker"),
        engines_to_build=tuple(
            tool.value for tool in SIMULATOR_TOOLS if not engines.ready(tool, toolchain)
        ),
    )


def _disk(cache: Path) -> DiskFacts:
    place = next(folder for folder in (cache, *cache.parents) if folder.exists())
    try:
        limit_bytes()
        limit_problem = ""
    except CacheLimitError as error:
        limit_problem = str(error)
    return DiskFacts(
        cache_writable=place.is_dir() and os.access(place, os.W_OK | os.X_OK),
        cache_bytes=size_bytes(cache, time.monotonic() + _COUNTING_S),
        cache_free_bytes=shutil.disk_usage(place).free,
        temporary_free_bytes=shutil.disk_usage(tempfile.gettempdir()).free,
        limit_problem=limit_problem,
    )


def size_bytes(folder: Path, until_s: float) -> int | None:
    """Return the bytes of all files below `folder`, None where counting takes past `until_s`."""
    total = 0
    for place, _, files in os.walk(folder):
        if time.monotonic() > until_s:
            return None
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118
            except OSError:  # another process deletes what it no longer needs
                continue
    return total


def _variables(gpu_required: bool) -> Variables:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return Variables(
        visible_devices=None if visible is None else _UUID.sub("a UUID", visible),
        library_path=bool(os.environ.get("LD_LIBRARY_PATH")),
        gpu_required=gpu_required,
    )


def _artifacts(folder: Path) -> ArtifactFacts:
    try:
        manifest = ArtifactFolder(folder).manifest
    except BackendUnavailableError as error:
        return ArtifactFacts({}, problem=str(error))
    store, damaged = Store(folder), 0
    for identity in {item.artifact for item in manifest.items if item.artifact is not None}:
        try:
            store.get(identity)
        except StoreError:
            damaged += 1
    built = Counter[str](item.target for item in manifest.items if item.artifact is not None)
    return ArtifactFacts(built, len(manifest.items) - built.total(), damaged)


def _look_at_gpu() -> GpuLook:
    command = (sys.executable, "-P", "-m", gpu_look.__name__)
    answer, problem = _ask(command, gpu_look.LOOK_FILE, _GPU_LIMITS, GpuLook)
    return answer or GpuLook(problem=problem, status_problem=problem)


def _look_with_torch() -> TorchLook:
    command = (sys.executable, "-P", "-m", torch_look.__name__)
    answer, problem = _ask(command, torch_look.LOOK_FILE, _TORCH_LIMITS, TorchLook)
    return answer or TorchLook(problem=problem)


def _ask[T](
    command: Sequence[str], file: str, limits: Limits, kind: type[T]
) -> tuple[T | None, str]:
    """Return what a process wrote into `file` of its own folder, or how it failed to."""
    with tempfile.TemporaryDirectory(prefix="rungwatch-doctor-") as name:
        folder = Path(name)
        ended = supervise([*command, name], folder, worker_environment(folder), limits)
        try:
            data = read_regular(folder / file, _MOST_ANSWER_BYTES)
            return msgspec.json.decode(data, type=kind), ""
        except (OSError, msgspec.MsgspecError):
            module = command[-1].rpartition(".")[2]
            if ended.ending is Ending.DEADLINE:
                return None, f"{module} did not end in {limits.deadline_s:.0f} s and was ended"
            return None, f"{module} died, {ended.describe()}"
