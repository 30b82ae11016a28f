"""`rungwatch bisect`: which commit changed a static cost of a kernel?"""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import replace
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rungwatch.artifact.build import Case, Progress, build
from rungwatch.artifact.costs import CostUnknownError, WorkMismatchError
from rungwatch.cache import cache_dir
from rungwatch.cli.options import debug_option, kernels_option
from rungwatch.cli.output import print_quietly
from rungwatch.cli.revisions import artifact_store, costs_of, existing_kernels, say, usage_errors
from rungwatch.cost.static_cost import METRICS
from rungwatch.cost.targets import SM_FACTS
from rungwatch.decide.exit_code import ExitCode
from rungwatch.decide.settings import SettingsError, read_settings
from rungwatch.decide.static import number
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import TARGETS, Target
from rungwatch.declare.registry import KernelFile
from rungwatch.declare.subject import from_file
from rungwatch.explain.words import one_line, visible
from rungwatch.gate.bisect import EndUnknownError, Found, NoChangeError, find_change
from rungwatch.gate.parties import PartyError, party
from rungwatch.revision.git import Commit, GitError, Repository
from rungwatch.revision.revision import CONFIG_FILE, kernels_in, open_revision

_DEFAULT_SHAPE = "4096x4096x4096"


@click.command()
@kernels_option
@click.argument("good")
@click.argument("bad", default="HEAD")
@click.option("--kernel", "-k", "name", required=True, help="A kernel of the list (step7).")
@click.option(
    "--metric",
    required=True,
    metavar="NAME",
    type=click.Choice(list(METRICS)),
    help="The static cost that changed: docs/static-cost.md lists them.",
)
@click.option(
    "--shape", "shape_text", default=_DEFAULT_SHAPE, show_default=True, metavar="MxNxK",
    help="The problem; the nearest one that the kernel takes.",
)  # fmt: skip
@click.option("--target", type=click.Choice(TARGETS), help="[the kernel's first]")
@debug_option
def bisect(
    kernels_dir: Path | None,
    good: str,
    bad: str,
    name: str,
    metric: str,
    shape_text: str,
    target: Target | None,
) -> int:
    """Find the commit that changed a static cost of a kernel.

    It is looked for after GOOD, up to BAD (HEAD where that is left out). Only commits that touch
    the kernels or the compiler are built. Exits 0 where the commit was found, 3 where it could
    not be told from others that do not build or nothing changed, 4 where the cost is not known
    at one end.

    \b
    Examples:
      rungwatch bisect -k hgemm/blackwell/step7 --metric smem_bytes HEAD~3
    """
    try:
        shape = Shape.parse(shape_text, 1)
    except ValueError as error:
        raise click.UsageError(f"--shape: {error}") from None
    kernels = existing_kernels(kernels_dir)
    search = _Search(kernels, name, metric, shape, target)
    try:
        commits = search.commits(good, bad)
        found = find_change(len(commits), lambda position: search.value_at(commits[position]))
    except GitError as error:
        raise click.UsageError(str(error)) from None
    except NoChangeError as error:
        click.echo(f"INCONCLUSIVE  {name}: {metric} is {error} at both ends: nothing changed")
        return ExitCode.INCONCLUSIVE
    except EndUnknownError as error:
        revision = good if str(error) == "good" else bad
        click.echo(f"INVALID  {name}: {metric} is not known at {revision}: nothing to search for")
        return ExitCode.INVALID
    print_quietly(lambda console: _show(console, name, metric, commits, found))
    return ExitCode.PASS if len(found.suspects) == 1 else ExitCode.INCONCLUSIVE


class _UnknownError(RuntimeError):
    """A commit has no value, and why."""


