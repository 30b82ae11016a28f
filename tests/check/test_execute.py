"""From jobs to rows: what is wrong is said, what is unknown is INVALID, what passed is cached."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rungwatch.backends.job import DEVICE_TOOLS, Failure, Job, JobResult, Tool
from rungwatch.check.execute import execute
from rungwatch.check.plan import AllRefusedError, Plan, Reach, Selection, plan_check
from rungwatch.check.verdict_cache import VerdictCache
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Rule
from rungwatch.declare.subject import Subject
from rungwatch.record.model import Row
from rungwatch.trusted.inputs import DISTRIBUTIONS

from ..fakes import SILENT, FakeBackend, Matrix, finding, make_subject, right

ONE_SHAPE = Selection(shape=Shape(256, 128, 128, 4))


def run(plan: Plan, backend: FakeBackend, cache: VerdictCache | None = None) -> list[Row]:
    return execute(plan, backend, "fake", cache, SILENT, worker_count=2)


def reasons(rows: list[Row], check: str = "numerics") -> Counter[Reason]:
    return Counter(row.reason for row in rows if row.check == check)


def test_a_right_kernel_passes_under_every_distribution() -> None:
    rows = run(plan_check([make_subject("one")], ONE_SHAPE), FakeBackend())
    assert reasons(rows) == {Reason.OK: len(DISTRIBUTIONS)}
    assert reasons(rows, "synccheck") == reasons(rows, "racecheck") == {Reason.OK: 1}
    assert len({row.id for row in rows}) == len(rows)


def test_rows_are_in_the_order_of_the_plan() -> None:
    plan = plan_check([make_subject("one"), make_subject("two", 2)], Selection())
    expected = [job.row_id(problem) for job in plan.jobs for problem in job.problems]
    assert [row.id for row in run(plan, FakeBackend())] == expected


def wrong_first_tile(a: Matrix, b: Matrix, d: Matrix) -> None:
    right(a, b, d)
    d[:128, :128] = 7


def write_nothing(a: Matrix, b: Matrix, d: Matrix) -> None:
    return


def change_an_input(a: Matrix, b: Matrix, d: Matrix) -> None:
    right(a, b, d)
    a[0, 0] = 3.5


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (wrong_first_tile, Reason.NUMERICS),
        (write_nothing, Reason.NOT_WRITTEN),
        (change_an_input, Reason.INPUT_CHANGED),
    ],
)
def test_a_wrong_kernel_fails_and_the_others_pass(kernel: object, expected: Reason) -> None:
    plan = plan_check([make_subject("bad"), make_subject("good")], ONE_SHAPE)
    rows = run(plan, FakeBackend(kernels={"bad": kernel}))  # type: ignore[dict-item]
    bad = {row.reason for row in rows if row.kernel == "family/bad" and row.check == "numerics"}
    assert expected in bad
    assert Reason.OK not in bad - {expected} or expected is Reason.NUMERICS
    assert all(row.verdict is Verdict.PASS for row in rows if row.kernel == "family/good")


@pytest.mark.parametrize("verdict", ["error", "review", "incomplete"])
def test_anything_but_clean_fails(verdict: str) -> None:
    backend = FakeBackend(reports={"racecheck": [finding(verdict)]})
    rows = run(plan_check([make_subject("one")], ONE_SHAPE), backend)
    (row,) = [row for row in rows if row.check == "racecheck"]
    assert row.reason is Reason.RACECHECK
    assert row.message == f"{verdict}: deadlock: nobody arrives"


def test_a_checker_out_of_time_is_run_again_alone() -> None:
    backend = FakeBackend(reports={"synccheck": [Failure.CHECKER_BUDGET]})
    rows = run(plan_check([make_subject("one")], ONE_SHAPE), backend)
    assert reasons(rows, "synccheck") == {Reason.OK: 1}
    assert [alone for job, alone in backend.jobs if job.tool is Tool.SYNCCHECK] == [False, True]


def test_a_checker_out_of_time_twice_is_invalid() -> None:
    backend = FakeBackend(reports={"synccheck": [Failure.CHECKER_BUDGET] * 2})
    rows = run(plan_check([make_subject("one")], ONE_SHAPE), backend)
    assert reasons(rows, "synccheck") == {Reason.CHECKER_BUDGET: 1}


@pytest.mark.parametrize("failure", list(Failure))
def test_every_failure_of_a_worker_has_a_reason_and_none_passes(failure: Failure) -> None:
    backend = FakeBackend(reports={"racecheck": [failure] * 2})
    rows = run(plan_check([make_subject("one")], ONE_SHAPE), backend)
    (row,) = [row for row in rows if row.check == "racecheck"]
    assert row.reason == failure.value
    assert row.verdict in (Verdict.FAIL, Verdict.INVALID)


def test_a_missing_output_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend()
    monkeypatch.setattr(backend, "run", lambda *_args, **_more: JobResult(self_contained=True))
    rows = run(plan_check([make_subject("one")], ONE_SHAPE), backend)
    assert reasons(rows) == {Reason.BAD_OUTPUT: len(DISTRIBUTIONS)}
    assert reasons(rows, "synccheck") == {Reason.BAD_OUTPUT: 1}


def test_a_backend_that_cannot_work_leaves_a_row_a_case() -> None:
    backend = FakeBackend(unavailable="install cargo >= 1.89")
    rows = run(plan_check([make_subject("one")], ONE_SHAPE), backend)
    assert {row.reason for row in rows} == {Reason.BACKEND_UNAVAILABLE}
    assert {row.message for row in rows} == {"install cargo >= 1.89"}
    assert len(rows) == len(DISTRIBUTIONS) + 2


def test_a_full_disk_is_said_of_the_case_and_the_rest_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = FakeBackend()
    original = backend.run

    def fail_on_numerics(job: Job, *arguments: Any, **more: Any) -> JobResult:
        if job.tool is Tool.NUMERICS:
            raise OSError(28, "No space left on device")
        return original(job, *arguments, **more)

    monkeypatch.setattr(backend, "run", fail_on_numerics)
    rows = run(plan_check([make_subject("one")], ONE_SHAPE), backend)
    assert reasons(rows) == {Reason.BACKEND_UNAVAILABLE: len(DISTRIBUTIONS)}
    assert "No space left" in rows[0].message
    assert reasons(rows, "racecheck") == {Reason.OK: 1}


def test_a_problem_too_large_for_memory_is_refused_before_it_is_made() -> None:
    shape = Shape(128 * 10**4, 128 * 10**4, 64, 1)
    selection = Selection(shape=shape, tools=(Tool.NUMERICS,))
    rows = run(plan_check([make_subject("one")], selection), FakeBackend())
    assert reasons(rows) == {Reason.MEMORY_LIMIT: len(DISTRIBUTIONS)}


def test_an_error_in_the_tool_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend()

    def explode(*_args: object, **_more: object) -> JobResult:
        raise RuntimeError("bug")

    monkeypatch.setattr(backend, "run", explode)
    with pytest.raises(RuntimeError, match="bug"):
        run(plan_check([make_subject("one")], ONE_SHAPE), backend)


class TestCache:
    def test_what_passed_is_not_run_again(self, tmp_path: Path) -> None:
        plan = plan_check([make_subject("one")], Selection())
        cache = VerdictCache(tmp_path)
        first = run(plan, FakeBackend(), cache)
        backend = FakeBackend()
        second = run(plan, backend, cache)
        assert backend.jobs == []
        assert backend.prepared == 0
        assert [row.id for row in second] == [row.id for row in first]
        assert all(row.cached for row in second)
        assert not any(row.cached for row in first)

    def test_failures_are_run_again(self, tmp_path: Path) -> None:
        plan = plan_check([make_subject("one")], ONE_SHAPE)
        cache = VerdictCache(tmp_path)
        run(plan, FakeBackend(kernels={"one": write_nothing}), cache)
        backend = FakeBackend()
        assert not any(row.cached for row in run(plan, backend, cache) if row.check == "numerics")

    def test_only_what_is_missing_is_run(self, tmp_path: Path) -> None:
        cache = VerdictCache(tmp_path)
        some = Selection(
            shape=ONE_SHAPE.shape, distributions=("normal", "large"), tools=(Tool.NUMERICS,)
        )
        run(plan_check([make_subject("one")], some), FakeBackend(), cache)
        backend = FakeBackend()
        rows = run(plan_check([make_subject("one")], ONE_SHAPE), backend, cache)
        assert {row.problem.distribution for row in rows if row.cached and row.problem} == {
            "normal",
            "large",
        }
        (numerics,) = [job for job, _ in backend.jobs if job.tool is Tool.NUMERICS]
        assert len(numerics.inputs) == len(DISTRIBUTIONS) - 2

    @pytest.mark.parametrize("change", ["code", "seed", "backend", "tool", "not self-contained"])
    def test_any_change_misses(
        self, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plan = plan_check([make_subject("one")], ONE_SHAPE)
        run(
            plan, FakeBackend(self_contained=change != "not self-contained"), VerdictCache(tmp_path)
        )
        name = "fake"
        if change == "code":
            object.__setattr__(plan.jobs[0].subject, "sha256", "another")
        elif change == "seed":
            plan = plan_check([make_subject("one")], Selection(shape=ONE_SHAPE.shape, seed=5))
        elif change == "backend":
            name = "other"
        elif change == "tool":
            monkeypatch.setattr(
                "rungwatch.check.verdict_cache.code_digest", lambda: "another version"
            )
        rows = execute(plan, FakeBackend(), name, VerdictCache(tmp_path), SILENT, worker_count=2)
        assert not any(row.cached for row in rows)

    def test_a_damaged_entry_is_run_again(self, tmp_path: Path) -> None:
        plan = plan_check([make_subject("one")], ONE_SHAPE)
        run(plan, FakeBackend(), VerdictCache(tmp_path))
        for path in tmp_path.rglob("*.json"):
            path.write_bytes(path.read_bytes()[:-20])
        assert not any(row.cached for row in run(plan, FakeBackend(), VerdictCache(tmp_path)))

    def test_the_oldest_rows_are_forgotten_first(self, tmp_path: Path) -> None:
        cache = VerdictCache(tmp_path)
        plan = plan_check([make_subject("one")], ONE_SHAPE)
        run(plan, FakeBackend(), cache)
        paths = sorted(tmp_path.rglob("*.json"))
        for age, path in enumerate(paths):
            os.utime(path, (1_000_000 - age, 1_000_000 - age))
        cache.prune(most=3)
        assert sorted(tmp_path.rglob("*.json")) == paths[:3]

    def test_a_forged_entry_is_not_believed(self, tmp_path: Path) -> None:
        plan = plan_check([make_subject("one")], ONE_SHAPE)
        run(plan, FakeBackend(), VerdictCache(tmp_path))
        for path in tmp_path.rglob("*.json"):
            path.write_bytes(path.read_bytes().replace(b'"reason":"ok"', b'"reason":"numerics"'))
        assert not any(row.cached for row in run(plan, FakeBackend(), VerdictCache(tmp_path)))


class TestPlan:
    def test_rules_that_leave_no_shape_are_invalid_not_absent(self) -> None:
        declared = make_subject("never").declaration
        assert declared is not None
        rules = declared.rules.__class__(Rule(multiple_of=128, max=100), *[declared.rules.N] * 3)
        plan = plan_check([make_subject("one"), make_subject("never", rules=rules)], Selection())
        (row,) = plan.rows
        assert (row.kernel, row.reason) == ("family/never", Reason.PROTOCOL)

    def test_a_bare_factory_is_not_simulated_for_a_hopper_target(self) -> None:
        bare = Subject("bare", make_subject("bare").source, None)
        selection = Selection(shape=ONE_SHAPE.shape, target="sm_90a")
        (row,) = plan_check([bare], selection).rows
        assert row.reason is Reason.TARGET_NOT_SIMULATED
        jobs = plan_check([bare], Selection(shape=ONE_SHAPE.shape)).jobs
        assert {job.target for job in jobs} == {"sm_100a"}

    def test_a_shape_that_no_kernel_takes_is_refused_with_the_nearest(self) -> None:
        selection = Selection(shape=Shape(100, 128, 64, 4))
        with pytest.raises(AllRefusedError, match="Nearest valid: --shape 128x128x64 --sms 4"):
            plan_check([make_subject("one"), make_subject("two")], selection)

    def test_a_shape_that_one_kernel_takes_skips_the_other(self) -> None:
        declared = make_subject("two").declaration
        assert declared is not None
        narrow = make_subject("two", rules=declared.rules.__class__(*[declared.rules.M] * 4))
        plan = plan_check([make_subject("one"), narrow], Selection(shape=Shape(128, 128, 64, 4)))
        assert {job.subject.name for job in plan.jobs} == {"one"}
        (row,) = plan.rows
        assert row.reason is Reason.PROBLEM_REFUSED
        assert "K must be at least 128" in row.message

    def test_a_hopper_kernel_is_skipped_not_passed(self) -> None:
        plan = plan_check([make_subject("h", targets=("sm_90a",))], Selection())
        assert [row.reason for row in plan.rows] == [Reason.TARGET_NOT_SIMULATED]
        assert plan.jobs == ()

    def test_a_backend_is_given_what_it_reaches(self) -> None:
        reach = Reach(
            frozenset({"sm_90a"}), DEVICE_TOOLS, Reason.OTHER_GPU, "--backend cuda --artifacts a"
        )
        subjects = [make_subject("b"), make_subject("h", targets=("sm_90a",))]
        plan = plan_check(subjects, Selection(), reach)
        assert {(job.subject.name, job.target) for job in plan.jobs} == {("h", "sm_90a")}
        assert {job.tool for job in plan.jobs} == set(DEVICE_TOOLS)
        (row,) = plan.rows
        assert (row.kernel, row.reason) == ("family/b", Reason.OTHER_GPU)
        job = plan.jobs[0]
        given = job.job(job.problems)
        assert (given.kernel, given.target) == ("family/h", "sm_90a")

    def test_a_required_gpu_turns_a_skip_into_invalid(self) -> None:
        selection = Selection(gpu_required=True)
        (row,) = plan_check([make_subject("h", targets=("sm_90a",))], selection).rows
        assert (row.reason, row.verdict) == (Reason.GPU_REQUIRED, Verdict.INVALID)

    def test_a_rerun_command_names_the_one_case(self) -> None:
        plan = plan_check([make_subject("one")], ONE_SHAPE)
        commands = [job.rerun(problem) for job in plan.jobs for problem in job.problems]
        assert len(set(commands)) == len(commands)
        assert (
            "rungwatch check --kernel family/one --shape 256x128x128 --sms 4 --only numerics"
            " --dist normal --no-cache"
        ) in commands


def test_outputs_are_compared_with_the_callers_inputs() -> None:
    """A worker that changes what it was given can't change what is expected."""

    def forge(a: Matrix, b: Matrix, d: Matrix) -> None:
        a[:] = np.float16(1)
        b[:] = np.float16(1)
        d[:] = np.float16(a.shape[1])

    rows = run(plan_check([make_subject("one")], ONE_SHAPE), FakeBackend(kernels={"one": forge}))
    assert reasons(rows) == {Reason.INPUT_CHANGED: len(DISTRIBUTIONS)}
