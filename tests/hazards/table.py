"""The measured tables of docs/what-sees-what.md: `python -m tests.hazards.table` prints them."""

from collections.abc import Iterable

from rungwatch.backends.job import SIMULATOR_TOOLS, Tool
from rungwatch.trusted.source_rules import broken_rules

from .mutants import MUTANTS, Mutant

_NOT_SEEN = "-"


def what_sees_what(mutants: Iterable[Mutant]) -> str:
    """Return a Markdown table, a row a mutant: which tool refuses it, and with which words."""
    return _table(
        ["Mutant", "What is wrong", *SIMULATOR_TOOLS],
        [
            [f"`{mutant.name}`", mutant.what, *(_cell(mutant, tool) for tool in SIMULATOR_TOOLS)]
            for mutant in mutants
        ],
    )


def unseen(mutants: Iterable[Mutant]) -> str:
    """Return a Markdown table of the mutants that no tool refuses, and the rule they break."""
    return _table(
        ["Mutant", "What is wrong", "Source rule", "In words"],
        [
            [f"`{mutant.name}`", mutant.what, f"`{rule.rule}`", rule.message]
            for mutant in mutants
            if not mutant.seen
            for rule in broken_rules(mutant.source())[:1]
        ],
    )


def _cell(mutant: Mutant, tool: Tool) -> str:
    return f"`{mutant.seen[tool]}`" if tool in mutant.seen else _NOT_SEEN


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(what_sees_what(mutant for mutant in MUTANTS if mutant.published), end="\n\n")
    print(what_sees_what(mutant for mutant in MUTANTS if not mutant.published), end="\n\n")
    print(unseen(MUTANTS))
