"""Decide which cases to run: pure, from declarations and options to a list of jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rungwatch.backends.job import SIMULATOR_TOOLS, Job, Tool
from rungwatch.cost.targets import SM_FACTS
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.problem import Problem, Shape
from rungwatch.declare.protocol import TARGETS, Target
from rungwatch.declare.subject import Subject
from rungwatch.record.model import CheckName, Row
from rungwatch.trusted import inputs, matrix
from rungwatch.trusted.matrix import Depth

SIMULATED_TARGETS: frozenset[Target] = frozenset({"sm_100a"})
CHECKER_DISTRIBUTION = "normal"
DEFAULT_TILE = (128, 128, 64)


@dataclass(frozen=True)
class Reach:
    """What a backend can run on this machine: kernels for `targets`, with `tools`.

    `lacking` are tools of the backend that this machine has not, and `lack` says why. A kernel
    that has none of `targets` is skipped for the reason `other_target`. `options` are those that
    run a row again here.
    """

    targets: frozenset[Target]
    tools: tuple[Tool, ...]
    other_target: Reason
    options: str
    lacking: tuple[Tool, ...] = ()
    lack: str = ""


SIMULATOR = Reach(
    SIMULATED_TARGETS, SIMULATOR_TOOLS, Reason.TARGET_NOT_SIMULATED, options="--no-cache"
)


@dataclass(frozen=True)
class Selection:
    """What the command line asks for. `shape` None means the required matrix at `depth`.

    `tools` None means all that the backend has. Where a GPU is required, what would be skipped
    for lack of the right one, or of a tool beside it, is INVALID.
    """

    depth: Depth = Depth.QUICK
    shape: Shape | None = None
    distributions: tuple[str, ...] = ()
    seed: int = 0
    tools: tuple[Tool, ...] | None = None
    target: str | None = None
    gpu_required: bool = False

    def among(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Return those of `tools` that are asked for."""
        return tuple(tool for tool in tools if self.tools is None or tool in self.tools)


@dataclass(frozen=True)
class PlannedJob:
    """One job and the rows it will give, one a problem (numerics) or one in all (checkers)."""

    subject: Subject
    target: Target | None
    tool: Tool
    problems: tuple[Problem, ...]
    options: str = SIMULATOR.options

    @property
    def shape(self) -> Shape:
        """The shape that all problems of the job share."""
        return self.problems[0].shape

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of D in one tile, for the map of wrong tiles."""
        declared = self.subject.declaration
        return (declared.tile if declared else DEFAULT_TILE)[:2]

    @property
    def work(self) -> int:
        """Multiply-adds to simulate, for running long jobs first."""
        return self.shape.m * self.shape.n * self.shape.k * len(self.problems)

    def job(self, problems: Sequence[Problem]) -> Job:
        """Return the job for a worker that runs `problems` (those that no cache answered)."""
        return Job(
            self.tool,
            self.subject.source,
            self.shape,
            tuple(map(str, problems)),
            self.subject.key,
            self.target,
        )

    def row_id(self, problem: Problem) -> str:
        """Return the name of a row: step7-512x768x320-sm4-normal, ...-sm4-synccheck."""
        what = problem.distribution if self.tool is Tool.NUMERICS else self.tool
        return f"{self.subject.name}-{Problem(problem.shape, what, problem.seed)}"

    def rerun(self, problem: Problem) -> str:
        """Return the command that runs one row alone, without the cache."""
        shape = problem.shape
        words = f"--shape {shape.m}x{shape.n}x{shape.k} --sms {shape.sm_count} --only {self.tool}"
        if self.tool is Tool.NUMERICS:
            words += f" --dist {problem.distribution}"
        if problem.seed:
            words += f" --seed {problem.seed}"
        return f"rungwatch check {self.subject.selector} {words} {self.options}"


@dataclass(frozen=True)
class Plan:
    """The jobs to run, and the rows that are known without running anything."""

    jobs: tuple[PlannedJob, ...]
    rows: tuple[Row, ...]


class AllRefusedError(ValueError):
    """Every chosen kernel's rules exclude the shape that was asked for."""


