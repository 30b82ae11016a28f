"""Pictures of timings: the ladder on a log scale, and the ratio to cuBLAS by problem.

Needs matplotlib (the extra `report`), which is imported only when a picture is asked for.
"""

import io
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rungwatch.decide.timing import Ratio
from rungwatch.explain.ladder import how, size, us
from rungwatch.explain.picture import require_matplotlib
from rungwatch.explain.published import B200_LADDER
from rungwatch.explain.timings import Ladder, Timed, ladders, shape_lists, timing_of
from rungwatch.explain.words import one_line
from rungwatch.record.files import write_atomically
from rungwatch.record.model import Record, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")
_DPI = 150
_PANEL_INCHES = 4.4
_WIDTH_INCHES = 9.0

# Okabe and Ito's palette, safe for colour-blind readers.
_OWN, _CUBLAS, _OTHER_GPU, _NOTE = "#0072B2", "#009E73", "#E69F00", "#666666"
_LAYERS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"


def write_plot(record: Record, path: Path) -> int:
    """Draw what `record` holds, a panel each, into a .png or .svg file; return the panels drawn.

    Nothing is written where there is nothing to draw. The file appears whole or not at all.

    Raises:
        ReportUnavailableError: matplotlib is not installed.
        OSError: the file can't be written.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    panels = [_LadderPanel(ladder) for ladder in ladders(record) if ladder.on_shape]
    drawn: list[_LadderPanel | _SquaresPanel | _ModelsPanel] = [*panels]
    for shapes in shape_lists(record):
        if squares := _with_numbers(shapes.squares):
            drawn.append(_SquaresPanel(shapes.kernel, squares))
        if others := _with_numbers(shapes.others):
            drawn.append(_ModelsPanel(shapes.kernel, others))
    if not drawn:
        return 0
    figure = Figure(figsize=(_WIDTH_INCHES, _PANEL_INCHES * len(drawn)), layout="constrained")
    grid = figure.subplots(len(drawn), 1, squeeze=False)
    for panel, axes in zip(drawn, grid[:, 0], strict=True):
        panel.draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        for text in (axes.title, *axes.get_xticklabels()):
            text.set_parse_math(False)
    gpu = record.environment.gpu
    if gpu is not None:
        figure.suptitle(_drawable(f"{gpu.model}, driver {gpu.driver}"), fontsize=9, color=_NOTE)
    image = io.BytesIO()
    kind = path.suffix.lower().lstrip(".")
    # Neither a date nor a version: the same record gives the same picture.
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    figure.savefig(image, format=kind, dpi=_DPI, metadata=metadata)
    write_atomically(path, image.getvalue())
    return len(drawn)


def worker_ratios(timing: Timing) -> list[float]:
    """Return cuBLAS time / kernel time of each worker: the median over its rounds."""
    kernel, cublas = (
        {samples.worker: samples.samples_ns for arm in timing.arms if arm.name == name
         for samples in arm.workers}
        for name in ("kernel", "cublas")
    )  # fmt: skip
    return [
        math.exp(
            statistics.median(
                math.log(theirs / ours)
                for ours, theirs in zip(kernel[worker], cublas[worker], strict=True)
            )
        )
        for worker in kernel.keys() & cublas.keys()
    ]


class _LadderPanel:
    """The time of each step, lower is faster, between cuBLAS and another GPU's figures."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder

    def draw(self, axes: "Axes") -> None:
        """Draw into `axes`."""
        from matplotlib.patheffects import withStroke

        ladder = self._ladder
        reference = ladder.reference
        assert reference is not None
        places = {step.row.kernel: place for place, step in enumerate(ladder.steps)}
        x = [places[step.row.kernel] for step in ladder.on_shape]
        y = [step.summary.kernel_ns / 1000 for step in ladder.on_shape if step.summary is not None]
        axes.set_yscale("log")
        axes.bar(x, y, width=0.62, color=_OWN, alpha=0.85, label="this GPU, measured", zorder=2)
        for place, value in zip(x, y, strict=True):
            axes.annotate(
                us(1000 * value), (place, value), (0, 3), textcoords="offset points",
                ha="center", fontsize=8, color=_OWN, zorder=5,
                path_effects=[withStroke(linewidth=3, foreground="white")],
            )  # fmt: skip
        fast = reference.reference_fast_ns / 1000
        axes.axhline(
            fast, color=_CUBLAS, zorder=3, label=f"cuBLAS here, fast mode: {us(1000 * fast)} us"
        )
        lowest = min(*y, fast)
        if (ladder.shape.m, ladder.shape.n, ladder.shape.k) == B200_LADDER.problem:
            lowest = min(lowest, self._draw_published(axes, places))
        axes.set_ylim(lowest / 2, max(*y, fast) * 3)
        for step in ladder.steps:
            if step.row.kernel not in {drawn.row.kernel for drawn in ladder.on_shape}:
                why = f"only at\n{size(step.shape)}" if step.shape != ladder.shape else "no time"
                axes.text(
                    places[step.row.kernel], lowest * 0.55, why,
                    ha="center", va="bottom", fontsize=7, color=_NOTE,
                )  # fmt: skip
        axes.set_xticks(range(len(places)), [_drawable(step.name) for step in ladder.steps])
        axes.set_xlim(-0.6, len(places) - 0.4)
        axes.set_ylabel("us, log scale")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(True, axis="y", color="#DDDDDD", linewidth=0.6, zorder=0)
        axes.set_title(
            _drawable(f"{ladder.family}, {size(ladder.shape)} ({how(ladder.steps)})"), fontsize=10
        )
        axes.legend(loc="upper right", frameon=False, fontsize=8)

    def _draw_published(self, axes: "Axes", places: dict[str, int]) -> float:
        """Draw the published figures of the steps that are here; return the lowest of them."""
        names = {kernel.rpartition("/")[2]: place for kernel, place in places.items()}
        known = {
            names[name]: time for name, time in B200_LADDER.microseconds.items() if name in names
        }
        if not known:
            return math.inf
        axes.plot(
            list(known), list(known.values()), "D:", color=_OTHER_GPU, markersize=5,
            markeredgecolor="white", zorder=4,
            label=f"another GPU ({B200_LADDER.gpu}), published; not compared",
        )  # fmt: skip
        return min(known.values())


