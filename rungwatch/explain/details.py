"""What is said about one row that did not pass: the same facts in a terminal and in JUnit."""

from dataclasses import dataclass

from rungwatch.backends.job import Finding
from rungwatch.decide.verdict import EXPLANATIONS, Reason
from rungwatch.explain.words import clip, one_line, percent, plural, visible
from rungwatch.record.model import Comparison, Row

_FINDINGS_SHOWN = 4
# The message of these states the extent and the worst element itself.
_NAMED_IN_MESSAGE = frozenset({Reason.NUMERICS, Reason.UNEXPECTED_NAN, Reason.NOT_WRITTEN})


@dataclass(frozen=True)
class Details:
    """The facts of one row, safe to show, in the order in which a reader needs them.

    `quoted` holds lines in the words of the checker, compiler or kernel; `facts` and `advice`
    are (name, one line of text).
    """

    quoted: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    advice: tuple[tuple[str, str], ...]


def details(row: Row) -> Details:
    """Return what there is to say about `row`; long messages are cut, with a note that says so."""
    explanation = EXPLANATIONS[row.reason]
    advice = [("means", explanation.meaning), ("next", explanation.next_step)]
    if row.rerun:
        advice.append(("rerun", one_line(row.rerun)))
    if row.report is not None and row.report.findings:
        # The row's message repeats the first of them.
        quoted = _finding_lines(row.report.verdict, row.report.findings)
    else:
        quoted = clip(visible(row.message)).splitlines()
    facts: tuple[tuple[str, str], ...] = ()
    if row.comparison is not None and row.reason not in _NAMED_IN_MESSAGE:
        facts = _comparison_facts(row.comparison)
    return Details(tuple(quoted), facts, tuple((name, text) for name, text in advice if text))


def _finding_lines(verdict: str, findings: tuple[Finding, ...]) -> list[str]:
    lines = [f"{one_line(verdict)}, {plural(len(findings), 'finding')}:"]
    for finding in findings[:_FINDINGS_SHOWN]:
        head = f"{one_line(finding.status)} {one_line(finding.kind)}: "
        lines += clip(head + visible(finding.message), max_lines=8).splitlines()
        if finding.source is not None:
            lines.append(f"  at {one_line(finding.source)}")
    more = len(findings) - _FINDINGS_SHOWN
    if more > 0:
        lines.append(f"... {more} more of {len(findings)} findings in the JSON record")
    return lines


def _comparison_facts(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    if not comparison.wrong_elements:
        return ()
    wrong, elements = comparison.wrong_elements, comparison.elements
    facts = [("wrong", f"{wrong:,} of {elements:,} elements ({percent(wrong, elements)})")]
    if (worst := comparison.worst) is not None:
        ulp = comparison.worst_ulp
        distance = "a NaN has no distance" if ulp is None else f"{ulp:,} fp16 steps outside"
        facts.append(
            (
                "worst",
                f"D[{worst.row}, {worst.column}] is {one_line(worst.actual)}, must lie in"
                f" [{one_line(worst.lowest)}, {one_line(worst.highest)}]"
                f" (reference {one_line(worst.reference)}): {distance}",
            )
        )
    return tuple(facts)
