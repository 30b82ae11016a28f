"""Rows that say the same are told once: which rows those are."""

from collections.abc import Iterable

from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.explain.words import GOOD, VERDICT_ORDER
from rungwatch.record.model import Row


def rejected(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that keep a run from passing, the worst verdict first."""
    kept = [row for row in rows if row.verdict not in {*GOOD, Verdict.SKIPPED}]
    return sorted(kept, key=lambda row: VERDICT_ORDER.index(row.verdict))


def groups(rows: Iterable[Row]) -> list[list[Row]]:
    """Put rows with the same failure together; the first group of each kind comes first.

    So the few groups that are shown of a kernel differ as much as they can.
    """
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(_signature(row), []).append(row)
    seen: set[tuple[str, Reason]] = set()
    first: list[list[Row]] = []
    others: list[list[Row]] = []
    for group in found.values():
        kind = (group[0].kernel, group[0].reason)
        (others if kind in seen else first).append(group)
        seen.add(kind)
    return first + others


def _signature(row: Row) -> object:
    """Return what makes two failures the same.

    A wrong kernel is its own failure; what leaves nothing learnt (no toolchain, say) is often
    one cause for many kernels. Shapes and addresses in findings do not count.
    """
    kernel = None if row.verdict is Verdict.INVALID else row.kernel
    if row.report is not None and row.report.findings:
        places = frozenset((finding.kind, finding.source) for finding in row.report.findings)
        return kernel, row.reason, places
    return kernel, row.reason, row.message, row.comparison
