"""The required matrix against kernels declared as the ladder's are."""

import pytest

from rungwatch.declare.protocol import read_declaration
from rungwatch.trusted import matrix
from rungwatch.trusted.inputs import DISTRIBUTIONS
from rungwatch.trusted.matrix import Depth, TimedSet

# Name -> tile, ring depth, CTA group, L2 group, persistent.
LADDER = {
    "step3": ((128, 128, 64), 1, 1, 1, False),
    "step5": ((128, 128, 64), 2, 1, 1, False),
    "step6": ((128, 128, 64), 2, 1, 8, True),
    "step8": ((256, 256, 64), 4, 2, 8, True),
    "step9": ((512, 256, 64), 4, 2, 8, True),
}


def _declare(name, tile, ring_depth, cta_group, l2_group, persistent, **rules):
    multiples = zip(("M", "N", "K", "sm_count"), (*tile, cta_group), strict=True)
    return read_declaration(
        1,
        {
            "name": name,
            "step": 1,
            "adds": "",
            "operation": "gemm_nt",
            "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
            "targets": ["sm_100a"],
            "tile": list(tile),
            "ring_depth": ring_depth,
            "cta_group": cta_group,
            "l2_group": l2_group,
            "persistent": persistent,
            "rules": {dim: {"multiple_of": m, "min": m} for dim, m in multiples} | rules,
        },
    )


ONE_TILE = _declare("step1", *LADDER["step3"], M={"equal": 128}, N={"equal": 128}, K={"equal": 64})
ONE_COLUMN = _declare("step2", *LADDER["step3"], M={"equal": 128}, N={"equal": 128})
FULL_LADDER = [_declare(name, *facts) for name, facts in LADDER.items()]
ALL = [ONE_TILE, ONE_COLUMN, *FULL_LADDER]

each = pytest.mark.parametrize("declaration", ALL, ids=lambda declaration: declaration.name)
each_depth = pytest.mark.parametrize("depth", Depth)


def _possible(declaration):
    names = set(matrix.SITUATIONS)
    if not declaration.persistent:
        names -= {"several-tiles-a-unit", "uneven-tiles-a-unit", "more-units-than-tiles"}
    if declaration.l2_group == 1:
        names -= {"partial-l2-group"}
    if declaration.ring_depth == 1:
        names -= {"k-below-ring"}
    return names


@pytest.mark.parametrize("declaration", FULL_LADDER, ids=lambda declaration: declaration.name)
def test_every_possible_situation_occurs(declaration):
    occurring = {name for names in matrix.situations(declaration).values() for name in names}
    assert occurring == _possible(declaration)


@each
@each_depth
def test_problems_obey_the_rules_and_appear_once(declaration, depth):
    problems = matrix.numerics_problems(declaration, depth)
    assert problems == sorted(set(problems))
    assert len({str(problem) for problem in problems}) == len(problems)
    shapes = {problem.shape for problem in problems} | set(
        matrix.checker_shapes(declaration, depth)
    )
    assert shapes
    for shape in shapes:
        assert declaration.rules.refusal(shape) is None


@each
def test_m_and_n_differ_unless_there_is_one_tile(declaration):
    tile_m, tile_n, _ = declaration.tile
    for shape in matrix.situations(declaration):
        rows, columns = shape.m // tile_m, shape.n // tile_n
        if rows * columns > 1:
            assert rows != columns
            assert shape.m != shape.n


@each
def test_full_runs_every_distribution_on_every_shape(declaration):
    problems = matrix.numerics_problems(declaration, Depth.FULL)
    shapes = matrix.situations(declaration)
    assert {(p.shape, p.distribution) for p in problems} == {
        (shape, name) for shape in shapes for name in DISTRIBUTIONS
    }


@each
def test_quick_is_a_small_part_of_full(declaration):
    quick = matrix.numerics_problems(declaration, Depth.QUICK)
    assert set(quick) <= set(matrix.numerics_problems(declaration, Depth.FULL))
    assert len({problem.shape for problem in quick}) <= 3
    assert {problem.distribution for problem in quick} == set(DISTRIBUTIONS)
    assert set(matrix.checker_shapes(declaration, Depth.QUICK)) <= set(
        matrix.checker_shapes(declaration, Depth.FULL)
    )


@pytest.mark.parametrize("declaration", FULL_LADDER, ids=lambda declaration: declaration.name)
def test_checkers_get_several_tiles_and_k_over_the_ring(declaration):
    [shape] = matrix.checker_shapes(declaration, Depth.QUICK)
    names = matrix.situations(declaration)[shape]
    assert "k-over-ring" in names
    assert ("several-tiles-a-unit" in names) == declaration.persistent
    assert len(matrix.checker_shapes(declaration, Depth.FULL)) >= 2


