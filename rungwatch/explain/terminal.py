"""What `rungwatch check` prints at its end: a table, every row that did not pass, one verdict.

Written for 80 columns and for logs without colour. Ids and commands are never cut or wrapped,
so that they can be copied; text from the code under test is set off by a bar.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rungwatch.backends.job import Tool
from rungwatch.decide.exit_code import exit_code_of
from rungwatch.decide.verdict import EXPLANATIONS, Reason, Verdict
from rungwatch.explain.details import details
from rungwatch.explain.tilemap import TileMap, tile_map
from rungwatch.explain.words import (
    EXIT_MEANINGS,
    GOOD,
    VERDICT_ORDER,
    counts,
    duration,
    label,
    one_line,
    plural,
)
from rungwatch.record.model import CHECKS, Record, Row

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

type Part = str | tuple[str, str]


def render(record: Record, console: Console) -> None:
    """Print `record` for people. The last line holds the verdict, the counts and the time."""
    for family in dict.fromkeys(map(_family, record.rows)):
        members = [row for row in record.rows if _family(row) == family]
        console.print(_summary_table(family, members, console))
    skipped = [row for row in record.rows if row.verdict is Verdict.SKIPPED]
    rejected = [row for row in record.rows if row.verdict not in {*GOOD, Verdict.SKIPPED}]
    _print_details(rejected, console)
    _print_skipped(skipped, console)
    _print_end(record, console)


def _summary_table(family: str, rows: list[Row], console: Console) -> Table:
    """Return the table of one family of kernels, whose name heads the column of its rungs."""
    checked = [row for row in rows if row.verdict is not Verdict.SKIPPED]
    used = {row.check for row in checked}
    # A load row stands for a file that could not be read: no column where all files could.
    checks = [check for check in CHECKS if check in used or check in Tool]
    skipped = Counter(row.kernel for row in rows if row.verdict is Verdict.SKIPPED)
    # The edge keeps a kernel's name from the start of a line, where CI logs look for commands.
    table = Table(box=box.ROUNDED, header_style="bold")
    table.add_column(_name(family, console), overflow="fold", min_width=12)
    for check in checks:
        table.add_column(check, no_wrap=True)
    if skipped:
        table.add_column("skip", justify="right", no_wrap=True)
    for kernel in dict.fromkeys(row.kernel for row in rows):
        own = [row for row in checked if row.kernel == kernel]
        cells = [_cell(row for row in own if row.check == check) for check in checks]
        if skipped:
            cells.append(Text(str(skipped[kernel] or "-"), "dim"))
        table.add_row(_name(kernel.rpartition("/")[2], console), *cells)
    return table


def _name(text: str, console: Console) -> Text:
    """Return a name as Text: rich reads markup in a plain string."""
    return Text(_encodable(one_line(text), console))


def _family(row: Row) -> str:
    return row.kernel.rpartition("/")[0] or "kernel"


def _cell(rows: Iterable[Row]) -> Text:
    """Return one line a verdict, worst first: "2 FAIL", then "10 ok (4 cached)"."""
    kept = list(rows)
    lines = []
    for verdict in VERDICT_ORDER:
        same = [row for row in kept if row.verdict is verdict]
        if not same:
            continue
        cached = sum(row.cached for row in same)
        note = "" if not cached else " (cached)" if cached == len(same) else f" ({cached} cached)"
        word = "ok" if verdict is Verdict.PASS else verdict.value
        lines.append(Text(f"{len(same)} {word}{note}", _STYLES[verdict]))
    return Text("\n").join(lines) if lines else Text("-", "dim")


def _print_details(rows: list[Row], console: Console) -> None:
    shown: Counter[str] = Counter()
    left_out: dict[str, list[Row]] = {}
    for group in _groups(rows):
        kernel = group[0].kernel
        if shown[kernel] < _GROUPS_PER_KERNEL:
            shown[kernel] += 1
            _print_group(group, console)
        else:
            left_out.setdefault(kernel, []).extend(group)
    for kernel, more in left_out.items():
        _say(console)
        text = f"{one_line(kernel)}: {plural(len(more), 'more row')} ({counts(more)})"
        _say(console, f"and {text}; details are in the JSON record")


def _groups(rows: list[Row]) -> list[list[Row]]:
    """Put rows with the same failure together; the first group of each kind comes first.

    So the few groups that are shown of a kernel differ as much as they can.
    """
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(_signature(row), []).append(row)
    seen: set[tuple[str, Reason]] = set()
    first: list[list[Row]] = []
    others: list[list[Row]] = []
    for group in groups.values():
        kind = (group[0].kernel, group[0].reason)
        (others if kind in seen else first).append(group)
        seen.add(kind)
    return first + others


def _signature(row: Row) -> object:
    """Return what makes two failures the same.

    A wrong kernel is its own failure; what leaves nothing learnt (no toolchain, say) is often
    one cause for many kernels. Shapes and addresses in findings do not count.
    """
    kernel = None if row.verdict is Verdict.INVALID else row.kernel
    if row.report is not None and row.report.findings:
        places = frozenset((finding.kind, finding.source) for finding in row.report.findings)
        return kernel, row.reason, places
    return kernel, row.reason, row.message, row.comparison


def _print_group(group: list[Row], console: Console) -> None:
    row = group[0]
    told = details(row)
    _say(console)
    _say(
        console,
        (label(row.verdict, row.reason), _STYLES[row.verdict]),
        "  ",
        (one_line(row.id), "bold"),
        " (cached)" if row.cached else "",
    )
    for line in told.quoted:
        _wrapped(console, "  | ", "  | ", line)
    for name, text in told.facts:
        _wrapped(console, f"  {name}: ", " " * 9, text)
    if (drawn := tile_map(row)) is not None:
        _print_map(drawn, console)
    for name, text in told.advice:
        if name == "rerun":
            _say(console, ("  rerun: ", "bold"), text)
        else:
            _wrapped(console, f"  {name}: ", " " * 9, text)
    same = group[1:]
    if same:
        _say(console, f"  the same in {plural(len(same), 'more row')}:")
    for other in same[:_IDS_PER_GROUP]:
        _say(console, "  - ", one_line(other.id))
    if len(same) > _IDS_PER_GROUP:
        _say(console, f"  - and {len(same) - _IDS_PER_GROUP} more in the JSON record")


def _print_map(drawn: TileMap, console: Console) -> None:
    _say(console, "  wrong tiles of D, rows and columns counted in elements:")
    _say(console, "    ", (drawn.header, "dim"))
    for row_label, cells in drawn.lines:
        coloured: list[Part] = [
            (char, "red" if char == "#" else "dim" if char in ". " else "yellow") for char in cells
        ]
        _say(console, "    ", (row_label, "dim"), *coloured)
    for line in drawn.legend.splitlines():
        _say(console, "    ", (line, "dim"))


def _print_skipped(rows: list[Row], console: Console) -> None:
    if rows:
        _say(console)
    for row in rows:
        _say(
            console,
            (label(row.verdict, row.reason), _STYLES[row.verdict]),
            " ",
            f"{one_line(row.id)}: {one_line(row.message)}".removesuffix(": "),
        )


def _print_end(record: Record, console: Console) -> None:
    _say(console)
    spent: Counter[str] = Counter()
    for row in record.rows:
        spent[row.check] += round(1000 * row.seconds)
    if spent.total():
        parts = ", ".join(
            f"{check} {duration(spent[check] / 1000)}" for check in CHECKS if spent[check]
        )
        _say(console, (f"time by check, summed over rows: {parts}", "dim"))
    code = exit_code_of(record.verdict)
    if record.verdict not in GOOD:
        if record.reason not in {row.reason for row in record.rows}:
            explanation = EXPLANATIONS[record.reason]
            _wrapped(console, "", "  ", f"{explanation.meaning}; {explanation.next_step}")
        _wrapped(console, f"exit code {code.value}: ", "  ", EXIT_MEANINGS[code])
    total = f"{plural(len(record.rows), 'row')}: {counts(record.rows)}" if record.rows else "0 rows"
    _say(
        console,
        (label(record.verdict, record.reason), _STYLES[record.verdict]),
        f"  {total}, in {duration(record.run.seconds)}",
    )


def _wrapped(console: Console, first: str, later: str, text: str) -> None:
    """Print `text` as a paragraph that hangs below `first`; long words are left whole."""
    lines = textwrap.wrap(
        text,
        width=max(console.width, 40),
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines or [first.rstrip()]:
        _say(console, line)


def _say(console: Console, *parts: Part) -> None:
    """Print one line as it is: no markup, no highlighting, no wrapping, no cropping."""
    styled = [part if isinstance(part, tuple) else (part, "") for part in parts]
    text = Text.assemble(*((_encodable(words, console), style) for words, style in styled))
    console.print(text, soft_wrap=True, highlight=False)


def _encodable(text: str, console: Console) -> str:
    """Escape what the console's encoding cannot hold: an id must not end the run by an error."""
    return text.encode(console.encoding, "backslashreplace").decode(console.encoding)
