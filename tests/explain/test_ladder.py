"""Timings in a log of 80 columns."""

import pytest

from rungwatch.bench.noise import AGAIN
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.explain.ladder import conditions, ladder_notes, us
from rungwatch.explain.published import B200_LADDER
from rungwatch.explain.terminal import render
from rungwatch.explain.timings import ladders, shape_lists
from rungwatch.trusted.matrix import MODEL_SHAPES

from ..bench.samples import CUBE, record, row, square, timing

TILE = Shape(128, 128, 64, 132)
MODEL = Shape(16, 6144, 4096, 132)


def steps():
    return [
        row("step1", TILE, timing(8.2, 6.4, launched=TILE)),
        row("step3", timed=timing(33_400.0)),
        row("step5", timed=timing(505.0)),
        row("step6", timed=timing(520.0)),
        row("step9", timed=timing(178.0, 179.0, slow=range(6, 12))),
    ]


def shapes():
    return [
        row("step9", square(16384), timing(11_900.0, 12_200.0, launched=square(16384))),
        row("step9", square(1024), timing(9.1, 7.3, launched=square(1024))),
        row("step9", MODEL, timing(17.9, 12.6, launched=Shape(256, 6144, 4096, 132))),
    ]


@pytest.fixture
def shown(printed):
    def text(*rows, adds=None):
        return printed(lambda console: render(record(*rows), console, adds))

    return text


def line_of(text, start):
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return line.split()


def test_a_line_of_the_ladder_has_time_rate_ratios_and_the_published_figure(shown):
    text = shown(*steps(), adds={"hgemm/hopper/step9": "second MMA consumer"})
    name, *adds, time, spread, rate, _, fast, peak, other = line_of(text, " step9")
    assert (name, adds[:2]) == ("step9", ["second", "MMA"])
    assert float(time) == pytest.approx(178, rel=0.005)
    assert 0 < float(spread) < 0.5
    assert float(rate) == pytest.approx(772, rel=0.005)
    assert float(fast) == pytest.approx(179 / 178, rel=0.005)
    assert (peak, other) == ("78", "94.00")
    assert "fast mode, 6" in text
    assert "sm_90a, 132 SMs, cold L2, 12 workers" in text


def test_another_problem_and_a_slower_step_are_said(shown):
    words = " ".join(shown(*steps()).split())
    assert "step1 was timed at 128x128x64, the nearest that it runs" in words
    assert "step6 takes longer than step5 before it: 5" in words
    assert "step5 takes longer" not in words
    assert "another GPU, at the same problem" in words


def test_nothing_is_published_of_another_problem():
    other = [row(f"step{n}", square(2048), timing(30.0 + n)) for n in (8, 9)]
    (ladder,) = ladders(record(*other))
    assert not any(B200_LADDER.gpu in note for note in ladder_notes(ladder))


def test_squares_stand_by_size_and_padding_is_said(shown):
    text = shown(*steps(), *shapes())
    squares = text[text.index("squares, hgemm/hopper/step9") :]
    sizes = [line.split()[0] for line in squares.splitlines() if line[1:2].isdigit()]
    assert sizes == ["1024x1024x1024", "4096x4096x4096", "16384x16384x16384", "16x6144x4096"]
    assert squares.count("M padded to 256") == 1


def test_all_of_it_fits_80_columns(shown):
    models = [Shape(*mnk, 132) for mnk in MODEL_SHAPES]
    rows = [row("step9", s, timing(99_999.0, 88_888.0, launched=s)) for s in models if s != CUBE]
    text = shown(*steps(), *shapes()[:2], *rows, adds={"hgemm/hopper/step3": "word " * 30})
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_a_row_without_numbers_gives_its_reason_and_is_told_below(shown):
    rows = steps()
    rows[2] = row("step5", reason=Reason.NO_ARTIFACT, message="artifacts holds no artifact of it")
    rows[3] = row("step6", timed=timing(520.0), reason=Reason.UNSETTLED, message="drifted")
    text = shown(*rows)
    assert line_of(text, " step5")[1:4] == ["no-artifact", "-", "-"]
    assert line_of(text, " step6")[2] == "?"
    assert "INVALID(no-artifact)" in text
    assert "INCONCLUSIVE(unsettled)" in text
    assert "PASS" not in text.splitlines()[-1]


def test_too_few_workers_give_no_interval(shown):
    text = shown(row("step9", timed=timing(178.0, 179.0, slow=range(2, 12))))
    assert "2 workers" in text
    assert "inf" not in text


def test_where_nothing_was_timed_the_summary_says_why(shown):
    rows = [row(f"step{n}", reason=Reason.BACKEND_UNAVAILABLE, message="no GPU") for n in (8, 9)]
    text = shown(*rows)
    assert "ladder of" not in text
    assert "1 INVALID" in text


def test_a_kernel_alone_is_a_list_of_shapes():
    made = record(row("step9", timed=timing(178.0)))
    assert ladders(made) == []
    assert [shapes.kernel for shapes in shape_lists(made)] == ["hgemm/hopper/step9"]
    assert shape_lists(record(*steps())) == []


def test_second_arms_are_noise_and_no_step(shown):
    rows = [row("step9", timed=timing(178.0)), row(f"step9{AGAIN}", timed=timing(178.1))]
    text = shown(*rows)
    assert "ladder of" not in text
    assert "the same artifact in two arms" in text
    assert "%" in " ".join(line_of(text[text.index("noise") :], " 4096x4096x4096"))


def test_how_the_gpu_was_is_one_line():
    (line,) = conditions(record(*steps()))
    assert line == (
        "NVIDIA H200, driver 580.1: 1,755 MHz, 690 W, 61 C; clocks held down by sw_power_cap"
    )
    assert conditions(record(row("step9"))) == []


def test_a_record_that_no_worker_wrote_is_shown_all_the_same(shown):
    broken = timing(178.0, noise=0.0)
    text = shown(row("step9", timed=timing(0.0, noise=0.0)), row("step8", timed=broken))
    assert line_of(text, " step9")[1:4] == ["ok", "-", "-"]


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(5_871, "5.871"), (16_499, "16.50"), (179_310, "179.3"), (53_600_000, "53,600")],
)
def test_times_have_four_digits(nanoseconds, text):
    assert us(nanoseconds) == text
