import pytest
from hypothesis import example as the_example
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec import structs

from rungwatch.decide.verdict import EXPLANATIONS, Reason, Verdict
from rungwatch.explain.markdown import MARKER, code, fence, to_markdown
from rungwatch.explain.words import label
from rungwatch.record.model import Gpu

from .factory import (
    FAMILY,
    compared,
    example,
    gate_rows,
    race,
    record,
    row,
    side,
    static_row,
    stripe,
)

# GitHub's dialect as far as it could be abused: CommonMark with tables.
PARSER = MarkdownIt("commonmark").enable("table")


def tokens(text):
    """Return the tokens of `text`, those inside paragraphs and cells as well."""
    found = []
    for token in PARSER.parse(text):
        found += [token, *(token.children or [])]
    return found


def table_of(text):
    """Return the cells of the table, a list a line, as they are shown."""
    cells, lines = [], []
    for token in PARSER.parse(text):
        if token.type == "tr_open":
            lines.append([])
        elif token.type == "inline" and token.level > 3:
            cells.append(token)
            lines[-1].append("".join(child.content for child in token.children))
    return lines


def blocks_of(text):
    return [token.content for token in PARSER.parse(text) if token.type == "fence"]


class TestWhatItSays:
    def test_the_verdict_is_in_the_first_line(self):
        text = to_markdown(compared(*gate_rows()))
        assert text.splitlines()[0] == "### ❌ rungwatch: FAIL(numerics), exit code 1"
        assert to_markdown(compared(row())).splitlines()[0] == "### ✅ rungwatch: PASS, exit code 0"

    @pytest.mark.parametrize("reason", Reason)
    def test_every_reason_says_what_to_do(self, reason):
        text = to_markdown(compared(row(reason=reason, message="m", comparison=stripe())))
        explanation = EXPLANATIONS[reason]
        if reason is not Reason.OK:
            assert (
                f"- **{label(explanation.verdict, reason)}**, 1 row of `{FAMILY}/step7`: " in text
            )
            assert f": {explanation.meaning}." in text
        assert explanation.next_step in text

    def test_the_reason_of_the_run_comes_first_then_the_worst(self):
        rows = [row(reason=Reason.NUMERICS), row(reason=Reason.SELF_CHECK), row()]
        lines = [line for line in to_markdown(compared(*rows)).splitlines() if line[:3] == "- *"]
        assert [line.split("**")[1] for line in lines] == ["INVALID(self-check)", "FAIL(numerics)"]

    def test_a_run_without_rows_says_why(self):
        text = to_markdown(compared())
        assert "INVALID(no-rows), exit code 4" in text.splitlines()[0]
        assert EXPLANATIONS[Reason.NO_ROWS].next_step in text

    def test_the_table_has_a_line_a_kernel_worst_first(self):
        lines = table_of(to_markdown(compared(*gate_rows())))
        assert lines == [
            ["kernel", "code", "correctness", "static cost", "timing"],
            [f"{FAMILY}/step8", "changed", "FAIL(numerics), 1 row", "-", "-"],
            [
                f"{FAMILY}/step7",
                "changed",
                "PASS, 15 rows",
                "REGRESSION(static-worse), 2 rows",
                "INCONCLUSIVE(not-timed), 1 row",
            ],
            *([f"{FAMILY}/step{i}", "identical", *["as base"] * 3] for i in range(1, 5)),
            [f"{FAMILY}/step9", "added", "-", "-", "-"],
        ]

    @pytest.mark.parametrize(
        ("check", "reason", "state"),
        [
            ("identity", Reason.IDENTICAL, "identical"),
            ("identity", Reason.NO_BASELINE, "added"),
            ("identity", Reason.CHANGED, "changed"),
            ("static", Reason.OK, "changed"),
            ("coverage", Reason.REMOVED, "removed: INVALID(removed)"),
            ("coverage", Reason.ACCEPTED, "removed"),
            ("build", Reason.KERNEL_BUILD, "not built: INVALID(kernel-build)"),
            ("load", Reason.KERNEL_LOAD, "unreadable: INVALID(kernel-load)"),
            ("settings", Reason.SETTINGS, "-: INVALID(settings)"),
        ],
    )
    def test_what_became_of_the_code(self, check, reason, state):
        lines = table_of(to_markdown(compared(row(check=check, reason=reason, problem=None))))
        assert lines[1][1] == state

    def test_narrower_rules_are_said_beside_the_code(self):
        rows = [row(), row(check="coverage", reason=Reason.COVERAGE_REDUCED, problem=None)]
        assert table_of(to_markdown(compared(*rows)))[1][1] == "changed: INVALID(coverage-reduced)"

    def test_the_worst_row_of_a_cell_is_told_with_its_share(self):
        rows = [row(), row(reason=Reason.NUMERICS), row(reason=Reason.PROBLEM_REFUSED)]
        assert table_of(to_markdown(compared(*rows)))[1][2] == "FAIL(numerics), 1 of 3 rows"
        assert table_of(to_markdown(compared(*rows[::2])))[1][2] == "PASS, 1 of 2 rows"

    def test_an_accepted_cost_is_not_hidden_by_a_pass(self):
        rows = [row(check="static"), row(check="static", reason=Reason.ACCEPTED)]
        assert table_of(to_markdown(compared(*rows)))[1][3] == "PASS(accepted), 1 of 2 rows"

    def test_rejected_rows_have_their_message_map_and_command(self):
        failing = row(reason=Reason.NUMERICS, message="the worst is D[1, 2]", comparison=stripe())
        block = blocks_of(to_markdown(compared(failing)))[0]
        for part in (failing.id, "  | the worst is D[1, 2]", "'#' all wrong", failing.rerun):
            assert part in block

    def test_the_same_failure_is_told_once(self):
        rows = [row(reason=Reason.EXECUTION, message="m", row_id=f"r{i}") for i in range(9)]
        blocks = blocks_of(to_markdown(compared(*rows)))
        assert "the same in 8 more rows" in blocks[0]
        assert "and 3 more in the JSON record" in blocks[0]
        assert len(blocks) == 2

    def test_cost_changes_are_told(self):
        text = to_markdown(compared(static_row(1024, side(smem_bytes=165888))))
        assert "smem_bytes 99,328 -> 165,888 B (+66,560): worse, 0 allowed" in blocks_of(text)[1]

    def test_how_it_was_measured(self):
        made = compared(row(seconds=3.0))
        place = structs.replace(made.environment, gpu=Gpu("B200", "580"))
        block = blocks_of(to_markdown(structs.replace(made, environment=place)))[-1]
        told = dict(
            line.split(maxsplit=1) for line in block.splitlines() if line.split()[0] != "by"
        )
        assert told["base"] == "b" * 40
        assert told["head"] == "c" * 40
        assert told["backend"] == "none, B200, driver 580"
        assert told["tvm"] == "0.27"
        assert told["took"] == "41 s"
        assert "by check  numerics 3.0 s" in block

    def test_a_record_of_a_check_can_be_told_as_well(self):
        text = to_markdown(example())
        assert "Base" not in text
        assert table_of(text)[1][2] == "FAIL(numerics), 1 of 6 rows"

    def test_a_verdict_that_its_reason_denies_can_be_told(self):
        odd = structs.replace(row(reason=Reason.NUMERICS), verdict=Verdict.PASS)
        assert "FAIL(numerics)" in to_markdown(compared(odd))

    def test_everything_folded_away_is_closed(self):
        text = to_markdown(compared(*gate_rows()))
        assert text.count("<details>\n<summary>") == text.count("</summary>\n\n```") == 3
        assert text.count("```\n\n</details>\n\n") == 3


