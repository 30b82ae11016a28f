"""Compare what a kernel left in its buffers with what it had to leave: every element, no norm."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.record.model import Comparison, Element
from rungwatch.trusted import bounds, buffers, reference
from rungwatch.trusted.inputs import DISTRIBUTIONS

# Elements of D that are compared at a time: some ten float64 arrays of this size are alive.
_BLOCK_ELEMENTS = 2**20


@dataclass(frozen=True)
class _Case:
    """A (m, k) and B (n, k) as they were before the run, in float64, and D (m, n) after it."""

    a: NDArray[np.float16]
    b: NDArray[np.float64]
    d: NDArray[np.float16]
    exact: bool

    def expected(
        self, rows: slice, columns: slice = slice(None)
    ) -> tuple[NDArray[np.float64], NDArray[np.float16], NDArray[np.float16]]:
        """Return the reference and both ends of the interval for a part of D."""
        a, b = self.a[rows].astype(np.float64), self.b[columns]
        value = reference.product(a, b)
        scale = None if self.exact else reference.magnitude(a, b)
        return value, *bounds.interval(value, scale, a.shape[1])


@dataclass(frozen=True)
class _Faults:
    """What is wrong with each element of D (m, n): at most one of the three."""

    unwritten: NDArray[np.bool_]
    nan_mismatch: NDArray[np.bool_]
    steps: NDArray[np.int32]

    def worst(self) -> tuple[Reason, int, int]:
        """Return the reason to give, and the row and column of the element to name."""
        if self.unwritten.any():
            reason, index = Reason.NOT_WRITTEN, self.unwritten.argmax()
        elif self.nan_mismatch.any():
            reason, index = Reason.UNEXPECTED_NAN, self.nan_mismatch.argmax()
        else:
            index = self.steps.argmax()
            reason = Reason.NUMERICS if self.steps.flat[index] else Reason.OK
        row, column = divmod(int(index), self.steps.shape[1])
        return reason, row, column


def compare(
    after: Mapping[str, buffers.Flat],
    before: Mapping[str, buffers.Flat],
    shape: Shape,
    distribution: str,
    tile: tuple[int, int],
) -> tuple[Reason, str, Comparison | None]:
    """Judge the buffers that a run left behind.

    `before` and `after` hold the flat arrays A, B and D of `buffers.make`; `tile` is the rows
    and columns of one tile of D. Of several faults the first in this order gives the reason:
    bad-output, guard-band, input-changed, not-written, unexpected-nan, numerics. The message
    names the first or the worst element. The comparison is None for bad-output alone.

    Raises:
        KeyError: `distribution` is unknown.
        ValueError: `before` does not fit `shape`, or K is beyond what `bounds` covers.
    """
    problem = buffers.malformed(after, shape)
    if problem is not None:
        return Reason.BAD_OUTPUT, problem, None
    inputs = {name: buffers.view(before[name], *buffers.extents(shape)[name]) for name in "AB"}
    case = _Case(
        a=inputs["A"],
        b=inputs["B"].astype(np.float64),
        d=buffers.view(after["D"], shape.m, shape.n),
        exact=DISTRIBUTIONS[distribution].exact,
    )
    faults = _find_faults(case)
    reason, row, column = faults.worst()
    comparison = _summarise(case, faults, reason, row, column, tile)
    if (breach := buffers.guard_breach(after)) is not None:
        return Reason.GUARD_BAND, breach, comparison
    if (change := buffers.changed_input(after, before, shape)) is not None:
        return Reason.INPUT_CHANGED, change, comparison
    return reason, _message(reason, comparison, faults), comparison


def _row_blocks(rows: int, columns: int) -> Iterator[slice]:
    step = max(1, _BLOCK_ELEMENTS // columns)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _find_faults(case: _Case) -> _Faults:
    faults = _Faults(
        unwritten=buffers.unwritten(case.d),
        nan_mismatch=np.empty(case.d.shape, np.bool_),
        steps=np.empty(case.d.shape, np.int32),
    )
    for rows in _row_blocks(*case.d.shape):
        value, low, high = case.expected(rows)
        actual = case.d[rows]
        faults.nan_mismatch[rows] = np.isnan(actual) != np.isnan(value)
        faults.steps[rows] = bounds.steps_outside(actual, low, high)
    faults.nan_mismatch[faults.unwritten] = False
    return faults


def _summarise(
    case: _Case, faults: _Faults, reason: Reason, row: int, column: int, tile: tuple[int, int]
) -> Comparison:
    wrong = faults.unwritten | faults.nan_mismatch | (faults.steps > 0)
    steps = int(faults.steps[row, column])
    by_rows = np.add.reduceat(wrong, np.arange(0, wrong.shape[0], tile[0]), 0, np.int64)
    by_tiles = np.add.reduceat(by_rows, np.arange(0, wrong.shape[1], tile[1]), 1)
    return Comparison(
        elements=wrong.size,
        wrong_elements=int(np.count_nonzero(wrong)),
        worst=None if reason is Reason.OK else _element(case, row, column),
        worst_ulp=steps if reason in (Reason.OK, Reason.NUMERICS) else None,
        tile=tile,
        wrong_tiles=tuple(map(tuple, by_tiles.tolist())),
    )


def _element(case: _Case, row: int, column: int) -> Element:
    value, low, high = case.expected(slice(row, row + 1), slice(column, column + 1))
    return Element(
        row=row,
        column=column,
        actual=str(case.d[row, column]),
        reference=f"{value.item():.9g}",
        lowest=str(low[0, 0]),
        highest=str(high[0, 0]),
    )


def _message(reason: Reason, found: Comparison, faults: _Faults) -> str:
    if found.worst is None:
        return f"all {found.elements} elements are right"
    worst = found.worst
    tiles = [count for row in found.wrong_tiles for count in row]
    extent = (
        f"{found.wrong_elements} of {found.elements} elements are wrong, in"
        f" {sum(map(bool, tiles))} of {len(tiles)} tiles"
    )
    where = f"D[{worst.row}, {worst.column}]"
    must = (
        f"must be {worst.lowest}"
        if worst.lowest == worst.highest
        else f"must lie in [{worst.lowest}, {worst.highest}]"
    )
    if reason is Reason.NOT_WRITTEN:
        count = np.count_nonzero(faults.unwritten)
        return f"{extent}; {count} were never written, first {where}, which {must}"
    verb = f"is {worst.actual} and {must} (reference {worst.reference})"
    if reason is Reason.UNEXPECTED_NAN:
        return f"{extent}; {where} {verb}"
    return f"{extent}; the worst, {where}, {verb}: {found.worst_ulp} fp16 steps off"
