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
    # PASS without a run of its own: what stands for it is said.
    CHANGED = "changed"
    NO_BASELINE = "no-baseline"
    ACCEPTED = "accepted"
    IDENTICAL = "identical"
    # IMPROVED, REGRESSION: what a commit changes in the static cost.
    STATIC_BETTER = "static-better"
    STATIC_WORSE = "static-worse"
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
    NONDETERMINISTIC = "nondeterministic"
    SANITIZER = "sanitizer"
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
    ARTIFACT_REFUSED = "artifact-refused"
    NO_ARTIFACT = "no-artifact"
    GPU_REQUIRED = "gpu-required"
    TOOLCHAIN = "toolchain"
    COST_UNKNOWN = "cost-unknown"
    WORK_MISMATCH = "work-mismatch"
    COVERAGE_REDUCED = "coverage-reduced"
    REMOVED = "removed"
    SETTINGS = "settings"
    RECORD = "record"
    NO_ROWS = "no-rows"
    SELF_CHECK = "self-check"
    MACHINE_UNFIT = "machine-unfit"
    # INVALID: times were taken, and can't be believed.
    NO_SAMPLES = "no-samples"
    IMPLAUSIBLE = "implausible"
    THROTTLED = "throttled"
    # INCONCLUSIVE: it was asked for and can't be said.
    NEEDS_GPU = "needs-gpu"
    NOT_TIMED = "not-timed"
    TOO_FEW_WORKERS = "too-few-workers"
    LAUNCH_BOUND = "launch-bound"
    UNSETTLED = "unsettled"
    MACHINE_UNKNOWN = "machine-unknown"
    # SKIPPED: known in advance not to apply.
    PROBLEM_REFUSED = "problem-refused"
    TARGET_NOT_SIMULATED = "target-not-simulated"
    OTHER_GPU = "other-gpu"
    NO_SANITIZER = "no-sanitizer"
    UNKNOWN_PROTOCOL = "unknown-protocol"
    TIMING_WAIVED = "timing-waived"


@dataclass(frozen=True)
class Explanation:
    """The verdict that a reason belongs to, what it means, and what to do next."""

    verdict: Verdict
    meaning: str
    next_step: str


