"""What a worker sees of the caller's environment: what it needs, and no secret of a CI job."""

import os
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import rungwatch


def passed_on(names: Iterable[str]) -> dict[str, str]:
    """Return the variables among `names` that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def import_path() -> dict[str, str]:
    """Return PYTHONPATH for a worker that runs in another folder, or nothing where none is needed.

    A relative folder would mean something else there, so all are made absolute.
    """
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [str(Path(folder).absolute()) for folder in inherited if folder]
    root = Path(rungwatch.__file__).parents[1]
    if root != Path(sysconfig.get_path("purelib")):  # run from a checkout, not installed
        folders.insert(0, str(root))
    return {"PYTHONPATH": os.pathsep.join(folders)} if folders else {}
