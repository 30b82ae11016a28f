"""Every mutant is refused, by the same code and on the same problems as `rungwatch check --quick`.

That the unchanged kernels pass on these problems is what `tests/matrix` checks: with both, a
check that refuses everything can't look like a catch.
"""

import ast
from pathlib import Path

import pytest

from rungwatch.backends.job import Failure, Stage, Tool
from rungwatch.check.plan import Selection, plan_check
from rungwatch.decide.verdict import Verdict
from rungwatch.declare.problem import Shape
from rungwatch.declare.registry import discover
from rungwatch.declare.subject import Subject, from_file
from rungwatch.load.failures import JobError
from rungwatch.load.kernel import build_kernel
from rungwatch.record.model import Row
from rungwatch.trusted.matrix import Depth, refused_shapes
from rungwatch.trusted.source_rules import broken_rules

from .mutants import KERNELS, MUTANTS, Mutant
from .running import plan, run

SUBJECTS = [from_file(file) for file in discover(KERNELS)]
SEEN = [pytest.param(mutant, id=mutant.name) for mutant in MUTANTS if mutant.seen]


def said(row: Row) -> str:
    return f"{row.verdict}({row.reason}) {row.message}"


@pytest.mark.sim
@pytest.mark.parametrize("mutant", SEEN)
def test_the_cheapest_tool_that_sees_a_mutant_refuses_it(mutant: Mutant, tmp_path: Path) -> None:
    row = run(mutant, mutant.cheapest, tmp_path)
    assert row.verdict is Verdict.FAIL, said(row)
    assert mutant.seen[mutant.cheapest] in said(row)


@pytest.mark.sim
@pytest.mark.slow
@pytest.mark.parametrize("tool", Tool)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_tool_sees_what_the_table_says(mutant: Mutant, tool: Tool, tmp_path: Path) -> None:
    row = run(mutant, tool, tmp_path)
    assert row.verdict is (Verdict.FAIL if tool in mutant.seen else Verdict.PASS), said(row)
    assert mutant.seen.get(tool, "") in said(row)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_another_program_than_its_kernel(mutant: Mutant) -> None:
    original = (KERNELS / f"{mutant.kernel}.py").read_text(encoding="utf-8")
    assert ast.dump(ast.parse(mutant.source())) != ast.dump(ast.parse(original))


def test_an_edit_that_does_not_fit_its_kernel_is_an_error() -> None:
    mutant = Mutant("m", "", "step7", (("no such text", ""),), Shape(128, 128, 64, 1))
    with pytest.raises(ValueError, match="0 times in step7"):
        mutant.source()


def test_mutants_differ_and_no_rung_is_without_one() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({mutant.source() for mutant in MUTANTS}) == len(MUTANTS)
    steps = {subject.declaration.step for subject in SUBJECTS if subject.declaration is not None}
    assert {mutant.kernel for mutant in MUTANTS} == {f"step{step}" for step in steps}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_no_tool_sees_breaks_a_source_rule(mutant: Mutant) -> None:
    broken = {rule.rule for rule in broken_rules(mutant.source())}
    assert mutant.seen or mutant.source_rule
    assert not mutant.source_rule or mutant.source_rule in broken


@pytest.mark.parametrize("mutant", SEEN)
def test_the_quick_check_meets_the_mutant(mutant: Mutant) -> None:
    """So the unchanged kernel is checked on this row in `tests/matrix`: that is the control."""
    path = KERNELS / f"{mutant.kernel}.py"
    quick = plan_check(
        [subject for subject in SUBJECTS if subject.source.path == str(path)],
        Selection(depth=Depth.QUICK),
    )
    rows = {(job.tool, problem) for job in quick.jobs for problem in job.problems}
    for tool in mutant.seen:
        [job] = plan(path, mutant, tool).jobs
        assert {(tool, problem) for problem in job.problems} <= rows


@pytest.mark.sim
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_factory_refuses_what_its_rules_refuse(subject: Subject) -> None:
    """The published listings leave the rest of M and N out, and say nothing."""
    assert subject.declaration is not None
    for shape in refused_shapes(subject.declaration):
        stages: list[Stage] = []
        with pytest.raises(JobError, match="ValueError") as caught:
            build_kernel(subject.source, shape, stages.append)
        assert caught.value.failure.failure is Failure.KERNEL_BUILD
        assert stages[-1] is Stage.BUILD
