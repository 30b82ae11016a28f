"""What a timing says of a kernel, and whether it says anything: pure, from its samples alone.

The unit of inference is a worker: a process of its own, with placements of its own. Launches
inside one are not independent of each other, so each worker gives one number, the median over its
rounds of ln(cuBLAS time / kernel time), both of the same round. What drifts in both cancels.

The interval of the median over workers is that of its ranks (the sign test): it assumes no
distribution, and cuBLAS has two modes. Source: H. A. David, H. N. Nagaraja, Order Statistics,
3rd ed., section 7.1.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean, median, stdev

from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.record.model import Arm, Timing

CONFIDENCE = 0.95
# The fewest values whose smallest and largest enclose the median with that confidence.
MIN_WORKERS = 6
# cuBLAS may pick one of two speeds, a process each: seen 7 % apart. They are told from the spread
# of one by a gap of this much between the workers' ratios, and by as many workers on either side:
# the ratio, since clocks drift from worker to worker and act on both arms.
MODES_APART = 0.03
MODE_WORKERS = 2
# Below this many times the method's floor the launch is timed, not the kernel.
LEAST_FLOORS = 2.0
# Of this share of the workers the durations may still have drifted when the warm-up ended.
MOST_UNSETTLED_SHARE = 0.25
# No launch that ends by its deadline takes as long, and no matrix is as large.
_LONGEST_NS = 1e12
_LARGEST_SIZE = 10**7
# What holds clocks down for the sake of the hardware. The power cap is no fault: it is how these
# GPUs work under full load, and it acts on all arms of a round alike.
SLOWDOWNS = frozenset(
    {"hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown"}
)


@dataclass(frozen=True)
class Ratio:
    """Reference time / kernel time, more than 1 where the kernel is faster.

    `median` is over `workers` workers, and [`low`, `high`] its 95 % interval: [0, inf] where the
    workers are too few for one.
    """

    median: float
    low: float
    high: float
    workers: int


@dataclass(frozen=True)
class Summary:
    """One timed case in numbers. Times are medians over workers of each worker's median.

    `kernel_spread` is the standard deviation over workers of the kernel's time, as a share of its
    mean (NaN of one worker). `reference_fast_ns` and `ratio_fast` are over the `fast_workers`
    whose cuBLAS was in its fast mode. `tflops` and `peak_share` count the work of the problem
    that was asked for, without padding.
    """

    kernel_ns: float
    kernel_spread: float
    reference_ns: float
    reference_fast_ns: float
    fast_workers: int
    ratio: Ratio
    ratio_fast: Ratio
    tflops: float
    peak_share: float


def summarise(timing: Timing, shape: Shape) -> Summary:
    """Return what the samples of `timing` say of a kernel on the problem `shape`.

    Raises:
        ValueError: they say nothing (`judge_timing` gives no-samples or implausible).
    """
    problem = _missing(timing) or _impossible(timing, shape)
    if problem is not None:
        raise ValueError(problem)
    kernel, reference = (_samples(_arm(timing, name)) for name in ("kernel", "cublas"))
    kernel_ns = {worker: median(samples) for worker, samples in kernel.items()}
    reference_ns = {worker: median(samples) for worker, samples in reference.items()}
    logs = {worker: _log_ratio(reference[worker], kernel[worker]) for worker in kernel}
    fast = _fast_mode(logs, reference_ns)
    typical_ns = median(kernel_ns.values())
    flops = _flops(shape)
    return Summary(
        kernel_ns=typical_ns,
        kernel_spread=_spread(list(kernel_ns.values())),
        reference_ns=median(reference_ns.values()),
        reference_fast_ns=median(reference_ns[worker] for worker in fast),
        fast_workers=len(fast),
        ratio=_ratio(list(logs.values())),
        ratio_fast=_ratio([logs[worker] for worker in fast]),
        tflops=flops / typical_ns / 1e3,
        peak_share=flops / (typical_ns * 1e-9) / timing.peak_flops,
    )


def _fast_mode(logs: Mapping[int, float], reference_ns: Mapping[int, float]) -> list[int]:
    """Return the workers in which cuBLAS was fast: all, where nothing shows two modes."""
    ordered = sorted(logs, key=lambda worker: logs[worker])
    for place in range(MODE_WORKERS, len(ordered) - MODE_WORKERS + 1):
        fast, slow = ordered[:place], ordered[place:]
        apart = logs[slow[0]] - logs[fast[-1]] > math.log1p(MODES_APART)
        times = (median(reference_ns[worker] for worker in mode) for mode in (fast, slow))
        if apart and next(times) < next(times):
            return fast
    return ordered


def judge_timing(timing: Timing, shape: Shape) -> tuple[Reason, str]:
    """Return the reason of a case that was timed on the problem `shape`, and the words for it.

    Of several faults the first in this order is said: no-samples, implausible, throttled,
    too-few-workers, launch-bound, unsettled. How fast the kernel is decides nothing here.
    """
    checks: tuple[tuple[Reason, Callable[[Timing, Shape], str | None]], ...] = (
        (Reason.NO_SAMPLES, lambda timing, _: _missing(timing)),
        (Reason.IMPLAUSIBLE, _impossible),
        (Reason.THROTTLED, lambda timing, _: _throttled(timing)),
        (Reason.TOO_FEW_WORKERS, lambda timing, _: _too_few(timing)),
        (Reason.LAUNCH_BOUND, _launch_bound),
        (Reason.UNSETTLED, lambda timing, _: _unsettled(timing)),
    )
    for reason, check in checks:
        problem = check(timing, shape)
        if problem is not None:
            return reason, problem
    return Reason.OK, _in_words(timing, summarise(timing, shape))


def rank_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median of what `values` are drawn from; infinite for few.

    With k values cut off at each end the rest enclose the median unless at most k of n fall on
    one side of it: each side has the binomial probability sum_{i <= k} C(n, i) / 2^n.
    """
    ordered, count = sorted(values), len(values)
    cut, outside = -1, 0
    for rank in range(count // 2):
        outside += math.comb(count, rank)
        if 2 * outside > Fraction(1 - CONFIDENCE) * 2**count:
            break
        cut = rank
    return (ordered[cut], ordered[-1 - cut]) if cut >= 0 else (-math.inf, math.inf)


def _missing(timing: Timing) -> str | None:
    """Say what must be there and is not, or is there twice."""
    names = Counter(arm.name for arm in timing.arms)
    for name in ("kernel", "cublas"):
        if names[name] != 1:
            return f"there are {names[name]} {name} arms, 1 is needed"
    kernel, cublas = _arm(timing, "kernel"), _arm(timing, "cublas")
    if not kernel.workers:
        return "no worker took a sample"
    workers = [samples.worker for samples in kernel.workers]
    if len(set(workers)) < len(workers):
        return "a worker is there twice"
    others = {
        "cuBLAS": [samples.worker for samples in cublas.workers],
        "the state of the GPU": [state.worker for state in timing.conditions],
    }
    for what, found in others.items():
        if sorted(found) != sorted(workers):
            return f"the kernel was timed by the workers {workers}, {what} is known of {found}"
    reference = _samples(cublas)
    for worker, samples in _samples(kernel).items():
        if not samples or len(samples) != len(reference[worker]):
            return (
                f"worker {worker} took {len(samples)} samples of the kernel and"
                f" {len(reference[worker])} of cuBLAS, as many of both are needed"
            )
    return None


def _impossible(timing: Timing, shape: Shape) -> str | None:
    """Say which value can't be: no launch of this problem, or no time.

    No time is 0, negative, no number, above the GPU's peak, or longer than any deadline.
    """
    launched = timing.launched
    if (launched.n, launched.k, launched.sm_count) != (shape.n, shape.k, shape.sm_count):
        return f"{launched} was launched for {shape}"
    if not 1 <= shape.m <= launched.m <= _LARGEST_SIZE or max(shape.n, shape.k) > _LARGEST_SIZE:
        return f"{launched} was launched for {shape}"
    named = {arm.name: arm.artifact is not None for arm in timing.arms}
    if named != {"kernel": True, "cublas": False}:
        return "an artifact is named for cuBLAS, or none for the kernel"
    for what, value in (("floor_ns", timing.floor_ns), ("peak_flops", timing.peak_flops)):
        if not 0 < value < math.inf:
            return f"{what} is {value}"
    for arm, done in (("kernel", timing.launched), ("cublas", shape)):
        least_ns = _flops(done) / timing.peak_flops * 1e9
        for worker, samples in _samples(_arm(timing, arm)).items():
            for sample in samples:
                if not 0 < sample < _LONGEST_NS:
                    return f"{arm}, worker {worker}: a sample of {sample} ns"
                if sample < least_ns:
                    return (
                        f"{arm}, worker {worker}: a sample of {sample} ns; at the GPU's peak it"
                        f" would take {least_ns:.1f} ns"
                    )
    return None


def _throttled(timing: Timing) -> str | None:
    held = Counter(name for name in _slowed_by(timing) if name in SLOWDOWNS)
    if not held:
        return None
    said = ", ".join(f"{name} ({count})" for name, count in sorted(held.items()))
    return f"the GPU was slowed down at {said} of {2 * len(timing.conditions)} looks"


def _too_few(timing: Timing) -> str | None:
    workers = len(_arm(timing, "kernel").workers)
    if workers < MIN_WORKERS:
        return f"{workers} workers timed it, at least {MIN_WORKERS} are needed for an interval"
    if timing.workers_asked is not None and workers < timing.workers_asked:
        return f"{workers} of {timing.workers_asked} workers timed it, the others ended before"
    return None


def _launch_bound(timing: Timing, shape: Shape) -> str | None:
    found = summarise(timing, shape)
    for what, value in (("the kernel", found.kernel_ns), ("cuBLAS", found.reference_ns)):
        if value < LEAST_FLOORS * timing.floor_ns:
            return (
                f"{what} takes {value / 1e3:.2f} us, an empty interval"
                f" {timing.floor_ns / 1e3:.2f} us: mostly the launch was timed"
            )
    return None


def _unsettled(timing: Timing) -> str | None:
    unsettled = sum(not state.settled for state in timing.conditions)
    if unsettled <= MOST_UNSETTLED_SHARE * len(timing.conditions):
        return None
    return f"durations still drifted after the warm-up in {unsettled} of {len(timing.conditions)}"


def _in_words(timing: Timing, found: Summary) -> str:
    ratio = found.ratio
    said = (
        f"{found.kernel_ns / 1e3:,.1f} us, {found.tflops:,.0f} TFLOP/s; cuBLAS / kernel"
        f" {ratio.median:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
    )
    noted = sorted(set(_slowed_by(timing)))
    return f"{said}; clocks held by {', '.join(noted)}" if noted else said


def _slowed_by(timing: Timing) -> list[str]:
    """Return what held the clocks down, once for each look at the GPU."""
    looks = [look for state in timing.conditions for look in (state.before, state.after)]
    return [name for look in looks for name in look.slowed_by]


def _arm(timing: Timing, name: str) -> Arm:
    return next(arm for arm in timing.arms if arm.name == name)


def _samples(arm: Arm) -> dict[int, tuple[float, ...]]:
    return {samples.worker: samples.samples_ns for samples in arm.workers}


def _flops(shape: Shape) -> int:
    return 2 * shape.m * shape.n * shape.k


def _log_ratio(reference: Sequence[float], kernel: Sequence[float]) -> float:
    return median(math.log(slow / fast) for slow, fast in zip(reference, kernel, strict=True))


def _ratio(logs: Sequence[float]) -> Ratio:
    low, high = rank_interval(logs)
    return Ratio(math.exp(median(logs)), math.exp(low), math.exp(high), len(logs))


def _spread(values: Sequence[float]) -> float:
    return stdev(values) / fmean(values) if len(values) > 1 else math.nan