def plan_check(subjects: Iterable[Subject], selection: Selection, reach: Reach = SIMULATOR) -> Plan:
    """Return the jobs for `subjects` on a backend of the given reach.

    Raises:
        AllRefusedError: a shape was named that no chosen kernel supports; the message has one
            line a kernel with the rule that broke and the nearest valid shape.
    """
    jobs: list[PlannedJob] = []
    rows: list[Row] = []
    refusals: list[str] = []
    for subject in subjects:
        row, target = _known_without_running(subject, selection, reach)
        if row is not None:
            rows.append(row)
            if row.reason is Reason.PROBLEM_REFUSED:
                refusals.append(f"{subject.key}: {row.message}")
            continue
        rows += [
            _skipped(subject, Reason.NO_SANITIZER, reach.lack, selection, tool.value)
            for tool in selection.among(reach.lacking)
        ]
        found = _jobs(subject, target, selection, reach)
        if not found and selection.among(reach.tools):
            message = "its rules allow no shape of the required matrix: see docs/add-a-kernel.md"
            rows.append(settled_row(subject, Reason.PROTOCOL, message))
        jobs += found
    if refusals and not jobs and len(refusals) == len(rows):
        raise AllRefusedError("\n".join(refusals))
    return Plan(tuple(jobs), tuple(rows))


def _known_without_running(
    subject: Subject, selection: Selection, reach: Reach
) -> tuple[Row | None, Target | None]:
    """Return the row that settles `subject` unrun, if any, and the target to run it for."""
    if subject.error is not None:
        reason = load_reason(subject.error)
        return settled_row(subject, reason, subject.error), None
    declared = subject.declaration.targets if subject.declaration else TARGETS
    targets = [target for target in declared if selection.target in (None, target)]
    possible = [target for target in targets if target in reach.targets]
    if not possible:
        message = f"for {', '.join(targets)}; this backend runs {', '.join(sorted(reach.targets))}"
        return _skipped(subject, reach.other_target, message, selection), None
    if selection.shape is not None and subject.declaration is not None:
        refusal = subject.declaration.rules.refusal(selection.shape)
        if refusal is not None:
            return settled_row(subject, Reason.PROBLEM_REFUSED, refusal), None
    return None, possible[0]


def _skipped(
    subject: Subject, reason: Reason, message: str, selection: Selection, check: CheckName = "load"
) -> Row:
    """Return the row of what this machine can't run: INVALID where that is no excuse."""
    return settled_row(
        subject, Reason.GPU_REQUIRED if selection.gpu_required else reason, message, check
    )


def load_reason(error: str) -> Reason:
    """Return the reason of a kernel file that can't be read, by what is wrong with it."""
    return Reason.KERNEL_LOAD if "SyntaxError" in error else Reason.PROTOCOL


def settled_row(subject: Subject, reason: Reason, message: str, check: CheckName = "load") -> Row:
    """Return a row about a subject as a whole, for which no case had to be run."""
    return Row(
        id=f"{subject.name}-{check}",
        kernel=subject.key,
        target=None,
        problem=None,
        check=check,
        verdict=verdict_of(reason),
        reason=reason,
        message=message,
        rerun=f"rungwatch check {subject.selector}",
    )


def _jobs(
    subject: Subject, target: Target | None, selection: Selection, reach: Reach
) -> list[PlannedJob]:
    tools = selection.among(reach.tools)
    problems = _numerics_problems(subject, target, selection)
    by_shape: dict[Shape, list[Problem]] = {}
    for problem in problems:
        by_shape.setdefault(problem.shape, []).append(problem)
    jobs = [
        PlannedJob(subject, target, Tool.NUMERICS, tuple(group), reach.options)
        for group in by_shape.values()
        if Tool.NUMERICS in tools
    ]
    for tool in tools:
        if tool is not Tool.NUMERICS:
            jobs += [
                PlannedJob(
                    subject,
                    target,
                    tool,
                    (Problem(shape, CHECKER_DISTRIBUTION, selection.seed),),
                    reach.options,
                )
                for shape in _checker_shapes(subject, selection)
            ]
    return jobs


def _numerics_problems(
    subject: Subject, target: Target | None, selection: Selection
) -> list[Problem]:
    if selection.shape is not None or subject.declaration is None:
        assert selection.shape is not None  # the CLI asks for a shape with a bare factory
        problems = [Problem(selection.shape, name) for name in inputs.DISTRIBUTIONS]
    else:
        problems = matrix.numerics_problems(subject.declaration, selection.depth)
        if selection.depth is Depth.DEVICE:
            assert target is not None  # a declared kernel has one
            problems += matrix.large_problems(subject.declaration, SM_FACTS[target].sm_count)
    wanted = selection.distributions
    return [
        Problem(problem.shape, problem.distribution, selection.seed)
        for problem in problems
        if not wanted or problem.distribution in wanted
    ]


def _checker_shapes(subject: Subject, selection: Selection) -> list[Shape]:
    if selection.shape is not None or subject.declaration is None:
        assert selection.shape is not None
        return [selection.shape]
    return matrix.checker_shapes(subject.declaration, selection.depth)
