"""The static size of a kernel: what its lowered TIR holds, counted on a CPU without running it.

The counts are call sites in the program, not executions: a `tcgen05.mma` in a loop counts once.
They say how a kernel is built and change only when it does; they are never a time.
"""

import os
import sys
import tempfile
from pathlib import Path

import msgspec

from rungwatch.backends.supervise import Ending, Limits, supervise
from rungwatch.declare.problem import Shape

ANSWER_FILE = "answer.json"
LIMITS = Limits(deadline_s=120.0, memory_bytes=4 * 2**30)


class TirCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counts of one kernel: statements and call sites of the device function.

    `threads` is the threads of a CTA, `shared_memory_bytes` the dynamic SMEM it declares.
    """

    statements: int
    mma_calls: int
    tma_calls: int
    barrier_waits: int
    barrier_arrivals: int
    syncs: int
    threads: int
    shared_memory_bytes: int


METRICS = TirCost.__struct_fields__


class CostError(RuntimeError):
    """A kernel whose TIR could not be built or counted, and why."""


class Answer(msgspec.Struct, frozen=True):
    """What the worker writes: exactly one of the counts and the reason there are none."""

    cost: TirCost | None = None
    error: str | None = None


def cost_of(path: Path, shape: Shape, target: str, limits: Limits = LIMITS) -> TirCost:
    """Count what the kernel in the file `path` holds for `shape` on `target` (sm_100a).

    The kernel's code runs in a process of its own and never enters the calling one.

    Raises:
        CostError: the kernel does not load or lower, holds no known MMA, or broke a limit.
    """
    where = f"{path.name} at {shape}"
    with tempfile.TemporaryDirectory(prefix="rungwatch-cost-") as name:
        folder = Path(name)
        dimensions = (str(value) for value in (shape.m, shape.n, shape.k, shape.sm_count))
        worker = (sys.executable, "-P", "-m", "rungwatch.cost.worker")
        command = [*worker, name, str(path.absolute()), target, *dimensions]
        ended = supervise(command, folder, os.environ, limits)
        if ended.ending is not Ending.EXITED:
            stage = ended.last_stage or "start"
            raise CostError(f"{where}: ended at its {ended.ending} limit (stage: {stage})")
        try:
            answer = msgspec.json.decode((folder / ANSWER_FILE).read_bytes(), type=Answer)
        except (OSError, msgspec.MsgspecError):
            raise CostError(f"{where}: {ended.describe()}") from None
    if answer.cost is None:
        raise CostError(f"{where}: {answer.error}")
    return answer.cost