HOSTILE = [
    "EVIL | EVIL",
    "@EVIL #1 EVIL/EVIL#2",
    "[EVIL](https://EVIL.example) ![EVIL](EVIL)",
    "<img src=EVIL><!-- EVIL -->",
    "</details></summary> EVIL",
    "`EVIL` ``EVIL`` ```EVIL",
    "\n```\n# EVIL\n",
    "\n\n````````\n</details>\n\n@EVIL\n",
    "~~~\nEVIL\n~~~",
    "https://EVIL.example www.EVIL.example EVIL@EVIL.example",
    "\\` EVIL \\",
    "EVIL\\|EVIL\\",
    "`" * 200 + "EVIL",
    "**EVIL** _EVIL_ ~~EVIL~~ $EVIL$ :EVIL: &lt;EVIL&#64;",
    f"EVIL\n{MARKER}",
    "\ud800EVIL\u202e\x00\x1b[2J",
    "    EVIL\n\tEVIL",
    "| --- |\n| EVIL |",
]


def hostile_record(text):
    rows = [
        row(
            check=check,
            reason=reason,
            kernel=f"{text}/{text}",
            row_id=f"{text} {reason} {check}",
            message=text,
            rerun=text,
            report=race(text) if reason is Reason.RACECHECK else None,
        )
        for check, reason in (
            ("numerics", Reason.NUMERICS),
            ("racecheck", Reason.RACECHECK),
            ("identity", Reason.NO_BASELINE),
            ("numerics", Reason.PROBLEM_REFUSED),
        )
    ]
    rows.append(static_row(1024, side(text, smem_bytes=165888), kernel=f"{text}/{text}"))
    made = compared(*rows)
    run = structs.replace(made.run, command=text, base=text, revision=text, started_utc=text)
    return structs.replace(made, run=run)


