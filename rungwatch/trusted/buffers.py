"""Guarded buffers: what a kernel is handed, and what may not have changed afterwards.

Each of A, B and D is a flat uint16 array: guard band, matrix, guard band. D is poisoned. Both
patterns are quiet NaNs that no conversion to fp16 gives (PTX `cvt` gives 0x7FFF), so what is
found again bitwise was never written. This module needs numpy alone: the workers import it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rungwatch.trusted.inputs import draw

if TYPE_CHECKING:
    from rungwatch.declare.problem import Shape

type Flat = NDArray[np.uint16]

# 8 KiB: keeps every alignment that a matrix at the start of the array would have.
GUARD_ELEMENTS = 4096
GUARD_BITS = 0x7EA5
POISON_BITS = 0x7E57


def extents(shape: "Shape") -> dict[str, tuple[int, int]]:
    """Return the rows and columns of A, B and D."""
    return {"A": (shape.m, shape.k), "B": (shape.n, shape.k), "D": (shape.m, shape.n)}


def make(shape: "Shape", distribution: str, seed: int) -> dict[str, Flat]:
    """Return the flat arrays A, B (drawn from `distribution`) and D (poisoned).

    Raises:
        KeyError: `distribution` is unknown.
    """
    a, b = draw(distribution, shape.m, shape.n, shape.k, seed)
    poison = np.full(shape.m * shape.n, POISON_BITS, np.uint16)
    return {
        "A": _guarded(a.view(np.uint16)),
        "B": _guarded(b.view(np.uint16)),
        "D": _guarded(poison),
    }


def view(flat: Flat, rows: int, columns: int) -> NDArray[np.float16]:
    """Return the matrix inside `flat` as fp16 (rows, columns): a view, not a copy.

    Raises:
        ValueError: `flat` is not a contiguous uint16 array of the size that this takes.
    """
    if flat.shape != (rows * columns + 2 * GUARD_ELEMENTS,) or flat.dtype != np.uint16:
        raise ValueError(f"{flat.dtype} {flat.shape} is no guarded {rows} x {columns} matrix")
    return flat[GUARD_ELEMENTS:-GUARD_ELEMENTS].view(np.float16).reshape(rows, columns)


def malformed(arrays: Mapping[str, Flat], shape: "Shape") -> str | None:
    """Say which array is missing or of the wrong type or size, or return None."""
    for name, (rows, columns) in extents(shape).items():
        if name not in arrays:
            return f"array {name} is missing"
        try:
            view(arrays[name], rows, columns)
        except ValueError as error:
            return f"array {name}: {error}"
    return None


def guard_breach(arrays: Mapping[str, Flat]) -> str | None:
    """Say which buffer was written outside of its matrix, where first, and what, or return None."""
    for name, flat in arrays.items():
        touched = flat != GUARD_BITS
        touched[GUARD_ELEMENTS:-GUARD_ELEMENTS] = False
        count = np.count_nonzero(touched)
        if count:
            index = int(touched.argmax())
            end = flat.size - GUARD_ELEMENTS
            where = (
                f"{GUARD_ELEMENTS - index} before its start"
                if index < GUARD_ELEMENTS
                else f"{index - end + 1} past its end"
            )
            return (
                f"{count} elements next to {name} were overwritten; the first, element {where},"
                f" was {GUARD_BITS:#06x} and is {flat[index]:#06x}"
            )
    return None


def changed_input(
    after: Mapping[str, Flat], before: Mapping[str, Flat], shape: "Shape"
) -> str | None:
    """Say which input the kernel changed, where first, and how, or return None."""
    for name in ("A", "B"):
        rows, columns = extents(shape)[name]
        new, old = view(after[name], rows, columns), view(before[name], rows, columns)
        changed = new.view(np.uint16) != old.view(np.uint16)
        count = np.count_nonzero(changed)
        if count:
            row, column = divmod(int(changed.argmax()), columns)
            return (
                f"{count} elements of {name} changed; the first, {name}[{row}, {column}],"
                f" was {old[row, column]} and is {new[row, column]}"
            )
    return None


def unwritten(matrix: NDArray[np.float16]) -> NDArray[np.bool_]:
    """Return where `matrix` still holds the poison, bit for bit."""
    return np.equal(matrix.view(np.uint16), POISON_BITS)


def _guarded(matrix: NDArray[np.uint16]) -> Flat:
    return np.pad(matrix.ravel(), GUARD_ELEMENTS, constant_values=GUARD_BITS)
