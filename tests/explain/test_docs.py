from pathlib import Path

from rungwatch.decide.verdict import Reason
from rungwatch.explain.docs import exit_code_table, verdict_table

from .factory import example

PAGE = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text(encoding="utf-8")


def test_the_page_holds_the_generated_tables():
    assert f"\n\n{verdict_table()}\n\n" in PAGE
    assert f"\n\n{exit_code_table()}\n\n" in PAGE


def test_the_table_holds_every_reason_once():
    lines = verdict_table().splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == list(Reason)


def test_the_example_of_the_page_is_what_is_printed(rendered):
    assert f"```text\n{rendered(example())}```" in PAGE
