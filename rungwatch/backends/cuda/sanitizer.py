"""compute-sanitizer: find it, ask it to watch a worker, and read what it says.

Its report is text, so it is read defensively: a run counts as clean where the one line that sums
it up is there and says zero, and never because nothing was found.

Source: NVIDIA, Compute Sanitizer documentation.
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from rungwatch.backends.job import CheckerReport, Finding, Tool

TOOLS = {
    Tool.SANITIZER_MEMCHECK: "memcheck",
    Tool.SANITIZER_RACECHECK: "racecheck",
    Tool.SANITIZER_SYNCCHECK: "synccheck",
}
NOT_FOUND = "compute-sanitizer is neither on the PATH nor in /usr/local/cuda/bin"
# What it ends with where the watched program ended well and something was found.
FOUND_EXIT_CODE = 86
_PROGRAM = "compute-sanitizer"
_USUAL_FOLDER = "/usr/local/cuda/bin"
_MOST_FINDINGS = 20
_LONGEST_FINDING = 600
_PREFIX = re.compile(r"^=+ ?")
_SUMMARY = re.compile(r"^ERROR SUMMARY: (\d+) errors?\b")
_RACE_SUMMARY = re.compile(
    r"^RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)"
)
# The sanitizer itself gave up: what it counted then says nothing. Racecheck's findings begin with
# "Error: " as well.
_BROKEN = re.compile(
    r"^(Error: (?!Race reported|Potential )|Internal Sanitizer Error|Fatal"
    r"|Target application terminated before first)|Device not supported",
    re.IGNORECASE,
)
_HEADINGS = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "LEAK SUMMARY")


class SanitizerError(RuntimeError):
    """The sanitizer gave no report that can be relied on, and why."""


def find() -> str | None:
    """Return the path of compute-sanitizer, None where there is none."""
    return shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path=_USUAL_FOLDER)


def watching(program: str, tool: Tool, log: Path, command: Sequence[str]) -> list[str]:
    """Return the command that runs `command` under `tool`, which writes its report to `log`."""
    return [
        program,
        "--tool",
        TOOLS[tool],
        "--error-exitcode",
        str(FOUND_EXIT_CODE),
        "--print-limit",
        str(_MOST_FINDINGS),
        "--log-file",
        str(log),
        *command,
    ]


def report_of(tool: Tool, text: str) -> CheckerReport:
    """Return what a report says: clean, error, or review where there are warnings alone.

    Raises:
        SanitizerError: there is no summary, or more than one, or the sanitizer failed.
    """
    lines = [_PREFIX.sub("", line).rstrip() for line in text.splitlines()]
    for line in lines:
        if _BROKEN.search(line):
            raise SanitizerError(f"{_PROGRAM} could not watch the kernel: {line.strip()}")
    pattern = _RACE_SUMMARY if tool is Tool.SANITIZER_RACECHECK else _SUMMARY
    summaries = [match for line in lines if (match := pattern.match(line.strip()))]
    if len(summaries) != 1:
        last = next((line for line in reversed(lines) if line.strip()), "nothing")
        raise SanitizerError(
            f"{_PROGRAM} left {len(summaries)} summaries where one is expected; its last line:"
            f" {last.strip()[:200]}"
        )
    counts = [int(number) for number in summaries[0].groups()]
    errors, warnings = (counts[1], counts[2]) if len(counts) == 3 else (counts[0], 0)
    if max(counts) == 0:
        return CheckerReport("clean", ())
    findings = _findings(lines, "warning" if errors == 0 else "error")
    said = f"{errors} errors, {warnings} warnings" if len(counts) == 3 else f"{errors} errors"
    return CheckerReport(
        "error" if errors else "review",
        findings or (Finding("error", TOOLS[tool], f"its summary counts {said}"),),
    )


def _findings(lines: Sequence[str], status: str) -> tuple[Finding, ...]:
    """Return the blocks of a report: a heading, with what is indented below it."""
    findings: list[Finding] = []
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip() and not line.startswith(" ") and block:
            findings.append(_finding(block, status))
            block = []
        if line.strip() and not line.startswith(_HEADINGS):
            block.append(line.strip())
        elif block:
            findings.append(_finding(block, status))
            block = []
    return tuple(findings[:_MOST_FINDINGS])


def _finding(block: Sequence[str], status: str) -> Finding:
    text = "; ".join(block[1:])[:_LONGEST_FINDING]
    return Finding(status, block[0][:_LONGEST_FINDING], text)
