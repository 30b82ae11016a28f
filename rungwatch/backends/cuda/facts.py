"""Look at this machine's GPU, in a process of its own: a driver that hangs hangs only that.

python -P -m rungwatch.backends.cuda.facts FOLDER
"""

import contextlib
import sys
from pathlib import Path

import msgspec

from rungwatch.backends.cuda.driver import Driver
from rungwatch.backends.cuda.errors import CudaError
from rungwatch.backends.exchange import write_whole
from rungwatch.backends.job import BackendUnavailableError

FACTS_FILE = "facts.json"


class DeviceFacts(msgspec.Struct, frozen=True):
    """What the driver says of the first GPU that this process may use.

    `cuda_version` is the newest that the driver supports; `driver_release` is NVIDIA's number of
    the driver (580.159.04), None where its management library can't be asked.
    """

    name: str
    compute_capability: tuple[int, int]
    sm_count: int
    free_bytes: int
    total_bytes: int
    cuda_version: tuple[int, int]
    driver_release: str | None

    @property
    def driver(self) -> str:
        """The driver in words: 580.159.04 (CUDA 13.0)."""
        cuda = f"CUDA {self.cuda_version[0]}.{self.cuda_version[1]}"
        return f"{self.driver_release} ({cuda})" if self.driver_release else cuda


class Look(msgspec.Struct, frozen=True):
    """What the process found: facts, or the problem that kept it from them."""

    facts: DeviceFacts | None = None
    problem: str = ""


def look() -> DeviceFacts:
    """Return what there is to know of the first GPU.

    Raises:
        BackendUnavailableError: there is no driver or no GPU.
        CudaError: the driver fails.
    """
    driver = Driver()
    driver.start()
    device = driver.device()
    driver.open(device)
    free, total = driver.memory_bytes()
    return DeviceFacts(
        name=driver.name(device),
        compute_capability=(
            driver.attribute(device, "COMPUTE_CAPABILITY_MAJOR"),
            driver.attribute(device, "COMPUTE_CAPABILITY_MINOR"),
        ),
        sm_count=driver.attribute(device, "MULTIPROCESSOR_COUNT"),
        free_bytes=free,
        total_bytes=total,
        cuda_version=driver.version(),
        driver_release=_driver_release(),
    )


def _driver_release() -> str | None:
    with contextlib.suppress(Exception):  # the bindings' own kinds; the release is for people only
        from cuda.bindings import nvml

        nvml.init_v2()
        return str(nvml.system_get_driver_version())
    return None


def main(folder: Path) -> None:
    """Write what is found into `folder`."""
    try:
        found = Look(facts=look())
    except (BackendUnavailableError, CudaError) as error:
        found = Look(problem=str(error))
    write_whole(folder / FACTS_FILE, msgspec.json.encode(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
