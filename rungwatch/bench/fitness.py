"""Is this machine fit to measure now? One row, so that times of an unfit one are no PASS."""

from collections.abc import Callable

from rungwatch.decide.verdict import verdict_of
from rungwatch.doctor.examine import examine
from rungwatch.doctor.finding import Activity, Finding, readiness
from rungwatch.record.model import Row


def fitness_row(look: Callable[[], tuple[Finding, ...]] = examine) -> Row:
    """Return what the doctor says of measuring here; takes as long as torch takes to start."""
    reason, words = readiness(look(), Activity.MEASURE)
    return Row(
        id="doctor-measure",
        kernel="doctor",
        target=None,
        problem=None,
        check="doctor",
        verdict=verdict_of(reason),
        reason=reason,
        message=f"measure: {words}",
        rerun="rungwatch doctor --for measure",
    )
