"""What a command works on: a guarded kernel file, or any module named on the command line."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rungwatch.backends.job import KernelSource
from rungwatch.declare.protocol import Declaration
from rungwatch.declare.registry import FACTORY, KernelFile, read_file


@dataclass(frozen=True)
class Subject:
    """One kernel: where its factory is and what is known of it without running it.

    `declaration` is None for a module from outside, whose rules nobody declared; `error` says
    why a guarded file has none. `sha256` is None where the code is more than one file.
    """

    key: str
    source: KernelSource
    sha256: str | None
    declaration: Declaration | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        """The last part of the key, as used in case ids: step7."""
        return self.key.rpartition("/")[2]

    @property
    def selector(self) -> str:
        """The option that selects this subject alone on the command line."""
        if self.declaration is None and self.error is None:
            origin = self.source.path or self.source.module
            return f"--module {origin}:{self.source.factory}"
        return f"--kernel {self.key}"


class ModuleArgumentError(ValueError):
    """`--module` names no file and can't be the name of a module."""


def from_file(file: KernelFile) -> Subject:
    """Return the subject that a file of the registry is."""
    source = KernelSource(factory=FACTORY, path=str(file.path.resolve()))
    return Subject(file.key, source, file.sha256, file.declaration, file.error)


def from_argument(argument: str) -> Subject:
    """Read `FILE_OR_NAME[:factory]`.

    A file that declares itself by the kernel protocol is taken as such; anything else is a bare
    factory whose rules nobody declared.

    Raises:
        ModuleArgumentError: there is no such file, or the name is no module name.
    """
    origin, _, factory = argument.partition(":")
    if origin.endswith(".py"):
        path = Path(origin).resolve()
        if not path.is_file():
            raise ModuleArgumentError(f"--module: there is no file {origin}")
        file = read_file(path, path.parent)
        if file.declaration is not None and not factory:
            return Subject(
                path.stem, KernelSource(FACTORY, path=str(path)), file.sha256, file.declaration
            )
        source = KernelSource(factory or FACTORY, path=str(path))
        return Subject(path.stem, source, hashlib.sha256(path.read_bytes()).hexdigest())
    if not all(part.isidentifier() for part in origin.split(".")):
        raise ModuleArgumentError(
            f"--module: '{origin}' is neither a .py file nor a module name (package.module)"
        )
    return Subject(origin.rpartition(".")[2], KernelSource(factory or FACTORY, module=origin), None)
