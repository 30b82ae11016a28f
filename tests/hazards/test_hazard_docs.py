"""The pages on hazards say what the table of mutants says."""

from pathlib import Path

import pytest

from .mutants import MUTANTS, Mutant
from .table import unseen, what_sees_what

DOCS = Path(__file__).resolve().parents[2] / "docs"
PUBLISHED = tuple(mutant for mutant in MUTANTS if mutant.published)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "table",
    [
        what_sees_what(PUBLISHED),
        what_sees_what(mutant for mutant in MUTANTS if not mutant.published),
        unseen(MUTANTS),
    ],
    ids=["published", "hazards", "unseen"],
)
def test_the_page_holds_the_measured_table(table: str) -> None:
    assert f"\n\n{table}\n\n" in page("what-sees-what.md")


@pytest.mark.parametrize("mutant", PUBLISHED, ids=lambda mutant: mutant.name)
def test_each_published_fault_is_told_with_words_of_the_tool(mutant: Mutant) -> None:
    text = " ".join(page("published-ladder.md").replace("\n>", "\n").split())
    assert f"`{mutant.name}`" in text
    assert mutant.seen[mutant.cheapest] in text
