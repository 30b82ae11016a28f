"""Compare the static cost of base and head: pure, from two sets of metrics to a reason."""

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rungwatch.cost.static_cost import METRICS, Better
from rungwatch.decide.settings import Accepted, Settings
from rungwatch.decide.verdict import Reason


@dataclass(frozen=True)
class Change:
    """One metric that differs.

    `worse_by` is in the metric's unit, negative where it is better, 0 where neither way is.
    """

    metric: str
    base: float
    head: float
    worse_by: float


def changes(base: Mapping[str, float], head: Mapping[str, float]) -> list[Change]:
    """Return every metric that differs, in the order of `METRICS`.

    Raises:
        KeyError: a metric is missing on one side, or is no number: nothing can be said of it.
    """
    found = []
    for name, metric in METRICS.items():
        if name not in base and name not in head:
            continue
        old, new = base[name], head[name]
        if not (math.isfinite(old) and math.isfinite(new)):
            raise KeyError(name)
        if old != new:
            sign = {Better.LOWER: 1, Better.HIGHER: -1, Better.NEITHER: 0}[metric.better]
            found.append(Change(name, old, new, sign * (new - old)))
    return found


def judge_static(
    kernel: str,
    shape: str,
    base: Mapping[str, float],
    head: Mapping[str, float],
    settings: Settings,
    today: datetime.date,
) -> tuple[Reason, str]:
    """Return the reason of a case whose cost on both sides is known, and the words for it.

    `shape` is MxNxK. A metric that gets worse by more than `settings.static` allows is a
    regression, unless an entry that has not expired accepts it.
    """
    try:
        found = changes(base, head)
        if lacking := [metric for metric in settings.static if metric not in base]:
            raise KeyError(lacking[0])  # that neither side has it is no agreement
    except KeyError as error:
        return Reason.COST_UNKNOWN, f"{error.args[0]} is not known of both sides"
    worse = [change for change in found if _exceeds(change, settings)]
    entries = {
        change.metric: _entry(kernel, shape, change.metric, settings.accepted, today)
        for change in worse
    }
    open_ones = [change for change in worse if entries[change.metric] is None]
    if open_ones:
        notes = [_expiry_note(kernel, shape, change.metric, settings) for change in open_ones]
        said = [f"{describe(change)}{note}" for change, note in zip(open_ones, notes, strict=True)]
        return Reason.STATIC_WORSE, "; ".join(said)
    if worse:
        reasons = {entry.reason for entry in entries.values() if entry is not None}
        said = [describe(change) for change in worse]
        return Reason.ACCEPTED, f"{'; '.join(said)}: {'; '.join(sorted(reasons))}"
    better = [c for c in found if c.metric in settings.static and c.worse_by < 0]
    if better:
        return Reason.STATIC_BETTER, "; ".join(map(describe, better))
    if not found:
        return Reason.OK, "other machine code at the same static cost"
    return Reason.OK, "; ".join(map(describe, found))


def describe(change: Change) -> str:
    """Return "smem_bytes 99,328 -> 165,888 B"."""
    unit = METRICS[change.metric].unit
    return f"{change.metric} {number(change.base)} -> {number(change.head)} {unit}".rstrip()


def number(value: float) -> str:
    """Return a metric's value as people write it: 99,328 or 0.865."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.4g}"


def _exceeds(change: Change, settings: Settings) -> bool:
    allowed = settings.static.get(change.metric)
    return allowed is not None and change.worse_by > allowed


def _entry(
    kernel: str, shape: str, metric: str, accepted: Iterable[Accepted], today: datetime.date
) -> Accepted | None:
    for entry in accepted:
        if _is_about(entry, kernel, shape, metric) and today <= entry.expires:
            return entry
    return None


def _expiry_note(kernel: str, shape: str, metric: str, settings: Settings) -> str:
    for entry in settings.accepted:
        if _is_about(entry, kernel, shape, metric):
            return f" (was accepted until {entry.expires})"
    return ""


def _is_about(entry: Accepted, kernel: str, shape: str, metric: str) -> bool:
    return (entry.kernel, entry.metric) == (kernel, metric) and entry.shape in (None, shape)
