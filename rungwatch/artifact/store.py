"""Artifacts on disk, content-addressed: a reader sees a whole one or none.

    objects/<ab>/<id>/kernel.cubin, plan.json      the content that <id> is the hash of
    keys/<ab>/<key>.json                           which artifact an input gave, and its metadata

Everything is written aside and moved into place in one step. What a killed build, a full disk or
a bad block left behind is found by its hash and made anew.
"""

import contextlib
import re
import shutil
import tempfile
from pathlib import Path

import msgspec

from rungwatch.artifact.artifact import (
    LARGEST_CUBIN_BYTES,
    LARGEST_PLAN_BYTES,
    Artifact,
    Metadata,
)
from rungwatch.artifact.plan import decode_plan, encode_plan
from rungwatch.cost.work import Work
from rungwatch.record.files import read_regular, write_atomically

CUBIN_FILE = "kernel.cubin"
PLAN_FILE = "plan.json"
MOST_ARTIFACTS = 4_000  # about 1 GB
_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)


class StoreError(ValueError):
    """There is no such artifact here, or what is here is not it."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an input gave: the artifact's id and its metadata.

    `code_sha256` and `plan_sha256` are hashes of what the GPU executes and of how it is launched:
    equal ones do the same, also where compilers of two versions wrote two different files.
    `work` is what the program executes, or `uncounted` says why that is not known.
    """

    artifact: str
    code_sha256: str
    plan_sha256: str
    metadata: Metadata
    work: Work | None = None
    uncounted: str = ""


class Store:
    """Artifacts below `root`, which is made on the first write."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, artifact: Artifact) -> str:
        """Store `artifact` and return its id.

        Raises:
            OSError: the folder can't be written, or the disk is full.
        """
        identity = artifact.id
        place = self._place(identity)
        if self._holds(identity):
            return identity
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{identity[:8]}-", dir=place.parent))
        try:
            write_atomically(aside / CUBIN_FILE, artifact.cubin)
            write_atomically(aside / PLAN_FILE, encode_plan(artifact.plan))
            aside.chmod(0o755)
            self._move(aside, place, identity)
        except OSError:
            if not self._holds(identity):  # else another build was first, with the same content
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return identity

    def get(self, identity: str) -> Artifact:
        """Return an artifact whose content has the hash that it is named by.

        Raises:
            StoreError: it is absent, incomplete or corrupt, or `identity` is no id.
        """
        if not _ID.fullmatch(identity):
            raise StoreError(f"{identity[:80]!r} is no artifact id (64 hexadecimal digits)")
        place = self._place(identity)
        try:
            cubin = read_regular(place / CUBIN_FILE, LARGEST_CUBIN_BYTES)
            plan = decode_plan(read_regular(place / PLAN_FILE, LARGEST_PLAN_BYTES))
        except (OSError, msgspec.MsgspecError) as error:
            raise StoreError(f"artifact {identity[:12]} can't be read: {error}") from None
        artifact = Artifact(cubin, plan)
        if artifact.id != identity:
            raise StoreError(f"artifact {identity[:12]} is corrupt: its content has another hash")
        return artifact

    def remember(self, key: str, entry: Entry) -> None:
        """Note that the input `key` gave `entry`.

        Raises:
            OSError: the folder can't be written, or the disk is full.
        """
        write_atomically(self._key_file(key), msgspec.json.encode(entry))

    def recall(self, key: str) -> Entry | None:
        """Return what the input `key` gave; None where that is unknown or no longer whole."""
        try:
            entry = msgspec.json.decode(
                read_regular(self._key_file(key), LARGEST_PLAN_BYTES), type=Entry
            )
            self.get(entry.artifact)
        except (OSError, msgspec.MsgspecError, StoreError):
            return None
        return entry

    def prune(self, most: int = MOST_ARTIFACTS) -> None:
        """Forget the artifacts that were written first, until `most` are left."""
        with contextlib.suppress(OSError):  # another run prunes too, or the folder is read-only
            places = sorted(self._root.glob("objects/*/*"), key=lambda path: path.stat().st_mtime)
            for place in places[: max(0, len(places) - most)]:
                shutil.rmtree(place, ignore_errors=True)

    def _holds(self, identity: str) -> bool:
        try:
            self.get(identity)
        except StoreError:
            return False
        return True

    def _move(self, aside: Path, place: Path, identity: str) -> None:
        """Put a whole folder in place; a corrupt one that is there is taken away first."""
        with contextlib.suppress(OSError):  # something is there: perhaps another build was first
            aside.rename(place)
            return
        if self._holds(identity):
            return
        broken = Path(tempfile.mkdtemp(prefix=".broken-", dir=place.parent))
        with contextlib.suppress(FileNotFoundError):  # another build took it away
            place.rename(broken / "content")
        shutil.rmtree(broken, ignore_errors=True)
        aside.rename(place)

    def _place(self, identity: str) -> Path:
        return self._root / "objects" / identity[:2] / identity

    def _key_file(self, key: str) -> Path:
        return self._root / "keys" / key[:2] / f"{key}.json"
