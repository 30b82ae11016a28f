"""What a command prints at its end: a table, costs, every row that did not pass, one verdict.

Written for 80 columns and for logs without colour. Ids and commands are never cut or wrapped,
so that they can be copied; text from the code under test is set off by a bar.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rungwatch.backends.job import SIMULATOR_TOOLS
from rungwatch.decide.exit_code import exit_code_of
from rungwatch.decide.verdict import EXPLANATIONS, Verdict
from rungwatch.explain.console import Part, encodable, natural_width, say, wrapped
from rungwatch.explain.costs import render_costs
from rungwatch.explain.details import details
from rungwatch.explain.grouping import groups, rejected
from rungwatch.explain.ladder import render_timings
from rungwatch.explain.tilemap import TileMap, tile_map
from rungwatch.explain.words import (
    EXIT_MEANINGS,
    GOOD,
    SHORT_CHECKS,
    VERDICT_ORDER,
    cell_word,
    counts,
    duration,
    label,
    one_line,
    plural,
)
from rungwatch.record.model import CHECKS, CheckName, Record, Row

_GROUPS_PER_KERNEL = 3
_IDS_PER_GROUP = 5

_STYLES = {
    Verdict.PASS: "green",
    Verdict.IMPROVED: "green",
    Verdict.FAIL: "bold red",
    Verdict.REGRESSION: "bold red",
    Verdict.INVALID: "bold magenta",
    Verdict.INCONCLUSIVE: "bold yellow",
    Verdict.SKIPPED: "dim",
}


@dataclass(frozen=True)
class _Fit:
    """One way to lay a summary out. The joints stand before a count's word and its note."""

    short_headings: bool
    padding: int
    joint: str
    note_joint: str
    name_width: int | None


# From the most legible to the narrowest.
_FITS = (
    _Fit(False, 1, " ", " ", None),
    _Fit(True, 0, " ", "\n", 12),
    _Fit(True, 0, "\n", "\n", 8),
)


def render(record: Record, console: Console, adds: Mapping[str, str] | None = None) -> None:
    """Print `record` for people. The last line holds the verdict, the counts and the time.

    `adds` says what each kernel's step adds, by its key, where that is known.
    """
    simulated = record.run.backend == "sim"
    for family in dict.fromkeys(map(_family, record.rows)):
        members = [row for row in record.rows if _family(row) == family]
        if _are_timings(members):
            continue  # they have tables of their own
        console.print(_summary_table(family, members, console, simulated), crop=False)
    skipped = [row for row in record.rows if row.verdict is Verdict.SKIPPED]
    render_costs(record, console)
    render_timings(record, console, adds or {})
    _print_details(rejected(record.rows), console)
    _print_skipped(skipped, console)
    _print_end(record, console)


def _are_timings(rows: list[Row]) -> bool:
    """Whether nothing but timing was done of a family, and something was timed."""
    return {row.check for row in rows} == {"timing"} and any(row.timing for row in rows)


def _summary_table(family: str, rows: list[Row], console: Console, simulated: bool) -> Table:
    """Return the table of one family of kernels, whose name heads the column of its rungs.

    There is a column for each check that occurs; where kernels were checked in the simulator,
    one for each of its tools as well, so that a tool that was not asked for shows as such.
    """
    checked = [row for row in rows if row.verdict is not Verdict.SKIPPED]
    used = {row.check for row in checked}
    expected = SIMULATOR_TOOLS if simulated else ()
    checks = [check for check in CHECKS if check in used or check in expected]
    for fit in _FITS:
        table = _fitted_table(family, rows, checks, console, fit)
        if natural_width(table, console) <= console.width:
            break
    return table


def _fitted_table(
    family: str, rows: list[Row], checks: list[CheckName], console: Console, fit: _Fit
) -> Table:
    skipped = Counter(row.kernel for row in rows if row.verdict is Verdict.SKIPPED)
    # The edge keeps a kernel's name from the start of a line, where CI logs look for commands.
    table = Table(box=box.ROUNDED, header_style="bold", padding=(0, fit.padding))
    table.add_column(
        _name(family, console),
        overflow="fold",
        min_width=fit.name_width or 12,
        max_width=fit.name_width,
    )
    for check in checks:
        table.add_column(SHORT_CHECKS[check] if fit.short_headings else check, overflow="fold")
    if skipped:
        table.add_column("skip", justify="right", overflow="fold")
    for kernel in dict.fromkeys(row.kernel for row in rows):
        own = [row for row in rows if row.kernel == kernel and row.verdict is not Verdict.SKIPPED]
        cells = [_cell((row for row in own if row.check == check), fit) for check in checks]
        if skipped:
            cells.append(Text(str(skipped[kernel] or "-"), "dim"))
        table.add_row(_name(kernel.rpartition("/")[2], console), *cells)
    return table


