"""The static cost in a record: a table of what was built, and what differs between revisions.

Shapes are written MxNxK below the target and the SM count that they share. A metric that got
worse says so in words, so that a log without colour says the same.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rungwatch.cost.static_cost import METRICS
from rungwatch.decide.static import Change, changes, number
from rungwatch.explain.console import encodable, natural_width, say, wrapped
from rungwatch.explain.words import one_line, plural
from rungwatch.record.model import Record, Row, Side

_KERNEL_WIDTH = 12
# An edge, so that no kernel's name begins a line, and nothing between columns, to save width.
_FRAME = box.Box("╭──╮\n│  │\n├──┤\n│  │\n├──┤\n├──┤\n│  │\n╰──╯\n")
# Heading, and the metrics that are summed below it.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "regs": ("registers",),
    "spill\nB": ("local_store_bytes", "local_load_bytes"),
    "SMEM\nB": ("smem_bytes",),
    "CTAs\n/SM": ("resident_ctas",),
    "waves": ("waves",),
    "last\nwave": ("last_wave_fill",),
    "instr.": ("instructions",),
    "MMAs": ("tensor_core_instructions",),
}
_SHARES = frozenset({"last_wave_fill"})


@dataclass(frozen=True)
class CostLine:
    """One metric that changed in the same way at some shapes, in words."""

    text: str
    worse: bool
    gated: bool


@dataclass(frozen=True)
class CostChanges:
    """What changed of one kernel and target; gated metrics first, then in the order of METRICS."""

    title: str
    lines: tuple[CostLine, ...]


def render_costs(record: Record, console: Console) -> None:
    """Print the costs that `record` holds; nothing where it holds none."""
    built = [row for row in record.rows if row.base is None and _has_cost(row.head)]
    for where, rows in _by(_family_place, built).items():
        say(console)
        say(console, f"static cost of {where}:")
        console.print(_cost_table(rows, console), crop=False)
        for text in _limits(rows):
            wrapped(console, "  - ", "      ", text)
    for changed in cost_changes(record):
        say(console)
        say(console, f"static cost of {changed.title}, base -> head:")
        for line in changed.lines:
            style = "bold red" if line.worse and line.gated else "red" if line.worse else ""
            wrapped(console, "  - ", "      ", line.text, style)


def cost_changes(record: Record) -> list[CostChanges]:
    """Return what differs between the sides of the rows that have two, a kernel at a time."""
    allowed = record.settings.static if record.settings is not None else {}
    both = [row for row in record.rows if _has_cost(row.base) and _has_cost(row.head)]
    return [
        CostChanges(where, tuple(_lines(rows, allowed)))
        for where, rows in _by(_kernel_place, both).items()
        if any(_differs(row) for row in rows)
    ]


def describe_change(change: Change, allowed: float | None) -> str:
    """Return "registers 128 -> 136 (+8): worse"; `allowed` None: nothing is judged by it."""
    unit = METRICS[change.metric].unit
    named = unit.lower() in change.metric.split("_") or unit == "ratio"
    shown = "" if named else f" {unit}"
    delta = change.head - change.base
    sign = "+" if delta > 0 else "-"
    text = (
        f"{change.metric} {number(change.base)} -> {number(change.head)}{shown}"
        f" ({sign}{number(abs(delta))})"
    )
    if change.worse_by < 0:
        return f"{text}: better"
    if change.worse_by == 0:
        return text
    return f"{text}: worse" + (f", {number(allowed)} allowed" if allowed is not None else "")


def _has_cost(side: Side | None) -> bool:
    return side is not None and bool(side.cost)


def _differs(row: Row) -> bool:
    return row.base is not None and row.head is not None and row.base != row.head


def _by(place: Callable[[Row], str], rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(place(row), []).append(row)
    return found


def _family_place(row: Row) -> str:
    return _place(row.kernel.rpartition("/")[0] or "kernels", row)


def _kernel_place(row: Row) -> str:
    return _place(row.kernel, row)


def _place(name: str, row: Row) -> str:
    """Return "hgemm/blackwell/step7, sm_100a, 148 SMs"."""
    words = [one_line(name)]
    if row.target is not None:
        words.append(one_line(row.target))
    if row.problem is not None:
        words.append(plural(row.problem.shape.sm_count, "SM"))
    return ", ".join(words)


def _shape(row: Row) -> str:
    if row.problem is None:
        return "no shape"
    shape = row.problem.shape
    return f"{shape.m}x{shape.n}x{shape.k}"


def _lines(rows: list[Row], allowed: Mapping[str, float]) -> list[CostLine]:
    found: dict[Change, list[str]] = {}
    notes: dict[str, list[str]] = {}

    def note(text: str) -> None:
        notes.setdefault(text, []).append(_shape(row))

    for row in rows:
        if not _differs(row) or row.base is None or row.head is None:
            continue
        try:
            differing = changes(row.base.cost, row.head.cost)
        except KeyError as error:
            note(f"{one_line(str(error.args[0]))} is not known of both sides")
            continue
        for change in differing:
            found.setdefault(change, []).append(_shape(row))
        if not differing:
            note("other machine code or launch at the same static cost")
        if _limit(row.base) != _limit(row.head):
            note(f"limited by {_limit(row.base)} -> {_limit(row.head)}")
    order = list(METRICS)
    ranked = sorted(found, key=lambda c: (c.metric not in allowed, order.index(c.metric)))
    lines = [
        CostLine(
            f"{describe_change(change, allowed.get(change.metric))}, {_at(found[change], rows)}",
            change.worse_by > allowed.get(change.metric, 0.0),
            change.metric in allowed,
        )
        for change in ranked
    ]
    return lines + [
        CostLine(f"{text}, {_at(shapes, rows)}", False, False) for text, shapes in notes.items()
    ]


def _at(shapes: list[str], rows: list[Row]) -> str:
    """Return "at all 4 shapes", or the shapes by name where there are others."""
    if len(rows) > 1 and len(shapes) == len(rows):
        return f"at all {plural(len(rows), 'shape')}"
    return f"at {' '.join(shapes)}"


def _cost_table(rows: list[Row], console: Console) -> Table:
    table = Table(box=_FRAME, header_style="bold", padding=(0, 0))
    table.add_column("kernel", overflow="fold", max_width=_KERNEL_WIDTH)
    table.add_column("shape", no_wrap=True)
    for heading in _COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    named = None
    for row in rows:
        name = "" if row.kernel == named else one_line(row.kernel.rpartition("/")[2])
        named = row.kernel
        cost = row.head.cost if row.head is not None else {}
        cells = [_total(cost, names) for names in _COLUMNS.values()]
        table.add_row(*(Text(encodable(text, console)) for text in (name, _shape(row), *cells)))
    # In a narrow console it keeps its width: to fit it would have to cut figures.
    table.width = natural_width(table, console)
    return table


def _limits(rows: list[Row]) -> list[str]:
    """Return a line a kernel: what limits it, and at which shapes."""
    lines = []
    for kernel, own in _by(lambda row: row.kernel, rows).items():
        shapes: dict[str, list[str]] = {}
        for row in own:
            if row.head is not None:
                shapes.setdefault(_limit(row.head), []).append(_shape(row))
        told = "; ".join(f"{limit} {_at(where, own)}" for limit, where in shapes.items())
        lines.append(f"{one_line(kernel.rpartition('/')[2])} is limited by {told}")
    return lines


def _limit(side: Side) -> str:
    """Return what the closed form names as slowest, without its runner-up."""
    return one_line(side.limited_by.partition(";")[0])


def _total(cost: Mapping[str, float], names: tuple[str, ...]) -> str:
    """Return the sum of some metrics; a metric that the record lacks is "?", never 0."""
    if any(name not in cost for name in names):
        return "?"
    total = sum(cost[name] for name in names)
    return f"{100 * total:.0f} %" if _SHARES.issuperset(names) else number(total)
