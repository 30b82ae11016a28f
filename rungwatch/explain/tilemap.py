"""A map of the wrong tiles of D, in plain text.

Where the wrong elements lie often names the fault: whole tiles mean coordinates or phases, a
stripe of tiles a schedule, a part of each tile a layout.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rungwatch.record.model import Comparison, Row

MAX_ROWS = 32
MAX_COLUMNS = 64
_LABEL_EVERY = 8

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TileMap:
    """A map ready to print: a header of column labels, then a label and cells a line.

    `cell_size` is the rows and columns of D, in elements, that one character stands for.
    """

    header: str
    lines: tuple[tuple[str, str], ...]
    cell_size: tuple[int, int]
    legend: str

    def text(self) -> str:
        """Return the whole map, legend last, without colour."""
        body = [label + cells for label, cells in self.lines]
        return "\n".join([self.header, *body, self.legend])


@dataclass(frozen=True)
class TileCounts:
    """Wrong elements a tile (tile rows, tile columns), and the heights and widths of the tiles.

    Tiles at the lower and right edge of D may be smaller than the others.
    """

    wrong: Counts
    heights: Counts
    widths: Counts

    @property
    def sizes(self) -> Counts:
        """Elements a tile (tile rows, tile columns)."""
        return np.outer(self.heights, self.widths)


def tile_counts(row: Row) -> TileCounts | None:
    """Return the tiles of `row`, or None where it has no wrong tile, or a ragged map of them."""
    comparison = row.comparison
    if comparison is None or not _is_grid(comparison):
        return None
    wrong = np.array(comparison.wrong_tiles, dtype=np.int64)
    height, width = comparison.tile
    rows, columns = wrong.shape
    if row.problem is None:
        m, n = rows * height, columns * width
    else:
        m, n = row.problem.shape.m, row.problem.shape.n
    if not wrong.any():
        return None
    return TileCounts(wrong, _edges(m, height, rows), _edges(n, width, columns))


def tile_map(row: Row, max_rows: int = MAX_ROWS, max_columns: int = MAX_COLUMNS) -> TileMap | None:
    """Return the map of `row`, tiles merged until it fits, or None where there is nothing wrong.

    A cell is "." where every element is right, "#" where every element is wrong, otherwise the
    tenths that are wrong (1 to 9), "+" below one tenth.
    """
    tiles = tile_counts(row)
    if tiles is None or row.comparison is None:
        return None
    rows_merged = -(-tiles.wrong.shape[0] // max_rows)
    columns_merged = -(-tiles.wrong.shape[1] // max_columns)
    wrong = _merge(tiles.wrong, rows_merged, columns_merged)
    sizes = _merge(tiles.sizes, rows_merged, columns_merged)
    height = row.comparison.tile[0] * rows_merged
    width = row.comparison.tile[1] * columns_merged

    columns = wrong.shape[1]
    label_width = max(len(str((wrong.shape[0] - 1) * height)), len("row"))
    column_labels = [str(column * width) for column in range(columns)]
    cell_width = len(column_labels[-1]) + 1
    if columns * cell_width > max_columns:
        cell_width = 1
        column_labels = [text.ljust(_LABEL_EVERY) for text in column_labels[::_LABEL_EVERY]]
    header = "row".rjust(label_width) + " " + "".join(t.rjust(cell_width) for t in column_labels)
    lines = tuple(
        (
            str(index * height).rjust(label_width) + " ",
            "".join(
                _symbol(int(part), int(whole)).rjust(cell_width)
                for part, whole in zip(wrong[index], sizes[index], strict=True)
            ),
        )
        for index in range(wrong.shape[0])
    )
    count = rows_merged * columns_merged
    merged = f", {count} tiles" if count > 1 else ""
    legend = (
        f"one cell: {height} x {width} elements{merged}\n"
        "'.' right  '#' all wrong  '1'-'9' tenths wrong  '+' less than a tenth"
    )
    return TileMap(header.rstrip(), lines, (height, width), legend)


def _is_grid(comparison: Comparison) -> bool:
    widths = {len(tiles) for tiles in comparison.wrong_tiles}
    return len(widths) == 1 and widths != {0} and min(comparison.tile) > 0


def _edges(extent: int, tile: int, count: int) -> Counts:
    """Return the lengths of `count` tiles along an axis of `extent` elements."""
    starts = np.arange(count, dtype=np.int64) * tile
    return np.clip(extent - starts, 1, tile)


def _merge(grid: Counts, rows: int, columns: int) -> Counts:
    """Sum blocks of `rows` x `columns` tiles; the last block of an axis may be smaller."""
    merged = np.add.reduceat(grid, np.arange(0, grid.shape[0], rows), axis=0)
    result: Counts = np.add.reduceat(merged, np.arange(0, grid.shape[1], columns), axis=1)
    return result


def _symbol(wrong: int, size: int) -> str:
    if wrong <= 0:
        return "."
    if wrong >= size:
        return "#"
    return str(10 * wrong // size) if 10 * wrong >= size else "+"
