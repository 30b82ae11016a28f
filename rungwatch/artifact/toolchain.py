"""What compiles a kernel: the packages, their versions, and an environment that holds them.

A revision may name its compiler in a lock file (`package==version` a line, as pip takes for
constraints). Where that differs from what is installed here, an environment of its own is made
once and kept, so that each revision is built by the compiler that it names.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

import rungwatch
from rungwatch.backends.supervise import Limits, supervise
from rungwatch.record.files import write_atomically
from rungwatch.record.surroundings import code_digest

# Everything whose version can change the machine code, and what the worker needs to call it.
COMPILERS = (
    "apache-tvm",
    "apache-tvm-ffi",
    "nvidia-cuda-cccl",
    "nvidia-cuda-crt",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
)
_CALLED_BY_WORKER = ("cuda-bindings", "msgspec", "numpy", "psutil")
_PIN = re.compile(r"==([A-Za-z0-9][A-Za-z0-9.!+_-]*)", re.ASCII)
# Where packages come from is the user's setting, and no part of which ones they are.
_INDEX_OPTIONS = ("--index-url", "--extra-index-url", "-i ", "--find-links", "--only-binary")
_INSTALL_LIMITS = Limits(deadline_s=900.0, memory_bytes=8 * 2**30)
_READY = "ready.json"
# pip and uv need the user's settings to find their index; a kernel's code never sees this.
_PASSED_ON = ("HOME", "PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME")
_PASSED_ON_PREFIXES = ("UV_", "PIP_", "HTTP_", "HTTPS_", "NO_PROXY", "http_", "https_", "no_proxy")


class ToolchainError(RuntimeError):
    """The compiler that a revision names can't be had here, and why."""


@dataclass(frozen=True)
class Toolchain:
    """An interpreter that has the compilers, and their versions by package name."""

    python: Path
    versions: Mapping[str, str]
    import_folder: Path | None = None

    @property
    def cuda_home(self) -> Path:
        """The folder with the CUDA headers and libraries of the installed wheels."""
        return _purelib(self.python) / "nvidia" / "cu13"


@functools.cache
def installed() -> Toolchain:
    """Return the toolchain of the running environment.

    Raises:
        ToolchainError: a package is missing; names them all.
    """
    versions, missing = {}, []
    for package in COMPILERS:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        raise ToolchainError(f"{', '.join(missing)} not installed: pip install 'rungwatch[build]'")
    return Toolchain(Path(sys.executable), versions)


def pins_in(lock: bytes) -> dict[str, str]:
    """Return the versions that a lock file gives the compilers, by normalised package name.

    A line about a compiler that is anything but one exact version would be a compiler that
    nobody named, so it is an error, as is a file that names none.

    Raises:
        ToolchainError: see above; names the line.
    """
    try:
        lines = lock.decode("utf-8").replace("\\\n", " ").splitlines()
    except UnicodeDecodeError:
        raise ToolchainError("the lock file is no UTF-8 text") from None
    pins: dict[str, str] = {}
    for line in lines:
        text = re.sub(r"(^|\s)#.*", "", line).partition(" --hash")[0].strip()
        if not text or text.startswith(_INDEX_OPTIONS):
            continue
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            raise ToolchainError(f"the lock file holds a line that is no pin: {text!r}") from None
        name = canonicalize_name(requirement.name)
        if name not in COMPILERS or not (
            requirement.marker is None or requirement.marker.evaluate()
        ):
            continue
        exact = _PIN.fullmatch(str(requirement.specifier))
        if exact is None or requirement.extras or requirement.url:
            raise ToolchainError(f"the lock file does not give {name} one version: {text!r}")
        if pins.setdefault(name, exact[1]) != exact[1]:
            raise ToolchainError(f"the lock file pins {name} twice")
    if not pins:
        raise ToolchainError(f"the lock file pins none of {', '.join(COMPILERS)}")
    return pins


