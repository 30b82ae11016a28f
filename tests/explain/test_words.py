import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwatch.decide.exit_code import ExitCode
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.explain.words import (
    EXIT_MEANINGS,
    VERDICT_ORDER,
    clip,
    counts,
    duration,
    label,
    one_line,
    percent,
    visible,
)

from .factory import row


@given(st.text(st.characters(exclude_categories=[])))
def test_visible_text_has_no_character_that_acts(text):
    assert all(char == "\n" or char.isprintable() for char in visible(text))
    assert "\n" not in one_line(text)


@given(st.text(st.characters(categories=["L", "N", "P", "Sm"]).filter(lambda c: c != "#")))
def test_plain_text_is_left_alone(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\u202etxt", "\\u202etxt"),
        ("\ud800", "\\ud800"),
        ("\x00\ufffe", "\\x00\\ufffe"),
        ("##[error]x", "##\\[error]x"),
    ],
)
def test_escapes(text, shown):
    assert visible(text) == shown


def test_clip_says_how_much_is_missing():
    assert clip("short\ntext") == "short\ntext"
    kept = clip("line\n" * 100, max_lines=3).splitlines()
    assert kept == ["line"] * 3 + ["... 485 more characters in the JSON record"]
    assert len(clip("x" * 10**6)) < 2000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (119.4, "119 s"),
        (119.6, "2 min 0 s"),
        (7300, "2 h 1 min"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10, "0 %"),
        (1, 10**8, "< 0.01 %"),
        (10**8 - 1, 10**8, "> 99.99 %"),
        (10, 10, "100 %"),
        (1, 0, "? %"),
    ],
)
def test_percent(part, whole, text):
    assert percent(part, whole) == text


def test_counts_are_worst_first_with_their_share_from_cache():
    rows = [row(cached=True), row(), row(reason=Reason.DEADLINE), row(reason=Reason.NUMERICS)]
    assert counts(rows) == "1 failed, 1 invalid, 2 passed (1 from cache)"
    assert counts([]) == ""


def test_every_verdict_and_code_has_its_words():
    assert set(VERDICT_ORDER) == set(Verdict)
    assert set(EXIT_MEANINGS) == set(ExitCode)
    assert label(Verdict.PASS, Reason.OK) == "PASS"
    assert label(Verdict.FAIL, Reason.RACECHECK) == "FAIL(racecheck)"
