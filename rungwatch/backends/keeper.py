"""Run one command and end it, with all it started, when the supervising process is gone.

    python -I -S keeper.py PARENT_PID COMMAND...

A supervisor that is killed outright cannot clean up. The keeper stands between it and the worker,
runs no foreign code, and so can always act; it imports little, to start in milliseconds. It leads
the process group, ends as the command ended (same exit code or signal), and writes no core files.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path

_LOOK_AT_PARENT_S = 0.5
_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def keep(parent_pid: int, command: list[str]) -> None:
    """Run `command` and exit as it exits."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What loses its parent becomes our child, so that no session of its own hides it from us.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    worker = subprocess.Popen(command)
    ended = os.pidfd_open(worker.pid)
    while not select.select([ended], [], [], _LOOK_AT_PARENT_S)[0]:
        if os.getppid() != parent_pid:
            end_children()
            os._exit(1)
    code = worker.wait()
    end_children()
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def end_children() -> None:
    """Kill every child, and what becomes a child when its parent is gone, until none is left."""
    while children := _children():
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _children() -> list[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in children.split()]


if __name__ == "__main__":
    keep(int(sys.argv[1]), sys.argv[2:])
