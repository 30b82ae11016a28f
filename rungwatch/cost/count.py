"""In a worker: count what a kernel executes, from its PrimFunc."""

from typing import Any

from rungwatch.artifact.host_plan import HostCodeError, read_plan
from rungwatch.cost.walk import walk
from rungwatch.cost.work import UnwalkableError, Work
from rungwatch.load.lower import LoweringError, cuda_target, lower


def work_of(function: Any, target: str) -> Work:
    """Return the work of a `PrimFunc`, lowered for `target` (sm_100a).

    Raises:
        UnwalkableError: it cannot be lowered, launched from a plan, or counted.
    """
    try:
        lowered = lower(function, cuda_target(target))
        return walk(lowered.device, read_plan(lowered.host))
    except (LoweringError, HostCodeError) as error:
        raise UnwalkableError(str(error)) from error
