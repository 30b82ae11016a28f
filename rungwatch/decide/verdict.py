"""The verdicts, the reason codes and what each one means: the only place they are listed.

A reason belongs to exactly one verdict, so a row states its reason and the verdict follows.
"""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a row, and a run, can end as."""

    PASS = "PASS"
    FAIL = "FAIL"
    REGRESSION = "REGRESSION"
    IMPROVED = "IMPROVED"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
    SKIPPED = "SKIPPED"


class Reason(StrEnum):
    """Why a row has its verdict. `EXPLANATIONS` says what each one means and what to do next."""

    OK = "ok"
    # FAIL: the kernel is wrong.
    NUMERICS = "numerics"
    UNEXPECTED_NAN = "unexpected-nan"
    NOT_WRITTEN = "not-written"
    INPUT_CHANGED = "input-changed"
    GUARD_BAND = "guard-band"
    EXECUTION = "execution"
    SYNCCHECK = "synccheck"
    RACECHECK = "racecheck"
    SOURCE_RULE = "source-rule"
    # INVALID: nothing was learnt about the kernel.
    KERNEL_LOAD = "kernel-load"
    KERNEL_BUILD = "kernel-build"
    PROTOCOL = "protocol"
    UNMODELLED = "unmodelled"
    MISSING_DEPENDENCY = "missing-dependency"
    BACKEND_UNAVAILABLE = "backend-unavailable"
    CHECKER_BUDGET = "checker-budget"
    DEADLINE = "deadline"
    MEMORY_LIMIT = "memory-limit"
    WORKER_DIED = "worker-died"
    BAD_OUTPUT = "bad-output"
    NO_ROWS = "no-rows"
    SELF_CHECK = "self-check"
    # SKIPPED: known in advance not to apply.
    PROBLEM_REFUSED = "problem-refused"
    TARGET_NOT_SIMULATED = "target-not-simulated"


@dataclass(frozen=True)
class Explanation:
    """The verdict that a reason belongs to, what it means, and what to do next."""

    verdict: Verdict
    meaning: str
    next_step: str


_RERUN = "rerun the one case alone; if it repeats, report it with the printed command"

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.OK: Explanation(Verdict.PASS, "everything that was asked for was checked and holds", ""),
    Reason.NUMERICS: Explanation(
        Verdict.FAIL,
        "an element of D is outside the interval that fp32 accumulation can explain",
        "look at the tile map: whole tiles mean coordinates or phases, single rows mean layout",
    ),
    Reason.UNEXPECTED_NAN: Explanation(
        Verdict.FAIL,
        "D holds a NaN where the reference is a number, or a number where it is NaN",
        "an uninitialised accumulator or stage, or a NaN that leaked out of its row or column",
    ),
    Reason.NOT_WRITTEN: Explanation(
        Verdict.FAIL,
        "elements of D still hold the poison written before the run: the kernel never wrote them",
        "check the schedule: the tile count, the stride and the grid",
    ),
    Reason.INPUT_CHANGED: Explanation(
        Verdict.FAIL, "the kernel changed A or B", "check which buffer each store writes to"
    ),
    Reason.GUARD_BAND: Explanation(
        Verdict.FAIL,
        "the kernel wrote outside A, B or D",
        "check the bounds of the last tile and of the tensor maps",
    ),
    Reason.EXECUTION: Explanation(
        Verdict.FAIL,
        "the kernel could not run to its end: a deadlock or an illegal access",
        "read the message: it names the barrier or the access and its source line",
    ),
    Reason.SYNCCHECK: Explanation(
        Verdict.FAIL,
        "synccheck did not find the synchronisation clean (error, review or incomplete)",
        "read the finding: it names the barrier operation and its source line",
    ),
    Reason.RACECHECK: Explanation(
        Verdict.FAIL,
        "racecheck did not find memory accesses clean (error, review or incomplete)",
        "read the pair of accesses: what orders the second after the first?",
    ),
    Reason.SOURCE_RULE: Explanation(
        Verdict.FAIL,
        "a line of the kernel breaks a rule of the hardware that the simulator does not model",
        "read the line that is named, and docs/source-rules.md for the rule",
    ),
    Reason.KERNEL_LOAD: Explanation(
        Verdict.INVALID, "the kernel's file cannot be imported", "fix the error that is shown"
    ),
    Reason.KERNEL_BUILD: Explanation(
        Verdict.INVALID,
        "the kernel's factory or the compiler refused this problem",
        "fix the error, or state the rule that the problem breaks in the kernel's `rules`",
    ),
    Reason.PROTOCOL: Explanation(
        Verdict.INVALID,
        "the file does not follow a kernel protocol that this version knows",
        "see docs/add-a-kernel.md for the fields",
    ),
    Reason.UNMODELLED: Explanation(
        Verdict.INVALID,
        "the simulator does not model an operation that the kernel uses",
        "check the kernel on a GPU: the simulator can say nothing about it",
    ),
    Reason.MISSING_DEPENDENCY: Explanation(
        Verdict.INVALID, "a package that the kernel imports is not installed", "install it"
    ),
    Reason.BACKEND_UNAVAILABLE: Explanation(
        Verdict.INVALID,
        "the backend cannot work on this machine",
        "install what the message names",
    ),
    Reason.CHECKER_BUDGET: Explanation(
        Verdict.INVALID,
        "the checker ran out of its time budget, also when it had the machine alone",
        "free the machine, or choose a smaller problem with --shape",
    ),
    Reason.DEADLINE: Explanation(
        Verdict.INVALID,
        "the case did not end by its deadline and was ended from outside",
        "a hang in the kernel's factory or in the simulator: try a smaller problem",
    ),
    Reason.MEMORY_LIMIT: Explanation(
        Verdict.INVALID,
        "the case used more memory than it may and was ended from outside",
        "try a smaller problem",
    ),
    Reason.WORKER_DIED: Explanation(Verdict.INVALID, "the process that ran the case died", _RERUN),
    Reason.BAD_OUTPUT: Explanation(
        Verdict.INVALID, "the worker's answer is incomplete or malformed", _RERUN
    ),
    Reason.NO_ROWS: Explanation(
        Verdict.INVALID,
        "nothing was checked: no row, or only skipped ones",
        "see `rungwatch list` for kernels, targets and rules",
    ),
    Reason.SELF_CHECK: Explanation(
        Verdict.INVALID,
        "the tool failed its own control: no other row of this run can be trusted",
        "report it: this is a fault of the tool or of the machine, not of the kernel",
    ),
    Reason.PROBLEM_REFUSED: Explanation(
        Verdict.SKIPPED, "the kernel's rules exclude this problem", "use the nearest valid shape"
    ),
    Reason.TARGET_NOT_SIMULATED: Explanation(
        Verdict.SKIPPED,
        "no simulator models this target",
        "check it on a GPU",
    ),
}


def verdict_of(reason: Reason) -> Verdict:
    """Return the verdict that `reason` belongs to."""
    return EXPLANATIONS[reason].verdict
