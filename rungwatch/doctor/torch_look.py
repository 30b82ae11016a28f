"""Ask torch which GPU it sees, in a process of its own: it takes seconds, and may hang.

python -P -m rungwatch.doctor.torch_look FOLDER
"""

import sys
from pathlib import Path

import msgspec

from rungwatch.backends.exchange import write_whole
from rungwatch.doctor.facts import TorchLook

LOOK_FILE = "torch.json"


def look() -> TorchLook:
    """Return torch's version and the name of the GPU that it sees."""
    try:
        import torch
    except ImportError as error:
        return TorchLook(problem=f"torch can't be imported: {error}")
    version = str(torch.__version__)
    try:
        if not torch.cuda.is_available():
            return TorchLook(version, problem=f"torch {version} sees no GPU")
        return TorchLook(version, str(torch.cuda.get_device_name(0)))
    except RuntimeError as error:  # what torch raises for every failure of CUDA
        first = str(error).strip().partition("\n")[0]
        return TorchLook(version, problem=f"torch {version} can't use the GPU: {first}")


def main(folder: Path) -> None:
    """Write what is found into `folder`."""
    write_whole(folder / LOOK_FILE, msgspec.json.encode(look()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
