"""Two texts side by side, for machine code and source: what differs, and a little around it."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rungwatch.explain.console import encodable, say
from rungwatch.explain.words import one_line, plural

_LEAST_SIDE = 16  # columns for each side, mark included, however narrow the console is
_FRAME_WIDTH = 3  # left edge, divider, right edge
_MARK_WIDTH = 2
# Pairs of equal lines above which difflib's exact search would take seconds.
_MOST_PAIRS = 4_000_000

# A stretch of old and new: its kind, then the index ranges in old and in new, as difflib has them.
type _Stretch = tuple[str, int, int, int, int]


def side_by_side(old: Sequence[str], new: Sequence[str], context: int, console: Console) -> None:
    """Print `old` on the left and `new` on the right, one line a row, long lines folded.

    A line that is only on the left is marked "-", one that is only on the right "+". Of equal
    stretches `context` lines are shown next to a change; the others are counted.
    """
    width = max((console.width - _FRAME_WIDTH) // 2, _LEAST_SIDE)
    done = 0
    for hunk in _hunks(old, new, context):
        _say_equal(hunk[0][1] - done, console)
        console.print(_table(old, new, hunk, width, console), crop=False)
        done = hunk[-1][2]
    _say_equal(len(old) - done, console)


def _hunks(old: Sequence[str], new: Sequence[str], context: int) -> list[list[_Stretch]]:
    """Return the stretches to show, those of neighbouring changes together."""
    counts, others = Counter(old), Counter(new)
    pairs = sum(count * others[line] for line, count in counts.items())
    # Machine code repeats few lines often: where it can be afforded, none is passed over as noise.
    matcher = SequenceMatcher(None, old, new, autojunk=pairs > _MOST_PAIRS)
    grouped = matcher.get_grouped_opcodes(context)
    return [hunk for hunk in grouped if any(stretch[0] != "equal" for stretch in hunk)]


def _say_equal(count: int, console: Console) -> None:
    if count:
        say(console, (f"... {plural(count, 'equal line')}", "dim"))


def _table(
    old: Sequence[str], new: Sequence[str], hunk: list[_Stretch], width: int, console: Console
) -> Table:
    # The edge keeps code from the start of a line, where CI logs look for commands.
    # A width of its own: below the least one it is wider than the console, rather than cropped.
    whole = 2 * width + _FRAME_WIDTH
    table = Table(box=box.ROUNDED, show_header=False, padding=(0, 0), width=whole)
    table.add_column(width=width)
    table.add_column(width=width)
    for kind, old_start, old_end, new_start, new_end in hunk:
        marks = (" ", " ") if kind == "equal" else ("-", "+")
        styles = ("dim", "dim") if kind == "equal" else ("red", "green")
        for pair in zip_longest(old[old_start:old_end], new[new_start:new_end]):
            table.add_row(
                *(
                    _folded(line, mark, style, width, console)
                    for line, mark, style in zip(pair, marks, styles, strict=True)
                )
            )
    return table


def _folded(line: str | None, mark: str, style: str, width: int, console: Console) -> Text:
    """Return the cell of one line, with its mark in front; empty where this side has no line.

    What is folded keeps the indentation of its line.
    """
    if line is None:
        return Text()
    shown = encodable(one_line(line), console)
    words = shown.lstrip(" ")
    indent = min(len(shown) - len(words), width // 2)
    parts = Text(words, style).wrap(console, width - _MARK_WIDTH - indent, overflow="fold")
    return Text("\n").join(
        Text.assemble((f"{' ' if index else mark} {' ' * indent}", style), part)
        for index, part in enumerate(parts or [Text()])
    )
