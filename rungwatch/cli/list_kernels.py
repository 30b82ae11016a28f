"""`rungwatch list`: what is guarded, what each kernel needs, and what the matrix asks of it."""

from pathlib import Path

import click
import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rungwatch.check.plan import SIMULATED_TARGETS
from rungwatch.cli.options import debug_option, kernels_option, kernels_root
from rungwatch.declare.protocol import Declaration
from rungwatch.declare.registry import KernelFile, NoKernelsError, discover
from rungwatch.explain.words import one_line
from rungwatch.trusted.matrix import situations


@click.command("list")
@kernels_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON to standard output.")
@debug_option
def list_kernels(kernels_dir: Path | None, as_json: bool) -> int:
    """List the kernels, their rules and their targets. Runs none of their code.

    \b
    Examples:
      rungwatch list
      rungwatch list --json
    """
    try:
        files = discover(kernels_root(kernels_dir))
    except NoKernelsError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode([_plain(f) for f in files]), indent=1))
    else:
        _print_table(files)
    return 0


def _plain(file: KernelFile) -> dict[str, object]:
    return {
        "key": file.key,
        "file": file.path.name,
        "sha256": file.sha256,
        "declaration": file.declaration,
        "situations": {} if file.declaration is None else situations_by_shape(file.declaration),
        "error": file.error,
    }


def situations_by_shape(declared: Declaration) -> dict[str, tuple[str, ...]]:
    """Return which situations the full matrix tries in which shape."""
    return {str(shape): names for shape, names in situations(declared).items()}


def _print_table(files: list[KernelFile]) -> None:
    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("kernel", "adds", "tile", "ring", "target", "needs"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("kernel", "tile", "target"))
    for file in files:
        if file.declaration is None:
            table.add_row(
                escape(one_line(file.name)), f"[red]{escape(one_line(file.error or ''))}[/red]"
            )
        else:
            table.add_row(
                escape(one_line(file.name)),
                *(escape(one_line(cell)) for cell in _cells(file.declaration)),
            )
    families = sorted({file.key.rpartition("/")[0] for file in files})
    console.print(f"{len(files)} kernels in {escape(', '.join(families))}: D = A @ B^T")
    console.print(table)
    console.print(f"Simulated targets: {', '.join(sorted(SIMULATED_TARGETS))}.")
    console.print("Check one: rungwatch check --kernel KERNEL")


def _cells(declared: Declaration) -> tuple[str, ...]:
    return (
        declared.adds,
        "x".join(map(str, declared.tile)),
        str(declared.ring_depth),
        " ".join(declared.targets),
        declared.rules.describe(),
    )
