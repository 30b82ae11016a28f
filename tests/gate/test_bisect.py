"""The search finds the change, asks for few commits, and says when it can't tell."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwatch.gate.bisect import EndUnknownError, NoChangeError, find_change


def values(*given: float | None):
    asked: list[int] = []

    def value_at(position: int) -> float | None:
        asked.append(position)
        return given[position]

    return value_at, asked


@given(st.integers(2, 200), st.data())
def test_one_change_is_found_in_few_looks(count: int, data: st.DataObject) -> None:
    change = data.draw(st.integers(1, count - 1))
    value_at, asked = values(*[1.0] * change, *[2.0] * (count - change))
    found = find_change(count, value_at)
    assert found.suspects == (change,)
    assert (found.before, found.after) == (1.0, 2.0)
    assert len(asked) == len(set(asked)) <= 3 + math.log2(count)


@given(st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=2, max_size=40))
def test_the_change_is_among_the_suspects(given_values: list[float | None]) -> None:
    value_at, _ = values(*given_values)
    first, last = given_values[0], given_values[-1]
    if first is None or last is None:
        with pytest.raises(EndUnknownError):
            find_change(len(given_values), value_at)
        return
    if first == last:
        with pytest.raises(NoChangeError):
            find_change(len(given_values), value_at)
        return
    found = find_change(len(given_values), value_at)
    low, high = found.suspects[0] - 1, found.suspects[-1]
    assert given_values[low] == first
    assert given_values[high] == found.after != first
    assert all(given_values[between] is None for between in range(low + 1, high))


def test_commits_that_do_not_build_are_named_as_suspects() -> None:
    value_at, _ = values(1.0, None, None, 2.0, 2.0)
    assert find_change(5, value_at).suspects == (1, 2, 3)
