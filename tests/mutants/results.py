"""What became of each mutant, in a file that a run adds to as it goes."""

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec

from rungwatch.decide.verdict import Reason
from rungwatch.record.files import write_atomically
from rungwatch.record.surroundings import code_digest
from rungwatch.trusted.matrix import Depth

from .mutant import Mutant

COMMITTED = Path(__file__).with_name("results.json")
_MOST_WORDS = 200


class Outcome(StrEnum):
    """What refused a mutant: the build, one of the checks, the source rules, or nothing."""

    BUILD = "build"
    NUMERICS = "numerics"
    SYNCCHECK = "synccheck"
    RACECHECK = "racecheck"
    SOURCE = "source rules"
    SURVIVED = "survived"


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one mutant.

    `diff` holds the lines that were changed, `depth` is how far it was tried, `case` the row or
    the source rule that refused it, `tool` the version of the harness by the hash of its code.
    """

    name: str
    key: str
    rung: str
    operator: str
    diff: str
    outcome: Outcome
    depth: Depth
    tool: str
    case: str = ""
    reason: Reason = Reason.OK
    message: str = ""

    @property
    def kind(self) -> str:
        """Return the name without the line, as `Mutant.kind`."""
        return re.sub(r"@\d+", "", self.name)

    @classmethod
    def of(
        cls,
        mutant: Mutant,
        outcome: Outcome,
        depth: Depth,
        case: str = "",
        reason: Reason = Reason.OK,
        message: str = "",
    ) -> Self:
        """Return the result of `mutant` by this version of the harness."""
        return cls(
            name=mutant.name,
            key=mutant.key,
            rung=mutant.rung,
            operator=mutant.operator,
            diff=mutant.diff,
            outcome=outcome,
            depth=depth,
            tool=code_digest()[:12],
            case=case,
            reason=reason,
            message=message[:_MOST_WORDS],
        )


def read_results(path: Path) -> dict[str, Result]:
    """Return the results in a file by the mutants' keys; none where there is no file.

    Raises:
        msgspec.MsgspecError: it is no file of results.
    """
    if not path.is_file():
        return {}
    results = msgspec.json.decode(path.read_bytes(), type=list[Result])
    return {result.key: result for result in results}


def write_results(path: Path, results: Iterable[Result]) -> None:
    """Write results in one step, one a line, sorted."""
    ordered = sorted(results, key=lambda result: (result.rung, result.operator, result.name))
    lines = ",\n".join(msgspec.json.encode(result).decode() for result in ordered)
    write_atomically(path, f"[\n{lines}\n]\n".encode())
