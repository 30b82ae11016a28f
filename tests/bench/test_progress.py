"""The progress of timings in a log, and the words of a command that a record may hold."""

import io

import pytest
from rich.console import Console

from rungwatch.cli.output import without_path
from rungwatch.cli.progress import TimingProgress


def told(*steps):
    text = io.StringIO()
    with TimingProgress(None, Console(file=text, width=80)) as progress:
        for done, total in steps:
            progress.update(done, total)
    return text.getvalue().splitlines()


def test_a_log_has_a_line_a_tenth_with_the_time_left():
    lines = told(*((done, 480) for done in range(481)))
    assert len(lines) == 10
    assert lines[0].startswith("[48/480] timed, ")
    assert lines[0].endswith(" left at most")
    assert lines[-1] == "[480/480] timed"


def test_what_comes_twice_or_all_at_once_is_told_once():
    assert told((0, 4), (4, 4), (4, 4)) == ["[4/4] timed"]
    assert told((0, 0)) == []


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("--json", "--json"),
        ("records/one.json", "records/one.json"),
        ("/somewhere/else/one.json", "one.json"),
        ("--json=/somewhere/else/one.json", "--json=one.json"),
        ("/somewhere/gemm.py:make", "gemm.py:make"),
        ("../../name/one.json", "one.json"),
        ("HEAD~1", "HEAD~1"),
        ("main..work", "main..work"),
        ("hgemm/hopper/step9", "hgemm/hopper/step9"),
        ("", ""),
    ],
)
def test_no_word_of_a_recorded_command_names_a_folder_elsewhere(word, kept):
    assert without_path(word) == kept


def test_what_lies_below_the_current_folder_is_named_from_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert without_path(str(tmp_path / "out" / "one.json")) == "out/one.json"
    assert without_path(str(tmp_path)) == "."
