"""Show long work: a bar with what runs and the time left, or lines where there is no terminal."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from rungwatch.artifact.build import Built, Case
from rungwatch.check.plan import PlannedJob
from rungwatch.decide.verdict import Verdict, verdict_of
from rungwatch.explain.words import duration, label, plural
from rungwatch.record.model import Row

# Of timings, which come by the hundred.
_LINES = 10
_QUIET = (Verdict.PASS, Verdict.SKIPPED)


class LongWork:
    """Progress of some number of pieces, on standard error: standard output holds results only.

    `total` None means that nobody knows yet how many there will be.
    """

    def __init__(self, total: int | None, console: Console) -> None:
        self._console = console
        self._total = total
        self._done = 0
        self._remembered = 0
        self._first_at: float | None = None
        self._begun: dict[str, float] = {}
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        if self._console.is_terminal and self._total != 0:
            self._bar = Progress(
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("{task.description}"),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("starting", total=self._total)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a line above the bar: a step that comes before the pieces."""
        self._console.print(escape(text), highlight=False)

    def begin(self, label: str) -> None:
        """Note that a piece began."""
        if self._first_at is None:
            self._first_at = time.monotonic()
            self._remembered = self._done
        self._begun[label] = time.monotonic()
        self._show_running()

    def end(self, label: str, outcome: str, bad: Sequence[str]) -> None:
        """Note that a piece ended; `bad` has a line for each thing that is wrong with it.

        One that never began was remembered: nothing is said of it unless it is bad.
        """
        self._done += 1
        begun = self._begun.pop(label, None)
        if self._bar is not None:
            for line in bad:
                self.say(line)
            self._bar.advance(self._task)
            self._show_running()
        elif begun is not None or bad:
            took = f" in {time.monotonic() - begun:.0f} s" if begun is not None else ""
            left = self._time_left()
            place = f"{self._done}" if self._total is None else f"{self._done}/{self._total}"
            self.say(f"[{place}] {label}: {outcome}{took}{left}")

    def _time_left(self) -> str:
        """Return a guess from the pieces that are done: too long, as long ones run first."""
        if self._total is None or self._first_at is None or self._done == self._total:
            return ""
        a_piece = (time.monotonic() - self._first_at) / max(self._done - self._remembered, 1)
        return f", {duration(a_piece * (self._total - self._done))} left at most"

    def _show_running(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=escape(", ".join(self._begun)))


class CheckProgress(LongWork):
    """Progress of a check, piece by piece a job."""

    def started(self, planned: PlannedJob) -> None:
        """Note that a job began."""
        self.begin(_label(planned))

    def finished(self, planned: PlannedJob, rows: list[Row]) -> None:
        """Note that a job ended, and say at once what it found wrong."""
        bad = [row for row in rows if row.verdict not in _QUIET]
        reasons = sorted({f"{row.verdict}({row.reason})" for row in bad})
        outcome = f"{plural(len(rows), 'row')} {', '.join(reasons) or 'ok'}"
        self.end(
            _label(planned), outcome, [f"{row.verdict}({row.reason})  {row.id}" for row in bad]
        )


class BuildProgress(LongWork):
    """Progress of a build, piece by piece a kernel."""

    def started(self, cases: Sequence[Case]) -> None:
        """Note that the cases of one kernel are being compiled."""
        self.begin(_kernel_of(cases[0]))

    def finished(self, results: Sequence[Built]) -> None:
        """Note that they ended, and say at once what could not be built."""
        bad = [
            f"{label(verdict_of(built.reason), built.reason)}  {built.case.id}"
            for built in results
            if built.entry is None
        ]
        outcome = plural(len(results) - len(bad), "artifact")
        if bad:
            outcome += f", {len(bad)} not built"
        self.end(_kernel_of(results[0].case), outcome, bad)


class TimingProgress(LongWork):
    """Progress of timings: how many problems all workers together are done with."""

    def update(self, done: int, total: int) -> None:
        """Note that `done` of `total` are timed; without a terminal each tenth is a line."""
        if self._first_at is None:
            self._first_at = time.monotonic()
            self._remembered = done
        told = self._done * _LINES // max(total, 1)
        self._done, self._total = done, total
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, description="timing")
        elif done * _LINES // max(total, 1) > told:
            self.say(f"[{done}/{total}] timed{self._time_left()}")


def _kernel_of(case: Case) -> str:
    return f"{case.subject.name} {case.target}"


def _label(planned: PlannedJob) -> str:
    return f"{planned.subject.name} {planned.shape} {planned.tool}"
