"""What the doctor says: findings, what they touch, and whether an activity is ready."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rungwatch.decide.verdict import Reason


class Activity(StrEnum):
    """What a machine is wanted for."""

    CHECK = "check"
    BUILD = "build"
    CUDA = "cuda"
    MEASURE = "measure"


ON_CPU = (Activity.CHECK, Activity.BUILD)
ON_GPU = (Activity.CUDA, Activity.MEASURE)
EVERYTHING = tuple(Activity)


class Status(StrEnum):
    """How a finding bears on the activities that it affects.

    A note is worth knowing and stops nothing. Trouble stops them. Unknown: whether it stops them
    can't be told, which is never taken for good.
    """

    OK = "ok"
    NOTE = "note"
    TROUBLE = "trouble"
    UNKNOWN = "unknown"


REASONS = {
    Status.OK: Reason.OK,
    Status.NOTE: Reason.OK,
    Status.TROUBLE: Reason.MACHINE_UNFIT,
    Status.UNKNOWN: Reason.MACHINE_UNKNOWN,
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what was seen, and what to do about it ("" for nothing)."""

    name: str
    status: Status
    seen: str
    next_step: str = ""
    affects: tuple[Activity, ...] = ()


def ok(name: str, seen: str, affects: tuple[Activity, ...] = ()) -> Finding:
    """Return a finding that is as it should be."""
    return Finding(name, Status.OK, seen, "", affects)


def note(name: str, seen: str, next_step: str = "", affects: tuple[Activity, ...] = ()) -> Finding:
    """Return a finding that is worth knowing."""
    return Finding(name, Status.NOTE, seen, next_step, affects)


def trouble(name: str, seen: str, next_step: str, affects: tuple[Activity, ...]) -> Finding:
    """Return a finding that stops what it affects."""
    return Finding(name, Status.TROUBLE, seen, next_step, affects)


def unknown(name: str, seen: str, next_step: str, affects: tuple[Activity, ...]) -> Finding:
    """Return what could not be found out, though what it affects depends on it."""
    return Finding(name, Status.UNKNOWN, seen, next_step, affects)


def readiness(findings: Iterable[Finding], activity: Activity) -> tuple[Reason, str]:
    """Return whether the machine is fit for `activity`, and in a few words why not."""
    touching = [finding for finding in findings if activity in finding.affects]
    for status, words in ((Status.TROUBLE, "not fit"), (Status.UNKNOWN, "can't be told")):
        found = [finding for finding in touching if finding.status is status]
        if found:
            more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
            return REASONS[status], f"{words}: {found[0].seen}{more}"
    return Reason.OK, "ready"
