"""Outputs that are wrong in one way each: all refused, with the reason and the place."""

import numpy as np
import pytest

from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.trusted import bounds, buffers, reference
from rungwatch.trusted.compare import compare
from rungwatch.trusted.inputs import DISTRIBUTIONS

SHAPE = Shape(256, 384, 320, 1)
TILE = (128, 128)
NUMERIC = ["normal", "uniform", "positive", "large", "cancel", "onehot", "onehot-b", "integer"]
NOT_ZERO = [name for name in NUMERIC if name != "cancel"]


def _matrices(arrays, shape=SHAPE):
    return {
        name: buffers.view(arrays[name], *size) for name, size in buffers.extents(shape).items()
    }


def _partial(arrays, k):
    """Return the fp16 result over the columns `k` of A and B alone."""
    m = _matrices(arrays)
    with np.errstate(over="ignore", invalid="ignore"):
        d = m["A"].astype(np.float32)[:, k] @ m["B"].astype(np.float32)[:, k].T
        return d.astype(np.float16)


def scale(arrays):
    d = _matrices(arrays)["D"]
    with np.errstate(over="ignore"):
        d *= 2


def swap_rows(arrays):
    d = _matrices(arrays)["D"]
    d[[3, 4]] = d[[4, 3]]


def swap_columns(arrays):
    d = _matrices(arrays)["D"]
    d[:, [7, 263]] = d[:, [263, 7]]


def transpose_tile(arrays):
    d = _matrices(arrays)["D"]
    d[128:, :128] = d[128:, :128].T.copy()


def swap_tiles(arrays):
    d = _matrices(arrays)["D"]
    d[:128, 128:256], d[128:, :128] = d[128:, :128].copy(), d[:128, 128:256].copy()


def drop_last_k_tile(arrays):
    _matrices(arrays)["D"][:] = _partial(arrays, np.arange(256))


def first_k_tile_twice(arrays):
    _matrices(arrays)["D"][:] = _partial(arrays, np.r_[0:320, 0:64])


def k_tile_from_the_wrong_place(arrays):
    _matrices(arrays)["D"][:] = _partial(arrays, np.r_[0:256, 192:256])


def drop_one_mma_of_one_tile(arrays):
    part = _partial(arrays, np.delete(np.arange(320), slice(64, 80)))
    _matrices(arrays)["D"][:128, :128] = part[:128, :128]


def accumulate_in_half(arrays):
    m = _matrices(arrays)
    d = np.zeros_like(m["D"])
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(0, 320, 16):
            d += _partial(arrays, np.arange(k, k + 16))
    m["D"][:] = d


