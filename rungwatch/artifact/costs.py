"""The static cost of what was built, remembered by the artifact it was read from."""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from rungwatch.artifact.build import Built
from rungwatch.artifact.elf import ElfError
from rungwatch.artifact.store import Store, StoreError
from rungwatch.cost.disassembly import DisassemblyError
from rungwatch.cost.limiter import Limit, limiter
from rungwatch.cost.occupancy import OccupancyError
from rungwatch.cost.shape_cost import ShapeCostError
from rungwatch.cost.static_cost import metrics, static_cost
from rungwatch.cost.work import mismatches
from rungwatch.record.files import write_atomically
from rungwatch.record.model import Side
from rungwatch.record.surroundings import code_digest


class CostUnknownError(RuntimeError):
    """The static cost of an artifact can't be read, and why."""


class WorkMismatchError(RuntimeError):
    """A program does other work than its problem asks for; both numbers are named."""


type SideOf = Callable[[Built], Side]


class Costs:
    """Reads the costs of artifacts in `store`; what was read before is kept below `folder`."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def __call__(self, built: Built) -> Side:
        """Return what a record says of a built case: its artifact and every metric by name.

        Raises:
            CostUnknownError: its machine code or its program holds what this version can't
                read, or the kernel declares nothing.
            WorkMismatchError: the program does not do the work of this GEMM.
        """
        case, entry = built.case, built.entry
        declaration = case.subject.declaration
        if entry is None or declaration is None:
            raise CostUnknownError(f"{case.id}: nothing was built, or nothing is declared")
        if entry.work is None:
            raise CostUnknownError(f"{case.id}: its work can't be counted: {entry.uncounted}")
        if wrong := mismatches(entry.work, case.shape):
            raise WorkMismatchError(f"{case.id}: {'; '.join(wrong)}")
        parts = (entry.artifact, entry.work, case.shape, case.target, declaration)
        name = hashlib.sha256(msgspec.json.encode((*parts, code_digest("cost")))).hexdigest()
        path = self._folder / name[:2] / f"{name}.json"
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(path.read_bytes(), type=Side)
        try:
            artifact = self._store.get(entry.artifact)
            cost = static_cost(
                artifact.cubin, artifact.plan, entry.work, case.shape, declaration, case.target
            )
        except (StoreError, ElfError, DisassemblyError, OccupancyError, ShapeCostError) as error:
            raise CostUnknownError(f"{case.id}: {error}") from None
        limit = limiter(entry.work, case.shape, declaration, case.target)
        side = Side(entry.artifact, entry.code_sha256, metrics(cost), _words(limit))
        with contextlib.suppress(OSError):  # a cache that can't be written costs time only
            write_atomically(path, msgspec.json.encode(side))
        return side


def _words(limit: Limit) -> str:
    return f"{limit.limiter}; {limit.second} {limit.second_share:.2f} of it"
