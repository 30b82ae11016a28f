"""The two sides of a comparison: a revision each, with the compiler that it names."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from rungwatch.artifact.toolchain import ToolchainError, toolchain_for
from rungwatch.decide.settings import Settings
from rungwatch.gate.comparison import Party
from rungwatch.revision.revision import Revision


class PartyError(RuntimeError):
    """The compiler of one side can't be had."""


def party(revision: Revision, lock: str | None, cache: Path, say: Callable[[str], None]) -> Party:
    """Return a revision with the compiler that its own lock file names.

    Raises:
        PartyError: it can't be had; names the revision.
        RevisionError: the lock file can't be read.
    """
    content = revision.file(PurePosixPath(lock)) if lock is not None else None
    if lock is not None and content is None:
        raise PartyError(f"{revision.name}: its lock file {lock} is not there")
    try:
        toolchain = toolchain_for(content, cache, say)
    except ToolchainError as error:
        raise PartyError(f"{revision.name}: {error}") from None
    files = tuple(revision.kernel_files())
    return Party(revision, toolchain, files, revision.other_files_sha256(files))


def in_force(settings: Settings, head: Revision) -> Settings:
    """Return the settings with those accepted entries whose commit head is built on."""
    kept = tuple(entry for entry in settings.accepted if head.includes(entry.commit))
    return replace(settings, accepted=kept)
