"""What timing the same artifact as two arms shows: the noise, and the slowdown it leaves visible.

Both arms run in the same workers, interleaved. A worker is one observation: the median over its
rounds of log(second / first). Pure.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from rungwatch.decide.timing import MIN_WORKERS
from rungwatch.decide.verdict import Verdict
from rungwatch.declare.problem import Shape
from rungwatch.record.model import Row, Timing

# What follows a kernel's name where the same artifact is timed a second time.
AGAIN = ":again"

# A slowdown counts as seen where such a run calls it one with this chance, ...
_POWER = 0.9
# ... while the same code is called slower with this one.
_FALSE_ALARM = 0.025


@dataclass(frozen=True)
class Noise:
    """The second arm against the first at one problem; shares of the time, 0.001 is 0.1 %.

    `offset` is the mean over workers, which is none but for chance; `spread` their standard
    deviation; `smallest_slowdown` what a comparison of two arms of `workers` workers would see.
    """

    kernel: str
    shape: Shape
    workers: int
    offset: float
    spread: float
    smallest_slowdown: float

    @property
    def biased(self) -> bool:
        """Whether the arms differ by more than chance: the second one's place has an effect."""
        error = self.spread / math.sqrt(self.workers)
        return abs(self.offset) > t_quantile(1 - _FALSE_ALARM, self.workers - 1) * error


def noise_of(rows: Iterable[Row]) -> list[Noise]:
    """Return the noise at each problem that was timed twice, in the order of `rows`.

    Where an arm is INVALID or has no samples, or too few workers have both, there is none.
    """
    timed = {
        (row.kernel, row.problem.shape): row.timing
        for row in rows
        if row.problem is not None and row.timing is not None and row.verdict is not Verdict.INVALID
    }
    found = []
    for (kernel, shape), first in timed.items():
        second = timed.get((kernel + AGAIN, shape))
        if second is None:
            continue
        ratios = _worker_ratios(first, second)
        if len(ratios) >= MIN_WORKERS:
            found.append(_noise(kernel, shape, ratios))
    return found


def t_quantile(share: float, freedom: int) -> float:
    """Return Student's t that a `share` of the values lie below, for `freedom` degrees of freedom.

    Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5, four terms;
    within 1 % from 5 degrees on, for shares of 0.025 to 0.975.
    """
    z = statistics.NormalDist().inv_cdf(share)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def _noise(kernel: str, shape: Shape, ratios: list[float]) -> Noise:
    count = len(ratios)
    spread = statistics.stdev(ratios)
    needed = t_quantile(1 - _FALSE_ALARM, count - 1) + t_quantile(_POWER, count - 1)
    return Noise(
        kernel, shape, count, statistics.fmean(ratios), spread, needed * spread / math.sqrt(count)
    )


def _worker_ratios(first: Timing, second: Timing) -> list[float]:
    before, after = (
        {samples.worker: samples.samples_ns for arm in timing.arms if arm.name == "kernel"
         for samples in arm.workers}
        for timing in (first, second)
    )  # fmt: skip
    return [
        statistics.median(
            math.log(later / earlier)
            for earlier, later in zip(before[worker], after[worker], strict=True)
        )
        for worker in sorted(before.keys() & after.keys())
        if len(before[worker]) == len(after[worker]) > 0
        and min(*before[worker], *after[worker]) > 0
    ]