class _SquaresPanel:
    """The ratio to cuBLAS at each square, a dot a worker."""

    def __init__(self, kernel: str, squares: Sequence[Timed]) -> None:
        self._kernel = kernel
        self._squares = squares

    def draw(self, axes: "Axes") -> None:
        """Draw into `axes`."""
        for place, timed in enumerate(self._squares):
            ratios = sorted(worker_ratios(timing_of(timed)))
            # Sorted dots side by side: none hides another, and two modes show as two steps.
            spread = [
                place + 0.5 * (index / max(len(ratios) - 1, 1) - 0.5)
                for index in range(len(ratios))
            ]
            axes.plot(
                spread, ratios, "o", color=_OWN, markersize=4.5, alpha=0.75, markeredgewidth=0,
                label="one worker" if place == 0 else None,
            )  # fmt: skip
            assert timed.summary is not None
            for value, colour, label in (
                (timed.summary.ratio.median, "black", "median of all workers"),
                (timed.summary.ratio_fast.median, _CUBLAS, "against cuBLAS's fast mode"),
            ):
                axes.hlines(
                    value, place - 0.34, place + 0.34, color=colour, linewidth=1.6,
                    label=label if place == 0 else "",
                )  # fmt: skip
        _finish_ratio(axes)
        axes.set_xticks(range(len(self._squares)), [str(timed.shape.m) for timed in self._squares])
        axes.set_xlim(-0.6, len(self._squares) - 0.4)
        axes.set_xlabel("M = N = K")
        axes.set_title(_drawable(f"{self._kernel}: squares ({how(self._squares)})"), fontsize=10)


class _ModelsPanel:
    """The ratio to cuBLAS's fast mode over M, a line a pair of N and K."""

    def __init__(self, kernel: str, others: Sequence[Timed]) -> None:
        self._kernel = kernel
        self._others = others

    def draw(self, axes: "Axes") -> None:
        """Draw into `axes`."""
        sizes = sorted({timed.shape.m for timed in self._others})
        layers: dict[tuple[int, int], list[Timed]] = {}
        for timed in self._others:
            layers.setdefault((timed.shape.n, timed.shape.k), []).append(timed)
        for index, ((n, k), rows) in enumerate(layers.items()):
            points = [
                (sizes.index(timed.shape.m), timed.summary.ratio_fast)
                for timed in sorted(rows, key=lambda timed: timed.shape)
                if timed.summary is not None
            ]
            y = [ratio.median for _, ratio in points]
            axes.errorbar(
                [place for place, _ in points], y,
                yerr=(
                    [ratio.median - ratio.low if _known(ratio) else 0.0 for _, ratio in points],
                    [ratio.high - ratio.median if _known(ratio) else 0.0 for _, ratio in points],
                ),
                color=_LAYERS[index % len(_LAYERS)], marker=_MARKERS[index % len(_MARKERS)],
                markersize=5, linewidth=1.3, capsize=2, label=f"N {n}, K {k}",
            )  # fmt: skip
        _finish_ratio(axes)
        axes.set_xticks(range(len(sizes)), [str(m) for m in sizes])
        axes.set_xlabel("M")
        axes.set_title(
            _drawable(f"{self._kernel}: other shapes, against cuBLAS's fast mode"
                      f" ({how(self._others)})"),
            fontsize=10,
        )  # fmt: skip


def _finish_ratio(axes: "Axes") -> None:
    axes.axhline(1.0, color=_NOTE, linewidth=1.0, linestyle="--", zorder=0)
    axes.grid(True, axis="y", color="#DDDDDD", linewidth=0.6, zorder=0)
    axes.set_ylabel("cuBLAS time / kernel time\n(above 1: faster than cuBLAS)")
    axes.legend(loc="best", frameon=False, fontsize=8)


def _known(ratio: Ratio) -> bool:
    """Whether there were workers enough for an interval."""
    return ratio.high < math.inf


def _with_numbers(rows: Sequence[Timed]) -> list[Timed]:
    return [timed for timed in rows if timed.summary is not None]


def _drawable(text: str) -> str:
    """Return one line in characters that every font has."""
    return one_line(text).encode("ascii", "backslashreplace").decode()
