"""Collect what a record says of the machine, the toolchain and the revision."""

import functools
import hashlib
import os
import platform
import subprocess
import uuid
from importlib import metadata
from pathlib import Path

import rungwatch
from rungwatch.record.files import write_atomically
from rungwatch.record.model import Environment, Toolchain

_COMMAND_DEADLINE_S = 20.0


def environment(cache_dir: Path) -> Environment:
    """Describe this machine without naming it."""
    return Environment(
        machine_id=_machine_id(cache_dir),
        system=f"{platform.system()} {platform.machine()}",
        cpu_count=os.cpu_count() or 1,
        python=platform.python_version(),
    )


@functools.cache
def toolchain() -> Toolchain:
    """Return the versions that can change a verdict."""
    return Toolchain(
        rungwatch=rungwatch.__version__,
        tvm=_version("apache-tvm"),
        simulator=_version("tirx-harness"),
        numpy=metadata.version("numpy"),
        rustc=output_of("rustc", "--version"),
    )


def revision(folder: Path) -> str | None:
    """Return the git commit that `folder` is at, "+dirty" where it differs, None without git."""
    commit = output_of("git", "-C", str(folder), "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = output_of("git", "-C", str(folder), "status", "--porcelain", "--", ".")
    return commit if changes == "" else f"{commit}+dirty"


@functools.cache
def code_digest(*parts: str) -> str:
    """Return a hash over the tool's own source: what another version made is not reused.

    `parts` are the packages that take part ("artifact"), all of them where none is named.
    """
    root = Path(rungwatch.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if not parts or name.parts[0] in parts:
            digest.update(name.as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def output_of(*command: str) -> str | None:
    """Return what a short command prints, stripped; None where it is missing, fails or hangs."""
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMMAND_DEADLINE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _machine_id(cache_dir: Path) -> str:
    """Return a hash that tells machines apart and can't be turned back into a name.

    The salt never leaves the user's cache folder, so that guessing hostnames gives nothing.
    """
    salt_file = cache_dir / "machine-salt"
    try:
        salt = salt_file.read_bytes()
    except OSError:
        salt = uuid.uuid4().bytes
        try:
            write_atomically(salt_file, salt)
        except OSError:
            return "unknown"
    return hashlib.sha256(salt + uuid.getnode().to_bytes(6)).hexdigest()[:12]