_RERUN = "rerun the one case alone; if it repeats, report it with the printed command"

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.OK: Explanation(Verdict.PASS, "everything that was asked for was checked and holds", ""),
    Reason.CHANGED: Explanation(
        Verdict.PASS, "machine code or launch plan differ: that alone is neither good nor bad", ""
    ),
    Reason.NO_BASELINE: Explanation(
        Verdict.PASS, "the kernel or problem is new: there is nothing to compare it with", ""
    ),
    Reason.ACCEPTED: Explanation(
        Verdict.PASS, "worse or removed, and base's rungwatch.toml accepts it by name", ""
    ),
    Reason.IDENTICAL: Explanation(
        Verdict.PASS,
        "machine code and launch plan are those of base: what base was shown to do, head does",
        "",
    ),
    Reason.STATIC_BETTER: Explanation(
        Verdict.IMPROVED, "a static cost is lower than base's, and none is higher than allowed", ""
    ),
    Reason.STATIC_WORSE: Explanation(
        Verdict.REGRESSION,
        "a static cost is higher than base's by more than rungwatch.toml allows",
        "look at `rungwatch diff BASE HEAD --sass`; if it is meant, add an [[accepted]] entry to"
        " rungwatch.toml on the base branch",
    ),
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
        "read the message: it names the barrier or access and its source line, or CUDA's error",
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
    Reason.NONDETERMINISTIC: Explanation(
        Verdict.FAIL,
        "D is right, but a second run on the same inputs left other bits",
        "a race, or sums in an order that changes: run the row under the sanitizer's racecheck",
    ),
    Reason.SANITIZER: Explanation(
        Verdict.FAIL,
        "compute-sanitizer found a fault on the GPU (memcheck, racecheck or synccheck)",
        "read the finding: it names the access or barrier and the kernel's instruction",
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
        "the case was ended from outside at its deadline, or not run since one like it was",
        "a hang in the kernel, its factory or the simulator: the message says where",
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
    Reason.ARTIFACT_REFUSED: Explanation(
        Verdict.INVALID,
        "what was built may not be launched: the loader refuses its code or its launch plan",
        "read the message: it names the section, the tensor map or the launch limit",
    ),
    Reason.NO_ARTIFACT: Explanation(
        Verdict.INVALID,
        "the artifacts folder holds nothing of this kernel, problem and target",
        "build it from these files: `rungwatch build --for quick|full|device|bench --out DIR`",
    ),
    Reason.GPU_REQUIRED: Explanation(
        Verdict.INVALID,
        "RUNGWATCH_REQUIRE_GPU is set, and this row would be skipped for lack of a GPU or tool",
        "run it where the message's GPU or tool is, or choose what runs here with --target, --only",
    ),
    Reason.TOOLCHAIN: Explanation(
        Verdict.INVALID,
        "the compiler that the revision's lock file names can't be had",
        "install rungwatch[build], or make the package index hold the version that is named",
    ),
    Reason.COST_UNKNOWN: Explanation(
        Verdict.INVALID,
        "the static cost can't be read from the machine code or the program",
        "read the message: an instruction or a line that this version does not know is named",
    ),
    Reason.WORK_MISMATCH: Explanation(
        Verdict.INVALID,
        "the program's own counts are not those of this GEMM: not 2MNK FLOPs, or other bytes",
        "a k tile, a tile or a stride is wrong, or work is done twice: no cost of it can be read",
    ),
    Reason.COVERAGE_REDUCED: Explanation(
        Verdict.INVALID,
        "head accepts fewer problems or targets than base: what base was checked on is not run",
        "keep the rules and targets as wide as base's, or change base first",
    ),
    Reason.REMOVED: Explanation(
        Verdict.INVALID,
        "base guards a kernel that head does not have",
        "bring it back, or name it in a [[removed]] entry of rungwatch.toml on the base branch",
    ),
    Reason.SETTINGS: Explanation(
        Verdict.INVALID,
        "base's rungwatch.toml can't be used: it is malformed or holds an unknown key",
        "see docs/gate.md for its keys",
    ),
    Reason.RECORD: Explanation(
        Verdict.INVALID,
        "the record contradicts itself: a verdict in it is not the one its own data give",
        "make the record anew; don't edit one by hand",
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
    Reason.MACHINE_UNFIT: Explanation(
        Verdict.INVALID,
        "this machine is not fit for what was asked of it",
        "do what the finding names, then run `rungwatch doctor` again",
    ),
    Reason.NO_SAMPLES: Explanation(
        Verdict.INVALID,
        "samples of the kernel or of cuBLAS are missing, or do not belong together",
        _RERUN,
    ),
    Reason.IMPLAUSIBLE: Explanation(
        Verdict.INVALID,
        "a time is zero, negative or no number, or is shorter than the GPU's peak allows",
        "the measurement is broken, or the kernel does not do its work: check it first",
    ),
    Reason.THROTTLED: Explanation(
        Verdict.INVALID,
        "heat or the hardware slowed the GPU down while it was timed",
        "see `rungwatch doctor`: cool the GPU, look at its power supply, and time it again",
    ),
    Reason.NEEDS_GPU: Explanation(
        Verdict.INCONCLUSIVE,
        "the kernel changed, and no simulator models its target",
        "check it on a GPU of that target",
    ),
    Reason.NOT_TIMED: Explanation(
        Verdict.INCONCLUSIVE,
        "machine code changed, and nothing was timed here",
        "time it on a GPU; give --allow-unmeasured where another job does",
    ),
    Reason.TOO_FEW_WORKERS: Explanation(
        Verdict.INCONCLUSIVE,
        "fewer workers timed the case than an interval needs",
        "ask for more workers; where some died, read what is said of them",
    ),
    Reason.LAUNCH_BOUND: Explanation(
        Verdict.INCONCLUSIVE,
        "the kernel or cuBLAS takes hardly longer than an empty interval: the launch was timed",
        "choose a larger problem",
    ),
    Reason.UNSETTLED: Explanation(
        Verdict.INCONCLUSIVE,
        "durations still drifted when the warm-up ended, in too many workers",
        "see `rungwatch doctor`: other processes on the GPU, or clocks that change; time it again",
    ),
    Reason.MACHINE_UNKNOWN: Explanation(
        Verdict.INCONCLUSIVE,
        "something that decides whether this machine is fit can't be read here",
        "do what the finding names, or use a machine where it can be read",
    ),
    Reason.PROBLEM_REFUSED: Explanation(
        Verdict.SKIPPED, "the kernel's rules exclude this problem", "use the nearest valid shape"
    ),
    Reason.TARGET_NOT_SIMULATED: Explanation(
        Verdict.SKIPPED,
        "no simulator models this target",
        "check it on a GPU",
    ),
    Reason.OTHER_GPU: Explanation(
        Verdict.SKIPPED, "the kernel is for another GPU than this machine's", "check it on that GPU"
    ),
    Reason.NO_SANITIZER: Explanation(
        Verdict.SKIPPED,
        "compute-sanitizer is not installed: its checks were not run",
        "install the CUDA toolkit, which has it",
    ),
    Reason.UNKNOWN_PROTOCOL: Explanation(
        Verdict.SKIPPED,
        "the kernel declares a protocol version that this version of the tool does not know",
        "use a version of rungwatch that knows it",
    ),
    Reason.TIMING_WAIVED: Explanation(
        Verdict.SKIPPED,
        "machine code changed and nothing was timed, as --allow-unmeasured permits",
        "see the job that times on a GPU",
    ),
}


def verdict_of(reason: Reason) -> Verdict:
    """Return the verdict that `reason` belongs to."""
    return EXPLANATIONS[reason].verdict
