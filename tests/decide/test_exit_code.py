"""Every verdict has a code, and no path leads from "nothing learnt" to exit 0."""

import itertools

import pytest

from rungwatch.decide.exit_code import EXIT_CODES, ExitCode, decide_run, exit_code_of
from rungwatch.decide.verdict import EXPLANATIONS, Reason, Verdict, verdict_of

OF_VERDICT = {
    verdict: [reason for reason in Reason if verdict_of(reason) is verdict] for verdict in Verdict
}


def code(*reasons: Reason) -> ExitCode:
    return exit_code_of(decide_run(reasons)[0])


def test_every_reason_is_explained_and_says_what_to_do_next() -> None:
    assert set(EXPLANATIONS) == set(Reason)
    for explanation in EXPLANATIONS.values():
        assert explanation.meaning
        good = (Verdict.PASS, Verdict.IMPROVED)
        assert explanation.next_step or explanation.verdict in good


def test_every_verdict_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(Verdict)


def test_nothing_measured_is_never_a_success() -> None:
    assert code() is ExitCode.INVALID
    assert decide_run([])[1] is Reason.NO_ROWS
    for skipped in OF_VERDICT[Verdict.SKIPPED]:
        assert code(skipped, skipped) is ExitCode.INVALID


def test_only_passing_rows_give_zero() -> None:
    for first, second in itertools.product(Reason, repeat=2):
        if code(first, second) is ExitCode.PASS:
            verdicts = {verdict_of(first), verdict_of(second)}
            assert verdicts <= {Verdict.PASS, Verdict.IMPROVED, Verdict.SKIPPED}
            assert verdicts != {Verdict.SKIPPED}


@pytest.mark.parametrize("wrong", OF_VERDICT[Verdict.FAIL])
@pytest.mark.parametrize("unknown", OF_VERDICT[Verdict.INVALID])
def test_a_wrong_kernel_outranks_an_undecided_row(wrong: Reason, unknown: Reason) -> None:
    expected = ExitCode.INVALID if unknown is Reason.SELF_CHECK else ExitCode.REJECTED
    assert code(Reason.OK, unknown, wrong) is expected


@pytest.mark.parametrize("unknown", OF_VERDICT[Verdict.INVALID])
def test_one_undecided_row_spoils_a_pass(unknown: Reason) -> None:
    assert code(Reason.OK, unknown, Reason.OK) is ExitCode.INVALID


def test_order_does_not_matter() -> None:
    reasons = [Reason.OK, Reason.NUMERICS, Reason.DEADLINE, Reason.PROBLEM_REFUSED]
    results = {decide_run(order) for order in itertools.permutations(reasons)}
    assert results == {(Verdict.FAIL, Reason.NUMERICS)}
