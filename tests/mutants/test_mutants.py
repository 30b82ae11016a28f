"""The operators make what they say, the committed results are of today's kernels, and complete."""

import ast
from collections import Counter

import pytest

from rungwatch.trusted.matrix import Depth

from .equivalent import EQUIVALENT, UNSEEN, claim_for
from .hazards import HAZARDS
from .mutant import RUNGS, Kernel, Mutant, Site, program_hash, read_kernel
from .operators import OPERATORS
from .results import COMMITTED, Outcome, Result, read_results, write_results
from .run import jobs
from .suite import all_mutants, mutants_of, sample
from .table import PAGE, caught, page, score

MUTANTS = all_mutants()
RESULTS = list(read_results(COMMITTED).values())
BY_KEY = {mutant.key: mutant for mutant in MUTANTS}


# ---- the mutants ----


def test_mutants_are_other_programs_and_differ_from_each_other() -> None:
    originals = {program_hash(rung, read_kernel(rung).text) for rung in RUNGS}
    assert len(BY_KEY) == len(MUTANTS)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert not originals & set(BY_KEY)
    for mutant in MUTANTS:
        ast.parse(mutant.source)
        assert mutant.diff


def test_every_operator_and_every_rung_has_mutants() -> None:
    assert {mutant.operator for mutant in MUTANTS} == set(OPERATORS)
    assert {mutant.rung for mutant in MUTANTS} == set(RUNGS)


@pytest.mark.parametrize(
    ("kind", "diff"),
    [
        (
            "step2:drop-wait",
            "  mma_done.arrive(0)\n- mma_done.wait(0, phase)\n+ pass\n  phase = phase ^ 1",
        ),
        (
            "step1:accumulate-always",
            '  B_smem[:, :],\n- accum=False,\n+ accum=True,\n  dispatch="tcgen05",',
        ),
        (
            "step8:stride-all-sms",
            "  num_n_tiles=N // TILE_N,\n- num_clusters=sm_count // CTA_GROUP,\n"
            "+ num_clusters=sm_count,\n  l2_group_size=L2_GROUP,",
        ),
    ],
)
def test_an_operator_changes_one_thing(kind: str, diff: str) -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.kind == kind]
    assert mutant.diff == diff


def test_a_comment_is_no_other_program() -> None:
    kernel = read_kernel("step1")
    commented = Kernel("step1", f"# first\n{kernel.text}")
    keys = [mutant.key for mutant in mutants_of(kernel)]
    assert [mutant.key for mutant in mutants_of(commented)] == keys


def test_edits_that_overlap_are_an_error() -> None:
    kernel = read_kernel("step1")
    edits = (kernel.drop(kernel.function), kernel.drop(kernel.steps()[0]))
    with pytest.raises(ValueError, match="overlap"):
        kernel.mutate("none", Site(1, edits))


# ---- the sample ----


def test_the_sample_is_the_same_for_a_seed_and_spread_over_the_rungs() -> None:
    chosen = sample(MUTANTS, 3, seed=0)
    assert chosen == sample(list(MUTANTS), 3, seed=0)
    assert chosen != sample(MUTANTS, 3, seed=1)
    counts = Counter(mutant.operator for mutant in chosen)
    assert set(counts) == set(OPERATORS)
    assert max(counts.values()) == 3
    for operator, count in counts.items():
        possible = {mutant.rung for mutant in MUTANTS if mutant.operator == operator}
        own = {mutant.rung for mutant in chosen if mutant.operator == operator}
        assert len(own) == min(count, len(possible))


@pytest.mark.parametrize("rung", RUNGS)
def test_full_adds_problems_to_quick_and_repeats_none(rung: str) -> None:
    quick, rest = (
        [(job.tool, problem) for job in jobs(rung, depth) for problem in job.problems]
        for depth in (Depth.QUICK, Depth.FULL)
    )
    assert not set(quick) & set(rest)
    assert len(set(quick)) == len(quick)
    assert {tool for tool, _ in quick} == {"numerics", "synccheck", "racecheck"}


# ---- the results ----


def test_results_are_of_the_kernels_as_they_are() -> None:
    """After a change of a kernel: `python -m tests.mutants --rung RUNG --sample 3`."""
    assert [result.name for result in RESULTS if result.key not in BY_KEY] == []
    for result in RESULTS:
        mutant = BY_KEY[result.key]
        assert (result.rung, result.operator) == (mutant.rung, mutant.operator)
        assert result.diff == mutant.diff


@pytest.mark.mutants
def test_enough_mutants_ran_of_every_rung_and_operator() -> None:
    assert len(RESULTS) >= 150
    assert {result.rung for result in RESULTS} == set(RUNGS)
    assert {result.operator for result in RESULTS} == set(OPERATORS)


@pytest.mark.mutants
@pytest.mark.parametrize("hazard", HAZARDS)
def test_every_mutant_of_a_hazard_was_made_run_and_caught(hazard: str) -> None:
    for one in HAZARDS[hazard]:
        made = {mutant.key for mutant in MUTANTS if one.holds(mutant)}
        ran = {result.key for result in RESULTS if one.holds(result) and caught(result)}
        assert made
        assert made == ran


def test_a_refusal_names_its_row_and_its_reason() -> None:
    for result in RESULTS:
        assert bool(result.case) is (result.outcome not in (Outcome.BUILD, Outcome.SURVIVED))
        assert bool(result.message) is caught(result)


def test_claims_are_about_survivors() -> None:
    """A mutant that a check refuses is neither a right kernel nor unseen."""
    claimed = [result for result in RESULTS if claim_for(result, EQUIVALENT) is not None]
    assert [result.name for result in claimed if caught(result)] == []
    for claim in EQUIVALENT + UNSEEN:
        assert all(any(one.holds(mutant) for mutant in MUTANTS) for one in claim.of), claim


@pytest.mark.mutants
def test_the_score_reaches_the_goal_where_the_simulator_can_see() -> None:
    seen = [result for result in RESULTS if caught(result) or claim_for(result, UNSEEN) is None]
    right, wrong = score(seen)
    assert right / wrong >= 0.98


def test_the_page_holds_the_tables_of_the_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, RESULTS) == text


def test_results_are_read_as_they_were_written(tmp_path) -> None:
    mutant: Mutant = MUTANTS[0]
    result = Result.of(mutant, Outcome.SURVIVED, Depth.QUICK)
    write_results(tmp_path / "results.json", [result])
    assert read_results(tmp_path / "results.json") == {mutant.key: result}
    assert read_results(tmp_path / "none.json") == {}
    assert result.kind == mutant.kind
