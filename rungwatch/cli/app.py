"""The command group."""

import click

import rungwatch
from rungwatch.cli.bench import bench
from rungwatch.cli.bisect import bisect
from rungwatch.cli.build import build_command
from rungwatch.cli.check import check
from rungwatch.cli.commission import commission
from rungwatch.cli.decide import decide
from rungwatch.cli.diff import diff
from rungwatch.cli.doctor import doctor
from rungwatch.cli.gate import gate
from rungwatch.cli.list_kernels import list_kernels

_EPILOG = """\b
Exit codes: 0 passed; 1 a kernel is wrong (FAIL) or costs more than base
allows (REGRESSION); 2 wrong usage; 3 inconclusive; 4 invalid: nothing
learnt, or an internal error; 130 interrupted.
"""


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(rungwatch.__version__, prog_name="rungwatch")
def app() -> None:
    """Tell whether GPU kernels written in TIRx are right, and what a commit changes in them.

    No GPU is needed, but to time them (`rungwatch bench`).

    Start with `rungwatch list`, then `rungwatch check`. `rungwatch gate` compares two commits.
    """


for command in (
    list_kernels, check, build_command, diff, gate, decide, bisect, bench, commission, doctor,
):  # fmt: skip
    app.add_command(command)
