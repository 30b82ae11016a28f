import re

import pytest
from msgspec import structs

from rungwatch.cost.static_cost import METRICS
from rungwatch.decide.static import Change
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Problem, Shape
from rungwatch.explain.costs import cost_changes, describe_change

from .factory import COST, FAMILY, compared, record, row, side, static_row


def built(step="step7", size=4096, head=None, **fields):
    problem = Problem(Shape(size, size, size, 148), "normal")
    return row(step, "build", problem=problem, head=head or side(), **fields)


def lines_of(*rows, **options):
    return [
        line.text for changed in cost_changes(compared(*rows, **options)) for line in changed.lines
    ]


def only(cost):
    return structs.replace(side(), cost=cost)


class TestBuilt:
    def test_every_figure_of_a_case_is_in_its_line(self, rendered):
        text = rendered(record(built()))
        assert f"static cost of {FAMILY}, sm_100a, 148 SMs:\n" in text
        (line,) = [line for line in text.splitlines() if "4096x4096x4096 " in line]
        assert line.strip("│").split() == [
            "step7", "4096x4096x4096", "128", "12", "99,328", "2", "7", "86", "%", "700", "16",
        ]  # fmt: skip

    def test_a_kernel_is_named_once_and_its_limits_told_below(self, rendered):
        heads = [side(), side("tensor core; latency 0.9 of it"), side()]
        rows = [built(size=1024 * 2**i, head=head) for i, head in enumerate(heads)]
        text = rendered(record(*rows))
        assert text.count("│step7 ") == 1  # in the summary a space stands before it
        told = " ".join(text.split())
        assert (
            "- step7 is limited by latency at 1024x1024x1024 4096x4096x4096;"
            " tensor core at 2048x2048x2048"
        ) in told

    def test_one_limit_at_all_shapes_names_none(self, rendered):
        text = rendered(record(built(size=1024), built(size=2048)))
        assert "  - step7 is limited by latency at all 2 shapes\n" in text

    def test_an_unknown_figure_is_no_zero(self, rendered):
        known = {name: value for name, value in COST.items() if name != "local_load_bytes"}
        text = rendered(record(built(head=side()), built("step8", head=only(known))))
        assert re.search(r"step8 +4096x4096x4096 +128 +\? +99,328 ", text)

    @pytest.mark.parametrize("width", [20, 80])
    def test_nothing_is_cut(self, rendered, width):
        huge = {name: 10.0**8 for name in COST}
        text = rendered(record(built("step1_matrix", 8192, only(huge))), width=width)
        assert text.count("100,000,000") == 6
        assert "step1_matrix" in text.replace("\n", "")
        assert "…" not in text

    def test_it_fits_80_columns(self, rendered):
        head = side(registers=255, smem_bytes=233472, waves=28, instructions=12345)
        text = rendered(record(built("step1_matrix", 8192, head)))
        assert max(map(len, text.splitlines())) <= 80

    def test_an_encoding_without_frames_does_not_end_the_run(self, rendered):
        text = rendered(record(built("k\u00e9")), encoding="ascii")
        assert re.search(r"\|k\\xe9 *\|4096x4096x4096 *\|", text)

    def test_other_targets_have_a_table_of_their_own(self, rendered):
        hopper = Problem(Shape(1024, 1024, 1024, 132), "normal")
        text = rendered(record(built(), row(check="build", problem=hopper, head=side())))
        assert text.count("static cost of ") == 2
        assert "132 SMs:" in text

    def test_no_cost_no_table(self, rendered):
        assert "static cost" not in rendered(record(row(), row(check="build")))


