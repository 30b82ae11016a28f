"""Find the commit that changed a number: pure search, over values that are measured on demand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """Where a value changed.

    The change is in one of the commits at `suspects` (positions, oldest first): one, where every
    commit between could be measured. `tried` holds each position that was, with its value, None
    where it could not be measured.
    """

    suspects: tuple[int, ...]
    before: float
    after: float
    tried: dict[int, float | None]


class NoChangeError(ValueError):
    """The value is the same at both ends: there is nothing to find."""


class EndUnknownError(ValueError):
    """The value at one end is unknown: nothing can be searched for."""


def find_change(count: int, value_at: Callable[[int], float | None]) -> Found:
    """Return where the value changes between position 0 (good) and `count - 1` (bad).

    `value_at` is asked for about log2(count) positions; None means that it can't be measured
    there. Where the value changed several times, one of the changes away from good's is found.

    Raises:
        NoChangeError: both ends have the same value.
        EndUnknownError: an end can't be measured.
    """
    tried: dict[int, float | None] = {}

    def look(position: int) -> float | None:
        if position not in tried:
            tried[position] = value_at(position)
        return tried[position]

    good, bad = look(0), look(count - 1)
    if good is None or bad is None:
        raise EndUnknownError("bad" if good is not None else "good")
    if good == bad:
        raise NoChangeError(str(good))
    low, high = 0, count - 1
    while (middle := _between(low, high, tried)) is not None:
        value = look(middle)
        if value == good:
            low = middle
        elif value is not None:
            high = middle
    after = tried[high]
    assert after is not None
    return Found(tuple(range(low + 1, high + 1)), good, after, tried)


def _between(low: int, high: int, tried: dict[int, float | None]) -> int | None:
    """Return the untried position nearest to the middle, None where there is none left."""
    open_ones: Sequence[int] = [p for p in range(low + 1, high) if p not in tried]
    middle = (low + high) / 2
    return min(open_ones, key=lambda position: abs(position - middle), default=None)
