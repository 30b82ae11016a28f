"""Pictures of timings: drawn from the numbers, whole or not at all."""

import math
import statistics

import pytest

from rungwatch.decide.timing import summarise
from rungwatch.explain.ladder_plot import worker_ratios, write_plot

from ..bench.samples import CUBE, record, row, timing
from .test_ladder import shapes, steps

pytest.importorskip("matplotlib")


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_panel_is_drawn_for_each_kind(tmp_path, suffix, start):
    path = tmp_path / f"new folder/plot.{suffix}"
    assert write_plot(record(*steps()), path) == 1
    small = path.stat().st_size
    assert write_plot(record(*steps(), *shapes()), path) == 3
    data = path.read_bytes()
    assert data.startswith(start)
    assert len(data) > small


def test_the_same_record_gives_the_same_picture(tmp_path):
    made = record(*steps(), *shapes())
    for name in ("one.png", "two.png"):
        write_plot(made, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_nothing_is_drawn_where_nothing_was_timed(tmp_path):
    assert write_plot(record(row("step8"), row("step9")), tmp_path / "plot.png") == 0
    assert list(tmp_path.iterdir()) == []


def test_the_dots_are_those_that_the_summary_is_computed_from():
    made = timing(178.0, 180.0, slow=(3, 4))
    ratios = worker_ratios(made)
    assert len(ratios) == 12
    middle = math.exp(statistics.median(map(math.log, ratios)))
    assert middle == pytest.approx(summarise(made, CUBE).ratio.median)


def test_the_svg_says_what_the_published_line_is(tmp_path):
    path = tmp_path / "plot.svg"
    write_plot(record(*steps()), path)
    assert "not compared" in path.read_text()
