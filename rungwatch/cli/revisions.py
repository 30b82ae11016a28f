"""What the commands that work on revisions share: their options, caches and errors."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from rungwatch.artifact.costs import Costs
from rungwatch.artifact.store import Store
from rungwatch.cache import cache_dir
from rungwatch.cli.options import kernels_root
from rungwatch.gate.comparison import NoSuchKernelError
from rungwatch.revision.revision import RevisionError


def artifact_store() -> Store:
    """Return the user's artifacts, less the oldest where they have become many."""
    store = Store(cache_dir() / "artifacts")
    store.prune()
    return store


def costs_of(store: Store) -> Costs:
    """Return what reads the static cost of artifacts in `store`."""
    return Costs(store, cache_dir() / "costs")


def existing_kernels(given: Path | None) -> Path:
    """Return the kernels folder of the work tree; it need not exist there, but its parent must.

    Raises:
        click.UsageError: there is none, here or above.
    """
    folder = kernels_root(given)
    if not folder.parent.is_dir():
        raise click.UsageError(f"there is no folder {folder.parent}")
    return folder


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a revision or a kernel that does not exist into wrong usage."""
    try:
        yield
    except (RevisionError, NoSuchKernelError) as error:
        raise click.UsageError(str(error)) from None


def progress_console() -> Console:
    """Return the console for progress: standard error, so that output holds results only."""
    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Tell the user, on standard error, of a step that takes long."""
    click.echo(text, err=True)
