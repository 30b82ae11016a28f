"""How the tests of `explain` reach the text of a rendering."""

import io

import pytest
from rich.console import Console

from rungwatch.explain.terminal import render


@pytest.fixture
def printed(monkeypatch):
    """Return a function that gives another one a log of 80 columns, and returns what it wrote."""
    # GITHUB_ACTIONS and the like must not change what rich thinks of the file.
    for name in ("FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")

    def text(print_to, encoding="utf-8", **options):
        raw = io.BytesIO()
        file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
        print_to(Console(file=file, **{"width": 80, **options}))
        return raw.getvalue().decode(encoding)

    return text


@pytest.fixture
def rendered(printed):
    """Return a function from a record to what such a log holds of it."""

    def text(record, **options):
        return printed(lambda console: render(record, console), **options)

    return text