class _Search:
    """Measures one metric of one kernel at any commit, and says what it does."""

    def __init__(
        self, kernels: Path, name: str, metric: str, shape: Shape, target: Target | None
    ) -> None:
        self._kernels = kernels
        self._name = name
        self._metric = metric
        self._shape = shape
        self._target = target
        self._store = artifact_store()
        self._side_of = costs_of(self._store)

    def commits(self, good: str, bad: str) -> list[Commit]:
        """Return good's commit, then those after it that can have changed a kernel, up to bad."""
        kernels = self._kernels
        repository = Repository(kernels if kernels.is_dir() else kernels.parent)
        first = repository.commit(good)
        last = repository.commit(bad)
        if not repository.includes(last, first):
            raise GitError(f"{bad} does not build on {good}: give the older revision first")
        inside = kernels_in(repository, kernels).as_posix()
        paths = [inside, str(CONFIG_FILE), *self._locks(last)]
        return [Commit(first, good), *repository.history(first, last, paths)]

    def _locks(self, commit: str) -> Sequence[str]:
        with usage_errors(), open_revision(commit, self._kernels) as revision:
            try:
                lock = read_settings(revision.file(CONFIG_FILE)).toolchain.lock
            except SettingsError:
                lock = None
        return [lock] if lock is not None else []

    def value_at(self, commit: Commit) -> float | None:
        """Return the metric at a commit, None where it has none; say which, and why."""
        try:
            value = self._measure(commit)
        except _UnknownError as error:
            first_line = visible(str(error)).partition("\n")[0]
            say(f"{commit.id[:10]}  {self._metric} unknown: {first_line}")
            return None
        say(f"{commit.id[:10]}  {self._metric} {number(value)}  {one_line(commit.subject)}")
        return value

    def _measure(self, commit: Commit) -> float:
        with usage_errors(), open_revision(commit.id, self._kernels) as revision:
            try:
                lock = read_settings(revision.file(CONFIG_FILE)).toolchain.lock
                side = party(revision, lock, cache_dir(), say)
            except (PartyError, SettingsError) as error:
                raise _UnknownError(str(error)) from None
            named = [each for each in side.files if self._name in (each.key, each.name)]
            if len(named) > 1:
                keys = ", ".join(each.key for each in named)
                raise click.UsageError(f"--kernel {self._name} is one of {keys}: give the key")
            file = named[0] if named else None
            if file is None or file.declaration is None:
                why = "there is no such kernel" if file is None else str(file.error)
                raise _UnknownError(why)
            [built] = build([self._case(file)], side.toolchain, self._store, Progress())
        if built.entry is None:
            raise _UnknownError(f"does not build: {built.message}")
        try:
            return self._side_of(built).cost[self._metric]
        except (CostUnknownError, WorkMismatchError) as error:
            raise _UnknownError(str(error)) from None

    def _case(self, file: KernelFile) -> Case:
        declared = file.declaration
        assert declared is not None
        target = self._target or declared.targets[0]
        wanted = replace(self._shape, sm_count=SM_FACTS[target].sm_count)
        return Case(from_file(file), declared.rules.nearest(wanted), target)


def _show(
    console: Console, name: str, metric: str, commits: Sequence[Commit], found: Found
) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("commit", metric, "subject"):
        table.add_column(heading, overflow="fold")
    for position in sorted({*found.tried, *found.suspects}):
        value = found.tried.get(position)
        commit = commits[position]
        mark = " <-" if position in found.suspects else ""
        table.add_row(
            commit.id[:10],
            "unknown" if value is None else number(value) + mark,
            escape(one_line(commit.subject)),
        )
    console.print(table)
    change = f"{metric} {number(found.before)} -> {number(found.after)} {METRICS[metric].unit}"
    if len(found.suspects) == 1:
        commit = commits[found.suspects[0]]
        console.print(
            f"{name}: {change} in {commit.id[:10]}: {escape(one_line(commit.subject))}",
            soft_wrap=True,
        )
    else:
        console.print(
            f"{name}: {change} in one of {len(found.suspects)} commits: those between don't build",
            soft_wrap=True,
        )
