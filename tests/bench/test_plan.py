"""Which kernel is timed on what, and what is known before anything is timed."""

import pytest

from rungwatch.bench.plan import Asked, plan_bench, top_steps
from rungwatch.bench.rows import Rerun
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Rule, Rules
from rungwatch.declare.subject import Subject
from rungwatch.trusted.matrix import MODEL_SHAPES, SQUARE_SIZES, TimedSet

from ..fakes import make_subject

RERUN = Rerun("artifacts", "cold")
TILE = Rule(multiple_of=256, min=256)
HOPPER = {"targets": ("sm_90a",)}
ONE_TILE = Rules(Rule(equal=128), Rule(equal=128), Rule(equal=64), Rule())
COARSE = Rules(TILE, TILE, Rule(multiple_of=64, min=64), Rule(multiple_of=2, min=2))
LADDER = [
    make_subject("step1", 1, rules=ONE_TILE, **HOPPER),
    make_subject("step3", 3, **HOPPER),
    make_subject("step9", 9, rules=COARSE, **HOPPER),
]


def plan(asked, subjects=LADDER, sms=132, gpu_required=False):
    return plan_bench(subjects, asked, {"sm_90a": sms}, RERUN, gpu_required=gpu_required)


def names(found):
    return [(case.subject.name, case.shape, case.launched) for case in found.cases]


def test_every_step_is_timed_on_the_ladders_problem_or_the_nearest():
    cube, tile = Shape(4096, 4096, 4096, 132), Shape(128, 128, 64, 132)
    found = plan(Asked((TimedSet.LADDER,)))
    assert names(found) == [("step1", tile, tile), ("step3", cube, cube), ("step9", cube, cube)]
    assert found.rows == ()


def test_only_the_top_step_is_timed_on_squares_and_models():
    found = plan(Asked((TimedSet.SQUARES, TimedSet.MODELS)))
    assert {case.subject.name for case in found.cases} == {"step9"}
    shapes = [(case.shape.m, case.shape.n, case.shape.k) for case in found.cases]
    assert shapes[:5] == [(size, size, size) for size in SQUARE_SIZES]
    # 4096 x 4096 x 4096 is of both sets, and timed once.
    assert len(shapes) == len(set(shapes)) == len(SQUARE_SIZES) + len(MODEL_SHAPES) - 1


def test_m_is_padded_to_what_is_launched_and_nothing_else_is():
    found = plan(Asked((TimedSet.MODELS,)))
    for case in found.cases:
        assert case.launched.m == max(256, case.shape.m)
        assert (case.launched.n, case.launched.k) == (case.shape.n, case.shape.k)


def test_a_single_shape_is_for_every_chosen_kernel():
    found = plan(Asked((), ((512, 512, 128),)))
    assert names(found) == [
        (name, Shape(512, 512, 128, 132), Shape(512, 512, 128, 132)) for name in ("step3", "step9")
    ]
    (refused,) = found.rows
    assert (refused.kernel, refused.reason) == ("family/step1", Reason.PROBLEM_REFUSED)
    assert "M must be 128, not 512" in refused.message


@pytest.mark.parametrize(("required", "reason"), [(False, "other-gpu"), (True, "gpu-required")])
def test_a_kernel_for_another_gpu_is_no_pass(required, reason):
    subjects = [make_subject("step9", 9), *LADDER]
    found = plan(Asked((TimedSet.LADDER,)), subjects, gpu_required=required)
    assert [(row.kernel, row.reason) for row in found.rows] == [("family/step9", Reason(reason))]
    assert found.rows[0].message == "for sm_100a; this GPU runs sm_90a"


def test_a_file_that_cannot_be_read_has_its_row():
    broken = Subject("family/broken", LADDER[0].source, "hash", error="broken.py:1: SyntaxError")
    (row,) = plan(Asked((TimedSet.LADDER,)), [broken]).rows
    assert row.reason is Reason.KERNEL_LOAD


def test_the_top_is_the_highest_step_of_each_family_for_the_target():
    blackwell = make_subject("step12", 12)
    twins = [make_subject("a", 9, **HOPPER), make_subject("b", 9, **HOPPER)]
    assert top_steps([blackwell, *LADDER], "sm_90a") == {"family/step9"}
    assert top_steps([blackwell, *LADDER], "sm_100a") == {"family/step12"}
    assert top_steps(twins, "sm_90a") == {"family/a", "family/b"}
    assert top_steps([], "sm_90a") == frozenset()


def test_the_sm_count_is_the_gpus_and_launched_is_what_the_rules_take():
    (case,) = plan(Asked((TimedSet.LADDER,)), LADDER[2:], sms=115).cases
    assert (case.shape.sm_count, case.launched.sm_count) == (115, 116)
