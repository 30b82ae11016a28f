from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml
from msgspec import structs

from rungwatch.decide.verdict import EXPLANATIONS, Reason, Verdict
from rungwatch.explain.junit import to_xml

from .factory import FAMILY, example, race, record, row, stripe

TAGS = {
    Verdict.PASS: None,
    Verdict.IMPROVED: None,
    Verdict.FAIL: "failure",
    Verdict.REGRESSION: "failure",
    Verdict.INVALID: "error",
    Verdict.INCONCLUSIVE: "error",
    Verdict.SKIPPED: "skipped",
}


def case_of(case_row):
    root = ElementTree.fromstring(to_xml(record(row(), case_row)))
    return root.findall(".//testcase")[1]


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_has_its_element(reason):
    case = case_of(row(reason=reason, message="what happened", seconds=1.5))
    tag = TAGS[EXPLANATIONS[reason].verdict]
    assert [child.tag for child in case] == ([tag] if tag else [])
    assert float(case.get("time")) == 1.5
    if tag:
        assert case[0].get("type") == reason
        assert case[0].get("message") == f"{EXPLANATIONS[reason].verdict}({reason}): what happened"


def test_suites_are_kernels_and_totals_hold():
    made = example()
    document = JUnitXml.fromstring(to_xml(made))
    assert [suite.name for suite in document] == [f"{FAMILY}/step{i}" for i in (4, 7, 9)]
    assert (document.tests, document.failures, document.errors, document.skipped) == (14, 2, 0, 1)
    assert document.time == made.run.seconds
    names = [case.name for suite in document for case in suite]
    assert sorted(names) == sorted(each.id for each in made.rows)


def test_the_body_holds_the_details():
    failing = row(reason=Reason.GUARD_BAND, message="off", comparison=stripe())
    body = case_of(failing)[0].text
    for part in (
        "off",
        "D[131, 260]",
        "'#' all wrong",
        f"rerun: {failing.rerun}",
        EXPLANATIONS[Reason.GUARD_BAND].next_step,
    ):
        assert part in body


def test_findings_are_in_the_body_and_the_message_in_the_head():
    case = case_of(row(check="racecheck", reason=Reason.RACECHECK, message="m\nn", report=race()))
    assert case[0].get("message") == "FAIL(racecheck): m"
    assert "data-race" in case[0].text
    assert "at step7.py:131" in case[0].text


@pytest.mark.parametrize("verdict", [Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.IMPROVED])
def test_verdicts_of_timed_rows_have_their_element(verdict):
    timed = structs.replace(row(), verdict=verdict)
    tag = TAGS[verdict]
    assert [child.tag for child in case_of(timed)] == ([tag] if tag else [])


@pytest.mark.parametrize("rows", [(), (row(reason=Reason.PROBLEM_REFUSED),)])
def test_a_run_without_a_checked_row_is_an_error(rows):
    document = JUnitXml.fromstring(to_xml(record(*rows)))
    assert document.errors == 1
    assert document.tests == len(rows) + 1


def test_hostile_text_makes_valid_xml():
    hostile = "\x00\x1b[31m]]><x a='\"'>&amp;\ud800\ufffe\x0b\nsecond"
    case = case_of(
        row(
            reason=Reason.RACECHECK,
            kernel=hostile,
            row_id=hostile,
            message=hostile,
            rerun=hostile,
            report=race(hostile),
        )
    )
    shown = "\\x00\\x1b[31m]]><x a='\"'>&amp;\\ud800\\ufffe\\x0b"
    assert case.get("name") == case.get("classname") == f"{shown}\\nsecond"
    assert f"{shown}\nsecond\n" in case[0].text
