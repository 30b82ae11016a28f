"""Decide again, from a record alone: pure, so that a verdict can be had without the machine."""

import datetime
from collections.abc import Iterator

from rungwatch.decide.exit_code import decide_run
from rungwatch.decide.static import judge_static
from rungwatch.decide.verdict import Reason, Verdict, verdict_of
from rungwatch.record.model import Record, Row


def replay(record: Record) -> tuple[Verdict, Reason, list[str]]:
    """Return the verdict that the rows of `record` give, and where it contradicts itself.

    A record that contradicts itself is INVALID(record), whatever its rows say.
    """
    found = list(_contradictions(record))
    if found:
        return Verdict.INVALID, Reason.RECORD, found
    verdict, reason = decide_run(row.reason for row in record.rows)
    if (verdict, reason) != (record.verdict, record.reason):
        given = f"{record.verdict}({record.reason})"
        found.append(f"the run is {given}, its rows give {verdict}({reason})")
        return Verdict.INVALID, Reason.RECORD, found
    return verdict, reason, []


def _contradictions(record: Record) -> Iterator[str]:
    names = [row.id for row in record.rows]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name}: there are {names.count(name)} rows of this name"
    for row in record.rows:
        if verdict_of(row.reason) is not row.verdict:
            yield f"{row.id}: {row.verdict} is not the verdict of the reason {row.reason}"
        if row.reason is Reason.TIMING_WAIVED and not record.run.accepts_unmeasured:
            yield f"{row.id}: timing was waived, but the run did not allow it"
        yield from _static_contradiction(row, record)


def _static_contradiction(row: Row, record: Record) -> Iterator[str]:
    if row.check != "static" or row.base is None or row.head is None or row.problem is None:
        return
    if record.settings is None:
        yield f"{row.id}: compares costs, but the record holds no settings"
        return
    shape = row.problem.shape
    reason, _ = judge_static(
        row.kernel,
        f"{shape.m}x{shape.n}x{shape.k}",
        row.base.cost,
        row.head.cost,
        record.settings,
        datetime.datetime.fromisoformat(record.run.started_utc).date(),
    )
    if reason is not row.reason:
        yield f"{row.id}: its costs give {reason}, it says {row.reason}"
