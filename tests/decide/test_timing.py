"""What timings say, and above all when they say nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rungwatch.decide.timing import MIN_WORKERS, judge_timing, rank_interval, summarise
from rungwatch.decide.verdict import Reason, Verdict, verdict_of
from rungwatch.declare.problem import Shape
from rungwatch.record.model import Arm, Conditions, Timing, WorkerConditions, WorkerSamples

SHAPE = Shape(4096, 4096, 4096, 132)
FLOPS = 2 * 4096**3
COOL = Conditions(1755, 3201, 690.0, 60, ("sw_power_cap",))
WORKERS = 12


def arm(name: str, *workers: tuple[float, ...]) -> Arm:
    samples = tuple(WorkerSamples(i, taken) for i, taken in enumerate(workers))
    return Arm(name, "a" * 64 if name == "kernel" else None, samples)  # type: ignore[arg-type]


def conditions(count: int, **changes: object) -> tuple[WorkerConditions, ...]:
    made = (WorkerConditions(i, COOL, COOL, True) for i in range(count))
    return tuple(replace(one, **changes) for one in made)


def timing(
    kernel: list[tuple[float, ...]], cublas: list[tuple[float, ...]], **changes: object
) -> Timing:
    made = Timing(
        method="graph-events",
        cache="cold",
        launched=SHAPE,
        floor_ns=2_000.0,
        peak_flops=1.07e15,
        arms=(arm("kernel", *kernel), arm("cublas", *cublas)),
        conditions=conditions(len(kernel)),
    )
    return replace(made, **changes)


GOOD = timing([(178_000.0, 180_000.0, 179_000.0)] * WORKERS, [(182_580.0,) * 3] * WORKERS)


def with_samples(*samples: float, arm_index: int = 0) -> Timing:
    """Return a timing in which one worker of one arm has these samples."""
    arms = list(GOOD.arms)
    workers = list(arms[arm_index].workers)
    workers[4] = WorkerSamples(4, samples)
    arms[arm_index] = replace(arms[arm_index], workers=tuple(workers))
    return replace(GOOD, arms=tuple(arms))


def reason(timing: Timing, shape: Shape = SHAPE) -> Reason:
    return judge_timing(timing, shape)[0]


def test_a_sound_timing_is_ok_and_says_what_it_found() -> None:
    found, message = judge_timing(GOOD, SHAPE)
    assert found is Reason.OK
    assert "179.0 us" in message
    assert "1.020" in message
    assert "sw_power_cap" in message


class TestNothingIsLearnt:
    """INVALID: what is there can't be a time, or isn't there."""

    @pytest.mark.parametrize(
        "value", [0.0, -1.0, math.nan, math.inf, -math.inf, FLOPS / 1.07e15 * 1e9 * 0.99]
    )
    @pytest.mark.parametrize("arm_index", [0, 1])
    def test_a_single_value_that_no_time_can_have(self, value: float, arm_index: int) -> None:
        bad = with_samples(178_000.0, value, 179_000.0, arm_index=arm_index)
        found, message = judge_timing(bad, SHAPE)
        assert found is Reason.IMPLAUSIBLE
        assert ("cublas" if arm_index else "kernel") in message
        assert "worker 4" in message

    def test_just_below_the_peak_is_believed(self) -> None:
        fast = FLOPS / 1.07e15 * 1e9 * 1.01
        assert reason(with_samples(fast, fast, fast)) is Reason.OK

    @pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
    @pytest.mark.parametrize("field", ["floor_ns", "peak_flops"])
    def test_a_floor_or_a_peak_that_is_none(self, field: str, value: float) -> None:
        assert reason(replace(GOOD, **{field: value})) is Reason.IMPLAUSIBLE

    def test_the_padded_problem_counts_against_the_peak(self) -> None:
        """A kernel that was launched on more rows did the work of those rows."""
        small = Shape(1, 4096, 4096, 132)
        launched = Shape(128, 4096, 4096, 132)
        quick = (2 * 128 * 4096**2 / 1.07e15 * 1e9 * 0.9,) * 3
        padded = timing([quick] * WORKERS, [quick] * WORKERS, launched=launched, floor_ns=0.1)
        assert reason(padded, small) is Reason.IMPLAUSIBLE

    @pytest.mark.parametrize("arms", [(), GOOD.arms[:1], GOOD.arms[1:]])
    def test_a_missing_arm(self, arms: tuple[Arm, ...]) -> None:
        assert reason(replace(GOOD, arms=arms)) is Reason.NO_SAMPLES

    def test_an_arm_that_is_there_twice(self) -> None:
        assert reason(replace(GOOD, arms=(*GOOD.arms, GOOD.arms[0]))) is Reason.NO_SAMPLES

    def test_no_workers(self) -> None:
        assert reason(timing([], [])) is Reason.NO_SAMPLES

    @pytest.mark.parametrize("arm_index", [0, 1])
    def test_a_worker_without_samples(self, arm_index: int) -> None:
        found, message = judge_timing(with_samples(arm_index=arm_index), SHAPE)
        assert found is Reason.NO_SAMPLES
        assert "worker 4" in message

    def test_samples_that_are_no_pairs(self) -> None:
        assert reason(with_samples(178_000.0)) is Reason.NO_SAMPLES

    def test_workers_that_timed_one_arm_alone(self) -> None:
        short = replace(GOOD.arms[1], workers=GOOD.arms[1].workers[:-1])
        assert reason(replace(GOOD, arms=(GOOD.arms[0], short))) is Reason.NO_SAMPLES

    def test_a_worker_that_counts_twice(self) -> None:
        arms = tuple(replace(arm, workers=(*arm.workers, arm.workers[0])) for arm in GOOD.arms)
        states = (*GOOD.conditions, GOOD.conditions[0])
        assert reason(replace(GOOD, arms=arms, conditions=states)) is Reason.NO_SAMPLES

    @pytest.mark.parametrize("count", [0, WORKERS - 1, WORKERS + 1])
    def test_conditions_that_are_not_those_of_the_workers(self, count: int) -> None:
        assert reason(replace(GOOD, conditions=conditions(count))) is Reason.NO_SAMPLES

    @pytest.mark.parametrize(
        "name",
        ["hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown"],
    )
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_gpu_that_was_held_down(self, name: str, when: str) -> None:
        hot = replace(COOL, slowed_by=("sw_power_cap", name))
        some = (replace(GOOD.conditions[0], **{when: hot}), *GOOD.conditions[1:])
        found, message = judge_timing(replace(GOOD, conditions=some), SHAPE)
        assert found is Reason.THROTTLED
        assert name in message

    def test_all_of_these_are_invalid(self) -> None:
        for each in (Reason.IMPLAUSIBLE, Reason.NO_SAMPLES, Reason.THROTTLED):
            assert verdict_of(each) is Verdict.INVALID


class TestUndecided:
    """INCONCLUSIVE: times that don't bear a verdict."""

    @pytest.mark.parametrize("count", [1, MIN_WORKERS - 1])
    def test_too_few_workers(self, count: int) -> None:
        few = timing([(179_000.0,) * 3] * count, [(182_000.0,) * 3] * count)
        found, message = judge_timing(few, SHAPE)
        assert found is Reason.TOO_FEW_WORKERS
        assert str(MIN_WORKERS) in message

    def test_enough_workers(self) -> None:
        some = timing([(179_000.0,) * 3] * MIN_WORKERS, [(182_000.0,) * 3] * MIN_WORKERS)
        assert reason(some) is Reason.OK

    def test_launch_bound_by_the_kernel_or_by_cublas(self) -> None:
        assert reason(replace(GOOD, floor_ns=90_000.0)) is Reason.LAUNCH_BOUND
        assert reason(replace(GOOD, floor_ns=89_000.0)) is Reason.OK
        quick = timing([(400_000.0,) * 3] * 12, [(182_000.0,) * 3] * 12, floor_ns=100_000.0)
        assert reason(quick) is Reason.LAUNCH_BOUND

    @pytest.mark.parametrize(("unsettled", "expected"), [(3, Reason.OK), (4, Reason.UNSETTLED)])
    def test_durations_that_never_settled(self, unsettled: int, expected: Reason) -> None:
        some = (
            *conditions(WORKERS)[unsettled:],
            *conditions(WORKERS, settled=False)[:unsettled],
        )
        assert reason(replace(GOOD, conditions=some)) is expected

    def test_all_of_these_are_inconclusive(self) -> None:
        for each in (Reason.TOO_FEW_WORKERS, Reason.LAUNCH_BOUND, Reason.UNSETTLED):
            assert verdict_of(each) is Verdict.INCONCLUSIVE


