"""From what changed to rows with verdicts: pure, but for the costs, which are handed in."""

import datetime
import shlex
from dataclasses import dataclass

from msgspec.structs import replace

from rungwatch.artifact.costs import CostUnknownError, SideOf, WorkMismatchError
from rungwatch.check.plan import SIMULATED_TARGETS, load_reason
from rungwatch.decide.settings import Settings
from rungwatch.decide.static import judge_static
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.problem import Problem
from rungwatch.gate.comparison import CaseChange, KernelChange
from rungwatch.gate.coverage import Pair, narrowed
from rungwatch.record.model import CheckName, Row

# The distribution that names a problem where no input is drawn: any would do.
_ANY_INPUTS = "normal"


@dataclass(frozen=True)
class Question:
    """What the rows are judged by. `diff` is the command that shows what changed of a kernel."""

    settings: Settings
    today: datetime.date
    allow_unmeasured: bool
    diff: str


def rows_of(change: KernelChange, question: Question, side_of: SideOf) -> list[Row]:
    """Return the rows of one kernel, less those of its correctness, which must be run."""
    settled = _presence(change.pair, question)
    if settled is not None:
        return [settled]
    rows = _coverage(change.pair, question)
    if not change.cases:
        message = "no problem of it could be built: see its rules"
        return [*rows, _row(change.pair, "build", Reason.NO_ROWS, message, question)]
    rows += _unbuilt(change, question)
    rows += _identity(change, question)
    for case in change.cases:
        rows += _static(change.pair, case, question, side_of)
    if change.pair.head is not None and needs_check(change):
        rows += _not_simulated(change, question)
        rows += _timing(change, question)
    return rows


def needs_check(change: KernelChange) -> bool:
    """Return whether head's kernel must be shown right: it is new, or its code is not base's."""
    head = change.pair.head
    return head is not None and head.declaration is not None and not change.identical


def _presence(pair: Pair, question: Question) -> Row | None:
    """Return the row of a kernel that one side lacks or that can't be read; None to go on."""
    if pair.head is None:
        for entry in question.settings.removed:
            if entry.kernel == pair.key:
                return _row(pair, "coverage", Reason.ACCEPTED, f"removed: {entry.reason}", question)
        return _row(pair, "coverage", Reason.REMOVED, "base has it, head does not", question)
    if pair.head.error is not None:
        guarded = pair.base is not None and pair.base.declaration is not None
        if pair.head.unknown_protocol and not guarded:
            return _row(pair, "load", Reason.UNKNOWN_PROTOCOL, pair.head.error, question)
        return _row(
            pair, "load", load_reason(pair.head.error), f"head: {pair.head.error}", question
        )
    if pair.base is not None and pair.base.error is not None and not pair.base.unknown_protocol:
        return _row(
            pair, "load", load_reason(pair.base.error), f"base: {pair.base.error}", question
        )
    return None


def _coverage(pair: Pair, question: Question) -> list[Row]:
    if pair.base is None or pair.head is None:
        return []
    if pair.base.declaration is None or pair.head.declaration is None:
        return []
    lost = narrowed(pair.base.declaration, pair.head.declaration)
    if not lost:
        return []
    return [_row(pair, "coverage", Reason.COVERAGE_REDUCED, "; ".join(lost), question)]


def _identity(change: KernelChange, question: Question) -> list[Row]:
    """Return the row that says whether head's machine code is base's; none where unknown."""
    pair, count = change.pair, len(change.cases)
    if pair.base is None:
        return [_row(pair, "identity", Reason.NO_BASELINE, "added", question)]
    if change.identical:
        message = f"{count} of {count} problems: same machine code, same launch"
        if compilers := _other_compilers(change):
            message += f", though compiled by {compilers}"
        return [_row(pair, "identity", Reason.IDENTICAL, message, question)]
    if not all(case.known for case in change.cases):
        return []
    same = sum(case.identical for case in change.cases)
    message = f"{count - same} of {count} problems: other machine code or launch"
    compilers = _other_compilers(change)
    if compilers and pair.head is not None and pair.head.sha256 == pair.base.sha256:
        message += f", from the same file, compiled by {compilers}"
    return [_row(pair, "identity", Reason.CHANGED, message, question)]


def _unbuilt(change: KernelChange, question: Question) -> list[Row]:
    """Return a row for each side and problem that could not be built."""
    rows = []
    for case in change.cases:
        for name, built in (("base", case.base), ("head", case.head)):
            if built is not None and built.entry is None:
                message = f"{name}: {built.message}"
                row = _row(change.pair, "build", built.reason, message, question, case)
                rows.append(replace(row, id=f"{row.id}-{name}"))
    return rows


def _static(pair: Pair, case: CaseChange, question: Question, side_of: SideOf) -> list[Row]:
    """Return the row of a problem's cost, where it is other code on both sides, or new."""
    if not case.bench or case.identical or case.head is None or case.head.entry is None:
        return []
    if case.base is not None and case.base.entry is None:
        return []  # said by the row of its build
    try:
        head = side_of(case.head)
        base = side_of(case.base) if case.base is not None else None
    except CostUnknownError as error:
        return [_row(pair, "static", Reason.COST_UNKNOWN, str(error), question, case)]
    except WorkMismatchError as error:
        return [_row(pair, "static", Reason.WORK_MISMATCH, str(error), question, case)]
    if base is None:
        reason, message = Reason.NO_BASELINE, "new: nothing to compare its cost with"
    else:
        shape = f"{case.shape.m}x{case.shape.n}x{case.shape.k}"
        reason, message = judge_static(
            pair.key, shape, base.cost, head.cost, question.settings, question.today
        )
    return [replace(_row(pair, "static", reason, message, question, case), base=base, head=head)]


def _not_simulated(change: KernelChange, question: Question) -> list[Row]:
    blind = [target for target in change.targets if target not in SIMULATED_TARGETS]
    if not blind:
        return []
    message = f"no simulator models {', '.join(blind)}"
    return [_row(change.pair, "numerics", Reason.NEEDS_GPU, message, question)]


def _timing(change: KernelChange, question: Question) -> list[Row]:
    if change.pair.base is None:
        return []  # a new kernel has no time to be slower than
    reason = Reason.TIMING_WAIVED if question.allow_unmeasured else Reason.NOT_TIMED
    message = "its machine code changed; this backend times nothing"
    return [_row(change.pair, "timing", reason, message, question)]


def _other_compilers(change: KernelChange) -> str:
    """Return in words how the compilers of the two sides differ, "" where they don't."""
    for case in change.cases:
        if case.base is None or case.head is None:
            continue
        if case.base.entry is None or case.head.entry is None:
            continue
        old, new = case.base.entry.metadata.toolchain, case.head.entry.metadata.toolchain
        differing = [name for name in new if old.get(name) != new[name]]
        return ", ".join(f"{name} {old.get(name)} and {new[name]}" for name in differing)
    return ""


def _row(
    pair: Pair,
    check: CheckName,
    reason: Reason,
    message: str,
    question: Question,
    case: CaseChange | None = None,
) -> Row:
    name = pair.key.rpartition("/")[2]
    where = f"-{case.shape}-{case.target}" if case is not None else ""
    return Row(
        id=f"{name}{where}-{check}",
        kernel=pair.key,
        target=case.target if case is not None else None,
        problem=Problem(case.shape, _ANY_INPUTS) if case is not None else None,
        check=check,
        verdict=verdict_of(reason),
        reason=reason,
        message=message,
        rerun=f"{question.diff} --kernel {shlex.quote(pair.key)}",
    )
