"""Counting the work of a kernel by walking its lowered TIR: only integers are computed."""

from typing import Any

from rungwatch.artifact.plan import LaunchPlan
from rungwatch.cost.walk.launch import run
from rungwatch.cost.walk.statements import Reader
from rungwatch.cost.work import UnwalkableError, Work

__all__ = ["UnwalkableError", "Work", "walk"]


def walk(function: Any, plan: LaunchPlan, *, collapse: bool = True) -> Work:
    """Count the work of a device `PrimFunc`, as it is after the pass `tirx.SplitHostDevice`.

    `plan` is the launch of that function: its grid, block, cluster and parameters. No
    synchronisation is simulated: waits return at once, so the counts are of a run that ends.
    Without `collapse` every thread and every round of a loop is run by itself, which takes
    hundreds of times longer and gives the same counts.

    Raises:
        UnwalkableError: control flow depends on data, or a statement, expression, call, memory
            or form of an instruction is not known.
    """
    return run(Reader(function, plan).program, plan, collapse)
