"""What a command works on: a guarded kernel file, or any module named on the command line."""

import shlex
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
            return f"--module {shlex.quote(f'{origin}:{self.source.factory}')}"
        return f"--kernel {shlex.quote(self.key)}"


class ModuleArgumentError(ValueError):
    """`--module` names no file and can't be the name of a module."""


def from_file(file: KernelFile) -> Subject:
    """Return the subject that a file of the registry is."""
    source = KernelSource(FACTORY, path=str(file.path.absolute()), sha256=file.sha256)
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
        path = Path(origin).absolute()
        if not path.is_file():
            raise ModuleArgumentError(f"--module: there is no file {origin}")
        file = read_file(path, path.parent)
        source = KernelSource(factory or FACTORY, path=str(path), sha256=file.sha256)
        if file.declares and not factory:
            return Subject(path.stem, source, file.sha256, file.declaration, file.error)
        return Subject(path.stem, source, file.sha256)
    if not all(part.isidentifier() for part in origin.split(".")):
        raise ModuleArgumentError(
            f"--module: '{origin}' is neither a .py file nor a module name (package.module)"
        )
    return Subject(origin.rpartition(".")[2], KernelSource(factory or FACTORY, module=origin), None)
