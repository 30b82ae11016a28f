"""From how a worker ended to why there is no output, for all backends."""

from rungwatch.backends.exchange import JobFolder, read_arrays
from rungwatch.backends.job import Failure, Job, JobFailure, Stage
from rungwatch.backends.supervise import Ended, Ending, Limits
from rungwatch.trusted.buffers import malformed

_GIB = 1024**3


def failure_of(limits: Limits, ended: Ended) -> JobFailure | None:
    """Return why a worker that did not end well gave no result; None where it ended well."""
    match ended.ending:
        case Ending.DEADLINE:
            message = f"ended from outside after {ended.seconds:.0f} s, in {_where(ended)}"
            return JobFailure(Failure.DEADLINE, stage_of(ended), message)
        case Ending.MEMORY:
            message = (
                f"used {ended.peak_memory_bytes / _GIB:.1f} GiB of memory, more than the"
                f" {limits.memory_bytes / _GIB:.1f} GiB that it may, in {_where(ended)}"
            )
            return JobFailure(Failure.MEMORY_LIMIT, stage_of(ended), message)
        case Ending.CANCELLED:
            return died(ended, "cancelled")
        case Ending.EXITED:
            if ended.ok:
                return None
            return died(ended, f"the worker died in {_where(ended)}, {ended.describe()}")


def died(ended: Ended, message: str) -> JobFailure:
    """Return the failure of a worker that is gone without an answer."""
    return JobFailure(Failure.WORKER_DIED, stage_of(ended), message)


def stage_of(ended: Ended) -> Stage:
    """Return the stage that the worker was in when it ended."""
    return Stage(ended.last_stage) if ended.last_stage in set(Stage) else Stage.START


def _where(ended: Ended) -> str:
    detail = ended.events[-1].detail if ended.events else ""
    return f"stage {stage_of(ended)}{f' of {detail}' if detail else ''}"


def seconds_of(ended: Ended) -> dict[Stage, float]:
    """Return the wall time of each stage, less what the worker made up."""
    known = set(Stage)
    return {
        Stage(name): seconds for name, seconds in ended.seconds_by_stage.items() if name in known
    }


def is_sound(folder: JobFolder, name: str, job: Job) -> bool:
    """Say whether the output of the problem `name` holds arrays of the right names and sizes."""
    try:
        return malformed(read_arrays(folder.output(name)), job.shape) is None
    except Exception:  # a hostile file can make numpy's reader raise nearly anything
        return False
