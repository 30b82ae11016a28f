"""Remember rows that passed, so that what did not change is not run again.

A row's key covers everything that can change it: the kernel's file, the tool's own code, the
versions below it, and the case. Only PASS is remembered, and only for kernels whose code is one
file: for others the key could not tell a change.
"""

import contextlib
import hashlib
import platform
from pathlib import Path

import msgspec

from rungwatch.check.plan import PlannedJob
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.declare.problem import Problem
from rungwatch.record.files import write_atomically
from rungwatch.record.model import Row
from rungwatch.record.surroundings import code_digest, toolchain

MOST_ROWS = 50_000  # about 100 MB


class VerdictCache:
    """Passed rows on disk, one file each, below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._common = (code_digest(), platform.python_version(), platform.machine(), toolchain())

    def key(self, planned: PlannedJob, problem: Problem, backend: str) -> str:
        """Return the key of the row that a job gives for `problem`."""
        subject = planned.subject
        parts = (
            subject.sha256,
            planned.row_id(problem),  # names shape, distribution or tool, and seed
            subject.key,
            subject.source.factory,
            planned.target,
            backend,
            self._common,
        )
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    def get(self, key: str, row_id: str) -> Row | None:
        """Return the remembered row, marked as cached; None where there is none to be trusted."""
        try:
            row = msgspec.json.decode(self._path(key).read_bytes(), type=Row)
        except (OSError, msgspec.MsgspecError):
            return None
        if row.id != row_id or row.reason is not Reason.OK or row.verdict is not Verdict.PASS:
            return None
        return msgspec.structs.replace(row, cached=True, seconds=0.0)

    def put(self, key: str, row: Row) -> None:
        """Remember `row`. A cache that can't be written costs time later, never a verdict."""
        try:
            write_atomically(self._path(key), msgspec.json.encode(row))
        except OSError:
            return

    def prune(self, most: int = MOST_ROWS) -> None:
        """Forget the rows that were written first, until `most` are left."""
        with contextlib.suppress(OSError):  # another run prunes too, or the folder is read-only
            paths = sorted(self._folder.glob("*/*.json"), key=lambda path: path.stat().st_mtime)
            for path in paths[: max(0, len(paths) - most)]:
                path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
