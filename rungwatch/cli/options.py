"""Options that several commands share, and what they resolve to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Command = Callable[..., Any]


def kernels_option(command: Command) -> Command:
    """Add `--kernels DIR`."""
    return click.option(
        "--kernels",
        "kernels_dir",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="RUNGWATCH_KERNELS",
        help="Folder with the guarded kernels. Default: kernels/ here or in a parent folder.",
    )(command)


def debug_option(command: Command) -> Command:
    """Add `--debug`, which `rungwatch.__main__` acts on."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, help="Show the trace of an internal error."
    )(command)


def kernels_root(given: Path | None) -> Path:
    """Return the kernels folder: the given one, or the first found from here upwards."""
    if given is not None:
        return given
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "kernels").is_dir():
            return folder / "kernels"
    return here / "kernels"
