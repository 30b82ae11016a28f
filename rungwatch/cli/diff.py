"""`rungwatch diff`: what changes between two revisions, kernel by kernel. It judges nothing."""

from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from rungwatch.artifact.build import Progress
from rungwatch.artifact.store import Store
from rungwatch.cache import cache_dir
from rungwatch.cli.options import debug_option, kernels_option
from rungwatch.cli.output import Clock, json_option, make_record, print_quietly, show, write_files
from rungwatch.cli.progress import BuildProgress
from rungwatch.cli.revisions import (
    artifact_store,
    costs_of,
    existing_kernels,
    progress_console,
    say,
    usage_errors,
)
from rungwatch.cost.disassembly import DisassemblyError, disassemble, sass_text
from rungwatch.decide.exit_code import ExitCode
from rungwatch.decide.settings import SettingsError, read_settings
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import TARGETS, Target
from rungwatch.explain.sass import side_by_side
from rungwatch.explain.words import one_line
from rungwatch.gate.comparison import CaseChange, KernelChange, compare
from rungwatch.gate.difference import difference_rows
from rungwatch.gate.parties import PartyError, party
from rungwatch.revision.revision import CONFIG_FILE, WORKTREE, open_revision

_CONTEXT_LINES = 3


@click.command()
@kernels_option
@click.argument("base")
@click.argument("head", default=WORKTREE)
@click.option(
    "--kernel", "-k", "names", multiple=True, help="A kernel of the list (step7). May be repeated."
)
@click.option(
    "--shape",
    "shape_texts",
    metavar="MxNxK",
    multiple=True,
    help="A shape instead of the four squares. May be repeated.",
)
@click.option("--target", type=click.Choice(TARGETS), help="Only this target.")
@click.option("--sass", is_flag=True, help="Show the machine code of changed kernels side by side.")
@click.option("--source", is_flag=True, help="Show the source of changed kernels side by side.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Kernels at once. [one a core]")
@json_option
@debug_option
def diff(
    kernels_dir: Path | None,
    base: str,
    head: str,
    names: tuple[str, ...],
    shape_texts: tuple[str, ...],
    target: Target | None,
    sass: bool,
    source: bool,
    jobs: int | None,
    json_file: Path | None,
) -> int:
    """Say which kernels changed between two revisions, and what that costs.

    A kernel has changed where it is other machine code, or launched in another way. HEAD is
    WORKTREE where it is left out: the files as they are.

    \b
    Examples:
      rungwatch diff HEAD
      rungwatch diff HEAD~1 HEAD --kernel step7 --sass
    """
    clock = Clock.start()
    try:
        sizes = [Shape.parse(text, 1) for text in shape_texts]
    except ValueError as error:
        raise click.UsageError(f"--shape: {error}") from None
    kernels = existing_kernels(kernels_dir)
    store = artifact_store()
    with (
        usage_errors(),
        open_revision(base, kernels) as old,
        open_revision(head, kernels) as new,
    ):
        try:
            lock = read_settings(old.file(CONFIG_FILE)).toolchain.lock
            ours, theirs = (party(each, lock, cache_dir(), say) for each in (old, new))
        except (PartyError, SettingsError) as error:
            click.echo(f"INVALID  {error}", err=True)
            return ExitCode.INVALID
        with BuildProgress(None, progress_console()) as progress:
            found = compare(
                ours,
                theirs,
                store,
                Progress(progress.started, progress.finished),
                names=names,
                target=target,
                sizes=sizes,
                worker_count=jobs,
            )
        rows = difference_rows(found, costs_of(store))
        record = make_record(rows, clock, backend="none", revision=new.label, base=old.label)
        write_files(record, json_file, None)
        code = show(record)
        changed = [change for change in found if not change.identical]
        if source:
            print_quietly(lambda console: _show_sources(changed, console))
        if sass:
            print_quietly(lambda console: _show_sass(changed, store, console))
    return code


def _show_sources(changed: list[KernelChange], console: Console) -> None:
    for change in changed:
        old, new = (
            file.path.read_text(encoding="utf-8", errors="replace").splitlines() if file else []
            for file in (change.pair.base, change.pair.head)
        )
        _head(console, f"source of {change.pair.key}")
        side_by_side(old, new, _CONTEXT_LINES, console)


def _show_sass(changed: list[KernelChange], store: Store, console: Console) -> None:
    """Show the machine code of the largest changed problem of each kernel and target."""
    for change in changed:
        largest: dict[Target, CaseChange] = {}
        for case in change.cases:
            if not case.identical and case.bench:
                largest[case.target] = max(
                    case, largest.get(case.target, case), key=lambda each: each.shape
                )
        for target, case in largest.items():
            _head(console, f"machine code of {change.pair.key} {case.shape} {target}")
            old, new = (
                _sass(built.entry.artifact, store) if built and built.entry else []
                for built in (case.base, case.head)
            )
            side_by_side(old, new, _CONTEXT_LINES, console)


def _head(console: Console, text: str) -> None:
    console.rule(Text(one_line(text)), align="left")


def _sass(identity: str, store: Store) -> list[str]:
    artifact = store.get(identity)
    try:
        return list(sass_text(disassemble(artifact.cubin, artifact.plan.entry)))
    except DisassemblyError as error:
        return [f"can't be disassembled: {error}"]
