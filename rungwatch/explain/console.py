"""How lines reach a terminal or a log: as they are, or as a paragraph; nothing is ever cut."""

import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDEST = 10_000

# Text, or text with a style.
type Part = str | tuple[str, str]


def say(console: Console, *parts: Part) -> None:
    """Print one line as it is: no markup, no highlighting, no wrapping, no cropping."""
    styled = [part if isinstance(part, tuple) else (part, "") for part in parts]
    text = Text.assemble(*((encodable(words, console), style) for words, style in styled))
    console.print(text, soft_wrap=True, highlight=False)


def wrapped(console: Console, first: str, later: str, text: str, style: str = "") -> None:
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
        say(console, (line, style))


def encodable(text: str, console: Console) -> str:
    """Escape what the console's encoding cannot hold: an id must not end the run by an error."""
    return text.encode(console.encoding, "backslashreplace").decode(console.encoding)


def natural_width(table: Table, console: Console) -> int:
    """Return the columns that `table` takes where nothing is folded, be the console narrower."""
    return console.measure(table, options=console.options.update_width(_WIDEST)).maximum
