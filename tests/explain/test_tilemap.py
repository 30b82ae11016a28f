import pytest

from rungwatch.declare.problem import Problem, Shape
from rungwatch.explain.tilemap import tile_counts, tile_map

from .factory import PROBLEM, comparison, row, stripe


def mapped(tiles, m, n, tile=(128, 128), **limits):
    case = row(
        problem=Problem(Shape(m, n, 64, 1), "normal"),
        comparison=comparison(tiles, elements=m * n, tile=tile),
    )
    return tile_map(case, **limits)


def test_each_share_has_its_symbol():
    tiles = ((0, 1, 1638, 1639, 8192, 16383, 16384),)
    drawn = mapped(tiles, 128, 7 * 128)
    assert drawn.lines[0][1].split() == [".", "+", "+", "1", "5", "9", "#"]


def test_labels_are_elements_and_stand_above_their_cells():
    drawn = tile_map(row(comparison=stripe()))
    assert drawn.header.split() == ["row", "0", "128", "256", "384", "512", "640"]
    assert [label.strip() for label, _ in drawn.lines] == ["0", "128", "256", "384"]
    text = drawn.text().splitlines()
    assert text[3].rindex("+") == text[0].rindex("640") + 2
    assert "128 x 128 elements" in drawn.legend


def test_tiles_of_the_edge_count_by_their_own_size():
    drawn = mapped(((0, 0), (0, 64 * 32)), 192, 160)
    assert drawn.lines[1][1].split() == [".", "#"]


def test_a_large_map_is_merged_until_it_fits():
    tiles = tuple(tuple(16384 if r == c == 99 else 0 for c in range(130)) for r in range(100))
    drawn = mapped(tiles, 12800, 16640)
    assert len(drawn.lines) <= 32
    assert all(len(cells) <= 64 for _, cells in drawn.lines)
    assert max(map(len, drawn.text().splitlines())) <= 76
    # 4 x 3 tiles a cell, one of them wholly wrong: less than a tenth, and never lost.
    assert drawn.cell_size == (512, 384)
    assert drawn.lines[24][1][33] == "+"
    assert "".join(cells for _, cells in drawn.lines).count("+") == 1


def test_labels_of_a_wide_map_start_at_their_columns():
    drawn = mapped((tuple(1 for _ in range(64)),), 128, 64 * 128)
    offset = len(drawn.lines[0][0])
    for column in range(0, 64, 8):
        assert drawn.header[offset + column :].split()[0] == str(column * 128)


@pytest.mark.parametrize(
    "tiles", [(), ((),), ((0, 0), (0, 0)), ((1, 2), (3,))], ids=["none", "empty", "right", "ragged"]
)
def test_nothing_to_draw(tiles):
    assert tile_map(row(comparison=comparison(tiles))) is None
    assert tile_counts(row(comparison=comparison(tiles))) is None


def test_no_comparison_no_map():
    assert tile_map(row()) is None


def test_sizes_add_up_to_the_matrix():
    counted = tile_counts(row(comparison=stripe()))
    assert counted.sizes.sum() == PROBLEM.shape.m * PROBLEM.shape.n
