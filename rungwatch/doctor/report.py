"""The doctor's findings as rows of a record, and as text for people."""

from collections.abc import Sequence

from rich.console import Console

from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.doctor.finding import (
    REASONS,
    Activity,
    Finding,
    Status,
    readiness,
)
from rungwatch.explain.console import say, wrapped
from rungwatch.explain.words import label, one_line
from rungwatch.record.model import Record, Row

_STYLES = {
    Status.OK: "green",
    Status.NOTE: "yellow",
    Status.TROUBLE: "bold red",
    Status.UNKNOWN: "bold magenta",
}
_TITLES = {
    Activity.CHECK: "check in the simulator",
    Activity.BUILD: "build",
    Activity.CUDA: "check on the GPU",
    Activity.MEASURE: "measure",
}
_STATUS_WIDTH = 9
_INDENT = " " * (_STATUS_WIDTH + 2)


def rows_of(findings: Sequence[Finding], asked: Sequence[Activity]) -> list[Row]:
    """Return a row for each finding that touches what was asked for: the others decide nothing."""
    wanted = " ".join(f"--for {activity}" for activity in asked)
    return [
        Row(
            id=f"doctor-{finding.name}",
            kernel="doctor",
            target=None,
            problem=None,
            check="doctor",
            verdict=verdict_of(REASONS[finding.status]),
            reason=REASONS[finding.status],
            message=_sentence(finding),
            rerun=f"rungwatch doctor {wanted}",
        )
        for finding in findings
        if set(finding.affects) & set(asked)
    ]


def render(
    findings: Sequence[Finding], asked: Sequence[Activity], record: Record, console: Console
) -> None:
    """Print every finding, a line an activity, and the verdict on what was asked for."""
    for finding in findings:
        _print_finding(finding, asked, console)
    say(console)
    for activity in Activity:
        reason, words = readiness(findings, activity)
        style = "green" if reason is Reason.OK else "bold red"
        if activity not in asked:
            words, style = f"{words} (not asked for)", "dim"
        wrapped(console, f"{_TITLES[activity]}: ", "  ", one_line(words), style)
    say(console)
    verdict_style = "green" if record.reason is Reason.OK else "bold red"
    said = f"  asked for: {', '.join(asked)}"
    say(console, (label(record.verdict, record.reason), verdict_style), said)


def _print_finding(finding: Finding, asked: Sequence[Activity], console: Console) -> None:
    stops = finding.status in (Status.TROUBLE, Status.UNKNOWN)
    status = finding.status
    if stops and not set(finding.affects) & set(asked):
        status = Status.NOTE  # it stops nothing that was asked for
    head = f"{status.value:{_STATUS_WIDTH}}{finding.name}: "
    wrapped(console, head, _INDENT, one_line(finding.seen), _STYLES[status])
    if finding.next_step:
        wrapped(console, f"{_INDENT}next: ", f"{_INDENT}  ", one_line(finding.next_step))


def _sentence(finding: Finding) -> str:
    text = f"{finding.name}: {finding.seen}"
    return f"{text}; {finding.next_step}" if finding.next_step else text
