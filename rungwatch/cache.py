"""Where the tool keeps what it can make again: engines, simulated kernels, verdicts."""

import os
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """Return `$RUNGWATCH_CACHE_DIR`, or the user's cache folder for rungwatch."""
    given = os.environ.get("RUNGWATCH_CACHE_DIR")
    if given:
        return Path(given).expanduser().absolute()
    return platformdirs.user_cache_path("rungwatch")
