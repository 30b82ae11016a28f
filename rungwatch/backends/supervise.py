"""Run one worker process with a deadline and a memory limit, watched from outside.

Generic: any command can be a worker. It runs in a session of its own, in a private folder; its
output goes to files there, and so do its progress events, which tell how far it got. Whatever
ends the watch (the deadline, the memory limit, a cancellation, an exception, the death of this
process), every process of the worker is ended with it. Linux only, as the simulator is.
"""

import contextlib
import math
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec
import psutil

from rungwatch.backends import keeper
from rungwatch.record.files import read_regular

_LOOK_S = 0.1
_TAIL_BYTES = 4096
_TAIL_LINES = 8
_MOST_EVENT_BYTES = 2**20


class Ending(StrEnum):
    """What ended a worker: itself, or one of the limits."""

    EXITED = "exited"
    DEADLINE = "deadline"
    MEMORY = "memory"
    CANCELLED = "cancelled"


class Event(msgspec.Struct, frozen=True):
    """One line of a worker's events file: it entered `stage` at `at_s` (monotonic clock)."""

    stage: str
    at_s: float
    detail: str = ""


@dataclass(frozen=True)
class Limits:
    """What a worker may use: wall time, and resident memory of all its processes together.

    Where `main_stage` is set the worker must have entered it within `start_s`: what comes before
    it does not grow with the problem, so a hang there need not be waited for as long.
    """

    deadline_s: float
    memory_bytes: int
    main_stage: str | None = None
    start_s: float = math.inf


@dataclass(frozen=True)
class Ended:
    """How a worker ended. `exit_code` is negative where a signal ended it (subprocess' way)."""

    ending: Ending
    exit_code: int
    seconds: float
    peak_memory_bytes: int
    events: tuple[Event, ...]
    seconds_by_stage: dict[str, float]
    stderr_tail: str

    @property
    def ok(self) -> bool:
        """Whether the worker ended itself with exit code 0."""
        return self.ending is Ending.EXITED and self.exit_code == 0

    @property
    def last_stage(self) -> str | None:
        """The stage that the worker was in when it ended."""
        return self.events[-1].stage if self.events else None

    def describe(self) -> str:
        """Say in one line how the worker ended, with the last lines of its standard error."""
        how = f"exit code {self.exit_code}"
        if self.exit_code < 0:
            how = f"signal {signal_name(-self.exit_code)}"
        tail = f": {self.stderr_tail}" if self.stderr_tail else ", with nothing on standard error"
        return f"{how}{tail}"


@dataclass(frozen=True)
class WorkerFiles:
    """The files of a worker in its private folder."""

    folder: Path

    @property
    def events(self) -> Path:
        """Append-only JSON lines, one an `Event`."""
        return self.folder / "events.jsonl"

    @property
    def stdout(self) -> Path:
        """What the worker printed."""
        return self.folder / "stdout.txt"

    @property
    def stderr(self) -> Path:
        """What the worker printed as errors."""
        return self.folder / "stderr.txt"

    def enter(self, stage: str, detail: str = "") -> None:
        """Note, in the worker, that it enters `stage`."""
        line = msgspec.json.encode(Event(stage, time.monotonic(), detail)) + b"\n"
        with self.events.open("ab") as file:
            file.write(line)


def supervise(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    limits: Limits,
    cancel: threading.Event | None = None,
) -> Ended:
    """Run `command` with `folder` as its working directory until it ends or must be ended.

    Raises:
        OSError: the process could not be started.
    """
    files = WorkerFiles(folder)
    begun = time.monotonic()
    with files.stdout.open("ab") as out, files.stderr.open("ab") as err:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid()), *command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    watch = _Watch(process)
    try:
        ending = watch.until(begun, limits, files.events, cancel)
    finally:
        watch.end()
    finished = time.monotonic()
    events = read_events(files.events)
    return Ended(
        ending=ending,
        exit_code=process.returncode,
        seconds=finished - begun,
        peak_memory_bytes=watch.peak_bytes,
        events=events,
        seconds_by_stage=seconds_by_stage(events, begun, finished),
        stderr_tail=tail_of(files.stderr),
    )


class _Watch:
    """One process group: looks at it, and ends it with all that it ever started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.peak_bytes = 0
        self._process = process
        self._ended = os.pidfd_open(process.pid)
        self._seen: set[psutil.Process] = set()

    def until(
        self, begun_s: float, limits: Limits, events: Path, cancel: threading.Event | None
    ) -> Ending:
        """Wait for the worker's end, or for what must end it."""
        started = limits.main_stage is None
        while not select.select([self._ended], [], [], _LOOK_S)[0]:
            self._look()
            elapsed = time.monotonic() - begun_s
            if self.peak_bytes > limits.memory_bytes:
                return Ending.MEMORY
            if cancel is not None and cancel.is_set():
                return Ending.CANCELLED
            if elapsed > limits.deadline_s:
                return Ending.DEADLINE
            if not started and elapsed > limits.start_s:
                started = any(event.stage == limits.main_stage for event in read_events(events))
                if not started:
                    return Ending.DEADLINE
        return Ending.EXITED

    def end(self) -> None:
        """Kill what is left. The leader is reaped last, so that its group id is still ours."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in self._seen:  # what left the group; psutil knows a reused id from ours
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._process.wait()
        os.close(self._ended)

    def _look(self) -> None:
        total = 0
        try:
            leader = psutil.Process(self._process.pid)
            family = [leader, *leader.children(recursive=True)]
        except psutil.Error:
            return
        self._seen.update(family)
        for process in family:
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        self.peak_bytes = max(self.peak_bytes, total)


def read_events(path: Path) -> tuple[Event, ...]:
    """Return the events of a worker; a last line that it could not finish is left out."""
    try:
        lines = read_regular(path, _MOST_EVENT_BYTES).splitlines()
    except OSError:
        return ()
    events = []
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError):
            events.append(msgspec.json.decode(line, type=Event))
    return tuple(events)


def seconds_by_stage(
    events: Sequence[Event], begun_s: float, finished_s: float
) -> dict[str, float]:
    """Return the wall time of each stage, a stage ending where the next one begins.

    Time before the first event is the first stage's: starting up is what it waited for.
    """
    seconds: dict[str, float] = {}
    if not events:
        return seconds
    starts = [begun_s, *(event.at_s for event in events[1:])]
    for event, start, end in zip(events, starts, [*starts[1:], finished_s], strict=True):
        seconds[event.stage] = seconds.get(event.stage, 0.0) + end - start
    return seconds


def tail_of(path: Path) -> str:
    """Return the last lines of a text file, empty ones left out, joined by " | "."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return ""
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-_TAIL_LINES:])


def signal_name(number: int) -> str:
    """Return the name of a signal: SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"number {number}"