@each
def test_device_is_full_and_the_large_problems_that_fit(declaration):
    full = matrix.numerics_problems(declaration, Depth.FULL)
    assert matrix.numerics_problems(declaration, Depth.DEVICE) == full
    large = matrix.large_problems(declaration, 132)
    assert {problem.shape for problem in large}.isdisjoint(problem.shape for problem in full)
    for problem in large:
        assert declaration.rules.refusal(problem.shape) is None
        assert problem.shape.sm_count == declaration.rules.sm_count.nearest(132)


def test_a_kernel_of_many_tiles_has_every_large_problem():
    shapes = {p.shape for p in matrix.large_problems(FULL_LADDER[-1], 132)}
    assert {(s.m, s.n, s.k) for s in shapes} == set(matrix._LARGE)
    assert matrix.large_problems(ONE_TILE, 132) == []


@each
@each_depth
def test_what_a_check_needs_is_what_is_built_for_it(declaration, depth):
    needed = {problem.shape for problem in matrix.numerics_problems(declaration, depth)}
    needed |= set(matrix.checker_shapes(declaration, depth))
    if depth is Depth.DEVICE:
        needed |= {problem.shape for problem in matrix.large_problems(declaration, 132)}
    built = matrix.required_shapes(declaration, depth, 132)
    assert built == sorted(needed)


def test_narrow_rules_leave_what_fits():
    [only] = matrix.situations(ONE_TILE)
    assert (only.m, only.n, only.k) == (128, 128, 64)
    assert matrix.checker_shapes(ONE_TILE, Depth.FULL) == [only]
    assert {shape.k for shape in matrix.situations(ONE_COLUMN)} == {64, 192, 4096}


@each
def test_kernels_that_are_not_persistent_have_one_sm_count(declaration):
    counts = {shape.sm_count for shape in matrix.situations(declaration)}
    assert (len(counts) > 1) == declaration.persistent


@each
def test_work_is_bounded(declaration):
    for shape in matrix.situations(declaration):
        assert 2 * shape.m * shape.n * shape.k <= 1.1e9


@each
def test_refused_shapes_break_one_rule_each(declaration):
    refused = matrix.refused_shapes(declaration)
    assert refused == sorted(set(refused))
    for shape in refused:
        refusal = declaration.rules.refusal(shape)
        assert refusal is not None
        assert ";" not in refusal
    for dimension in ("M", "N", "K"):
        assert any(declaration.rules.refusal(shape).startswith(dimension) for shape in refused)


def test_refused_shapes_reach_past_a_maximum():
    capped = _declare("capped", *LADDER["step3"], K={"multiple_of": 64, "min": 64, "max": 1000})
    ks = {shape.k for shape in matrix.refused_shapes(capped)}
    assert {32, 63, 65, 96, 959, 961, 1024} <= ks
    assert all(shape.k <= 960 for shape in matrix.situations(capped))


@each
def test_the_ladder_is_one_problem_and_one_that_the_kernel_runs(declaration):
    (shape,) = matrix.timed_shapes(declaration, TimedSet.LADDER, 132)
    assert declaration.rules.padded(shape) == shape
    if declaration in FULL_LADDER:
        assert (shape.m, shape.n, shape.k) == (4096, 4096, 4096)


def test_a_single_tile_is_timed_as_near_to_the_ladder_as_it_goes():
    (tile,) = matrix.timed_shapes(ONE_TILE, TimedSet.LADDER, 132)
    (column,) = matrix.timed_shapes(ONE_COLUMN, TimedSet.LADDER, 132)
    assert (tile.m, tile.n, tile.k) == (128, 128, 64)
    assert (column.m, column.n, column.k) == (128, 128, 4096)


def test_the_squares_and_layers_are_those_that_are_asked_for():
    squares = matrix.timed_shapes(FULL_LADDER[-1], TimedSet.SQUARES, 132)
    assert [shape.m for shape in squares] == [1024, 2048, 4096, 8192, 16384]
    assert all(shape.m == shape.n == shape.k for shape in squares)
    layers = matrix.timed_shapes(FULL_LADDER[-1], TimedSet.MODELS, 132)
    assert len(layers) == len(set(layers)) == 7 * 5
    assert {(shape.n, shape.k) for shape in layers} == {
        (4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (8192, 28672),
    }  # fmt: skip
    assert {shape.m for shape in layers} == {1, 16, 64, 256, 1024, 4096, 8192}


@pytest.mark.parametrize("timed", TimedSet)
def test_the_last_step_runs_all_that_is_timed(timed):
    for shape in matrix.timed_shapes(FULL_LADDER[-1], timed, 132):
        launched = FULL_LADDER[-1].rules.padded(shape)
        assert launched is not None
        assert launched.m - shape.m < 512
