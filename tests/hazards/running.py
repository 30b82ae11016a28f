"""Run one tool on a mutant, by the same code as `rungwatch check`."""

from pathlib import Path

from rungwatch.backends.job import Tool
from rungwatch.backends.simulator.backend import SimulatorBackend
from rungwatch.check.execute import Progress, execute
from rungwatch.check.plan import CHECKER_DISTRIBUTION, Plan, Selection, plan_check
from rungwatch.declare.registry import read_file
from rungwatch.declare.subject import from_file
from rungwatch.record.model import Row

from .mutants import Mutant

_SILENT = Progress(lambda planned: None, lambda planned, rows: None)


def plan(path: Path, mutant: Mutant, tool: Tool) -> Plan:
    """Return the plan of one row: `tool` on the kernel file `path` and the mutant's shape."""
    subject = from_file(read_file(path, path.parent))
    selection = Selection(shape=mutant.shape, distributions=(CHECKER_DISTRIBUTION,), tools=(tool,))
    return plan_check([subject], selection)


def run(mutant: Mutant, tool: Tool, folder: Path) -> Row:
    """Write the mutant's source to `folder` and return the row that `tool` gives for it."""
    path = folder / f"{mutant.kernel}.py"
    path.write_text(mutant.source(), encoding="utf-8")
    [row] = execute(plan(path, mutant, tool), SimulatorBackend(), "sim", None, _SILENT, 1)
    return row
