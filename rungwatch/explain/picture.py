"""Pictures of a record: the whole ladder by verdict, and where D is wrong in each failing case.

Needs matplotlib (the extra `report`), which is imported only when a picture is asked for.
"""

import hashlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rungwatch.decide.verdict import Verdict
from rungwatch.explain.tilemap import tile_counts
from rungwatch.explain.words import GOOD, VERDICT_ORDER, counts, label, one_line, percent
from rungwatch.record.files import write_atomically
from rungwatch.record.model import CHECKS, Record, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 120
_MAX_INCHES = 40.0
_NAMED_TILES = 40  # more tiles on an axis than this are not outlined one by one

# Okabe and Ito's palette, safe for colour-blind readers; the letter says the same without colour.
_LOOKS = {
    Verdict.FAIL: ("#D55E00", "F"),
    Verdict.REGRESSION: ("#882255", "R"),
    Verdict.INVALID: ("#CC79A7", "!"),
    Verdict.INCONCLUSIVE: ("#E69F00", "?"),
    Verdict.IMPROVED: ("#56B4E9", "+"),
    Verdict.PASS: ("#009E73", ""),
    Verdict.SKIPPED: ("#D0D0D0", "-"),
}


class ReportUnavailableError(RuntimeError):
    """Pictures were asked for, but matplotlib is not installed."""


