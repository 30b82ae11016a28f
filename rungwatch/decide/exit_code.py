"""From the rows of a run to one verdict and one exit code: the only place for both."""

from collections.abc import Iterable
from enum import IntEnum

from rungwatch.decide.verdict import Reason, Verdict, verdict_of


class ExitCode(IntEnum):
    """What a command ends with. tox and CI pass it on.

    Python's own exit 1 for an uncaught exception must never be read as REGRESSION: the CLI maps
    every uncaught exception to INVALID.
    """

    PASS = 0
    REJECTED = 1
    USAGE = 2
    INCONCLUSIVE = 3
    INVALID = 4
    INTERRUPTED = 130


EXIT_CODES: dict[Verdict, ExitCode] = {
    Verdict.PASS: ExitCode.PASS,
    Verdict.IMPROVED: ExitCode.PASS,
    Verdict.FAIL: ExitCode.REJECTED,
    Verdict.REGRESSION: ExitCode.REJECTED,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Verdict.INVALID: ExitCode.INVALID,
    Verdict.SKIPPED: ExitCode.INVALID,
}

# A wrong kernel outranks a row that could not be decided: the author has something to fix.
_PRECEDENCE = (
    Verdict.FAIL,
    Verdict.REGRESSION,
    Verdict.INVALID,
    Verdict.INCONCLUSIVE,
    Verdict.IMPROVED,
    Verdict.PASS,
)


def decide_run(reasons: Iterable[Reason]) -> tuple[Verdict, Reason]:
    """Return the verdict of a whole run and the reason that decided it.

    A failed self-check outranks everything, since no other row can be trusted then. Rows that
    are SKIPPED count for nothing: a run with no other row is INVALID(no-rows).
    """
    present = set(reasons)
    if Reason.SELF_CHECK in present:
        return Verdict.INVALID, Reason.SELF_CHECK
    for verdict in _PRECEDENCE:
        for reason in Reason:
            if reason in present and verdict_of(reason) is verdict:
                return verdict, reason
    return Verdict.INVALID, Reason.NO_ROWS


def exit_code_of(verdict: Verdict) -> ExitCode:
    """Return the exit code of a run's verdict."""
    return EXIT_CODES[verdict]
