"""Notice, in the worker, when a kernel's code depends on more than its one file.

A remembered verdict is found again by the hash of the kernel's file. Code that also reads a
helper, a data file or another program's output can change while that hash stays: what it passed
must not be remembered. Python's audit events tell; what native code opens by itself they don't.
"""

import importlib.util
import os
import site
import sys
import sysconfig
from pathlib import Path

# Packages whose version is part of a verdict's key, and what tvm itself imports late.
_KNOWN_PACKAGES = ("rungwatch", "tvm", "tvm_ffi", "tirx_harness", "numpy", "ml_dtypes")
_NEVER_FINE = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect")


class OutsideWatch:
    """Watches from `start` to `stop`; an audit hook can't be removed, so make one a process.

    The working directory, a worker's private folder, is not outside.
    """

    def __init__(self, kernel_file: Path) -> None:
        self.touched: str | None = None
        self._own = kernel_file.resolve()
        self._fine = (Path.cwd().resolve(), *_known_folders())
        self._not_fine = tuple(Path(folder).resolve() for folder in site.getsitepackages())
        self._active = False

    def start(self) -> None:
        """Begin to watch."""
        self._active = True
        sys.addaudithook(self._see)

    def stop(self) -> None:
        """End the watch; `touched` names the first thing outside, or is None."""
        self._active = False

    def _see(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._active or self.touched is not None:
            return
        if event in _NEVER_FINE:
            self.touched = event
        elif event in ("open", "ctypes.dlopen") and isinstance(arguments[0], str | bytes):
            self._active = False  # resolving the path must not be seen
            path = Path(os.fsdecode(arguments[0])).resolve()
            self._active = True
            if not self._is_fine(path):
                self.touched = str(path)

    def _is_fine(self, path: Path) -> bool:
        if path == self._own or any(path.is_relative_to(folder) for folder in self._fine):
            return True
        standard = any(path.is_relative_to(folder) for folder in _standard_folders())
        return standard and not any(path.is_relative_to(folder) for folder in self._not_fine)


def _known_folders() -> list[Path]:
    folders = []
    for name in _KNOWN_PACKAGES:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            folders.append(Path(folder).resolve())
    return folders


def _standard_folders() -> list[Path]:
    return [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
