"""A revision: the kernels of a commit, or of the work tree as it is, and the files beside them."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from rungwatch.declare.registry import KernelFile, NoKernelsError, discover
from rungwatch.revision.git import GitError, Repository

WORKTREE = "WORKTREE"
CONFIG_FILE = PurePosixPath("rungwatch.toml")


class RevisionError(LookupError):
    """A revision that can't be read, and why."""


class RevisionContentError(RevisionError):
    """A revision that is there and holds what can't be judged: a link, a flood, an odd name."""


@dataclass(frozen=True)
class Revision:
    """Where to read the kernels of one revision.

    `name` is what the user wrote; `commit` the 40 digits, None where there is no git; `dirty`
    that the kernels differ from that commit. `kernels` is a folder that holds them for as long
    as the revision is open.
    """

    name: str
    commit: str | None
    dirty: bool
    kernels: Path
    root: Path
    _repository: Repository | None

    @property
    def label(self) -> str | None:
        """The commit, with "+dirty" where the kernels differ from it; None without git."""
        if self.commit is None:
            return None
        return f"{self.commit}{'+dirty' if self.dirty else ''}"

    def includes(self, commit: str) -> bool:
        """Return whether this revision is `commit` or builds on it."""
        if self._repository is None or self.commit is None:
            return False
        return self._repository.includes(self.commit, commit)

    def kernel_files(self) -> list[KernelFile]:
        """Return the kernel files; none where the revision has no kernels."""
        try:
            return discover(self.kernels)
        except NoKernelsError:
            return []

    def other_files_sha256(self, kernels: Iterable[KernelFile]) -> str:
        """Return a hash over the files in the kernels folder that are none of `kernels`.

        A kernel may read them, so that its own file is not all of its source.
        """
        guarded = {file.path for file in kernels}
        digest = hashlib.sha256()
        for path in sorted(self.kernels.rglob("*")):
            if path.is_file() and path not in guarded and path.suffix != ".pyc":
                name = path.relative_to(self.kernels).as_posix()
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{name}\0{content}\0".encode())
        return digest.hexdigest()

    def file(self, path: PurePosixPath) -> bytes | None:
        """Return a file of the project by its path from the root, None where there is none.

        Raises:
            RevisionError: it can't be read, or the path leaves the project.
        """
        if path.is_absolute() or ".." in path.parts:
            raise RevisionError(f"{path} is not a path inside the project")
        if self.name != WORKTREE and self._repository is not None and self.commit is not None:
            try:
                return self._repository.file(self.commit, path)
            except GitError as error:
                raise RevisionError(f"{self.name}:{path}: {error}") from None
        try:
            if (self.root / path).is_symlink():
                raise RevisionError(f"{path} is a link, not a plain file")
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RevisionError(f"{path}: {error.strerror}") from None


@contextlib.contextmanager
def open_revision(name: str, kernels: Path) -> Iterator[Revision]:
    """Open the revision `name` of the project that the folder `kernels` belongs to.

    `name` is WORKTREE or anything that git takes for a commit. The files of a commit are put
    into a folder of their own, which is gone when the revision is closed.

    Raises:
        RevisionContentError: it holds a kernel that is no plain file, or is far too large.
        RevisionError: there is no such revision, or no git.
    """
    kernels = kernels.absolute()
    if name == WORKTREE:
        yield _work_tree(kernels)
        return
    try:
        repository = Repository(kernels if kernels.is_dir() else kernels.parent)
        commit = repository.commit(name)
        inside = kernels_in(repository, kernels)
    except (GitError, ValueError) as error:
        raise RevisionError(str(error)) from None
    try:
        blobs = repository.files(commit, inside)
    except GitError as error:
        raise RevisionContentError(f"{name}: {error}") from None
    with TemporaryDirectory(prefix="rungwatch-revision-") as folder:
        place = Path(folder) / inside.name
        try:
            for blob in blobs:
                path = place / blob.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(repository.read(blob.object_id, blob.path))
        except (GitError, OSError) as error:
            raise RevisionContentError(f"{name}: {error}") from None
        yield Revision(name, commit, False, place, repository.root, repository)


def kernels_in(repository: Repository, kernels: Path) -> PurePosixPath:
    """Return the path of the kernels folder from the repository's root.

    The folder itself may be a link in the files that are checked out: where that leads says
    nothing of another commit, so it is not followed.

    Raises:
        ValueError: it is not inside the repository.
    """
    place = kernels.absolute().parent.resolve() / kernels.name
    return PurePosixPath(place.relative_to(repository.root.resolve()))


def _work_tree(kernels: Path) -> Revision:
    if kernels.is_symlink():
        raise RevisionContentError(f"{kernels.name} is a link, not a folder: no commit holds it")
    folder = kernels if kernels.is_dir() else kernels.parent
    try:
        repository = Repository(folder)
        commit, dirty = repository.commit("HEAD"), repository.differs(folder)
    except GitError:
        return Revision(WORKTREE, None, False, kernels, kernels.parent, None)
    return Revision(WORKTREE, commit, dirty, kernels, repository.root, repository)
