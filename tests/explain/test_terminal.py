import re

import pytest

from rungwatch.decide.verdict import EXPLANATIONS, Reason, Verdict
from rungwatch.declare.problem import Problem, Shape
from rungwatch.explain.words import SHORT_CHECKS
from rungwatch.record.model import CHECKS, decode, encode

from .factory import (
    FAMILY,
    compared,
    comparison,
    example,
    gate_rows,
    race,
    record,
    row,
    stripe,
)

ESCAPE = "\x1b"


def words(text):
    """Return `text` with the wraps of paragraphs undone."""
    return " ".join(text.split())


def last_line(text):
    return text.splitlines()[-1]


def test_a_clean_run_is_a_table_and_one_line(rendered):
    rows = [
        row(f"step{i}", check, cached=i < 3)
        for i in range(1, 5)
        for check in ("numerics", "synccheck", "racecheck")
    ]
    text = rendered(record(*rows))
    assert last_line(text) == "PASS  12 rows: 12 passed (6 from cache), in 41 s"
    assert re.search(r"step1 +\S 1 ok \(cached\) +\S 1 ok \(cached\)", text)
    assert re.search(r"step4 +\S 1 ok +\S 1 ok +\S 1 ok ", text)
    assert "exit code" not in text
    assert "rerun" not in text


def test_the_summary_counts_by_verdict(rendered):
    rows = [row(cached=i < 4) for i in range(10)]
    rows += [row(reason=Reason.NUMERICS, row_id=f"n{i}") for i in range(2)]
    rows += [row(reason=Reason.PROBLEM_REFUSED, message="too small")]
    lines = rendered(record(*rows)).splitlines()
    header, cells = lines[1].split("│"), [line.split("│") for line in lines[3:5]]
    assert [text.strip() for text in header[1:3]] == [FAMILY, "numerics"]
    assert [line[2].strip() for line in cells] == ["2 FAIL", "10 ok (4 cached)"]
    assert cells[0][-2].strip() == "1"


def summary(text):
    """Return the cells of the first table, line by line."""
    lines = text[: text.index("╰")].splitlines()
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line[0] == "│"]


def test_the_tools_have_columns_only_where_the_simulator_was_asked(rendered):
    one = row(check="build", problem=None)
    assert summary(rendered(record(one)))[0][1:] == ["build", "numerics", "synccheck", "racecheck"]
    assert summary(rendered(compared(one)))[0][1:] == ["build"]
    assert summary(rendered(compared(one, row())))[0][1:] == ["build", "numerics"]


def test_the_summary_of_a_gate_fits_80_columns_whole(rendered):
    text = rendered(compared(*gate_rows()))
    table = text[: text.index("╯")]
    assert max(map(len, table.splitlines())) <= 80
    lines = summary(text)
    assert lines[1] == ["ell", "ident.", "src", "num.", "sync", "race", "cost", "time"]
    assert ["step1", "1 identical", *"------"] in lines
    assert ["step9", "1 new", *"------"] in lines
    assert [
        "step7", "-", "1 ok", "12 ok", "1 ok", "1 ok", "2 REGRESSION", "1 INCONCLUSIVE",
    ] in lines  # fmt: skip
    assert ["", "", "", "(6 cached)", "", "", "", ""] in lines


def test_a_wide_console_has_the_full_names(rendered):
    lines = summary(rendered(compared(*gate_rows()), width=160))
    assert lines[0] == [
        FAMILY, "identity", "source", "numerics", "synccheck", "racecheck", "static", "timing",
    ]  # fmt: skip
    assert "12 ok (6 cached)" in next(line for line in lines if line[0] == "step7")


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_summary_with_every_check_is_folded_never_cut(rendered, width):
    rows = [
        row("step1_matrix", check, reason, problem=None)
        for check in CHECKS
        for reason in (Reason.COVERAGE_REDUCED, Reason.OK, Reason.PROBLEM_REFUSED)
    ]
    text = rendered(compared(*rows), width=width)
    lines = summary(text)
    heads = ["".join(cells) for cells in zip(*_until(lines, "step"), strict=True)]
    assert heads[1:-1] == [SHORT_CHECKS[check] for check in CHECKS]
    bodies = ["".join(cells) for cells in zip(*lines[len(_until(lines, "step")) :], strict=True)]
    assert bodies == ["step1_matrix", *["1INVALID1ok"] * len(CHECKS), str(len(CHECKS))]
    assert "…" not in text


def _until(lines, name):
    return lines[: next(i for i, cells in enumerate(lines) if cells[0].startswith(name))]


