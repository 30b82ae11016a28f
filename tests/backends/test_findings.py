"""What is kept of a checker's payload."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rungwatch.backends.simulator.findings import ran_out_of_time, report_of, source_line


@dataclass
class Found:
    status: str
    kind: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)


def span(file: Path, line: int) -> dict[str, Any]:
    return {"kind": "span", "source_name": str(file), "line": line, "column": 1}


def stopped_by(resource: str, verdict: str = "incomplete") -> dict[str, Any]:
    """A payload in the form that the checker gives when a limit stops it."""
    hit = {"resource": resource, "limit": {"kind": "milliseconds", "value": 30_000}}
    return {
        "verdict": verdict,
        "coverage": {"termination": {"kind": "resource_limit", "resource_limit": hit}},
        "incomplete": [{"kind": "analysis_incomplete", "reason": "resource_limit", **hit}],
    }


def test_only_the_wall_clock_is_a_time_budget() -> None:
    assert ran_out_of_time(stopped_by("wall_time"))
    assert not ran_out_of_time(stopped_by("schedules"))
    assert not ran_out_of_time(stopped_by("wall_time", verdict="error"))
    unsupported = {
        "verdict": "incomplete",
        "coverage": {"termination": {"kind": "unsupported", "resource_limit": None}},
        "incomplete": [{"kind": "analysis_incomplete", "reason": "x"}],
    }
    assert not ran_out_of_time(unsupported)
    assert not ran_out_of_time({"verdict": "clean"})


def test_an_operation_names_its_line_before_the_kernel_does(tmp_path: Path) -> None:
    file = tmp_path / "step1.py"
    file.write_text("def f():\n    bar.wait(0)\n")
    details = {
        "source_anchor": {"source_span": span(file, 1)},
        "operation": {"source": {"source_span": span(file, 2)}},
    }
    assert source_line(details) == "step1.py:2: bar.wait(0)"
    assert source_line({"source_anchor": details["source_anchor"]}) == "step1.py:1: def f():"
    assert source_line({"spans": [span(tmp_path / "gone.py", 9)]}) == "gone.py:9"
    assert source_line({"kind": "span"}) is None


def test_a_report_is_short_and_names_no_folder(tmp_path: Path) -> None:
    details = {"stats": "x" * 10**6, "source_anchor": {"source_span": span(tmp_path / "k.py", 3)}}
    message = f"{tmp_path}/k.py: a race " + "of warps " * 1000
    report = report_of("error", [Found("error", "race", message, details)] * 50)
    assert report.findings[0].message.startswith("k.py: a race")
    assert report.findings[0].source == "k.py:3"
    encoded = msgspec.json.encode(report)
    assert str(tmp_path).encode() not in encoded
    assert len(encoded) < 20_000


def test_a_reason_apart_from_the_message_is_kept() -> None:
    found = Found("incomplete", "analysis_incomplete", "analysis incomplete", {"reason": "limit"})
    assert report_of("incomplete", [found]).findings[0].message == "analysis incomplete (limit)"


@pytest.mark.parametrize("verdict", ["clean", "review"])
def test_the_verdict_is_the_checkers(verdict: str) -> None:
    assert report_of(verdict, []).verdict == verdict
