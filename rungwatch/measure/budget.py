"""How much time a measurement may take: every constant of it, and what follows from them."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from rungwatch.declare.problem import Shape
from rungwatch.measure.order import CUBLAS, Group, MeasureSettings, Order

# Larger than any L2 (H200: 50 MB, B200: 126 MB): what was in it is gone after writing this much.
FLUSH_BYTES = 256 * 2**20
# The buffers are moved after this many rounds: where they lie changes a time by up to 1 %.
PLACEMENT_ROUNDS = 5
# Of one group, one worker takes samples for about this long, but at least that many rounds.
SAMPLING_S = 3.0
LEAST_ROUNDS = 4
# The warm-up ends when the last windows agree, or, once there are as many, after this time.
SETTLED_WINDOWS = 3
SETTLED_SHARE = 0.01
MOST_WARM_UP_S = 5.0

# Deadlines are for hangs. The slowest kernel, a single CTA that works through the whole matrix,
# takes about 1e-12 s a multiply-add.
START_S = 90.0
_STEP_S = 20.0
_MULTIPLY_ADD_S = 1e-11
_TIMES_AS_LONG = 10.0
# A group whose workers ended that often, through no kernel's fault, is given up.
MOST_LOST = 2
SERVER_START_S = 180.0
SERVER_MEMORY_BYTES = 64 * 2**30


@dataclass(frozen=True)
class Rounds:
    """How a worker times a group: `placements` times `each` rounds, the buffers moved between."""

    placements: int
    each: int


def rounds_for(round_s: float, settings: MeasureSettings) -> Rounds:
    """Return the rounds of a group whose every round takes `round_s`.

    Each placement's rounds are run twice, the first time without taking samples.
    """
    wanted = math.floor(SAMPLING_S / (2 * round_s)) if round_s > 0 else settings.rounds
    count = min(settings.rounds, max(LEAST_ROUNDS, wanted))
    each = max(1, min(PLACEMENT_ROUNDS, count // 2))
    return Rounds(count // each, each)


def level(samples_ns: Mapping[int, Sequence[float]]) -> float:
    """Return the mean over slots of ln(median), NaN where a median is no time."""
    medians = [median(samples) for slot, samples in samples_ns.items() if slot >= CUBLAS]
    return fmean(map(math.log, medians)) if min(medians) > 0 else math.nan


def has_settled(levels: Sequence[float]) -> bool:
    """Say whether the last windows' levels agree."""
    last = levels[-SETTLED_WINDOWS:]
    # All pairs are compared, as a NaN is within reach of nothing.
    return len(last) == SETTLED_WINDOWS and all(
        abs(one - other) <= SETTLED_SHARE for one, other in itertools.product(last, last)
    )


def launch_deadline_s(shape: Shape, launches: int = 1) -> float:
    """Return when that many launches on `shape` must have ended."""
    return _STEP_S + launches * shape.m * shape.n * shape.k * _MULTIPLY_ADD_S


def timing_deadline_s(round_s: float, rounds: Rounds) -> float:
    """Return when a group must have been timed whose every round takes `round_s`."""
    warm_up_s = max(MOST_WARM_UP_S, SETTLED_WINDOWS * rounds.each * round_s)
    sampling_s = 2 * rounds.placements * rounds.each * round_s
    return _STEP_S + _TIMES_AS_LONG * (warm_up_s + sampling_s)


def outer_deadline_s(order: Order) -> float:
    """Return when the fork server must have ended: all that its workers may take together."""
    worker_s = START_S + sum(map(_group_s, order.groups))
    return SERVER_START_S + order.settings.workers * worker_s


def _group_s(group: Group) -> float:
    shapes = [group.shape, *(case.launched for case in group.cases)]
    checks_s = sum(map(launch_deadline_s, shapes))
    round_s = sum(launch_deadline_s(shape) - _STEP_S for shape in shapes)
    timing_s = timing_deadline_s(round_s, Rounds(2, LEAST_ROUNDS // 2))
    return checks_s + launch_deadline_s(group.shape) + timing_s + _TIMES_AS_LONG * SAMPLING_S
