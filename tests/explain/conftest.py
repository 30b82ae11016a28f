"""How the tests of `explain` reach the text of a rendering."""

import io

import pytest
from rich.console import Console

from rungwatch.explain.terminal import render


@pytest.fixture
def rendered(monkeypatch):
    """Return a function from a record to what an 80-column log without colour holds."""
    # GITHUB_ACTIONS and the like must not change what rich thinks of the file.
    for name in ("FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")

    def text(record, encoding="utf-8", **options):
        raw = io.BytesIO()
        file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
        render(record, Console(file=file, **{"width": 80, **options}))
        return raw.getvalue().decode(encoding)

    return text
