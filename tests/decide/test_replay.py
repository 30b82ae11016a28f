"""A verdict can be had from the record alone, and an edited record gives none."""

import pytest
from msgspec.structs import replace

from rungwatch.decide.replay import replay
from rungwatch.decide.settings import DEFAULT_STATIC, Settings
from rungwatch.decide.verdict import Reason, Verdict, verdict_of
from rungwatch.declare.problem import Problem
from rungwatch.record.model import Gpu, Record, Row, Side, Timing

from ..explain.factory import compared, race, record, row, side, static_row, stripe
from .test_timing import GOOD as SOUND
from .test_timing import SHAPE

SMEM = side(**dict.fromkeys(DEFAULT_STATIC, 10))
WORSE = side(**{**SMEM.cost, "smem_bytes": 200_000})


def gate(static: Row, *more: Row) -> Record:
    """Return the record of a gate in which step 1 is as it was and step 7 changed."""
    rows = (
        row("step1", "identity", Reason.IDENTICAL),
        static,
        row("step7", "identity", Reason.CHANGED),
        row("step7", "numerics"),
        row("step7", "timing", Reason.TIMING_WAIVED),
        *more,
    )
    made = compared(*rows)
    return replace(made, run=replace(made.run, accepts_unmeasured=True))


GOOD = gate(static_row(1024, SMEM, base=SMEM, reason=Reason.OK))
BAD = gate(static_row(1024, WORSE, base=SMEM, reason=Reason.STATIC_WORSE))


def edited(record: Record, index: int, **fields: object) -> Record:
    """Return the record with one row changed, and the run's verdict as it was."""
    rows = list(record.rows)
    rows[index] = replace(rows[index], **fields)
    return replace(record, rows=tuple(rows))


def test_the_verdict_is_that_of_the_rows() -> None:
    assert replay(GOOD) == (Verdict.PASS, Reason.OK, [])
    assert replay(BAD) == (Verdict.REGRESSION, Reason.STATIC_WORSE, [])


def good(reason: Reason) -> dict[str, object]:
    return {"reason": reason, "verdict": verdict_of(reason)}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (edited(BAD, 1, verdict=Verdict.PASS), "not the verdict of the reason"),
        (edited(BAD, 1, **good(Reason.OK)), "costs give static-worse, it says ok"),
        (edited(BAD, 1, **good(Reason.ACCEPTED)), "costs give static-worse, it says accepted"),
        (edited(BAD, 1, head=SMEM), "costs give ok"),
        (edited(BAD, 1, head=Side("a", "c", {}, "")), "costs give cost-unknown"),
        (replace(BAD, settings=None), "holds no settings"),
        (replace(BAD, settings=Settings(static={"smem_bytes": 1e9})), "costs give"),
        (replace(BAD, verdict=Verdict.PASS, reason=Reason.OK), "the run is PASS"),
        (replace(BAD, rows=BAD.rows[:1]), "the run is REGRESSION"),
        (replace(GOOD, rows=()), "its rows give INVALID"),
        (replace(GOOD, rows=GOOD.rows[:1] * 2), "2 rows of this name"),
        (replace(GOOD, run=replace(GOOD.run, accepts_unmeasured=False)), "did not allow"),
        (replace(GOOD, run=replace(GOOD.run, base=None)), "names no base"),
        (edited(GOOD, 2, **good(Reason.IDENTICAL)), "has rows of what changed"),
        (replace(GOOD, rows=GOOD.rows[:4]), "no row of its cost or of its time"),
        (replace(GOOD, rows=(*GOOD.rows[:3], GOOD.rows[4])), "nothing shows that it is right"),
        (replace(GOOD, rows=(*GOOD.rows[:2], *GOOD.rows[3:])), "nothing says whether it changed"),
        (edited(GOOD, 3, **good(Reason.STATIC_BETTER)), "numerics can't give static-better"),
        (edited(GOOD, 3, comparison=stripe()), "wrong elements are no PASS"),
        (edited(GOOD, 3, report=race()), "a report that is error is no PASS"),
        (edited(GOOD, 3, check="coverage", **good(Reason.ACCEPTED)), "settings do not name it"),
    ],
)
def test_a_record_that_contradicts_itself_is_invalid(record: Record, said: str) -> None:
    verdict, reason, found = replay(record)
    assert (verdict, reason) == (Verdict.INVALID, Reason.RECORD)
    assert said in " ".join(found)


def test_a_side_that_was_taken_away_is_noticed() -> None:
    verdict, reason, _ = replay(edited(BAD, 1, **good(Reason.OK), base=None, head=None))
    assert (verdict, reason) == (Verdict.INVALID, Reason.RECORD)


def test_thresholds_in_the_record_are_those_that_count() -> None:
    loose = Settings(static=DEFAULT_STATIC | {"smem_bytes": 1e9})
    record = replace(edited(BAD, 1, **good(Reason.OK)), settings=loose)
    assert replay(replace(record, verdict=Verdict.PASS, reason=Reason.OK))[0] is Verdict.PASS
    assert isinstance(record.rows[1], Row)


def timed(reason: Reason, timing: Timing | None, **fields: object) -> Record:
    """Return the record of a benchmark with one row, on an H200."""
    made = record(row("step9", "timing", reason, problem=TIMED, timing=timing, **fields))
    [only] = made.rows
    return replace(
        made,
        run=replace(made.run, backend="cuda"),
        environment=replace(made.environment, gpu=Gpu("NVIDIA H200", "580")),
        rows=(replace(only, target="sm_90a"),),
    )


TIMED = Problem(SHAPE, "normal")
BROKEN = replace(SOUND, floor_ns=0.0)
RUN_ON_CPU = record().run


@pytest.mark.parametrize(
    ("reason", "timing"),
    [(Reason.OK, SOUND), (Reason.IMPLAUSIBLE, BROKEN), (Reason.NUMERICS, None)],
)
def test_samples_give_the_reason_of_their_row(reason: Reason, timing: Timing | None) -> None:
    assert replay(timed(reason, timing)) == (verdict_of(reason), reason, [])


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (timed(Reason.OK, BROKEN), "its samples give implausible, it says ok"),
        (timed(Reason.IMPLAUSIBLE, SOUND), "its samples give ok, it says implausible"),
        (timed(Reason.OK, None), "is PASS, and holds no samples"),
        (timed(Reason.IDENTICAL, SOUND), "timing can't give identical"),
        (edited(timed(Reason.OK, SOUND), 0, problem=None), "no timing of a problem"),
        (edited(timed(Reason.OK, SOUND), 0, check="numerics"), "no timing of a problem"),
        (edited(timed(Reason.OK, SOUND), 0, target="sm_100a"), "is not that of sm_100a"),
        (timed(Reason.OK, replace(SOUND, peak_flops=1e16)), "is not that of sm_90a"),
        (timed(Reason.OK, replace(SOUND, peak_flops=8e14)), "is not that of sm_90a"),
        (edited(timed(Reason.OK, SOUND), 0, id="step9-1x1x1-sm132-timing"), "holds samples of"),
        (replace(timed(Reason.OK, SOUND), run=RUN_ON_CPU), "the run used no GPU"),
    ],
)
def test_a_timing_row_that_its_samples_do_not_bear_is_invalid(record: Record, said: str) -> None:
    verdict, reason, found = replay(record)
    assert (verdict, reason) == (Verdict.INVALID, Reason.RECORD)
    assert said in " ".join(found)