@pytest.mark.parametrize(
    ("reason", "cell"),
    [
        (Reason.OK, "2 ok"),
        (Reason.IDENTICAL, "2 identical"),
        (Reason.NO_BASELINE, "2 new"),
        (Reason.CHANGED, "2 changed"),
        (Reason.ACCEPTED, "2 accepted"),
        (Reason.STATIC_BETTER, "2 IMPROVED"),
    ],
)
def test_a_cell_says_why_it_passed(rendered, reason, cell):
    rows = [row(check="static", reason=reason, row_id=f"r{i}") for i in range(2)]
    assert summary(rendered(compared(*rows)))[1] == ["step7", cell]


def test_the_worst_is_told_first_and_never_pushed_out(rendered):
    rows = [
        row(reason=reason, row_id=reason.value)
        for reason in (
            Reason.NOT_TIMED,
            Reason.COVERAGE_REDUCED,
            Reason.KERNEL_BUILD,
            Reason.STATIC_WORSE,
            Reason.NUMERICS,
        )
    ]
    text = rendered(compared(*rows))
    told = [line.split("(")[0] for line in text.splitlines() if re.match(r"[A-Z]+\(.*\)  \S", line)]
    assert told == ["FAIL", "REGRESSION", "INVALID", "FAIL"]  # the last one is the run's


def test_a_failure_says_what_where_and_what_next(rendered):
    failing = row(reason=Reason.NUMERICS, message="the worst, D[131, 260]", comparison=stripe())
    text = rendered(record(failing))
    assert f"FAIL(numerics)  {failing.id}\n  | the worst, D[131, 260]\n" in text
    assert re.search(r"256 +\. +\. +# +3 +\. +\+\n", text)
    explanation = EXPLANATIONS[Reason.NUMERICS]
    assert f"means: {explanation.meaning} next: {explanation.next_step} rerun:" in words(text)
    assert f"  rerun: {failing.rerun}\n" in text
    assert text.count("D[131, 260]") == 1
    assert "exit code 1: a kernel is wrong" in text
    assert last_line(text).startswith("FAIL(numerics)  1 row: 1 failed, in ")


def test_wrong_elements_are_told_where_the_message_is_of_something_else(rendered):
    text = rendered(record(row(reason=Reason.GUARD_BAND, message="m", comparison=stripe())))
    assert "wrong: 87,383 of 393,216 elements (22.2 %)" in text
    assert "D[131, 260] is 1.5, must lie in [1.2, 1.3] (reference 1.25): 301 fp16" in text


def test_a_nan_is_no_distance(rendered):
    wrong = comparison(((1,),), worst_ulp=None)
    text = rendered(record(row(reason=Reason.INPUT_CHANGED, comparison=wrong)))
    assert "(reference 1.25): a NaN has no distance" in words(text)


def test_findings_come_with_their_source(rendered):
    text = rendered(record(row(check="racecheck", reason=Reason.RACECHECK, report=race())))
    assert "  | error data-race: write by WG1 and read by WG0" in text
    assert "  |   at step7.py:131\n" in text


def test_equal_failures_are_told_once_and_all_are_counted(rendered):
    rows = [
        row(
            check="racecheck",
            reason=Reason.RACECHECK,
            row_id=f"case-{i:02}",
            message=f"at {i}",
            report=race(f"address {i}"),
        )
        for i in range(9)
    ]
    text = rendered(record(*rows))
    assert text.count("means:") == 1
    assert "the same in 8 more rows:\n  - case-01\n" in text
    assert "and 3 more in the JSON record" in text


def test_details_of_one_kernel_are_limited_but_differ(rendered):
    rows = [row(reason=Reason.NUMERICS, row_id=f"n{i}", message=f"m{i}") for i in range(6)]
    rows.append(row(reason=Reason.GUARD_BAND, row_id="guard", message="outside"))
    text = rendered(record(*rows))
    assert text.count("means:") == 3
    assert "FAIL(guard-band)  guard" in text
    assert f"and {FAMILY}/step7: 4 more rows (4 failed); details are in the JSON record" in text


def test_one_cause_in_many_kernels_is_told_once(rendered):
    rows = [
        row(f"step{i}", reason=Reason.BACKEND_UNAVAILABLE, message="no cargo") for i in range(4)
    ]
    text = rendered(record(*rows))
    assert text.count("no cargo") == 1
    assert "the same in 3 more rows" in text
    assert "exit code 4" in text


def test_wrong_kernels_are_told_apart(rendered):
    rows = [row(f"step{i}", reason=Reason.EXECUTION, message="deadlock") for i in range(4)]
    assert rendered(record(*rows)).count("  | deadlock") == 4


def test_a_skip_is_one_line(rendered):
    skipped = row(
        "step9",
        reason=Reason.PROBLEM_REFUSED,
        message="M must be a multiple of 512, not 128. Nearest valid: --shape 512x256x64 --sms 2",
    )
    text = rendered(record(row(), skipped))
    assert f"SKIPPED(problem-refused) {skipped.id}: {skipped.message}\n" in text
    assert last_line(text) == "PASS  2 rows: 1 passed, 1 skipped, in 41 s"


