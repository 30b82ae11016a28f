"""Measurements in tests, each alone on a machine of its own."""

import pytest


@pytest.fixture(autouse=True)
def own_machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test its own cache folder: the lock in it keeps two measurements apart."""
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
