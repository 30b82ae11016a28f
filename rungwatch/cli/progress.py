"""Show long work: a bar with what runs and the time left, or lines where there is no terminal."""

import time
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

from rungwatch.check.plan import PlannedJob
from rungwatch.decide.verdict import Verdict
from rungwatch.explain.words import duration, plural
from rungwatch.record.model import Row

_QUIET = (Verdict.PASS, Verdict.SKIPPED)


class CheckProgress:
    """Progress of a check, on standard error so that standard output holds results only."""

    def __init__(self, jobs_total: int, console: Console) -> None:
        self._console = console
        self._total = jobs_total
        self._done = 0
        self._cached = 0
        self._first_job_at: float | None = None
        self._begun: dict[int, float] = {}
        self._running: list[str] = []
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        if self._console.is_terminal and self._total:
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
        """Print a line above the bar: a step that comes before the cases."""
        self._console.print(escape(text), highlight=False)

    def started(self, planned: PlannedJob) -> None:
        """Note that a job began."""
        if self._first_job_at is None:
            self._first_job_at = time.monotonic()
            self._cached = self._done
        self._begun[id(planned)] = time.monotonic()
        self._running.append(_label(planned))
        self._show_running()

    def finished(self, planned: PlannedJob, rows: list[Row]) -> None:
        """Note that a job ended, and say at once what it found wrong."""
        self._done += 1
        label = _label(planned)
        if label in self._running:
            self._running.remove(label)
        begun = self._begun.pop(id(planned), None)
        bad = [row for row in rows if row.verdict not in _QUIET]
        if self._bar is not None:
            for row in bad:
                self.say(f"{row.verdict}({row.reason})  {row.id}")
            self._bar.advance(self._task)
            self._show_running()
            return
        if begun is None and not bad:
            return
        took = f" in {time.monotonic() - begun:.0f} s" if begun is not None else ""
        what = ", ".join(sorted({f"{row.verdict}({row.reason})" for row in bad})) or "ok"
        self.say(
            f"[{self._done}/{self._total}] {label}: {plural(len(rows), 'row')} {what}{took}"
            f"{self._time_left()}"
        )

    def _time_left(self) -> str:
        """Return a guess from the jobs that are done: too long, as long jobs run first."""
        if self._first_job_at is None or self._done == self._total:
            return ""
        a_job = (time.monotonic() - self._first_job_at) / max(self._done - self._cached, 1)
        return f", {duration(a_job * (self._total - self._done))} left at most"

    def _show_running(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=escape(", ".join(self._running)))


def _label(planned: PlannedJob) -> str:
    return f"{planned.subject.name} {planned.shape} {planned.tool}"
