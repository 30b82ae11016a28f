"""Find kernel files and read their declarations without running any of their code.

`PROTOCOL` and `KERNEL` are plain data, so the tool reads them from the syntax tree: a file that
hangs, exits or crashes at import can't reach the process that judges it, and listing kernels
needs no compiler.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rungwatch.declare.literals import top_level_constants
from rungwatch.declare.protocol import (
    Declaration,
    ProtocolError,
    UnknownProtocolError,
    read_declaration,
)

FACTORY = "get_kernel"
_PROTOCOL_NAMES = ("PROTOCOL", "KERNEL")


@dataclass(frozen=True)
class KernelFile:
    """One kernel file: its key (hgemm/blackwell/step7), what it declares, or why that is unknown.

    Exactly one of `declaration` and `error` is set. `sha256` is the hash of the file's bytes;
    `declares` says whether it means to follow the kernel protocol, rightly or not;
    `unknown_protocol` that it follows a version of it that is not known here.
    """

    key: str
    path: Path
    sha256: str
    declaration: Declaration | None = None
    error: str | None = None
    declares: bool = True
    unknown_protocol: bool = False

    @property
    def name(self) -> str:
        """The last part of the key, as used in case ids: step7."""
        return self.key.rpartition("/")[2]


class NoKernelsError(LookupError):
    """There is nothing to guard here, or nothing of the name that was asked for."""


def discover(root: Path) -> list[KernelFile]:
    """Read every kernel file below `root`, in the order of the ladder.

    Files and folders whose name starts with "_" or "." are passed over. A file that does not
    parse or declare a kernel is returned with `error` set: it is reported, never dropped.

    Raises:
        NoKernelsError: there is no such folder, or it holds no kernel file.
    """
    if not root.is_dir():
        raise NoKernelsError(
            f"no folder {root}: run in the root of a project with kernels/, or give --kernels DIR"
        )
    files = [read_file(path, root) for path in sorted(_python_files(root))]
    if not files:
        raise NoKernelsError(f"{root} holds no kernel file (*.py)")
    return sorted(_unique_keys(files), key=_ladder_order)


def select(files: list[KernelFile], wanted: Iterable[str], target: str | None) -> list[KernelFile]:
    """Return the files named by `wanted` (key or name; all where empty) that build for `target`.

    Raises:
        NoKernelsError: a name fits no file, or no file builds for the target.
    """
    names = list(wanted)
    for name in names:
        if not any(name in (file.key, file.name) for file in files):
            known = ", ".join(file.key for file in files)
            raise NoKernelsError(f"no kernel '{name}'; there are: {known}")
    chosen = [
        file
        for file in files
        if (not names or file.key in names or file.name in names)
        and (target is None or file.declaration is None or target in file.declaration.targets)
    ]
    if not chosen:
        raise NoKernelsError(f"no chosen kernel builds for target {target}")
    return chosen


def read_file(path: Path, root: Path) -> KernelFile:
    """Read one kernel file below `root`; what is wrong with it goes into `error`."""
    stem_key = path.relative_to(root).with_suffix("").as_posix()
    try:
        data = path.read_bytes()
    except OSError as error:
        return KernelFile(stem_key, path, "", error=f"{path.name}: {error.strerror}")
    digest = hashlib.sha256(data).hexdigest()
    try:
        constants = top_level_constants(data, path.name)
        declares = any(name in constants for name in _PROTOCOL_NAMES)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return KernelFile(stem_key, path, digest, error=_one_line(error, path.name))
    try:
        declaration = _declaration_in(constants)
    except ProtocolError as error:
        message = _one_line(error, path.name)
        unknown = isinstance(error, UnknownProtocolError)
        return KernelFile(
            stem_key, path, digest, error=message, declares=declares, unknown_protocol=unknown
        )
    family = path.relative_to(root).parent.as_posix()
    return KernelFile(f"{family}/{declaration.name}", path, digest, declaration)


def _declaration_in(constants: Mapping[str, object]) -> Declaration:
    for name in _PROTOCOL_NAMES:
        if name not in constants:
            raise ProtocolError(f"declares no {name}, or not as plain data")
    return read_declaration(constants["PROTOCOL"], constants["KERNEL"])


def _python_files(root: Path) -> Iterator[Path]:
    """Yield the Python files below `root`, through links too, each folder once."""
    seen: set[str] = set()
    for folder, below, names in os.walk(root, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            below.clear()
            continue
        seen.add(real)
        below[:] = [name for name in below if not name.startswith(("_", "."))]
        yield from (
            Path(folder, name)
            for name in names
            if name.endswith(".py") and not name.startswith(("_", "."))
        )


def _one_line(error: Exception, filename: str) -> str:
    if isinstance(error, SyntaxError):
        return f"{filename}:{error.lineno}: SyntaxError: {error.msg}"
    return f"{filename}: {error}"


def _unique_keys(files: list[KernelFile]) -> list[KernelFile]:
    """Turn a second file with the same key into an error of that file, under a key of its own.

    No name can hold a colon, so that key is nobody else's: none of the files can hide another.
    """
    first_with: dict[str, KernelFile] = {}
    result = []
    for file in files:
        first = first_with.setdefault(file.key, file)
        if first is not file:
            own_key = f"{file.key.rpartition('/')[0]}/{file.path.name}:duplicate"
            message = f"{file.path.name}: the name '{file.name}' is taken by {first.path.name}"
            file = KernelFile(own_key, file.path, file.sha256, error=message)
        result.append(file)
    return result


def _ladder_order(file: KernelFile) -> tuple[str, int, str]:
    family = file.key.rpartition("/")[0]
    return family, file.declaration.step if file.declaration else 0, file.key
