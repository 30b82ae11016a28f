import time
from collections.abc import Callable

import psutil
import pytest


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Say whether a process has ended, giving it ten seconds to do so."""

    def check(pid: int) -> bool:
        for _ in range(500):
            try:
                if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                    return True
            except psutil.NoSuchProcess:
                return True
            time.sleep(0.02)
        return False

    return check
