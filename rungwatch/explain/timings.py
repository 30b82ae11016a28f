"""The timings of a record, put in the order in which tables and pictures show them."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rungwatch.bench.noise import AGAIN
from rungwatch.decide.timing import Summary, summarise
from rungwatch.decide.verdict import Verdict
from rungwatch.declare.problem import Shape
from rungwatch.record.model import Record, Row, Timing


@dataclass(frozen=True)
class Timed:
    """One row about one problem. `summary` is None where there are no numbers to believe."""

    row: Row
    shape: Shape
    summary: Summary | None

    @property
    def family(self) -> str:
        """The folder of the kernel: hgemm/hopper."""
        return self.row.kernel.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last part of the kernel's key: step7."""
        return self.row.kernel.rpartition("/")[2]


@dataclass(frozen=True)
class Ladder:
    """The kernels of one family on one problem, and those that could only run a nearby one."""

    family: str
    shape: Shape
    steps: tuple[Timed, ...]

    @property
    def on_shape(self) -> tuple[Timed, ...]:
        """The steps that ran the ladder's own problem and have numbers."""
        return tuple(
            step for step in self.steps if step.shape == self.shape and step.summary is not None
        )

    @property
    def reference(self) -> Summary | None:
        """What is said of cuBLAS: as it was beside the last step that has numbers."""
        return self.on_shape[-1].summary if self.on_shape else None


@dataclass(frozen=True)
class Shapes:
    """One kernel on many problems: squares first, by size, then the others in the run's order."""

    kernel: str
    squares: tuple[Timed, ...]
    others: tuple[Timed, ...]


def timed_rows(rows: Iterable[Row]) -> list[Timed]:
    """Return the rows about a kernel on a problem, of each family of which anything was timed.

    Second arms of the same artifact are left out: they show noise (`rungwatch.bench.noise`).
    """
    found = [
        Timed(row, row.problem.shape, _summary(row))
        for row in rows
        if row.check == "timing" and row.problem is not None and not row.kernel.endswith(AGAIN)
    ]
    families = {timed.family for timed in found if timed.row.timing is not None}
    return [timed for timed in found if timed.family in families]


def ladders(record: Record) -> list[Ladder]:
    """Return the families of which several kernels were timed: at the problem that most have.

    Of equally common ones it is the largest.
    """
    found = []
    for family, members in _by_family(timed_rows(record.rows)).items():
        kernels = list(dict.fromkeys(timed.row.kernel for timed in members))
        if len(kernels) < 2:
            continue
        kernels_at = Counter(timed.shape for timed in members)
        shape = max(kernels_at, key=lambda each: (kernels_at[each], each.m * each.n * each.k))
        steps = []
        for kernel in kernels:
            own = [timed for timed in members if timed.row.kernel == kernel]
            steps.append(next((timed for timed in own if timed.shape == shape), own[0]))
        found.append(Ladder(family, shape, tuple(steps)))
    return found


def shape_lists(record: Record) -> list[Shapes]:
    """Return each kernel that was timed on several problems, or that no ladder shows."""
    in_ladder = {timed.row.kernel for ladder in ladders(record) for timed in ladder.steps}
    rows = timed_rows(record.rows)
    found = []
    for kernel in dict.fromkeys(timed.row.kernel for timed in rows):
        own = [timed for timed in rows if timed.row.kernel == kernel]
        if len(own) < 2 and kernel in in_ladder:
            continue
        squares = [timed for timed in own if _is_square(timed.shape)]
        others = [timed for timed in own if not _is_square(timed.shape)]
        squares.sort(key=lambda timed: timed.shape)
        found.append(Shapes(kernel, tuple(squares), tuple(others)))
    return found


def slower_than_before(steps: Sequence[Timed]) -> list[tuple[Timed, Timed]]:
    """Return the pairs of neighbours of which the later step took longer."""
    return [
        (before, after)
        for before, after in itertools.pairwise(steps)
        if before.summary is not None
        and after.summary is not None
        and after.summary.kernel_ns > before.summary.kernel_ns
    ]


def timing_of(timed: Timed) -> Timing:
    """Return the samples behind a summary."""
    assert timed.row.timing is not None
    return timed.row.timing


def _summary(row: Row) -> Summary | None:
    if row.timing is None or row.problem is None or row.verdict in (Verdict.INVALID, Verdict.FAIL):
        return None
    try:
        return summarise(row.timing, row.problem.shape)
    except ValueError:  # a record that was made by hand: `rungwatch decide` says so
        return None


def _is_square(shape: Shape) -> bool:
    return shape.m == shape.n == shape.k


def _by_family(rows: Iterable[Timed]) -> dict[str, list[Timed]]:
    found: dict[str, list[Timed]] = {}
    for timed in rows:
        found.setdefault(timed.family, []).append(timed)
    return found