def assert_only_quoted(text):
    for token in tokens(text):
        if token.type not in {"code_inline", "fence", "inline"}:
            assert "EVIL" not in token.content + token.info + str(token.attrs), token
        assert token.type not in {"link_open", "image", "html_inline", "code_block"}
    kinds = [token.type for token in PARSER.parse(text)]
    assert kinds.count("heading_open") == kinds.count("table_open") == 1
    html = [token.content for token in PARSER.parse(text) if token.type == "html_block"]
    opening = [block for block in html if block.startswith("<details>\n<summary>")]
    assert [block for block in html if block not in opening] == [
        *["</details>\n"] * len(opening),
        f"{MARKER}\n",
    ]
    assert len(opening) == 3


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_comes_from_code_under_test_is_only_quoted(hostile):
    text = to_markdown(hostile_record(hostile))
    assert_only_quoted(text)
    assert text.count("EVIL") > 10
    assert {len(line) for line in table_of(text)} == {5}
    assert text.encode().decode() == text
    assert text.splitlines()[-1] == MARKER


@given(st.text(st.sampled_from("`|\\ <>@[]()!*_~#\n-a"), max_size=40))
def test_no_mix_of_marks_ends_its_quotes(marks):
    assert_only_quoted(to_markdown(hostile_record(f"EVIL{marks}EVIL")))


@given(st.text(max_size=60))
def test_code_is_one_span_of_one_line(text):
    (inline,) = [token for token in PARSER.parse(f"a {code(text)} b") if token.type == "inline"]
    kinds = [child.type for child in inline.children]
    assert kinds in (["text", "code_inline", "text"], ["text"])
    assert "|" not in code(text)


@given(st.lists(st.text(st.sampled_from("`~ \n|a"), max_size=20), min_size=1, max_size=5))
@the_example(["a", "```", "~~~"])
@the_example(["`````"])
def test_a_fence_holds_its_lines_and_ends_behind_them(lines):
    (block,) = PARSER.parse(fence(lines))
    assert block.content == "\n".join(lines) + "\n"


class TestSize:
    def test_a_very_large_record_is_cut_with_a_note(self):
        rows = [
            row(f"step{i}", reason=Reason.EXECUTION, message=f"{i} {'m' * 5000}", row_id=f"r{i}")
            for i in range(2000)
        ]
        rows += [
            static_row(1024, side(smem_bytes=165888, registers=136), f"step{i}") for i in range(999)
        ]
        text = to_markdown(compared(*rows))
        assert 40_000 < len(text) < 60_000
        assert "blocks of 'Rows that did not pass'" in text
        assert "blocks of 'Changes of static cost'" in text
        assert "more kernels, none of them worse: see the JSON record." in text
        for title in ("Rows that did not pass", "Changes of static cost", "How it was measured"):
            assert f"<summary>{title}</summary>" in text
        assert text.splitlines()[0].startswith("### ")
        assert text.splitlines()[-1] == MARKER

    @pytest.mark.parametrize("unit", ["`", "|", "\ud800", "\n", "x", "\U0001f600"])
    def test_no_name_makes_it_larger(self, unit):
        name = unit * 4_000
        rows = [
            row(
                reason=reason,
                kernel=f"{i}{name}/{i}{name}{i}",
                row_id=name,
                message=name,
                rerun=name,
            )
            for reason in Reason
            for i in range(7)
        ]
        text = to_markdown(compared(*rows))
        assert len(text) < 60_000
        assert text.splitlines()[-1] == MARKER

    def test_one_huge_row_does_not_hide_the_others(self):
        rows = [
            row(reason=Reason.EXECUTION, row_id="x" * 100_000, message="huge"),
            row(reason=Reason.EXECUTION, message="small"),
        ]
        text = to_markdown(compared(*rows))
        assert "  | small" in text
        assert "1 of 2 blocks of 'Rows that did not pass'" in text

    def test_what_fits_is_whole(self):
        assert "Left out" not in to_markdown(compared(*gate_rows()))
        assert to_markdown(record(row())).endswith(f"\n\n{MARKER}\n")
