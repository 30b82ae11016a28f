"""Workers are ended from outside, by name and without a trace."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rungwatch.backends.supervise import (
    Ended,
    Ending,
    Event,
    Limits,
    WorkerFiles,
    read_events,
    seconds_by_stage,
    supervise,
)

MIB = 1024**2
ENTER = """
import sys
from pathlib import Path
from rungwatch.backends.supervise import WorkerFiles
enter = WorkerFiles(Path.cwd()).enter
"""
# Starts a process that sleeps, writes its id to a file, and is started so that it would live on.
CHILD = """
import subprocess, sys
from pathlib import Path
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **OPTIONS)
Path("child").write_text(str(child.pid))
"""


def run(
    folder: Path,
    code: str,
    deadline_s: float = 60.0,
    memory_bytes: int = 512 * MIB,
    cancel: threading.Event | None = None,
) -> Ended:
    command = [sys.executable, "-c", code]
    return supervise(command, folder, os.environ, Limits(deadline_s, memory_bytes), cancel)


def child_of(folder: Path) -> int:
    return int((folder / "child").read_text())


def test_a_worker_that_ends_itself(tmp_path: Path) -> None:
    ended = run(tmp_path, f"{ENTER}\nenter('load')\nenter('run', 'normal')\nprint('hello')")
    assert ended.ok
    assert [event.stage for event in ended.events] == ["load", "run"]
    assert ended.events[-1].detail == "normal"
    assert sum(ended.seconds_by_stage.values()) == pytest.approx(ended.seconds)
    assert WorkerFiles(tmp_path).stdout.read_text() == "hello\n"


def test_exit_code_and_last_error_lines_are_reported(tmp_path: Path) -> None:
    ended = run(tmp_path, "import sys; print('one\\n\\ntwo', file=sys.stderr); sys.exit(7)")
    assert not ended.ok
    assert (ended.ending, ended.exit_code) == (Ending.EXITED, 7)
    assert ended.describe() == "exit code 7: one | two"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "SIGABRT"])
def test_a_crash_names_its_signal(tmp_path: Path, name: str) -> None:
    ended = run(tmp_path, f"import os, signal; os.kill(os.getpid(), signal.{name})")
    assert ended.ending is Ending.EXITED
    assert name in ended.describe()
    assert not list(tmp_path.glob("core*"))


def test_a_hang_is_ended_at_its_deadline_in_its_stage(tmp_path: Path) -> None:
    begun = time.monotonic()
    code = f"{ENTER}\nenter('load')\nenter('run', 'normal')\nwhile True: pass"
    ended = run(tmp_path, code, deadline_s=3.0)
    assert ended.ending is Ending.DEADLINE
    assert ended.last_stage == "run"
    assert 3.0 <= time.monotonic() - begun < 30.0


def test_a_memory_eater_is_ended(tmp_path: Path) -> None:
    code = "import time\nhoard = []\nwhile True: hoard.append(bytearray(2**22)); time.sleep(0.01)"
    ended = run(tmp_path, code, memory_bytes=200 * MIB)
    assert ended.ending is Ending.MEMORY
    assert ended.peak_memory_bytes > 200 * MIB


def test_memory_of_children_counts(tmp_path: Path) -> None:
    eater = "hoard = bytearray(b'x' * 300_000_000); import time; time.sleep(600)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {eater!r}])"
    assert run(tmp_path, code, memory_bytes=200 * MIB).ending is Ending.MEMORY


@pytest.mark.parametrize("options", ["dict()", "dict(start_new_session=True)"])
@pytest.mark.parametrize("last", ["child.wait()", "import time; time.sleep(1)"])
def test_children_do_not_outlive_the_worker(
    tmp_path: Path, gone: Callable[[int], bool], options: str, last: str
) -> None:
    ended = run(tmp_path, f"{CHILD.replace('OPTIONS', options)}\n{last}", deadline_s=3.0)
    assert ended.ending is (Ending.DEADLINE if "wait" in last else Ending.EXITED)
    assert gone(child_of(tmp_path))


def test_a_daemon_does_not_outlive_a_worker_that_ends_at_once(
    tmp_path: Path, gone: Callable[[int], bool]
) -> None:
    daemon = f"""
import os, time
from pathlib import Path
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        Path({str(tmp_path)!r}, "daemon").write_text(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not (Path({str(tmp_path)!r}, "daemon").exists()):
    time.sleep(0.01)
"""
    assert run(tmp_path, daemon).ending is Ending.EXITED
    assert gone(int((tmp_path / "daemon").read_text()))


def test_a_hang_before_the_main_stage_is_not_waited_for_as_long(tmp_path: Path) -> None:
    limits = Limits(deadline_s=60.0, memory_bytes=2**30, main_stage="run", start_s=1.0)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    ended = supervise(command, tmp_path, os.environ, limits)
    assert ended.ending is Ending.DEADLINE
    assert ended.seconds < 30
    enter = "WorkerFiles(Path('.')).enter('run'); import time; time.sleep(2)"
    code = (
        f"from pathlib import Path; from rungwatch.backends.supervise import WorkerFiles; {enter}"
    )
    ended = supervise([sys.executable, "-c", code], tmp_path, os.environ, limits)
    assert ended.ending is Ending.EXITED


def test_cancelling_ends_the_worker(tmp_path: Path) -> None:
    cancel = threading.Event()
    timer = threading.Timer(0.5, cancel.set)
    timer.start()
    ended = run(tmp_path, "import time; time.sleep(600)", cancel=cancel)
    timer.join()
    assert ended.ending is Ending.CANCELLED
    assert ended.exit_code == -signal.SIGKILL


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_its_parent(
    tmp_path: Path, gone: Callable[[int], bool], ending: signal.Signals
) -> None:
    worker = f"""{CHILD.replace("OPTIONS", "{}")}
import os
Path("worker").write_text(str(os.getpid()))
child.wait()
"""
    parent = f"""
import os, sys
from pathlib import Path
from rungwatch.backends.supervise import Limits, supervise
command = [sys.executable, "-c", {worker!r}]
supervise(command, Path({str(tmp_path)!r}), os.environ, Limits(60, 2**30))
"""
    process = subprocess.Popen([sys.executable, "-c", parent], stderr=subprocess.DEVNULL)
    note = tmp_path / "worker"
    while not (note.exists() and note.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(ending)
    process.wait(timeout=30)
    assert gone(int(note.read_text()))
    assert gone(child_of(tmp_path))


def test_an_unfinished_last_event_is_left_out(tmp_path: Path) -> None:
    files = WorkerFiles(tmp_path)
    files.enter("load")
    with files.events.open("ab") as file:
        file.write(b'{"stage":"ru')
    assert [event.stage for event in read_events(files.events)] == ["load"]


def test_stage_times_add_up_and_repeat() -> None:
    events = [Event("start", 11.0), Event("run", 13.0), Event("run", 16.0)]
    assert seconds_by_stage(events, 10.0, 20.0) == {"start": 3.0, "run": 7.0}
    assert seconds_by_stage([], 10.0, 20.0) == {}
