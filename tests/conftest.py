"""What all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines differ and are shared: a slow example is no failure. In CI every run tries the same.
settings.register_profile("rungwatch", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "rungwatch")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Return the root of the checkout that these tests are part of."""
    return Path(__file__).parents[1]
