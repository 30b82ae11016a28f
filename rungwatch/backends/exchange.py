"""The files that a backend and its worker pass to each other in a job's folder.

order.json               what to do (the backend writes it)
inputs/NAME.npz          flat arrays A, B, D of one problem
outputs/NAME.npz         the same arrays as the kernel left them
answer.json              what was done (the worker writes it anew after each problem)
events.jsonl, *.txt      see `rungwatch.backends.supervise.WorkerFiles`
"""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

type Arrays = Mapping[str, NDArray[np.uint16]]


@dataclass(frozen=True)
class JobFolder:
    """The private folder of one job."""

    path: Path

    @property
    def order(self) -> Path:
        """The file that says what to do."""
        return self.path / "order.json"

    @property
    def answer(self) -> Path:
        """The file that says what was done."""
        return self.path / "answer.json"

    @property
    def temporary(self) -> Path:
        """Where the worker's temporary files go, so that they vanish with the folder."""
        return self.path / "tmp"

    def input(self, name: str) -> Path:
        """The arrays of one problem as they are given to the kernel."""
        return self.path / "inputs" / f"{name}.npz"

    def output(self, name: str) -> Path:
        """The arrays of one problem as the kernel left them."""
        return self.path / "outputs" / f"{name}.npz"

    def make(self, order: msgspec.Struct, inputs: Mapping[str, Arrays]) -> None:
        """Write what the worker needs."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        for name, arrays in inputs.items():
            write_arrays(self.input(name), arrays)
        write_whole(self.order, msgspec.json.encode(order))


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write an .npz file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.part")
    with partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    partial.replace(path)


def read_arrays(path: Path) -> dict[str, NDArray[np.uint16]]:
    """Read an .npz file; never unpickles.

    Raises:
        OSError, ValueError, EOFError, zipfile.BadZipFile: not such a file.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError(f"{path.name} is no regular file")
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise ValueError(f"{path.name} is no .npz file")
        return {name: loaded[name] for name in loaded.files}


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all."""
    partial = path.with_name(f"{path.name}.part")
    partial.write_bytes(data)
    partial.replace(path)
