"""Controls of the comparison itself, run before every check: right output passes, wrong fails.

A tool that accepts everything looks exactly like a set of perfect kernels. So each run first
shows its comparison a right D and several wrong ones; any answer but the known one is a row
INVALID(self-check), which outranks every other row.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.problem import Problem, Shape
from rungwatch.record.model import Row
from rungwatch.trusted.buffers import make, view
from rungwatch.trusted.compare import compare

_PROBLEM = Problem(Shape(256, 128, 64, 1), "normal")
_TILE = (128, 128)

Matrix = NDArray[np.float16]


def _leave_unwritten(result: Matrix, poisoned: Matrix) -> None:
    result[128:, :] = poisoned[128:, :]


def _zero_a_patch(result: Matrix, _poisoned: Matrix) -> None:
    result[16:32, 16:32] = 0


def _swap_two_rows(result: Matrix, _poisoned: Matrix) -> None:
    result[[3, 200]] = result[[200, 3]]


def _put_a_nan(result: Matrix, _poisoned: Matrix) -> None:
    result[255, 127] = np.nan


CONTROLS: dict[str, tuple[Callable[[Matrix, Matrix], None], Reason]] = {
    "right output": (lambda _result, _poisoned: None, Reason.OK),
    "an unwritten tile": (_leave_unwritten, Reason.NOT_WRITTEN),
    "a zeroed 16x16 patch": (_zero_a_patch, Reason.NUMERICS),
    "two rows swapped": (_swap_two_rows, Reason.NUMERICS),
    "one NaN": (_put_a_nan, Reason.UNEXPECTED_NAN),
}


def failing_self_checks() -> list[Row]:
    """Return one INVALID(self-check) row a control that was not answered as known."""
    shape = _PROBLEM.shape
    before = make(shape, _PROBLEM.distribution, _PROBLEM.seed)
    a = view(before["A"], shape.m, shape.k).astype(np.float32)
    b = view(before["B"], shape.n, shape.k).astype(np.float32)
    right = (a @ b.T).astype(np.float16)
    rows = []
    for name, (damage, expected) in CONTROLS.items():
        after = {key: array.copy() for key, array in before.items()}
        result = view(after["D"], shape.m, shape.n)
        poisoned = result.copy()
        result[:] = right
        damage(result, poisoned)
        reason, message, _ = compare(after, before, shape, _PROBLEM.distribution, _TILE)
        if reason is not expected:
            rows.append(_row(name, expected, reason, message))
    return rows


def _row(name: str, expected: Reason, actual: Reason, message: str) -> Row:
    return Row(
        id=f"self-check-{name.replace(' ', '-')}",
        kernel="self-check",
        target=None,
        problem=_PROBLEM,
        check="numerics",
        verdict=verdict_of(Reason.SELF_CHECK),
        reason=Reason.SELF_CHECK,
        message=f"the control '{name}' must be {expected} and was {actual}: {message}",
        rerun="rungwatch check",
    )
