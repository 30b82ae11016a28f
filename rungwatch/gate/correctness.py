"""Show that head's changed kernels are right: the problems of the check, in the simulator."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from rungwatch.check.plan import SIMULATED_TARGETS, Plan, PlannedJob, Selection, plan_check
from rungwatch.check.self_check import failing_self_checks
from rungwatch.check.source_check import source_rows
from rungwatch.declare.subject import Subject, from_file
from rungwatch.gate.comparison import KernelChange, declarations
from rungwatch.gate.judge import needs_check
from rungwatch.record.model import Row


def subjects_to_check(changes: Iterable[KernelChange]) -> list[Subject]:
    """Return head's kernels that must be run: those whose code is not base's, if it can be."""
    return [
        from_file(change.pair.head)
        for change in changes
        if change.pair.head is not None
        and needs_check(change)
        and not SIMULATED_TARGETS.isdisjoint(change.targets)
    ]


def plan_correctness(changes: Iterable[KernelChange]) -> Plan:
    """Return the jobs of the quick check for head's changed kernels.

    The problems are those of base's declaration as well as head's: a kernel that declares
    another tile or ring than before can't thereby choose easier ones.
    """
    chosen = list(changes)
    jobs: list[PlannedJob] = []
    rows: list[Row] = []
    for subject in subjects_to_check(chosen):
        pair = next(change.pair for change in chosen if change.pair.key == subject.key)
        variants = [replace(subject, declaration=declared) for declared in declarations(pair)]
        planned = plan_check(variants, Selection())
        rows += planned.rows
        seen: set[tuple[object, object]] = set()
        for job in planned.jobs:
            new = tuple(p for p in job.problems if (job.tool, p) not in seen)
            seen.update((job.tool, problem) for problem in new)
            if new:
                jobs.append(PlannedJob(subject, job.target, job.tool, new))
    return Plan(tuple(jobs), tuple(rows))


def correctness_rows(
    changes: Sequence[KernelChange],
    run: Callable[[Plan], list[Row]],
) -> list[Row]:
    """Return the rows of head's changed kernels: controls, source rules, and what `run` gives.

    Where nothing changed nothing is run: the rows of identity say what stands for it.
    """
    plan = plan_correctness(changes)
    subjects = subjects_to_check(changes)
    if not subjects:
        return list(plan.rows)
    return [*failing_self_checks(), *source_rows(subjects), *run(plan)]
