"""What the simulator's backend tells its worker, and what that answers."""

import msgspec

from rungwatch.backends.job import CheckerReport, Job, JobFailure
from rungwatch.cost.work import Work


class Order(msgspec.Struct, frozen=True):
    """A job, with what the worker needs to know beyond it."""

    job: Job
    threads: int
    lock: str


class Answer(msgspec.Struct, frozen=True):
    """What a worker did. `engine` and `artifact` name what it used in the simulator's cache."""

    outputs: tuple[str, ...] = ()
    failed: dict[str, JobFailure] = {}
    report: CheckerReport | None = None
    work: Work | None = None
    failure: JobFailure | None = None
    self_contained: bool = False
    engine: str | None = None