@pytest.mark.parametrize(
    ("mutant", "distributions"),
    [
        (scale, NOT_ZERO),
        (swap_rows, NOT_ZERO),
        (swap_columns, NOT_ZERO),
        (transpose_tile, NOT_ZERO),
        (swap_tiles, NOT_ZERO),
        (drop_last_k_tile, NUMERIC),
        (first_k_tile_twice, NUMERIC),
        (k_tile_from_the_wrong_place, NUMERIC),
        (drop_one_mma_of_one_tile, NUMERIC),
        (accumulate_in_half, ["normal", "positive", "integer"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_wrong_numbers_are_refused(correct, mutant, distributions):
    for distribution in distributions:
        before, after = correct(SHAPE, distribution)
        mutant(after)
        reason, message, comparison = compare(after, before, SHAPE, distribution, TILE)
        # Overflow may turn a wrong number into Inf - Inf.
        assert reason in (Reason.NUMERICS, Reason.UNEXPECTED_NAN), distribution
        assert comparison.wrong_elements > 0
        assert f"D[{comparison.worst.row}, {comparison.worst.column}]" in message


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_one_element_two_steps_beyond_its_bound(correct, distribution):
    before, after = correct(SHAPE, distribution)
    m = _matrices(after)
    value = reference.product(m["A"], m["B"])
    exact = DISTRIBUTIONS[distribution].exact
    size = None if exact else reference.magnitude(m["A"], m["B"])
    _, high = bounds.interval(value, size, SHAPE.k)
    rows, columns = np.nonzero(np.isfinite(high) & (high > 0) & (high < 60000))
    if distribution == "cancel":
        rows, columns = np.nonzero(high == 0)
    row, column = int(rows[-1]), int(columns[-1])
    m["D"].view(np.uint16)[row, column] = high.view(np.uint16)[row, column] + 2
    reason, message, comparison = compare(after, before, SHAPE, distribution, TILE)
    assert reason is Reason.NUMERICS
    assert comparison.wrong_elements == 1
    assert comparison.worst_ulp == 2
    assert (comparison.worst.row, comparison.worst.column) == (row, column)
    assert comparison.worst.actual == str(m["D"][row, column])
    assert comparison.worst.highest == str(high[row, column])
    assert "2 fp16 steps off" in message
    assert sum(map(sum, comparison.wrong_tiles)) == 1
    assert comparison.wrong_tiles[row // 128][column // 128] == 1


def test_zeroed_16x16_tile_of_4096_squared(correct):
    shape = Shape(4096, 4096, 64, 1)
    before, after = correct(shape, "normal")
    _matrices(after, shape)["D"][2064:2080, 4000:4016] = 0
    reason, _, comparison = compare(after, before, shape, "normal", TILE)
    assert reason is Reason.NUMERICS
    assert 250 <= comparison.wrong_elements <= 256
    assert comparison.wrong_tiles[16][31] == comparison.wrong_elements


@pytest.mark.parametrize("distribution", NOT_ZERO)
def test_flipped_sign(correct, distribution):
    before, after = correct(SHAPE, distribution)
    d = _matrices(after)["D"]
    row, column = np.argwhere(
        np.isfinite(d) & (np.abs(d) > np.abs(d).mean(where=np.isfinite(d), dtype=np.float64) / 2)
    )[-1]
    d[row, column] *= -1
    reason, _, comparison = compare(after, before, SHAPE, distribution, TILE)
    assert reason is Reason.NUMERICS
    assert (comparison.worst.row, comparison.worst.column) == (row, column)
    assert comparison.wrong_elements == 1


@pytest.mark.parametrize("bits", [0x7FFF, 0x7E00, 0xFE57, buffers.GUARD_BITS])
def test_one_nan(correct, bits):
    before, after = correct(SHAPE, "normal")
    _matrices(after)["D"].view(np.uint16)[255, 383] = bits
    reason, message, comparison = compare(after, before, SHAPE, "normal", TILE)
    assert reason is Reason.UNEXPECTED_NAN
    assert "D[255, 383] is nan" in message
    assert comparison.wrong_elements == 1
    assert comparison.worst_ulp is None


def test_one_infinity(correct):
    before, after = correct(SHAPE, "normal")
    _matrices(after)["D"][0, 383] = -np.inf
    reason, message, _ = compare(after, before, SHAPE, "normal", TILE)
    assert reason is Reason.NUMERICS
    assert "D[0, 383], is -inf" in message


@pytest.mark.parametrize("distribution", ["nan-a", "nan-b"])
@pytest.mark.parametrize("number", [0.0, np.inf])
def test_number_where_nan_is_due(correct, distribution, number):
    before, after = correct(SHAPE, distribution)
    d = _matrices(after)["D"]
    row, column = np.argwhere(np.isnan(d))[17]
    d[row, column] = number
    reason, message, comparison = compare(after, before, SHAPE, distribution, TILE)
    assert reason is Reason.UNEXPECTED_NAN
    assert f"D[{row}, {column}]" in message
    assert "must be nan" in message
    assert comparison.wrong_elements == 1


@pytest.mark.parametrize("distribution", ["nan-a", "nan-b", "inf-a", "inf-b"])
def test_special_value_that_leaks_to_its_neighbour(correct, distribution):
    before, after = correct(SHAPE, distribution)
    d = _matrices(after)["D"]
    row, column = np.argwhere(~np.isfinite(d))[0]
    target = (row ^ 1, column) if distribution.endswith("a") else (row, column ^ 1)
    d[target] = d[row, column]
    reason, _, comparison = compare(after, before, SHAPE, distribution, TILE)
    assert reason in (Reason.UNEXPECTED_NAN, Reason.NUMERICS)
    assert (comparison.worst.row, comparison.worst.column) == target
    assert comparison.wrong_elements == 1


@pytest.mark.parametrize("distribution", ["inf-a", "large"])
def test_saturation_instead_of_infinity(correct, distribution):
    before, after = correct(SHAPE, distribution)
    d = _matrices(after)["D"]
    d[:] = np.clip(d, -65504, 65504)
    assert compare(after, before, SHAPE, distribution, TILE)[0] is Reason.NUMERICS


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_nothing_written(correct, distribution):
    before, _ = correct(SHAPE, distribution)
    reason, message, comparison = compare(before, before, SHAPE, distribution, TILE)
    assert reason is Reason.NOT_WRITTEN
    assert comparison.wrong_elements == SHAPE.m * SHAPE.n
    assert f"{SHAPE.m * SHAPE.n} were never written, first D[0, 0]" in message


def test_unwritten_element_that_should_be_nan(correct):
    before, after = correct(SHAPE, "nan-a")
    d = _matrices(after)["D"]
    row, column = np.argwhere(np.isnan(d))[5]
    d.view(np.uint16)[row, column] = buffers.POISON_BITS
    reason, message, comparison = compare(after, before, SHAPE, "nan-a", TILE)
    assert reason is Reason.NOT_WRITTEN
    assert f"1 were never written, first D[{row}, {column}]" in message
    assert comparison.wrong_elements == 1


def test_missing_tile_shows_in_the_tile_map(correct):
    before, after = correct(SHAPE, "normal")
    _matrices(after)["D"].view(np.uint16)[128:, 256:] = buffers.POISON_BITS
    reason, _, comparison = compare(after, before, SHAPE, "normal", TILE)
    assert reason is Reason.NOT_WRITTEN
    assert comparison.wrong_tiles == ((0, 0, 0), (0, 0, 128 * 128))
    assert (comparison.worst.row, comparison.worst.column) == (128, 256)


def test_tile_map_of_ragged_tiles(correct):
    before, after = correct(SHAPE, "normal")
    _matrices(after)["D"][255, 383] = np.nan
    *_, comparison = compare(after, before, SHAPE, "normal", (100, 250))
    assert comparison.wrong_tiles == ((0, 0), (0, 0), (0, 1))


def test_reasons_in_order_of_precedence(correct):
    before, after = correct(SHAPE, "normal")

    def reason():
        return compare(after, before, SHAPE, "normal", TILE)[0]

    d = _matrices(after)["D"]
    assert reason() is Reason.OK
    d[9, 9] = 3e4
    assert reason() is Reason.NUMERICS
    d[9, 10] = np.nan
    assert reason() is Reason.UNEXPECTED_NAN
    d.view(np.uint16)[9, 11] = buffers.POISON_BITS
    assert reason() is Reason.NOT_WRITTEN
    _matrices(after)["A"][1, 1] = 7.0
    assert reason() is Reason.INPUT_CHANGED
    after["A"][0] = 0
    assert reason() is Reason.GUARD_BAND
    after["D"] = after["D"][:-1]
    assert reason() is Reason.BAD_OUTPUT


@pytest.mark.parametrize("name", ["A", "B"])
def test_changed_input_is_not_used_for_the_reference(correct, name):
    before, after = correct(SHAPE, "normal")
    _matrices(after)[name][:] = 0
    _matrices(after)["D"][:] = 0
    reason, message, comparison = compare(after, before, SHAPE, "normal", TILE)
    assert reason is Reason.INPUT_CHANGED
    assert f"{name}[0, 0]" in message
    assert comparison.wrong_elements > 0