def test_what_is_worse_is_said_first() -> None:
    """Each fault hides the later ones: none is hidden by a milder one."""
    hot = replace(COOL, slowed_by=("hw_slowdown",))
    wrong = timing([(0.0,)], [(1.0,)], floor_ns=1e9, conditions=conditions(1, settled=False))
    steps = [(reason(wrong), Reason.IMPLAUSIBLE)]
    one = timing([(179_000.0,)], [(180_000.0,)], floor_ns=1e9)
    held = replace(one, conditions=conditions(1, settled=False, before=hot))
    steps.append((reason(held), Reason.THROTTLED))
    steps.append((reason(one), Reason.TOO_FEW_WORKERS))
    assert [found for found, _ in steps] == [wanted for _, wanted in steps]


SWAPPED = tuple(
    replace(one, name=name) for one, name in zip(GOOD.arms, ("cublas", "kernel"), strict=True)
)


@pytest.mark.parametrize(
    "forged",
    [
        replace(GOOD, launched=replace(SHAPE, k=64)),
        replace(GOOD, launched=replace(SHAPE, m=128)),
        replace(GOOD, arms=SWAPPED),
        with_samples(1e308, 1e308, 1e308),
    ],
)
def test_what_no_run_can_give_is_implausible(forged: Timing) -> None:
    assert reason(forged) is Reason.IMPLAUSIBLE