def require_matplotlib() -> None:
    """Refuse early: before a run whose pictures could not be drawn.

    Raises:
        ReportUnavailableError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ReportUnavailableError(
            "pictures need matplotlib: pip install 'rungwatch[report]'"
        ) from None


def write_report(record: Record, folder: Path) -> list[Path]:
    """Write overview.png and one tile map for each failing row that has one; return the paths.

    `folder` is made where it is missing. Each file appears whole or not at all.

    Raises:
        ReportUnavailableError: matplotlib is not installed.
        OSError: the folder cannot be written.
    """
    require_matplotlib()
    paths = [folder / "overview.png"]
    _write(_overview(record), paths[0])
    for row in record.rows:
        if row.verdict in GOOD or (figure := _tile_picture(row)) is None:
            continue
        paths.append(folder / file_name(row))
        _write(figure, paths[-1])
    return paths


def file_name(row: Row) -> str:
    """Return the name of a row's tile map: only A-Z a-z 0-9 . _ -, and different for each row.

    The ids of kernels in two families can be equal, so the kernel counts too.
    """
    identity = f"{row.kernel}\0{row.target}\0{row.id}"
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", row.id).strip(".-")
    return f"tiles-{words[:100]}-{digest}.png"


def _write(figure: "Figure", path: Path) -> None:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=_DPI, metadata={"Software": None})
    write_atomically(path, image.getvalue())


def _drawable(text: str) -> str:
    """Return one line in characters that every font has."""
    return one_line(text).encode("ascii", "backslashreplace").decode()


def _tile_picture(row: Row) -> "Figure | None":
    """Draw the share of wrong elements a tile of D, or return None where nothing is wrong."""
    from matplotlib.figure import Figure

    tiles = tile_counts(row)
    if tiles is None or row.comparison is None:
        return None
    height, width = row.comparison.tile
    rows, columns = tiles.wrong.shape
    m, n = int(tiles.heights.sum()), int(tiles.widths.sum())

    # The map keeps the aspect of D within limits, so that a tall D does not end as a thread.
    tall = float(np.clip(6.0 * m / n, 2.0, 9.0))
    figure = Figure(figsize=(9.0, tall + 2.4), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(
        np.ma.masked_equal(tiles.wrong / tiles.sizes, 0.0),
        cmap="viridis_r",
        vmin=0.0,
        vmax=1.0,
        extent=(0, columns * width, rows * height, 0),
        aspect="auto",
        interpolation="nearest",
    )
    axes.set(xlim=(0, n), ylim=(m, 0), facecolor="white")
    _label_axis(axes, "x", n, width)
    _label_axis(axes, "y", m, height)
    if (worst := row.comparison.worst) is not None:
        axes.plot(
            worst.column + 0.5,
            worst.row + 0.5,
            "o",
            markersize=13,
            markerfacecolor="none",
            markeredgecolor="#D55E00",
            markeredgewidth=2.5,
            clip_on=False,
            label=f"worst element: D[{worst.row}, {worst.column}]",
        )
        figure.legend(loc="outside lower center", frameon=False)
    bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    bar.set_label("share of wrong elements in a tile (white: none)")
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    comparison = row.comparison
    share = percent(comparison.wrong_elements, comparison.elements)
    figure.suptitle(
        f"{_folded(_drawable(row.id))}\n{_short(row.kernel, 80)}: {label(row.verdict, row.reason)},"
        f" {comparison.wrong_elements:,} of {comparison.elements:,} elements wrong ({share})",
        fontsize=10,
        parse_math=False,
    )
    return figure


def _folded(text: str, width: int = 88, max_lines: int = 4) -> str:
    """Break a long id into lines: it has no spaces to break at."""
    lines = [text[start : start + width] for start in range(0, len(text), width)]
    return "\n".join(lines[:max_lines]) + (" ..." if len(lines) > max_lines else "")


def _label_axis(axes: "Axes", which: str, extent: int, tile: int) -> None:
    """Label an axis of D in elements on the near side, in tile indices on the far side."""
    count = -(-extent // tile)
    step = -(-count // 12)
    starts = [index * tile for index in range(0, count, step)]
    near = axes.xaxis if which == "x" else axes.yaxis
    # The far end is always named; a start that would touch its label is not.
    named = [*(start for start in starts if extent - start > step * tile / 2), extent]
    near.set_ticks(named, [str(place) for place in named])
    near.set_label_text("column of D (elements)" if which == "x" else "row of D (elements)")
    if count <= _NAMED_TILES:
        near.set_ticks(np.arange(1, count) * tile, minor=True)
        near.grid(True, which="both", color="#B0B0B0", linewidth=0.5)
    far_axes = axes.secondary_xaxis("top") if which == "x" else axes.secondary_yaxis("right")
    far = far_axes.xaxis if which == "x" else far_axes.yaxis
    centres = [start + min(tile, extent - start) / 2 for start in starts]
    far.set_ticks(centres, [str(start // tile) for start in starts])
    far.set_tick_params(length=0)
    far.set_label_text("tile column" if which == "x" else "tile row")


def _overview(record: Record) -> "Figure":
    """Draw kernels (the ladder, bottom up) x cases, coloured and lettered by verdict."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    kernels = list(dict.fromkeys(row.kernel for row in record.rows))
    columns = _columns(record)
    cells: dict[tuple[int, int], Verdict] = {}
    for row in record.rows:
        place = kernels.index(row.kernel), columns.index(_column(row))
        known = cells.get(place, Verdict.SKIPPED)
        cells[place] = min(known, row.verdict, key=VERDICT_ORDER.index)

    across = min(3.5 + 0.3 * max(len(columns), 8), _MAX_INCHES)
    up = min(3.6 + 0.32 * max(len(kernels), 3), _MAX_INCHES)
    figure = Figure(figsize=(across, up), layout="constrained")
    axes = figure.add_subplot()
    for (y, x), verdict in cells.items():
        colour, letter = _LOOKS[verdict]
        axes.add_patch(Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, facecolor=colour, linewidth=0))
        axes.text(x, y, letter, ha="center", va="center", fontsize=8, fontweight="bold")
    axes.set_xlim(-0.5, max(len(columns), 1) - 0.5)
    axes.set_ylim(-0.5, max(len(kernels), 1) - 0.5)
    axes.set_yticks(range(len(kernels)), [_short(kernel, 40) for kernel in kernels])
    names = [_short(name, 44) for _, name in columns]
    axes.set_xticks(range(len(columns)), names, rotation=90, fontsize=7)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _mark_checks(axes, columns, len(kernels))
    figure.suptitle(
        f"{label(record.verdict, record.reason)}\n{counts(record.rows) or 'no rows'}",
        fontsize=10,
        parse_math=False,
    )
    present = [verdict for verdict in VERDICT_ORDER if verdict in cells.values()]
    handles = [
        Patch(color=_LOOKS[verdict][0], label=f"{_LOOKS[verdict][1]} {verdict}".strip())
        for verdict in present
    ]
    if len(cells) < len(kernels) * len(columns):
        handles.append(Patch(facecolor="white", edgecolor="#B0B0B0", label="not asked for"))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _columns(record: Record) -> list[tuple[str, str]]:
    """Return (check, problem) for each column: checks in order, problems as first met."""
    met = dict.fromkeys(_column(row) for row in record.rows)
    return sorted(met, key=lambda column: CHECKS.index(column[0]))


def _column(row: Row) -> tuple[str, str]:
    return row.check, str(row.problem) if row.problem is not None else "-"


def _mark_checks(axes: "Axes", columns: list[tuple[str, str]], kernel_count: int) -> None:
    """Head each block of columns with its check and part it from the next by a line."""
    checks = [check for check, _ in columns]
    # A name is about three columns wide: over a narrower block it has to stand slanted.
    narrow = any(checks.count(check) < 3 for check in checks)
    slant = {"rotation": 35.0, "ha": "left"} if narrow else {"ha": "center"}
    for check in dict.fromkeys(checks):
        own = [x for x, name in enumerate(checks) if name == check]
        axes.text(sum(own) / len(own), kernel_count - 0.4, check, va="bottom", **slant)
        if own[-1] + 1 < len(columns):
            axes.axvline(own[-1] + 0.5, color="black", linewidth=1)


def _short(text: str, limit: int) -> str:
    """Keep the end of a long name: that is where kernels of one family differ."""
    safe = _drawable(text)
    return safe if len(safe) <= limit else f"...{safe[3 - limit :]}"
