import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rungwatch.explain.sass import side_by_side

OLD = [f"    IMAD R{i}, R1, R2, RZ" for i in range(400)]


@pytest.fixture
def shown(printed):
    def text(old, new, context=3, **options):
        return printed(lambda console: side_by_side(old, new, context, console), **options)

    return text


def sides(text, width=80):
    """Return the two columns of every table line."""
    half = (width - 3) // 2
    lines = [line for line in text.splitlines() if line.startswith("│")]
    return [(line[1 : 1 + half].rstrip(), line[2 + half : -1].rstrip()) for line in lines]


def test_a_changed_line_is_marked_on_both_sides(shown):
    new = [*OLD[:200], "    FFMA R1, R2, R3, R4", *OLD[201:]]
    text = shown(OLD, new, 1)
    assert sides(text) == [
        ("      IMAD R199, R1, R2, RZ", "      IMAD R199, R1, R2, RZ"),
        ("-     IMAD R200, R1, R2, RZ", "+     FFMA R1, R2, R3, R4"),
        ("      IMAD R201, R1, R2, RZ", "      IMAD R201, R1, R2, RZ"),
    ]
    assert text.splitlines()[0] == "... 199 equal lines"
    assert text.splitlines()[-1] == "... 198 equal lines"


def test_a_line_of_one_side_has_nothing_beside_it(shown):
    assert sides(shown(["a", "b"], ["a", "x", "b"], 0)) == [("", "+ x")]
    assert sides(shown(["a", "x", "b"], ["a", "b"], 0)) == [("- x", "")]
    assert sides(shown([], ["x"])) == [("", "+ x")]


def test_distant_changes_have_the_count_between_them(shown):
    new = list(OLD)
    new[50] = new[300] = "x"
    text = shown(OLD, new, 2)
    counts = [line for line in text.splitlines() if line.startswith("...")]
    assert counts == ["... 48 equal lines", "... 245 equal lines", "... 97 equal lines"]


def test_equal_texts_are_one_line(shown):
    assert shown(OLD, list(OLD)) == "... 400 equal lines\n"
    assert shown([], []) == ""


def test_frequent_lines_are_compared_as_well(shown):
    assert sides(shown(["a", *["NOP"] * 300, "b"], ["NOP"] * 300, 0)) == [("- a", ""), ("- b", "")]


def test_two_large_texts_of_one_line_do_not_take_minutes(shown):
    text = shown(["NOP"] * 30_000, ["NOP"] * 30_000 + ["b"], 0)
    assert sides(text)[-1][1] == "+ b"


@pytest.mark.parametrize("width", [80, 41])
def test_long_lines_are_folded_behind_their_indentation_and_not_cut(shown, width):
    long = "    UTCHMMA " + ", ".join(f"gdesc[UR{i}]" for i in range(20))
    text = shown([long], ["short"], width=width)
    left = [old[2:] for old, _ in sides(text, width)]
    assert "".join(left).replace(" ", "") == long.replace(" ", "")
    assert all(line.startswith("    ") for line in left)
    assert {len(line) for line in text.splitlines()} == {width - (width - 3) % 2}


def test_below_the_least_width_it_is_wider_than_the_console(shown):
    assert "+ longer than" in shown(["x"], ["longer than"], width=10)


def test_colour_only_adds_to_the_text(shown, monkeypatch):
    plain = shown(["a", "b"], ["a", "c"])
    monkeypatch.delenv("NO_COLOR")
    coloured = shown(["a", "b"], ["a", "c"], force_terminal=True, color_system="standard")
    assert "\x1b[31m- " in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


@pytest.mark.parametrize(
    "hostile", ["::error::x", "##[error]x", "\x1b[2J", "[red]x[/red]", "[/]", "\ud800", "\u202ex"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_hostile_text_is_shown_not_obeyed(shown, hostile, encoding):
    text = shown(["a", hostile], [hostile, "b"], encoding=encoding)
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "##[" not in text
    assert not re.search(r"^\s*::", text, re.MULTILINE)


LINES = st.lists(st.text("abc", min_size=1, max_size=2), max_size=9)


@given(LINES, LINES)
def test_both_texts_can_be_read_from_the_columns(old, new):
    file = io.StringIO()
    side_by_side(old, new, 99, Console(file=file, width=80, color_system=None))
    rows = sides(file.getvalue())
    if old != new:
        assert [left[2:] for left, _ in rows if left] == old
        assert [right[2:] for _, right in rows if right] == new
        assert all(
            (left[:1] != "-" and right[:1] != "+") == (left == right) for left, right in rows
        )
