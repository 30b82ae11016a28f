"""Read a git repository. Nothing here writes to it: not its index, not its work tree.

Files of a commit come from its objects, not from `git archive`, which a commit's own attributes
can tell to leave files out.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_DEADLINE_S = 60.0
_LARGEST_FILE_BYTES = 4 * 2**20
_FILE_MODES = ("100644", "100755")


class GitError(RuntimeError):
    """Git could not answer, or what it holds can't be used; in one line."""


@dataclass(frozen=True)
class Blob:
    """One file of a commit: its path below the listed folder, its mode and its object."""

    path: PurePosixPath
    mode: str
    object_id: str


@dataclass(frozen=True)
class Commit:
    """A commit and the first line of its message."""

    id: str
    subject: str


class Repository:
    """A git repository, named by any folder inside its work tree."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.root = Path(os.fsdecode(self._git("rev-parse", "--show-toplevel").rstrip(b"\n")))
        self._folder = self.root  # paths are counted from there

    def commit(self, revision: str) -> str:
        """Return the 40 digits of the commit that `revision` names.

        Raises:
            GitError: it names none.
        """
        if revision.startswith("-"):
            raise GitError(f"'{revision}' is no revision")
        try:
            found = self._git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        except GitError:
            raise GitError(f"'{revision}' names no commit of this repository") from None
        return found.decode().strip()

    def history(self, good: str, bad: str, paths: Sequence[str]) -> list[Commit]:
        """Return the commits after `good` up to `bad` that touch `paths`, oldest first.

        Along first parents: a merged branch counts as the one commit that merged it.
        """
        given = self._git(
            "log",
            "--reverse",
            "--first-parent",
            "--no-patch",
            "-z",
            "--format=%H %s",
            f"{good}..{bad}",
            "--",
            *paths,
        )
        lines = given.decode(errors="replace").split("\0")
        pairs = [line.partition(" ") for line in lines if line]
        return [Commit(commit, subject) for commit, _, subject in pairs]

    def includes(self, commit: str, older: str) -> bool:
        """Return whether `commit` is `older` or builds on it; False where either is unknown.

        `older` is the beginning of a commit's digits, never the name of a branch or a tag.
        """
        try:
            found = self.commit(older)
            if not found.startswith(older):
                return False
            self._git("merge-base", "--is-ancestor", found, self.commit(commit))
        except GitError:
            return False
        return True

    def differs(self, folder: Path) -> bool:
        """Return whether files below `folder` differ from the commit that is checked out."""
        return bool(self._git("status", "--porcelain", "--", str(folder)))

    def files(self, commit: str, folder: PurePosixPath) -> list[Blob]:
        """Return the files below `folder` in `commit`; none where there is no such folder.

        Raises:
            GitError: it holds a link or a submodule, or a path that leaves the folder.
        """
        blobs = []
        for line in self._git(
            "ls-tree", "--full-tree", "-r", "-z", commit, "--", f"{folder}/"
        ).split(b"\0"):
            if not line:
                continue
            facts, _, name = line.partition(b"\t")
            mode, _, object_id = facts.decode().split()
            try:
                path = PurePosixPath(name.decode("utf-8"))
            except UnicodeDecodeError:
                raise GitError(f"{commit[:12]} holds a file name that is no UTF-8") from None
            if mode not in _FILE_MODES:
                raise GitError(f"{commit[:12]}:{path} is a link or a submodule, not a file")
            if not path.is_relative_to(folder) or ".." in path.parts:
                raise GitError(f"{commit[:12]} holds the path {str(path)!r}")
            blobs.append(Blob(path.relative_to(folder), mode, object_id))
        return blobs

    def read(self, object_id: str, path: PurePosixPath) -> bytes:
        """Return the content of the object that is at `path`.

        Raises:
            GitError: there is none, or it is larger than any kernel file.
        """
        size = int(self._git("cat-file", "-s", object_id))
        if size > _LARGEST_FILE_BYTES:
            raise GitError(f"{path} has {size} bytes, too many for a file of kernels")
        return self._git("cat-file", "blob", object_id)

    def file(self, commit: str, path: PurePosixPath) -> bytes | None:
        """Return one file of a commit, None where it has none of that path.

        Raises:
            GitError: what is there is a link, a folder or a submodule.
        """
        for line in self._git("ls-tree", "--full-tree", "-z", commit, "--", str(path)).split(b"\0"):
            facts, _, name = line.partition(b"\t")
            if os.fsdecode(name) != str(path):
                continue
            mode, _, object_id = facts.decode().split()
            if mode not in _FILE_MODES:
                raise GitError(f"{path} is no plain file there")
            return self.read(object_id, path)
        return None

    def _git(self, *arguments: str) -> bytes:
        # What points git at another repository, or shows other objects than are there.
        inherited = {name: v for name, v in os.environ.items() if not name.startswith("GIT_")}
        environment = inherited | {
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        command = ["git", "-C", str(self._folder), *arguments]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                timeout=_DEADLINE_S,
                env=environment,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except FileNotFoundError:
            raise GitError("git is not installed") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitError(f"git {arguments[0]}: {error}") from None
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise GitError(f"git {arguments[0]}: {lines[-1] if lines else 'failed'}")
        return done.stdout
