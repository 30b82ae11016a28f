"""A record as JUnit XML, for CI systems that list tests."""

import io

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from rungwatch.decide.verdict import EXPLANATIONS, Verdict
from rungwatch.explain.details import details
from rungwatch.explain.tilemap import tile_map
from rungwatch.explain.words import GOOD, label, one_line, visible
from rungwatch.record.model import Record, Row

_HEAD_CHARS = 300

type Outcome = type[Failure] | type[Error] | type[Skipped]

# INCONCLUSIVE is an error, not a skip: CI systems show a skip as harmless.
_OUTCOMES: dict[Verdict, Outcome] = {
    Verdict.FAIL: Failure,
    Verdict.REGRESSION: Failure,
    Verdict.INVALID: Error,
    Verdict.INCONCLUSIVE: Error,
    Verdict.SKIPPED: Skipped,
}


def to_xml(record: Record) -> bytes:
    """Return `record` as JUnit XML in UTF-8: a suite a kernel, a test case a row.

    A run that did not pass, though no row of it says why (no rows, or only skipped ones), gets
    a test case of its own, so that an empty file can't be read as success.
    """
    document = JUnitXml("rungwatch")
    for kernel in dict.fromkeys(row.kernel for row in record.rows):
        cases = [_row_case(row) for row in record.rows if row.kernel == kernel]
        document.add_testsuite(_suite(kernel, cases, record))
    if record.verdict not in GOOD and all(
        row.verdict in {*GOOD, Verdict.SKIPPED} for row in record.rows
    ):
        document.add_testsuite(_suite("rungwatch", [_run_case(record)], record))
    document.update_statistics()  # type: ignore[no-untyped-call]
    # Row seconds overlap where rows ran side by side; the run's own time is the true total.
    document.time = record.run.seconds
    output = io.BytesIO()
    document.write(output)
    return output.getvalue()


def _suite(name: str, cases: list[TestCase], record: Record) -> TestSuite:
    suite = TestSuite(one_line(name))
    suite.timestamp = one_line(record.run.started_utc)
    suite.add_testcases(cases)
    return suite


def _row_case(row: Row) -> TestCase:
    case = TestCase(one_line(row.id), classname=one_line(row.kernel), time=row.seconds)
    outcome = _OUTCOMES.get(row.verdict)
    if outcome is not None:
        case.result = [_result(outcome, row)]
    return case


def _result(outcome: Outcome, row: Row) -> Failure | Error | Skipped:
    told = details(row)
    first_line = visible(row.message[:_HEAD_CHARS]).partition("\n")[0]
    head = f"{label(row.verdict, row.reason)}: {first_line}".removesuffix(": ")
    result = outcome(head, row.reason.value)
    drawn = tile_map(row)
    result.text = "\n".join(
        [
            *told.quoted,
            *(f"{name}: {text}" for name, text in told.facts),
            *([drawn.text()] if drawn is not None else []),
            *(f"{name}: {text}" for name, text in told.advice),
        ]
    )
    return result


def _run_case(record: Record) -> TestCase:
    explanation = EXPLANATIONS[record.reason]
    case = TestCase("run", classname="rungwatch", time=record.run.seconds)
    result = Error(label(record.verdict, record.reason), record.reason.value)
    result.text = f"{explanation.meaning}\nnext: {explanation.next_step}"
    case.result = [result]
    return case
