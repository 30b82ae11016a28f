"""What the simulator needs from this machine, found and checked without importing it.

It generates Rust and compiles it, so cargo, rustc and a C linker take part. Which ones, and with
which environment, is part of the simulator's cache keys: workers therefore get a fixed
environment, or an activated virtual environment would cost a rebuild of its engines.
"""

import functools
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rungwatch.backends.environment import import_path, passed_on
from rungwatch.backends.job import BackendUnavailableError, Tool

OLDEST_CARGO = (1, 89)
PYTHONS = ((3, 12), (3, 13))
_COMMAND_DEADLINE_S = 30.0
_RUST_HINT = "install Rust from https://rustup.rs, or run `rustup update stable`"
# How far the code generated for a kernel is optimised. A numerics job runs it 4 to 12 times; a
# checker runs it once, and compiling it at 3 takes 8 s of CPU longer than running it at 0 does
# (steps 4 to 9; at steps 1 to 3 both are equal). See docs/measurements.md.
_OPT_LEVELS = {Tool.NUMERICS: 3, Tool.SYNCCHECK: 0, Tool.RACECHECK: 0}
_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
# All that a worker sees of the caller's environment: what cargo needs to find its registry and
# toolchain, and nothing that could be a secret of a CI job.
_PASSED_ON = (
    "HOME", "USER", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTUP_AUTO_INSTALL",
    "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CARGO_HTTP_CAINFO", "CARGO_HTTP_PROXY", "CARGO_NET_OFFLINE",
)  # fmt: skip


@dataclass(frozen=True)
class Toolchain:
    """The programs that the simulator will use, with what `--version` says of them."""

    cargo: str
    rustc: str
    linker: str
    cargo_version: str
    rustc_version: str


@functools.cache
def find_toolchain() -> Toolchain:
    """Return the toolchain.

    Raises:
        BackendUnavailableError: something is missing or too old; one line each.
    """
    problems: list[str] = []
    if sys.version_info[:2] not in PYTHONS:
        problems.append(
            f"the simulator needs Python 3.12 or 3.13, this is {platform.python_version()}:"
            " make the environment with another Python"
        )
    if any(importlib.util.find_spec(name) is None for name in ("tirx_harness", "tvm")):
        problems.append("the simulator is not installed: pip install 'rungwatch[sim]'")
    cargo, cargo_version = _program("cargo", problems)
    rustc, rustc_version = _program("rustc", problems)
    if cargo_version and (found := _version(cargo_version)) < OLDEST_CARGO:
        oldest, is_ = (".".join(map(str, version)) for version in (OLDEST_CARGO, found))
        problems.append(f"cargo {is_} is too old, {oldest} is needed: {_RUST_HINT}")
    linker = shutil.which("cc")
    if linker is None:
        problems.append("there is no C linker (cc): install gcc or clang")
    if problems or linker is None:
        raise BackendUnavailableError("\n".join(problems))
    return Toolchain(cargo, rustc, linker, cargo_version, rustc_version)


def identity(toolchain: Toolchain) -> str:
    """Return a hash that changes whenever the simulator's engines must be built anew."""
    parts = (
        toolchain.cargo,
        toolchain.cargo_version,
        toolchain.rustc,
        toolchain.rustc_version,
        str(Path(sys.executable).resolve()),
        sys.version,
        *(metadata.version(name) for name in ("tirx-harness", "apache-tvm", "numpy")),
        _path(toolchain),
        _OPT_LEVELS,
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@functools.cache
def cpu_tag() -> str:
    """Return a name for this machine's instruction set: code is compiled for exactly that.

    A cache that is carried to another CPU model is thus not used there, where it could crash.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    names = " ".join(sorted(features.partition(":")[2].split()))
    return f"{platform.machine()}-{hashlib.sha256(names.encode()).hexdigest()[:8]}"


def worker_environment(
    tool: Tool, toolchain: Toolchain, cache: Path, temporary: Path
) -> dict[str, str]:
    """Return the whole environment of a worker whose temporary files go to `temporary`."""
    environment = passed_on(_PASSED_ON) | import_path()
    return environment | {
        "PATH": _path(toolchain),
        "TMPDIR": str(temporary),
        "NUMSIM_CARGO": toolchain.cargo,
        "NUMSIM_RUSTC": toolchain.rustc,
        # One folder for both: in two the simulator would keep every artifact twice.
        "NUMSIM_CACHE_DIR": str(cache),
        "NUMSIM_BUILD_CACHE_DIR": str(cache),
        "NUMSIM_GENERATED_OPT_LEVEL": str(_OPT_LEVELS[tool]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
    }


def _path(toolchain: Toolchain) -> str:
    folders = [str(Path(tool).parent) for tool in (toolchain.cargo, toolchain.rustc)]
    return os.pathsep.join(
        dict.fromkeys((*folders, str(Path(toolchain.linker).parent), *_SYSTEM_PATH))
    )


def _program(name: str, problems: list[str]) -> tuple[str, str]:
    """Return the path of a Rust program and its version text, looking where the simulator does."""
    own = Path.home() / ".cargo" / "bin" / name
    place = os.environ.get(f"NUMSIM_{name.upper()}") or (str(own) if own.is_file() else name)
    path = shutil.which(place)
    if path is None:
        problems.append(f"{name} was not found: {_RUST_HINT}")
        return "", ""
    try:
        finished = subprocess.run(
            [path, "--version", "--verbose"],
            capture_output=True,
            text=True,
            timeout=_COMMAND_DEADLINE_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        problems.append(f"{name} does not run ({error}): {_RUST_HINT}")
        return path, ""
    if finished.returncode != 0:
        why = (finished.stderr.strip().splitlines() or ["no message"])[0]
        problems.append(f"{name} does not run ({why}): {_RUST_HINT}")
        return path, ""
    return path, finished.stdout.strip()


def _version(text: str) -> tuple[int, int]:
    """Read "cargo 1.95.0 (...)"; a text of another form counts as too old."""
    match = re.match(r"\w+ (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
