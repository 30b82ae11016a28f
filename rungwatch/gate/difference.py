"""What `diff` says of each case, judging nothing: identical, changed, added or removed."""

from collections.abc import Iterable

from msgspec.structs import replace

from rungwatch.artifact.costs import CostUnknownError, SideOf, WorkMismatchError
from rungwatch.decide.static import changes, describe
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.problem import Problem
from rungwatch.gate.comparison import CaseChange, KernelChange
from rungwatch.record.model import CheckName, Row


def difference_rows(found: Iterable[KernelChange], side_of: SideOf) -> list[Row]:
    """Return one row a case, with the costs of both sides where they differ."""
    rows = []
    for change in found:
        for name, file in (("base", change.pair.base), ("head", change.pair.head)):
            if file is not None and file.error is not None:
                reason = Reason.UNKNOWN_PROTOCOL if file.unknown_protocol else Reason.PROTOCOL
                rows.append(_row(change, None, "load", reason, f"{name}: {file.error}"))
        rows += [_case_row(change, case, side_of) for case in change.cases]
    return rows


def _case_row(change: KernelChange, case: CaseChange, side_of: SideOf) -> Row:
    for name, built in (("base", case.base), ("head", case.head)):
        if built is not None and built.entry is None:
            return _row(change, case, "build", built.reason, f"{name}: {built.message}")
    if case.identical:
        return _row(change, case, "identity", Reason.IDENTICAL, "same machine code, same launch")
    try:
        base, head = (side_of(built) if built else None for built in (case.base, case.head))
    except CostUnknownError as error:
        return _row(change, case, "static", Reason.COST_UNKNOWN, str(error))
    except WorkMismatchError as error:
        return _row(change, case, "static", Reason.WORK_MISMATCH, str(error))
    if base is None:
        row = _row(change, case, "identity", Reason.NO_BASELINE, "added")
    elif head is None:
        row = _row(change, case, "identity", Reason.CHANGED, "removed")
    else:
        told = [describe(each) for each in changes(base.cost, head.cost)]
        message = "; ".join(told) or "other machine code at the same static cost"
        row = _row(change, case, "identity", Reason.CHANGED, message)
    return replace(row, base=base, head=head)


def _row(
    change: KernelChange, case: CaseChange | None, check: CheckName, reason: Reason, message: str
) -> Row:
    key = change.pair.key
    where = f"-{case.shape}-{case.target}" if case is not None else ""
    return Row(
        id=f"{key.rpartition('/')[2]}{where}-{check}",
        kernel=key,
        target=case.target if case is not None else None,
        problem=Problem(case.shape, "normal") if case is not None else None,
        check=check,
        verdict=verdict_of(reason),
        reason=reason,
        message=message,
        rerun="",
    )
