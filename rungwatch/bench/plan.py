"""Decide what is timed: pure, from declarations and options to cases and rows known in advance."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rungwatch.bench.rows import Rerun, untimed_row
from rungwatch.check.plan import load_reason
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Declaration, Target
from rungwatch.declare.subject import Subject
from rungwatch.record.model import Row
from rungwatch.trusted.matrix import TimedSet, timed_shapes


@dataclass(frozen=True)
class Asked:
    """What to time: sets of problems, and single shapes for every chosen kernel."""

    sets: tuple[TimedSet, ...]
    shapes: tuple[tuple[int, int, int], ...] = ()

    def shapes_of(self, declared: Declaration, is_top: bool, sm_count: int) -> list[Shape]:
        """Return a kernel's problems, each once. The ladder is for all, other sets for the top."""
        found = [Shape(m, n, k, sm_count) for m, n, k in self.shapes]
        for timed in self.sets:
            if is_top or timed is TimedSet.LADDER:
                found += timed_shapes(declared, timed, sm_count)
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class BenchCase:
    """One kernel on one problem. `launched` has M padded to what the kernel's rules allow."""

    subject: Subject
    target: Target
    shape: Shape
    launched: Shape


@dataclass(frozen=True)
class BenchPlan:
    """What to time, in the order of the kernels, and the rows that are known without timing."""

    cases: tuple[BenchCase, ...]
    rows: tuple[Row, ...]


def top_steps(subjects: Iterable[Subject], target: Target) -> frozenset[str]:
    """Return the keys of the kernels of the highest step for `target`, in each family."""
    highest: dict[str, int] = {}
    found = [
        (subject.key, subject.key.rpartition("/")[0], subject.declaration.step)
        for subject in subjects
        if subject.declaration is not None and target in subject.declaration.targets
    ]
    for _, family, step in found:
        highest[family] = max(step, highest.get(family, 0))
    return frozenset(key for key, family, step in found if step == highest[family])


def plan_bench(
    subjects: Sequence[Subject],
    asked: Asked,
    sm_counts: Mapping[Target, int],
    rerun: Rerun,
    *,
    gpu_required: bool,
) -> BenchPlan:
    """Return what to time of `subjects`; `sm_counts` holds the SMs for each target that runs here.

    A kernel for another GPU is SKIPPED, or INVALID where a GPU is required; so is, always, one
    whose rules exclude a problem.
    """
    cases: list[BenchCase] = []
    rows: list[Row] = []
    for subject in subjects:
        declared = subject.declaration
        if declared is None:
            error = subject.error or "declares nothing"
            rows.append(untimed_row(subject, None, None, load_reason(error), error, rerun))
            continue
        possible = [target for target in declared.targets if target in sm_counts]
        if not possible:
            here = ", ".join(sorted(sm_counts))
            reason = Reason.GPU_REQUIRED if gpu_required else Reason.OTHER_GPU
            message = f"for {', '.join(declared.targets)}; this GPU runs {here}"
            rows.append(untimed_row(subject, None, None, reason, message, rerun))
            continue
        target = possible[0]
        is_top = subject.key in top_steps(subjects, target)
        for shape in asked.shapes_of(declared, is_top, sm_counts[target]):
            launched = declared.rules.padded(shape)
            if launched is not None:
                cases.append(BenchCase(subject, target, shape, launched))
            else:
                why = declared.rules.refusal(shape) or ""
                rows.append(untimed_row(subject, target, shape, Reason.PROBLEM_REFUSED, why, rerun))
    return BenchPlan(tuple(cases), tuple(rows))
