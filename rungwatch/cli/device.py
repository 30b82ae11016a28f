"""What the commands that use a GPU need to know of this machine before they plan."""

import contextlib
import os
import shlex
from pathlib import Path

import click

from rungwatch.backends.cuda import sanitizer
from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.job import DEVICE_TOOLS, SANITIZERS, BackendUnavailableError
from rungwatch.check.plan import Reach
from rungwatch.decide.verdict import Reason
from rungwatch.declare.protocol import TARGETS
from rungwatch.record import model, surroundings


def gpu_required() -> bool:
    """Return whether RUNGWATCH_REQUIRE_GPU asks that nothing is skipped for lack of a GPU.

    Raises:
        click.UsageError: it is neither 0 nor 1.
    """
    value = os.environ.get("RUNGWATCH_REQUIRE_GPU", "")
    if value not in ("", "0", "1"):
        raise click.UsageError(f"RUNGWATCH_REQUIRE_GPU is '{value}': set it to 1, or not at all")
    return value == "1"


def reach_of(device: CudaBackend) -> Reach:
    """Return what can be run on this machine's GPU; where there is none, all is INVALID later."""
    try:
        targets = frozenset({device.target()})
    except BackendUnavailableError:
        targets = frozenset(TARGETS)
    lacking = SANITIZERS if sanitizer.find() is None else ()
    name = shlex.quote(device.folder.resolve().name)
    return Reach(
        targets,
        tuple(tool for tool in DEVICE_TOOLS if tool not in lacking),
        Reason.OTHER_GPU,
        options=f"--backend cuda --artifacts {name}",
        lacking=lacking,
        lack=sanitizer.NOT_FOUND,
    )


def revision_of(kernels: Path, device: CudaBackend) -> str | None:
    """Return the commit of the kernels: their folder's, or that which the artifacts name.

    On a machine that was only brought artifacts and kernel files there is no repository; the
    files are those that were built all the same, since their hashes must be the manifest's.
    """
    found = surroundings.revision(kernels)
    if found is None:
        with contextlib.suppress(BackendUnavailableError):
            return device.artifacts.manifest.revision
    return found


def gpu_of(device: CudaBackend) -> model.Gpu | None:
    """Return the GPU as a record names it, None where there is none."""
    if isinstance(device.device, BackendUnavailableError):
        return None
    return model.Gpu(device.device.name, device.device.driver)
