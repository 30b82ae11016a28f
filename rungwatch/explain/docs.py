"""The generated tables of docs/verdicts.md; a test holds the page to them."""

from rungwatch.decide.exit_code import EXIT_CODES, ExitCode
from rungwatch.decide.verdict import EXPLANATIONS
from rungwatch.explain.words import EXIT_MEANINGS


def verdict_table() -> str:
    """Return every reason with its verdict, meaning and next step, as a Markdown table."""
    return _table(
        ("Verdict", "Reason", "Meaning", "Next step"),
        [
            (explanation.verdict.value, f"`{reason}`", explanation.meaning, explanation.next_step)
            for reason, explanation in EXPLANATIONS.items()
        ],
    )


def exit_code_table() -> str:
    """Return every exit code, the run verdicts that end in it and its meaning, as Markdown."""
    return _table(
        ("Exit code", "Verdict of the run", "Meaning"),
        [(str(code.value), _verdicts_of(code), EXIT_MEANINGS[code]) for code in ExitCode],
    )


def _verdicts_of(code: ExitCode) -> str:
    return ", ".join(verdict.value for verdict, own in EXIT_CODES.items() if own is code) or "-"


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