def _name(text: str, console: Console) -> Text:
    """Return a name as Text: rich reads markup in a plain string."""
    return Text(encodable(one_line(text), console))


def _family(row: Row) -> str:
    return row.kernel.rpartition("/")[0] or "kernel"


def _cell(rows: Iterable[Row], fit: _Fit) -> Text:
    """Return one line a kind, worst first: "2 FAIL", "4 identical", "10 ok (4 cached)"."""
    kinds: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        place = VERDICT_ORDER.index(row.verdict)
        kinds.setdefault((place, cell_word(row.verdict, row.reason)), []).append(row)
    lines = []
    for (place, word), same in sorted(kinds.items()):
        cached = sum(row.cached for row in same)
        text = f"{len(same)}{fit.joint}{word}"
        if cached:
            note = "(cached)" if cached == len(same) else f"({cached} cached)"
            text += f"{fit.note_joint}{note}"
        lines.append(Text(text, _STYLES[VERDICT_ORDER[place]]))
    return Text("\n").join(lines) if lines else Text("-", "dim")


def _print_details(rows: list[Row], console: Console) -> None:
    shown: Counter[str] = Counter()
    left_out: dict[str, list[Row]] = {}
    for group in groups(rows):
        kernel = group[0].kernel
        if shown[kernel] < _GROUPS_PER_KERNEL:
            shown[kernel] += 1
            _print_group(group, console)
        else:
            left_out.setdefault(kernel, []).extend(group)
    for kernel, more in left_out.items():
        say(console)
        text = f"{one_line(kernel)}: {plural(len(more), 'more row')} ({counts(more)})"
        say(console, f"and {text}; details are in the JSON record")


def _print_group(group: list[Row], console: Console) -> None:
    row = group[0]
    told = details(row)
    say(console)
    say(
        console,
        (label(row.verdict, row.reason), _STYLES[row.verdict]),
        "  ",
        (one_line(row.id), "bold"),
        " (cached)" if row.cached else "",
    )
    for line in told.quoted:
        wrapped(console, "  | ", "  | ", line)
    for name, text in told.facts:
        wrapped(console, f"  {name}: ", " " * 9, text)
    if (drawn := tile_map(row)) is not None:
        _print_map(drawn, console)
    for name, text in told.advice:
        if name == "rerun":
            say(console, ("  rerun: ", "bold"), text)
        else:
            wrapped(console, f"  {name}: ", " " * 9, text)
    same = group[1:]
    if same:
        say(console, f"  the same in {plural(len(same), 'more row')}:")
    for other in same[:_IDS_PER_GROUP]:
        say(console, "  - ", one_line(other.id))
    if len(same) > _IDS_PER_GROUP:
        say(console, f"  - and {len(same) - _IDS_PER_GROUP} more in the JSON record")


def _print_map(drawn: TileMap, console: Console) -> None:
    say(console, "  wrong tiles of D, rows and columns counted in elements:")
    say(console, "    ", (drawn.header, "dim"))
    for row_label, cells in drawn.lines:
        coloured: list[Part] = [
            (char, "red" if char == "#" else "dim" if char in ". " else "yellow") for char in cells
        ]
        say(console, "    ", (row_label, "dim"), *coloured)
    for line in drawn.legend.splitlines():
        say(console, "    ", (line, "dim"))


def _print_skipped(rows: list[Row], console: Console) -> None:
    if rows:
        say(console)
    for row in rows:
        say(
            console,
            (label(row.verdict, row.reason), _STYLES[row.verdict]),
            " ",
            f"{one_line(row.id)}: {one_line(row.message)}".removesuffix(": "),
        )


def _print_end(record: Record, console: Console) -> None:
    say(console)
    spent: Counter[str] = Counter()
    for row in record.rows:
        spent[row.check] += round(1000 * row.seconds)
    if spent.total():
        parts = ", ".join(
            f"{check} {duration(spent[check] / 1000)}" for check in CHECKS if spent[check]
        )
        say(console, (f"time by check, summed over rows: {parts}", "dim"))
    code = exit_code_of(record.verdict)
    if record.verdict not in GOOD:
        if record.reason not in {row.reason for row in record.rows}:
            explanation = EXPLANATIONS[record.reason]
            wrapped(console, "", "  ", f"{explanation.meaning}; {explanation.next_step}")
        wrapped(console, f"exit code {code.value}: ", "  ", EXIT_MEANINGS[code])
    total = f"{plural(len(record.rows), 'row')}: {counts(record.rows)}" if record.rows else "0 rows"
    say(
        console,
        (label(record.verdict, record.reason), _STYLES[record.verdict]),
        f"  {total}, in {duration(record.run.seconds)}",
    )