def test_sizes_that_no_matrix_has_are_implausible() -> None:
    huge = replace(SHAPE, m=10**400)
    assert reason(replace(GOOD, launched=huge), huge) is Reason.IMPLAUSIBLE


def test_workers_that_are_missing_leave_it_undecided() -> None:
    assert reason(replace(GOOD, workers_asked=WORKERS)) is Reason.OK
    found, words = judge_timing(replace(GOOD, workers_asked=WORKERS + 1), SHAPE)
    assert found is Reason.TOO_FEW_WORKERS
    assert f"{WORKERS} of {WORKERS + 1}" in words


class TestSummary:
    """The numbers are those that a person would work out by hand."""

    def test_of_steady_timings(self) -> None:
        found = summarise(GOOD, SHAPE)
        assert found.kernel_ns == 179_000.0
        assert found.kernel_spread == 0.0
        assert found.reference_ns == found.reference_fast_ns == 182_580.0
        assert (found.ratio.workers, found.fast_workers) == (12, 12)
        assert found.ratio.median == pytest.approx(1.02)
        assert found.tflops == pytest.approx(FLOPS / 179_000 / 1e3)
        assert found.peak_share == pytest.approx(FLOPS / 179e-6 / 1.07e15)

    def test_the_useful_work_is_that_of_the_problem_not_of_its_padding(self) -> None:
        asked = Shape(16, 4096, 4096, 132)
        assert summarise(GOOD, asked).tflops == pytest.approx(2 * 16 * 4096**2 / 179_000 / 1e3)

    def test_pairs_cancel_what_drifts(self) -> None:
        """Both arms slow down together from round to round: the ratio does not move."""
        drift = tuple(200_000.0 * 1.05**i for i in range(9))
        slower = tuple(value * 1.1 for value in drift)
        found = summarise(timing([drift] * 6, [slower] * 6), SHAPE)
        assert found.ratio.median == pytest.approx(1.1)
        assert found.ratio.high / found.ratio.low == pytest.approx(1.0)

    def test_the_unit_is_the_worker_not_the_launch(self) -> None:
        kernel = [(200_000.0 + 2_000 * i,) * 100 for i in range(8)]
        found = summarise(timing(kernel, [(200_000.0,) * 100] * 8), SHAPE)
        assert found.ratio.workers == 8
        assert found.ratio.low == pytest.approx(100 / 107)
        assert found.ratio.high == pytest.approx(1.0)
        assert found.kernel_ns == 207_000.0
        assert found.kernel_spread == pytest.approx(2.449 / 103.5, rel=1e-3)

    def test_cublas_with_two_modes(self) -> None:
        """A third of the workers got the slow one: the fast mode is told apart."""
        cublas = [(179_000.0,) * 3] * 8 + [(193_000.0,) * 3] * 4
        found = summarise(timing([(179_000.0,) * 3] * 12, cublas), SHAPE)
        assert found.fast_workers == found.ratio_fast.workers == 8
        assert found.reference_fast_ns == 179_000.0
        assert found.ratio_fast.median == pytest.approx(1.0)
        assert found.ratio_fast.high == pytest.approx(1.0)
        assert found.ratio.high == pytest.approx(193 / 179)

    @pytest.mark.parametrize(
        "cublas",
        [
            [200_000.0] * 6 + [205_999.0] * 6,  # too near for two modes
            [188_000.0] + [200_000.0] * 11,  # one worker alone is no mode
            [200_000.0] * 11 + [214_000.0],
            [200_000.0 + 2_000 * i for i in range(12)],  # wide, without a gap
        ],
    )
    def test_what_is_no_second_mode(self, cublas: list[float]) -> None:
        found = summarise(timing([(200_000.0,)] * 12, [(ns,) for ns in cublas]), SHAPE)
        assert found.fast_workers == 12
        assert found.ratio_fast == found.ratio

    def test_a_kernel_with_two_speeds_is_no_mode_of_cublas(self) -> None:
        kernel = [(200_000.0,)] * 8 + [(214_000.0,)] * 4
        assert summarise(timing(kernel, [(210_000.0,)] * 12), SHAPE).fast_workers == 12

    def test_clocks_that_drift_are_no_mode(self) -> None:
        """Both arms of a worker run at the same clock: all of these are in one mode."""
        kernel = [(200_000.0 * (1 + 0.01 * i),) * 3 for i in range(12)]
        cublas = [(210_000.0 * (1 + 0.01 * i),) * 3 for i in range(12)]
        found = summarise(timing(kernel, cublas), SHAPE)
        assert found.fast_workers == 12
        assert found.ratio_fast.low == pytest.approx(1.05)

    def test_many_workers_have_an_interval(self) -> None:
        assert rank_interval([0.0] * 2000) == (0.0, 0.0)

    def test_one_worker_has_no_interval(self) -> None:
        found = summarise(timing([(200_000.0,)], [(220_000.0,)]), SHAPE)
        assert found.ratio.median == pytest.approx(1.1)
        assert (found.ratio.low, found.ratio.high) == (0.0, math.inf)
        assert math.isnan(found.kernel_spread)

    @pytest.mark.parametrize(
        "broken", [timing([], []), replace(GOOD, arms=GOOD.arms[:1]), with_samples(0.0, 1.0, 1.0)]
    )
    def test_of_what_can_not_be_summed_up(self, broken: Timing) -> None:
        with pytest.raises(ValueError, match=r"worker|arms"):
            summarise(broken, SHAPE)


class TestRankInterval:
    """The interval of a median by ranks: no distribution is assumed."""

    @pytest.mark.parametrize(
        # Source: the binomial table for p = 1/2.
        ("count", "rank"),
        [(5, None), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5), (25, 7)],
    )
    def test_ranks(self, count: int, rank: int | None) -> None:
        values = [float(i) for i in range(count)]
        low, high = rank_interval(values)
        if rank is None:
            assert (low, high) == (-math.inf, math.inf)
        else:
            assert (low, high) == (values[rank], values[-1 - rank])

    def test_the_fewest_workers_are_those_that_have_one(self) -> None:
        assert math.isinf(rank_interval([0.0] * (MIN_WORKERS - 1))[0])
        assert not math.isinf(rank_interval([0.0] * MIN_WORKERS)[0])

    @given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
    def test_it_holds_the_median(self, values: list[float]) -> None:
        low, high = rank_interval(values)
        ordered = sorted(values)
        assert low <= ordered[len(values) // 2] <= high
