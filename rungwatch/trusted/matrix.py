"""The required matrix: which problems every kernel must pass, declared in one place.

Shapes are in units of a kernel's own tile, so that each rung is tried where its mechanisms end
or wrap. `SITUATIONS` says what must occur; `_schedules` lists few and small shapes in which it
does. Shapes are moved to the nearest that the kernel's rules allow, and each appears once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from rungwatch.declare.problem import Problem, Shape
from rungwatch.declare.protocol import Declaration, Rule
from rungwatch.trusted.inputs import DISTRIBUTIONS


class Depth(StrEnum):
    """How much is tried: `quick` while working on a kernel, `full` before a merge.

    `device` is for a GPU: `full`, and problems that would take a simulator hours.
    """

    QUICK = "quick"
    FULL = "full"
    DEVICE = "device"


@dataclass(frozen=True)
class _Schedule:
    """A problem in tiles of D, tiles of k, and units (CTAs or clusters) that share the work."""

    rows: int
    columns: int
    k_tiles: int
    units: int

    @property
    def tiles(self) -> int:
        return self.rows * self.columns


SITUATIONS: dict[str, Callable[[_Schedule, Declaration], bool]] = {
    "one-tile": lambda s, d: s.tiles == 1,
    "k-one": lambda s, d: s.k_tiles == 1,
    "k-below-ring": lambda s, d: s.k_tiles < d.ring_depth,
    "k-equals-ring": lambda s, d: s.k_tiles == d.ring_depth,
    "k-over-ring": lambda s, d: s.k_tiles > 2 * d.ring_depth,
    "k-large": lambda s, d: s.k_tiles >= 64,
    "tall": lambda s, d: s.rows >= 4 * s.columns,
    "wide": lambda s, d: s.columns >= 4 * s.rows,
    "two-dimensional": lambda s, d: min(s.rows, s.columns) > 1,
    "several-tiles-a-unit": lambda s, d: d.persistent and s.tiles > s.units,
    "uneven-tiles-a-unit": lambda s, d: d.persistent and s.tiles % s.units > 0 < s.tiles // s.units,
    "more-units-than-tiles": lambda s, d: d.persistent and s.units > s.tiles,
    "partial-l2-group": lambda s, d: (
        d.l2_group > 1 and s.columns > 1 and s.rows > d.l2_group and s.rows % d.l2_group > 0
    ),
}

# Which schedules of `_schedules` each depth uses.
_CHECKER_SCHEDULES = {
    Depth.QUICK: ("over-ring",),
    Depth.FULL: ("over-ring", "wide", "one-tile", "uneven", "idle-units"),
    # compute-sanitizer takes seconds a run to start.
    Depth.DEVICE: ("over-ring",),
}
_QUICK_SMALL: tuple[str, ...] = ("uneven",)
_QUICK_LARGER: tuple[str, ...] = ("over-ring",)
# What `quick` runs on its larger shape: a general case, and each result traced to one element.
_QUICK_DISTRIBUTIONS = ("normal", "onehot", "onehot-b", "integer")

# M, N, K of the large problems, and what they are run on. The reference is computed on the CPU, in
# float64: at 8192^3 one distribution takes about as long as the GPU needs for the whole list.
_LARGE: dict[tuple[int, int, int], tuple[str, ...]] = {
    (1024, 1024, 1024): _QUICK_DISTRIBUTIONS,
    (2048, 2048, 2048): _QUICK_DISTRIBUTIONS,
    (4096, 2048, 1024): _QUICK_DISTRIBUTIONS,
    (8192, 8192, 8192): ("integer",),
}

# Squares whose machine code and cost are compared between commits.
COMPARED_SIZES = (1024, 2048, 4096, 8192)


class TimedSet(StrEnum):
    """What is timed: every step on one problem, or the top step on many."""

    LADDER = "ladder"
    SQUARES = "squares"
    MODELS = "models"


# M, N and K of every step, as in the published ladder.
LADDER_SIZE = 4096
SQUARE_SIZES = (1024, 2048, 4096, 8192, 16384)
# Layers of language models: tokens by output features by input features.
MODEL_TOKENS = (1, 16, 64, 256, 1024, 4096, 8192)
MODEL_LAYERS = ((4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (8192, 28672))
MODEL_SHAPES = tuple((m, n, k) for n, k in MODEL_LAYERS for m in MODEL_TOKENS)

# Kernels that are not persistent do not look at the SM count: one value names their problems.
_UNUSED_SM_COUNT = 1


def _schedules(declaration: Declaration) -> dict[str, _Schedule]:
    """Return every schedule of `full`. No grid is square: there, swapped coordinates would hide.

    The sizes are kept small: a k tile of the largest rung is 17 MFLOP, and the simulator does
    100 to 300 MFLOP a second (measured, two cores).
    """
    ring, group = declaration.ring_depth, declaration.l2_group
    chosen = {
        "one-tile": _Schedule(1, 1, 1, 1),
        "idle-units": _Schedule(2, 1, max(1, ring - 1), 3),
        "wide": _Schedule(1, 5, ring, 2),
        # One unit has two tiles, and each tile ends in the middle of the ring.
        "over-ring": _Schedule(3, 1, 2 * ring + 1, 2),
        "uneven": _Schedule(3, 2, 1, 4),
        "tall": _Schedule(5, 1, 1, 5),
        "long-k": _Schedule(1, 1, 64, 1),
    }
    if group > 1:
        chosen["partial-group"] = _Schedule(group + 1, 2, 1, 5)
    return chosen


def numerics_problems(declaration: Declaration, depth: Depth) -> list[Problem]:
    """Return the problems whose result is compared, sorted, each once; `large_problems` not."""
    if depth in (Depth.FULL, Depth.DEVICE):
        plan = {tuple(_schedules(declaration)): tuple(DISTRIBUTIONS)}
    else:
        plan = {_QUICK_SMALL: tuple(DISTRIBUTIONS), _QUICK_LARGER: _QUICK_DISTRIBUTIONS}
    return sorted(
        {
            Problem(shape, distribution)
            for schedules, distributions in plan.items()
            for shape in _shapes(declaration, schedules)
            for distribution in distributions
        }
    )


def large_problems(declaration: Declaration, sm_count: int) -> list[Problem]:
    """Return what `device` adds on a GPU of `sm_count` SMs: a full GPU, several waves, long k.

    A kernel whose rules allow none of these sizes has none: it is then no nearer to them than
    the shapes of `full`.
    """
    rules = declaration.rules
    found = {}
    for (m, n, k), distributions in _LARGE.items():
        shape = Shape(m, n, k, rules.sm_count.nearest(sm_count))
        if rules.refusal(shape) is None:
            found[shape] = distributions
    return sorted(Problem(shape, name) for shape, names in found.items() for name in names)


def required_shapes(declaration: Declaration, depth: Depth, sm_count: int) -> list[Shape]:
    """Return every shape that a check at `depth` runs, sorted: what must be built for it."""
    shapes = {problem.shape for problem in numerics_problems(declaration, depth)}
    shapes.update(checker_shapes(declaration, depth))
    if depth is Depth.DEVICE:
        shapes.update(problem.shape for problem in large_problems(declaration, sm_count))
    return sorted(shapes)


def checker_shapes(declaration: Declaration, depth: Depth) -> list[Shape]:
    """Return the shapes for the checkers; rules may leave fewer than are planned."""
    return _shapes(declaration, _CHECKER_SCHEDULES[depth])


def compared_shapes(declaration: Declaration, sm_count: int) -> list[Shape]:
    """Return the nearest valid shape to each square of `COMPARED_SIZES`, sorted, each once."""
    rules = declaration.rules
    return sorted({rules.nearest(Shape(size, size, size, sm_count)) for size in COMPARED_SIZES})


def timed_shapes(declaration: Declaration, timed: TimedSet, sm_count: int) -> list[Shape]:
    """Return the problems of a set on a GPU of `sm_count` SMs; `Rules.padded` is what is launched.

    A kernel that can't run the ladder's problem (a single tile) is timed on its nearest one. Of
    the other sets a kernel may be unable to run some.
    """
    if timed is TimedSet.LADDER:
        asked = Shape(LADDER_SIZE, LADDER_SIZE, LADDER_SIZE, sm_count)
        rules = declaration.rules
        return [asked if rules.padded(asked) is not None else rules.nearest(asked)]
    if timed is TimedSet.SQUARES:
        return [Shape(size, size, size, sm_count) for size in SQUARE_SIZES]
    return [Shape(m, n, k, sm_count) for m, n, k in MODEL_SHAPES]


def situations(declaration: Declaration) -> dict[Shape, tuple[str, ...]]:
    """Return each shape of `full` with the names of the situations that occur in it."""
    return {
        shape: tuple(
            name
            for name, occurs in SITUATIONS.items()
            if occurs(_schedule_of(declaration, shape), declaration)
        )
        for shape in _shapes(declaration, _schedules(declaration))
    }


def refused_shapes(declaration: Declaration) -> list[Shape]:
    """Return shapes that are valid but for one dimension, which is just off its rule, sorted.

    A kernel that builds for one of these breaks its own rules.
    """
    [valid] = _shapes(declaration, ["one-tile"])
    rules = declaration.rules
    fields = zip(
        Shape.__struct_fields__,
        (rules.M, rules.N, rules.K, rules.sm_count),
        (*declaration.tile, declaration.cta_group),
        strict=True,
    )
    return sorted(
        replace(valid, **{field: value})
        for field, rule, step in fields
        for value in _just_off(rule, getattr(valid, field), step)
    )


def _just_off(rule: Rule, valid: int, step: int) -> set[int]:
    """Return positive values that break `rule`: one, half a step and a step from valid ones."""
    edges = {valid, valid if rule.max is None else rule.nearest(rule.max)}
    distances = {sign * by for sign in (-1, 1) for by in (1, step // 2, step)}
    nearby = {edge + distance for edge in edges for distance in distances}
    return {value for value in nearby if value > 0 and rule.broken_by(value)}


def _shapes(declaration: Declaration, names: Iterable[str]) -> list[Shape]:
    """Return the shapes of the named schedules that the rules allow, sorted, each once."""
    schedules = _schedules(declaration)
    shapes = {_shape_of(declaration, schedules[name]) for name in names if name in schedules}
    return sorted(shape for shape in shapes if declaration.rules.refusal(shape) is None)


def _shape_of(declaration: Declaration, schedule: _Schedule) -> Shape:
    tile_m, tile_n, tile_k = declaration.tile
    units = schedule.units * declaration.cta_group
    return declaration.rules.nearest(
        Shape(
            schedule.rows * tile_m,
            schedule.columns * tile_n,
            schedule.k_tiles * tile_k,
            units if declaration.persistent else _UNUSED_SM_COUNT,
        )
    )


def _schedule_of(declaration: Declaration, shape: Shape) -> _Schedule:
    tile_m, tile_n, tile_k = declaration.tile
    return _Schedule(
        -(-shape.m // tile_m),
        -(-shape.n // tile_n),
        -(-shape.k // tile_k),
        max(1, shape.sm_count // declaration.cta_group),
    )
