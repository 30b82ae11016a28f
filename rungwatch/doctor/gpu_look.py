"""Look at the GPU for the doctor, in a process of its own: a driver that hangs hangs only that.

python -P -m rungwatch.doctor.gpu_look FOLDER
"""

import sys
from pathlib import Path

import msgspec

from rungwatch.backends.cuda import facts, nvml
from rungwatch.backends.cuda.errors import CudaError
from rungwatch.backends.exchange import write_whole
from rungwatch.backends.job import BackendUnavailableError
from rungwatch.doctor.facts import GpuLook

LOOK_FILE = "gpu.json"


def look() -> GpuLook:
    """Return what NVML and the driver say. NVML first: a context of our own would be seen."""
    status, status_problem = None, ""
    try:
        status = nvml.open_device().status()
    except BackendUnavailableError as error:
        status_problem = str(error)
    try:
        return GpuLook(facts.look(), "", status, status_problem)
    except (BackendUnavailableError, CudaError) as error:
        return GpuLook(None, str(error), status, status_problem)


def main(folder: Path) -> None:
    """Write what is found into `folder`."""
    write_whole(folder / LOOK_FILE, msgspec.json.encode(look()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
