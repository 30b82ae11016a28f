"""Run one command and end it, with all it started, when the supervising process is gone.

    python -I -S keeper.py PARENT_PID COMMAND...

A supervisor that is killed outright cannot clean up. The keeper stands between it and the worker,
runs no foreign code, and so can always act; it imports little, to start in milliseconds. It leads
the process group, ends as the command ended (same exit code or signal), and writes no core files.
"""

import os
import resource
import select
import signal
import subprocess
import sys

_LOOK_AT_PARENT_S = 0.5


def keep(parent_pid: int, command: list[str]) -> None:
    """Run `command` and exit as it exits."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    worker = subprocess.Popen(command)
    ended = os.pidfd_open(worker.pid)
    while not select.select([ended], [], [], _LOOK_AT_PARENT_S)[0]:
        if os.getppid() != parent_pid:
            os.killpg(0, signal.SIGKILL)
    code = worker.wait()
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    keep(int(sys.argv[1]), sys.argv[2:])
