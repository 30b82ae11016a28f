"""The tables of docs/mutants.md, from the results alone: `python -m tests.mutants.table`."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rungwatch.trusted.matrix import Depth

from .equivalent import EQUIVALENT, UNSEEN, Claim, claim_for
from .hazards import HAZARDS
from .mutant import RUNGS
from .operators import OPERATORS
from .results import COMMITTED, Outcome, Result, read_results
from .run import jobs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mutants.md"
_MARK = "<!-- {} of the generated tables: python -m tests.mutants.table -->"
BEGIN, END = _MARK.format("begin"), _MARK.format("end")


def caught(result: Result) -> bool:
    """Say whether a check refused the mutant."""
    return result.outcome is not Outcome.SURVIVED


def is_equivalent(result: Result) -> bool:
    """Say whether the mutant is shown to be a right kernel, and so does not count."""
    return claim_for(result, EQUIVALENT) is not None


def score(results: Iterable[Result]) -> tuple[int, int]:
    """Return how many mutants were caught, and of how many that are wrong."""
    wrong = [result for result in results if not is_equivalent(result)]
    return sum(map(caught, wrong)), len(wrong)


def tables(results: Sequence[Result]) -> str:
    """Return every table, as Markdown with its headings."""
    parts = {
        "Score by rung": _scores(results, lambda result: result.rung, RUNGS),
        "Score by operator": _scores(results, lambda result: result.operator, OPERATORS),
        "What refuses first": _cases(results),
        "Hazards": _hazards(results),
        "Survivors that are right kernels": _claims(results, EQUIVALENT),
        "Survivors that the simulator can't see": _claims(results, UNSEEN),
        "Survivors without an explanation": _open(results),
    }
    sections = (f"## {title}\n\n{body}" for title, body in parts.items())
    return "\n\n".join((f"{len(results)} mutants were run.", *sections))


def _scores(
    results: Sequence[Result], group_of: Callable[[Result], str], groups: Iterable[str]
) -> str:
    lines = []
    for group in groups:
        own = [result for result in results if group_of(result) == group]
        if own:
            lines.append([f"`{group}`", *_score_cells(own)])
    lines.append(["**all**", *_score_cells(results)])
    outcomes = (outcome.value for outcome in Outcome)
    head = ["", "mutants", *outcomes, "equivalent", "simulator alone", "with source rules"]
    return _table(head, lines)


def _score_cells(results: Sequence[Result]) -> list[str]:
    outcomes = Counter(result.outcome for result in results)
    right, wrong = score(results)
    by_check = right - outcomes[Outcome.SOURCE]
    return [
        str(len(results)),
        *(str(outcomes[outcome] or "-") for outcome in Outcome),
        str(len(results) - wrong or "-"),
        *(
            f"{part}/{wrong} {100 * part / wrong:.0f} %" if wrong else "-"
            for part in (by_check, right)
        ),
    ]


def _cases(results: Sequence[Result]) -> str:
    """Count refusals by what was run, kind of check and reason."""
    counts = Counter(
        (_where(result), result.outcome.value, _why(result)) for result in results if caught(result)
    )
    lines = [[*key, str(count)] for key, count in counts.most_common()]
    return _table(["where", "check", "reason", "mutants"], lines)


def _where(result: Result) -> str:
    """Name the problem that refused a mutant: its place in the matrix, not its size."""
    if result.outcome in (Outcome.BUILD, Outcome.SOURCE):
        return "-"
    if result.depth is Depth.FULL:
        return "full"
    first, *_ = jobs(result.rung, Depth.QUICK)
    rows = {first.row_id(problem) for problem in first.problems}
    small = result.outcome is Outcome.NUMERICS and result.case not in rows
    return "quick, small shape" if small else "quick, larger shape"


def _why(result: Result) -> str:
    return result.case if result.outcome is Outcome.SOURCE else result.reason.value


def _hazards(results: Sequence[Result]) -> str:
    lines = []
    for hazard, classes in HAZARDS.items():
        own = [result for result in results if any(one.holds(result) for one in classes)]
        how = Counter(result.outcome.value for result in own)
        names = ", ".join(f"`{result.name}`" for result in own)
        lines.append([hazard, names, ", ".join(f"{key} {value}" for key, value in how.items())])
    return _table(["hazard", "mutants", "refused by"], lines)


def _claims(results: Sequence[Result], claims: Sequence[Claim]) -> str:
    lines = []
    for claim in claims:
        own = [
            result
            for result in results
            if not caught(result) and claim_for(result, (*EQUIVALENT, *UNSEEN)) is claim
        ]
        names = ", ".join(f"`{result.name}`" for result in own) or "none in this run"
        lines.append([names, claim.argument])
    return _table(["mutants", "why"], lines) if lines else "None is known."


def _open(results: Sequence[Result]) -> str:
    lines = [
        [f"`{result.name}`", result.depth.value, "; ".join(result.diff.splitlines())]
        for result in results
        if not caught(result) and claim_for(result, EQUIVALENT + UNSEEN) is None
    ]
    return _table(["mutant", "tried", "change"], lines) if lines else "None."


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
    )


def page(text: str, results: Sequence[Result]) -> str:
    """Return the page with its tables made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(results)}\n\n{END}{after}"


def write_page() -> None:
    """Make the tables of the page from the committed results."""
    results = list(read_results(COMMITTED).values())
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    write_page()