class TestChanges:
    def test_the_gated_come_first_and_worse_is_a_word(self):
        head = side(registers=136, instructions=690, smem_bytes=165888, last_wave_fill=0.5)
        assert lines_of(static_row(1024, head), static={"smem_bytes": 0.0}) == [
            "smem_bytes 99,328 -> 165,888 B (+66,560): worse, 0 allowed, at 1024x1024x1024",
            "registers 128 -> 136 (+8): worse, at 1024x1024x1024",
            "instructions 700 -> 690 (-10): better, at 1024x1024x1024",
            "last_wave_fill 0.865 -> 0.5 (-0.365), at 1024x1024x1024",
        ]

    def test_equal_changes_are_told_once(self):
        rows = [static_row(1024 * 2**i, side(registers=136, waves=7 + i)) for i in range(4)]
        assert lines_of(*rows, static={}) == [
            "registers 128 -> 136 (+8): worse, at all 4 shapes",
            "waves 7 -> 8 (+1): worse, at 2048x2048x2048",
            "waves 7 -> 9 (+2): worse, at 4096x4096x4096",
            "waves 7 -> 10 (+3): worse, at 8192x8192x8192",
        ]

    def test_fewer_resident_ctas_are_worse(self):
        (line,) = lines_of(static_row(1024, side(resident_ctas=1)))
        assert line == "resident_ctas 2 -> 1 (-1): worse, 0 allowed, at 1024x1024x1024"

    def test_kernels_are_kept_apart(self):
        rows = [static_row(1024, side(registers=136), step) for step in ("step7", "step8")]
        titles = [changed.title for changed in cost_changes(compared(*rows))]
        assert titles == [f"{FAMILY}/{step}, sm_100a, 148 SMs" for step in ("step7", "step8")]

    def test_other_code_at_the_same_cost_is_said(self):
        same = static_row(1024, structs.replace(side(), artifact="other"), reason=Reason.OK)
        assert lines_of(same) == [
            "other machine code or launch at the same static cost, at 1024x1024x1024"
        ]

    def test_equal_sides_are_no_change(self):
        assert cost_changes(compared(static_row(1024, side()))) == []

    def test_a_metric_of_one_side_only_is_named(self):
        head = only({name: value for name, value in COST.items() if name != "waves"})
        assert lines_of(static_row(1024, head)) == [
            "waves is not known of both sides, at 1024x1024x1024"
        ]

    def test_another_limit_is_said_and_another_runner_up_is_not(self):
        other = side("tensor core; latency 0.9 of it", registers=136)
        assert lines_of(static_row(1024, other))[1:] == [
            "limited by latency -> tensor core, at 1024x1024x1024"
        ]
        assert len(lines_of(static_row(1024, side("latency; memory 0.1 of it", waves=8)))) == 1

    def test_they_stand_before_the_rejected_rows(self, rendered):
        text = rendered(compared(static_row(1024, side(smem_bytes=165888))))
        costs = text.index(f"static cost of {FAMILY}/step7, sm_100a, 148 SMs, base -> head:\n")
        assert costs < text.index("REGRESSION(static-worse)  step7")
        assert "  - smem_bytes 99,328 -> 165,888 B (+66,560): worse, 0 allowed, at" in text

    def test_only_what_the_settings_do_not_allow_is_red(self, rendered, monkeypatch):
        monkeypatch.delenv("NO_COLOR")
        head = side(registers=136, waves=8, instructions=600)
        text = rendered(
            compared(static_row(1024, head), static={"registers": 8.0, "waves": 0.0}),
            force_terminal=True,
            color_system="standard",
        )
        assert "\x1b[1;31m  - waves 7 -> 8" in text
        assert "\n  - registers 128 -> 136 (+8): worse, 8 allowed" in text
        assert "\n  - instructions 700 -> 600 (-100): better" in text

    def test_hostile_names_do_not_begin_a_line(self, rendered):
        hostile = "::error::x"
        rows = [
            row(kernel=hostile, check="build", head=side(hostile)),
            static_row(1024, side(hostile, waves=8), kernel=hostile),
        ]
        text = rendered(compared(*rows))
        assert "::error::x" in text
        assert not re.search(r"^\s*::", text, re.MULTILINE)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_its_words(metric):
    text = describe_change(Change(metric, 1.0, 2.0, 1.0), 0.5)
    assert re.fullmatch(rf"{metric} 1 -> 2( \S+)? \(\+1\): worse, 0\.5 allowed", text)