def toolchain_for(lock: bytes | None, cache: Path, say: Callable[[str], None]) -> Toolchain:
    """Return the toolchain that a lock file names: the installed one where it is that one.

    Compilers that the lock does not pin have the installed version. `say` is told what takes
    long.

    Raises:
        ToolchainError: it can't be installed.
    """
    here = installed()
    pins = pins_in(lock) if lock is not None else {}
    wanted = {**here.versions, **pins}
    if wanted == here.versions:
        return here
    name = hashlib.sha256(json.dumps([sys.version, wanted, _worker_pins()]).encode()).hexdigest()
    folder = cache / "toolchains" / name[:16]
    python = folder / "venv" / "bin" / "python"
    differing = ", ".join(f"{p} {v}" for p, v in wanted.items() if v != here.versions[p])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not _is_ready(folder, wanted):
                say(f"installing the compiler that the revision names: {differing}")
                _install(folder, wanted)
        return Toolchain(python, wanted, _copy_of_tool(cache))
    except OSError as error:
        raise ToolchainError(f"no environment for {differing}: {error}") from None


def worker_environment(toolchain: Toolchain, temporary: Path) -> dict[str, str]:
    """Return the whole environment of a build worker: nothing of the caller's can change code."""
    root = Path(rungwatch.__file__).parents[1]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(temporary),
        "TMPDIR": str(temporary),
        "CUDA_PATH": str(toolchain.cuda_home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
    }
    if toolchain.import_folder is not None:
        environment["PYTHONPATH"] = str(toolchain.import_folder)
    elif root != Path(sysconfig.get_path("purelib")):  # run from a checkout, not installed
        environment["PYTHONPATH"] = str(root)
    return environment


def _install(folder: Path, wanted: Mapping[str, str]) -> None:
    """Make the environment in `folder`; it counts once its ready file is there.

    Raises:
        ToolchainError: uv is missing, or could not install a package; in its words.
    """
    (folder / _READY).unlink(missing_ok=True)
    venv = folder / "venv"
    shutil.rmtree(venv, ignore_errors=True)
    uv = _find_uv()
    pins = [f"{package}=={version}" for package, version in (*wanted.items(), *_worker_pins())]
    _run(uv, "venv", "--python", sys.executable, str(venv))
    _run(uv, "pip", "install", "--python", str(venv / "bin" / "python"), *pins)
    write_atomically(folder / _READY, json.dumps(wanted).encode())


def _is_ready(folder: Path, wanted: Mapping[str, str]) -> bool:
    try:
        return bool(json.loads((folder / _READY).read_bytes()) == wanted)
    except (OSError, ValueError):
        return False


def _copy_of_tool(cache: Path) -> Path:
    """Return a folder with this package alone: nothing else of this environment may come along."""
    folder = cache / "toolchains" / f"rungwatch-{code_digest()[:16]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".rungwatch-", dir=folder.parent))
        try:
            shutil.copytree(Path(rungwatch.__file__).parent, aside / "rungwatch")
            aside.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run was first, with the same content
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return folder


def _worker_pins() -> list[tuple[str, str]]:
    return [(package, metadata.version(package)) for package in _CALLED_BY_WORKER]


def _find_uv() -> str:
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        raise ToolchainError("uv is not installed: pip install 'rungwatch[build]'") from None


def _run(*command: str) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    with tempfile.TemporaryDirectory(prefix="rungwatch-uv-") as folder:
        ended = supervise(command, Path(folder), environment, _INSTALL_LIMITS)
    if not ended.ok:
        raise ToolchainError(f"uv {command[1]}: {_without_paths(ended.describe())}")


def _without_paths(text: str) -> str:
    """Return a message without the folders of this machine: it goes into a record."""
    return re.sub(r"(?<![\w:/])/[^\s'\"`]*/([^\s/'\"`]*)", r"\1", text)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, so that a killed run blocks nobody."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@functools.cache
def _purelib(python: Path) -> Path:
    if python == Path(sys.executable):
        return Path(sysconfig.get_path("purelib"))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return python.parents[1] / "lib" / version / "site-packages"
