"""What all tests share."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.job import BackendUnavailableError

# Machines differ and are shared: a slow example is no failure. In CI every run tries the same.
settings.register_profile("rungwatch", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "rungwatch")

# Shells start what runs in the background with SIGINT ignored, and children inherit that: tests
# of Ctrl-C would then wait for what never comes.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Return the root of the checkout that these tests are part of."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def device_target() -> str:
    """Return what the GPU runs; without one the tests are skipped, unless one is required."""
    try:
        return CudaBackend(Path("/nowhere")).target()
    except BackendUnavailableError as error:
        if os.environ.get("RUNGWATCH_REQUIRE_GPU") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))
