"""From how workers ended to what became of each problem of a job: no process is started here.

A kernel that faults takes its process along, and one that hangs must be ended. Either is said of
the problem that was running; the others are not blamed for it.
"""

from dataclasses import dataclass, field
from pathlib import Path

from rungwatch.backends.cuda import sanitizer
from rungwatch.backends.cuda.attempt import Attempt
from rungwatch.backends.ending import died, failure_of, is_sound, seconds_of
from rungwatch.backends.job import Failure, Job, JobFailure, JobResult, Stage
from rungwatch.backends.supervise import Ended, Ending
from rungwatch.record.files import read_regular

_LARGEST_LOG_BYTES = 16 * 2**20


@dataclass
class Settled:
    """What is known of a job so far; `left` are the problems that no worker has answered for."""

    job: Job
    left: tuple[str, ...]
    outputs: dict[str, Path] = field(default_factory=dict)
    failed: dict[str, JobFailure] = field(default_factory=dict)
    unstable: dict[str, str] = field(default_factory=dict)
    seconds: dict[Stage, float] = field(default_factory=dict)

    def take(self, attempt: Attempt) -> None:
        """Settle what one worker's end says; at least one problem of those left."""
        for stage, seconds in seconds_of(attempt.ended).items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        answer = attempt.answer
        if answer is not None:
            for name in self.left:
                if name in answer.failed:
                    self.failed[name] = answer.failed[name]
                elif name in answer.outputs and is_sound(attempt.folder, name, self.job):
                    self.outputs[name] = attempt.folder.output(name)
                    if name in answer.unstable:
                        self.unstable[name] = answer.unstable[name]
        before = self.left
        self._leave()
        failure = failure_of(attempt.limits, attempt.ended)
        if failure is None and answer is not None:
            failure = answer.failure
        if failure is None and self.left == before:
            failure = died(attempt.ended, "the worker left no answer that can be read")
        if failure is not None:
            self._blame(failure, attempt.ended)

    def result(self) -> JobResult:
        """Return what is known, once nothing is left."""
        return JobResult(
            outputs=self.outputs, failed=self.failed, unstable=self.unstable, seconds=self.seconds
        )

    def _blame(self, failure: JobFailure, ended: Ended) -> None:
        """Give the problem that was running its failure; the others too, where it was not theirs.

        After a hang the rest are not run, since each would hang for as long: they are INVALID.
        """
        running = ended.events[-1].detail if ended.events else ""
        if running not in self.left or ended.ending is Ending.CANCELLED:
            self.failed |= dict.fromkeys(self.left, failure)
        elif ended.ending is Ending.DEADLINE and failure.stage is Stage.RUN:
            self.failed |= dict.fromkeys(self.left, _not_run(running))
            self.failed[running] = hang(ended)
        else:
            self.failed[running] = failure
        self._leave()

    def _leave(self) -> None:
        done = self.outputs.keys() | self.failed.keys()
        self.left = tuple(name for name in self.left if name not in done)


def hang(ended: Ended) -> JobFailure:
    """Return the failure of a kernel that did not end.

    The launch was real and the machine is not slow at it, as a simulator can be: that it does not
    end is a fault of the kernel (EXECUTION), not of the tool (DEADLINE).
    """
    seconds = ended.seconds_by_stage.get(Stage.RUN, ended.seconds)
    message = (
        f"the kernel did not end in {seconds:.0f} s on the GPU: a deadlock, or far too much work"
    )
    return JobFailure(Failure.EXECUTION, Stage.RUN, message)


def watched(job: Job, attempt: Attempt, log: Path) -> JobResult:
    """Return what compute-sanitizer said of a job with one problem, by its log file.

    What it found counts also where the kernel then failed; that it found nothing counts only
    where the kernel ran to its end.
    """
    [name] = job.inputs
    ended, seconds = attempt.ended, seconds_of(attempt.ended)
    found = ended.ending is Ending.EXITED and ended.exit_code == sanitizer.FOUND_EXIT_CODE
    failure = None if found else failure_of(attempt.limits, ended)
    if failure is None and attempt.answer is not None:
        failure = attempt.answer.failure
    if failure is not None:
        return JobResult(failure=failure, seconds=seconds)
    if attempt.answer is None:
        nothing = died(ended, "the worker left no answer that can be read")
        return JobResult(failure=nothing, seconds=seconds)
    try:
        text = read_regular(log, _LARGEST_LOG_BYTES).decode(errors="replace")
        report = sanitizer.report_of(job.tool, text)
    except (OSError, sanitizer.SanitizerError) as error:
        unread = JobFailure(Failure.BAD_OUTPUT, Stage.RUN, str(error))
        return JobResult(failure=attempt.answer.failed.get(name, unread), seconds=seconds)
    if report.verdict == "clean" and (found or not is_sound(attempt.folder, name, job)):
        words = "its exit code says otherwise" if found else "the kernel left no output"
        missing = JobFailure(
            Failure.BAD_OUTPUT, Stage.RUN, f"compute-sanitizer counts no error, but {words}"
        )
        return JobResult(failure=attempt.answer.failed.get(name, missing), seconds=seconds)
    return JobResult(report=report, seconds=seconds)


def _not_run(after: str) -> JobFailure:
    message = f"not run: the kernel did not end on {after} of the same shape"
    return JobFailure(Failure.DEADLINE, Stage.START, message)
