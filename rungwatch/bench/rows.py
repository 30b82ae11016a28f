"""From what was timed, or why it was not, to rows of a record."""

import shlex
from dataclasses import dataclass
from typing import Literal

from rungwatch.backends.job import JobFailure
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.problem import Problem, Shape
from rungwatch.declare.protocol import Target
from rungwatch.declare.subject import Subject
from rungwatch.record.model import Row

# What the operands are drawn from while a kernel is timed: zeros or constants would run faster.
TIMED_DISTRIBUTION = "normal"


@dataclass(frozen=True)
class Rerun:
    """How a row is timed again alone: the artifacts folder by name, and as it was timed."""

    artifacts: str
    cache: Literal["cold", "warm"]
    twice: bool = False

    def command(self, subject: Subject, shape: Shape | None) -> str:
        """Return the command for one kernel, on one problem where there is one."""
        words = f"rungwatch bench --artifacts {shlex.quote(self.artifacts)} {subject.selector}"
        if shape is not None:
            words += f" --shape {shape.m}x{shape.n}x{shape.k}"
        words += " --cache warm" if self.cache == "warm" else ""
        return words + (" --twice" if self.twice else "")


def untimed_row(
    subject: Subject,
    target: Target | None,
    shape: Shape | None,
    reason: Reason,
    message: str,
    rerun: Rerun,
) -> Row:
    """Return the row of a case, or of a whole kernel (`shape` None), that was not timed."""
    middle = f"-{shape}" if shape is not None else ""
    return Row(
        id=f"{subject.name}{middle}-timing",
        kernel=subject.key,
        target=target,
        problem=Problem(shape, TIMED_DISTRIBUTION) if shape is not None else None,
        check="timing",
        verdict=verdict_of(reason),
        reason=reason,
        message=message,
        rerun=rerun.command(subject, shape),
    )


def reason_of(failure: JobFailure) -> tuple[Reason, str]:
    """Return the reason and the message of a case that a worker could not time."""
    return Reason(failure.failure.value), failure.message
