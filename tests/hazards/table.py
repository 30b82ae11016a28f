"""The measured table of docs/what-sees-what.md: print it with `python -m tests.hazards.table`."""

from collections.abc import Iterable

from rungwatch.backends.job import Tool

from .mutants import MUTANTS, Mutant

_NOT_SEEN = "-"


def what_sees_what(mutants: Iterable[Mutant]) -> str:
    """Return a Markdown table, a row a mutant: which tool refuses it, and with which words."""
    head = ["Mutant", "What is wrong", *(str(tool) for tool in Tool)]
    rows = [
        [f"`{mutant.name}`", mutant.what, *(_cell(mutant, tool) for tool in Tool)]
        for mutant in mutants
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(mutant: Mutant, tool: Tool) -> str:
    words = mutant.seen.get(tool)
    return f"`{words}`" if words is not None else _NOT_SEEN


if __name__ == "__main__":
    print(what_sees_what(mutant for mutant in MUTANTS if mutant.published))
    print()
    print(what_sees_what(mutant for mutant in MUTANTS if not mutant.published))
