"""Decide again, from a record alone: pure, so that a verdict can be had without the machine."""

import datetime
from collections import Counter
from collections.abc import Iterator

from rungwatch.cost.targets import SM_FACTS
from rungwatch.decide.exit_code import decide_run
from rungwatch.decide.static import judge_static
from rungwatch.decide.timing import judge_timing
from rungwatch.decide.verdict import Reason, Verdict, verdict_of
from rungwatch.declare.problem import Shape
from rungwatch.record.model import CheckName, Record, Row, Timing

# What the costs of both sides can give; the other reasons of such a row say that one is unknown.
_JUDGED = frozenset({Reason.OK, Reason.STATIC_WORSE, Reason.STATIC_BETTER, Reason.ACCEPTED})
# The good reasons that a check can give. One that is not named here can give OK alone.
_GOOD_REASONS: dict[CheckName, frozenset[Reason]] = {
    "coverage": frozenset({Reason.ACCEPTED}),
    "identity": frozenset({Reason.IDENTICAL, Reason.CHANGED, Reason.NO_BASELINE}),
    "static": _JUDGED | {Reason.NO_BASELINE},
    "timing": frozenset({Reason.OK}),
}
_GOOD = frozenset({Verdict.PASS, Verdict.IMPROVED})
# No GPU has such a clock.
_HIGHEST_MHZ = 4000
_CORRECTNESS: tuple[CheckName, ...] = ("numerics", "synccheck", "racecheck")


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
    names = Counter((row.kernel, row.id) for row in record.rows)
    for (_, name), count in sorted(names.items()):
        if count > 1:
            yield f"{name}: there are {count} rows of this name"
    for row in record.rows:
        for said in (
            *_row_contradictions(row, record),
            *_static_contradictions(row, record),
            *_timing_contradictions(row, record),
        ):
            yield f"{row.id}: {said}"
    if record.run.base is not None or any(row.check == "identity" for row in record.rows):
        yield from _comparison_contradictions(record)


def _row_contradictions(row: Row, record: Record) -> Iterator[str]:
    if verdict_of(row.reason) is not row.verdict:
        yield f"{row.verdict} is not the verdict of the reason {row.reason}"
    if row.verdict in _GOOD:
        if row.reason not in _GOOD_REASONS.get(row.check, {Reason.OK}):
            yield f"{row.check} can't give {row.reason}"
        if row.comparison is not None and row.comparison.wrong_elements:
            yield f"{row.comparison.wrong_elements} wrong elements are no {row.verdict}"
        if row.report is not None and row.report.verdict != "clean":
            yield f"a report that is {row.report.verdict} is no {row.verdict}"
    if row.reason is Reason.TIMING_WAIVED and not record.run.accepts_unmeasured:
        yield "timing was waived, but the run did not allow it"
    if row.check == "coverage" and row.reason is Reason.ACCEPTED:
        removed = record.settings.removed if record.settings is not None else ()
        if row.kernel not in {entry.kernel for entry in removed}:
            yield "was removed, and the settings do not name it"


def _static_contradictions(row: Row, record: Record) -> Iterator[str]:
    if row.check != "static" or row.reason not in _JUDGED:
        return
    if row.base is None or row.head is None or row.problem is None:
        yield f"says {row.reason}, but does not hold the costs of both sides"
        return
    if record.settings is None:
        yield "compares costs, but the record holds no settings"
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
        yield f"its costs give {reason}, it says {row.reason}"


def _timing_contradictions(row: Row, record: Record) -> Iterator[str]:
    """Say what a row of times lacks, or that its samples give another reason."""
    if row.timing is None:
        if row.check == "timing" and row.verdict in _GOOD:
            yield f"is {row.verdict}, and holds no samples"
        return
    if row.check != "timing" or row.problem is None:
        yield "holds samples, but is no timing of a problem"
        return
    if str(row.problem.shape) not in row.id:
        yield f"holds samples of {row.problem.shape}"
    if record.run.backend != "cuda" or record.environment.gpu is None:
        yield "holds samples, but the run used no GPU"
    if not _peak_is_possible(row.timing, row.problem.shape, row.target):
        yield f"a peak of {row.timing.peak_flops:.4g} FLOP/s is not that of {row.target}"
    reason, _ = judge_timing(row.timing, row.problem.shape)
    if reason is not row.reason:
        yield f"its samples give {reason}, it says {row.reason}"


def _peak_is_possible(timing: Timing, shape: Shape, target: str | None) -> bool:
    """Say whether the clock that the peak stands for can be the highest of a GPU of `target`.

    Rules may have moved the problem's SM count a little from the GPU's.
    """
    flops_a_clock = [facts.fp16_flops_a_clock for name, facts in SM_FACTS.items() if name == target]
    looks = [look for state in timing.conditions for look in (state.before, state.after)]
    seen_mhz = max((look.sm_mhz for look in looks), default=0)
    return any(
        0.9 * seen_mhz <= timing.peak_flops / (one * shape.sm_count) / 1e6 <= _HIGHEST_MHZ
        for one in flops_a_clock
    )


def _comparison_contradictions(record: Record) -> Iterator[str]:
    """Say which rows a comparison must hold and does not; that of `diff` judges no kernel."""
    if record.run.base is None:
        yield "compares two revisions, but names no base"
    if record.settings is None:
        return
    for kernel in dict.fromkeys(row.kernel for row in record.rows):
        own = [row for row in record.rows if row.kernel == kernel]
        checks = {row.check for row in own}
        reasons = {row.reason for row in own if row.check == "identity"}
        if reasons == {Reason.IDENTICAL} and checks & {"static", "timing", *_CORRECTNESS}:
            yield f"{kernel}: is identical, and yet has rows of what changed"
        if reasons == {Reason.CHANGED} and not {"static", "timing"} <= checks:
            yield f"{kernel}: changed, and has no row of its cost or of its time"
        if reasons & {Reason.CHANGED, Reason.NO_BASELINE} and not checks & set(_CORRECTNESS):
            yield f"{kernel}: changed or new, and nothing shows that it is right"
        if (
            not reasons
            and checks & {"static", "timing", *_CORRECTNESS}
            and all(row.verdict in {*_GOOD, Verdict.SKIPPED} for row in own)
        ):
            yield f"{kernel}: nothing says whether it changed"