@pytest.mark.parametrize("rows", [(), (row(reason=Reason.TARGET_NOT_SIMULATED),)])
def test_nothing_checked_is_said(rendered, rows):
    text = rendered(record(*rows))
    assert EXPLANATIONS[Reason.NO_ROWS].meaning in text
    assert "exit code 4" in text
    assert last_line(text).startswith("INVALID(no-rows)  ")


def test_time_by_check(rendered):
    text = rendered(record(row(seconds=30), row(check="racecheck", seconds=90.4)))
    assert "time by check, summed over rows: numerics 30 s, racecheck 90 s\n" in text
    assert "time by check" not in rendered(record(row()))


@pytest.mark.parametrize("width", [80, 120])
def test_prose_fits_the_width_and_holds_no_escape(rendered, width):
    text = rendered(example(), width=width)
    assert ESCAPE not in text
    for line in text.splitlines():
        # Ids and commands stay whole, to be copied.
        assert len(line) <= width or re.search(r"rerun:|SKIPPED", line), line


def test_colour_only_adds_to_the_text(rendered, monkeypatch):
    plain = rendered(example())
    monkeypatch.delenv("NO_COLOR")
    coloured = rendered(example(), force_terminal=True, color_system="standard")
    assert "\x1b[1;31m1 FAIL" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_the_json_alone_gives_the_same_text(rendered):
    assert rendered(decode(encode(example()))) == rendered(example())


def test_every_reason_can_be_shown(rendered):
    for reason in Reason:
        text = rendered(record(row(reason=reason, message="m", comparison=stripe())))
        assert EXPLANATIONS[reason].verdict in text


def test_an_id_is_never_cut(rendered):
    long_id = "k" * 500
    text = rendered(record(row(reason=Reason.DEADLINE, row_id=long_id, rerun=f"run {long_id}")))
    assert text.count(long_id) == 2


def test_a_long_message_is_cut_with_a_note(rendered):
    text = rendered(record(row(reason=Reason.KERNEL_BUILD, message="error " * 50_000)))
    assert len(text) < 6000
    assert "more characters in the JSON record" in words(text)


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J\x1b]0;t\x07",
        "[red]x[/red]",
        "[/]",
        ":smile:",
        "a\nPASS  9 rows: 9 passed",
        "\u202egnp",
        "::error::x",
        "\n::stop-commands::x",
        "##[error]x",
        "\ud800",
        "{x} %s",
    ],
)
def test_hostile_text_is_shown_not_obeyed(rendered, hostile):
    rows = [
        row(
            check=check,
            reason=reason,
            kernel=f"{hostile}/{hostile}",
            row_id=f"id {hostile} {reason}",
            message=f"{hostile}\n{hostile}",
            rerun=hostile,
            report=race(hostile) if reason is Reason.RACECHECK else None,
        )
        for check in ("numerics", "racecheck")
        for reason in (Reason.RACECHECK, Reason.PROTOCOL, Reason.PROBLEM_REFUSED)
    ]
    text = rendered(record(*rows))
    assert all(char == "\n" or char.isprintable() for char in text)
    assert not re.search(r"^\s*::", text, re.MULTILINE)
    assert "##[" not in text
    assert (
        sum(line.startswith(("PASS", "FAIL(racecheck)  6 rows")) for line in text.splitlines()) == 1
    )
    if hostile.isprintable() and not hostile.startswith("##"):
        assert f"| {hostile}\n" in text
        assert f"id {hostile} protocol" in text


def test_an_encoding_without_the_letter_does_not_end_the_run(rendered):
    case = row(reason=Reason.DEADLINE, kernel="k\u00e9/\u4e2d", row_id="\u4e2d", message="\u4e2d")
    text = rendered(record(case), encoding="ascii")
    assert "INVALID(deadline)  \\u4e2d\n" in text
    assert "k\\xe9" in text


def test_a_file_that_cannot_be_read_has_its_column(rendered):
    bad = row("odd", "load", Reason.PROTOCOL, problem=None, message="declares no KERNEL")
    text = rendered(record(bad, row()))
    assert re.search(r"load +\S numerics", text)
    assert last_line(text).startswith("INVALID(protocol)")
    assert bad.verdict is Verdict.INVALID


def test_shapes_of_other_families_have_their_own_table(rendered):
    other = Problem(Shape(256, 256, 64, 1), "normal")
    text = rendered(record(row(), row(kernel="hgemm/hopper/step7", problem=other)))
    assert FAMILY in text
    assert "hgemm/hopper" in text
    assert len(re.findall(r"│ step7 ", text)) == 2
