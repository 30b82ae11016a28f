"""From a checker's payload to a short report: its megabytes of statistics are never kept."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rungwatch.backends.job import CheckerReport, Finding
from rungwatch.load.failures import shorten, without_folders

_MOST_FINDINGS = 20
_LONGEST_MESSAGE = 500


def report_of(verdict: str, findings: list[Any]) -> CheckerReport:
    """Return the report for a checker's `verdict` and its findings (tirx_harness' objects)."""
    kept = [
        Finding(
            status=str(finding.status),
            kind=str(finding.kind),
            message=shorten(without_folders(_message(finding)), _LONGEST_MESSAGE),
            source=source_line(finding.details),
        )
        for finding in findings[:_MOST_FINDINGS]
    ]
    return CheckerReport(verdict, tuple(kept))


def ran_out_of_time(payload: Mapping[str, Any]) -> bool:
    """Say whether a checker stopped because of the wall clock, which says nothing of the kernel.

    Its other limits (schedules, events, states) count work: they would be met again on a free
    machine, and stay an incomplete verdict.
    """
    if payload.get("verdict") != "incomplete":
        return False
    termination = (payload.get("coverage") or {}).get("termination") or {}
    hit = termination.get("resource_limit") or {}
    reasons = [item for item in payload.get("incomplete", ()) if isinstance(item, dict)]
    return hit.get("resource") == "wall_time" or any(
        reason.get("reason") == "resource_limit" and reason.get("resource") == "wall_time"
        for reason in reasons
    )


def source_line(details: object) -> str | None:
    """Return "file:line: text" for the first source line that a finding's details name."""
    for span in _spans(details):
        file, line = Path(str(span["source_name"])), int(span["line"])
        try:
            text = file.read_text(errors="replace").splitlines()[line - 1].strip()
        except (OSError, IndexError):
            text = ""
        return f"{file.name}:{line}: {text}" if text else f"{file.name}:{line}"
    return None


def _message(finding: Any) -> str:
    """Return the message, with the reason that a checker gives apart from it."""
    reason = finding.details.get("reason") or finding.details.get("cause")
    text = str(finding.message)
    return f"{text} ({reason})" if reason and str(reason) not in text else text


def _spans(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the source spans in a payload; those of an operation before the whole kernel's."""
    if isinstance(value, dict):
        if value.get("kind") == "span" and value.get("source_name") and value.get("line"):
            yield value
            return
        for key in sorted(value, key=lambda key: key == "source_anchor"):
            yield from _spans(value[key])
    elif isinstance(value, (list, tuple)):
        for child in value:
            yield from _spans(child)
