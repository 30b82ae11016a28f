"""`rungwatch gate`: may head be merged into base?"""

import contextlib
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import click

from rungwatch.artifact.build import Progress as BuildSteps
from rungwatch.artifact.store import Store
from rungwatch.backends.simulator.backend import SimulatorBackend
from rungwatch.cache import cache_dir
from rungwatch.check.execute import Progress as CheckSteps
from rungwatch.check.execute import execute
from rungwatch.check.plan import Plan
from rungwatch.check.verdict_cache import VerdictCache
from rungwatch.cli.options import debug_option, kernels_option
from rungwatch.cli.output import (
    OUTPUT_FILE,
    Clock,
    json_option,
    junit_option,
    make_record,
    require_different,
    show,
    write_files,
)
from rungwatch.cli.progress import BuildProgress, CheckProgress
from rungwatch.cli.revisions import (
    artifact_store,
    costs_of,
    existing_kernels,
    progress_console,
    say,
    usage_errors,
)
from rungwatch.decide.settings import Settings, SettingsError, read_settings
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.protocol import TARGETS, Target
from rungwatch.explain.markdown import to_markdown
from rungwatch.gate.comparison import KernelChange, Party, compare
from rungwatch.gate.correctness import correctness_rows
from rungwatch.gate.judge import Question, rows_of
from rungwatch.gate.parties import PartyError, in_force, party
from rungwatch.record.files import write_atomically
from rungwatch.record.model import CheckName, Row
from rungwatch.revision.revision import (
    CONFIG_FILE,
    WORKTREE,
    Revision,
    RevisionContentError,
    open_revision,
)


@click.command()
@kernels_option
@click.option("--base", required=True, metavar="REV", help="What head is compared with.")
@click.option(
    "--head", default=WORKTREE, show_default=True, metavar="REV", help="What is to be merged."
)
@click.option(
    "--backend",
    "backend_name",
    type=click.Choice(["none"]),
    default="none",
    show_default=True,
    help="What times kernels. This version times none.",
)
@click.option(
    "--kernel", "-k", "names", multiple=True, help="A kernel of the list (step7). May be repeated."
)
@click.option("--target", type=click.Choice(TARGETS), help="Only this target.")
@click.option(
    "--allow-unmeasured",
    is_flag=True,
    help="Count changed code that nothing timed as skipped, not as inconclusive (3).",
)
@click.option("--no-cache", is_flag=True, help="Run also what passed before and did not change.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Cases at once. [one a core]")
@json_option
@junit_option
@click.option(
    "--markdown", "markdown_file", type=OUTPUT_FILE, help="Write a comment for a pull request."
)
@debug_option
def gate(
    kernels_dir: Path | None,
    base: str,
    head: str,
    backend_name: Literal["none"],
    names: tuple[str, ...],
    target: Target | None,
    allow_unmeasured: bool,
    no_cache: bool,
    jobs: int | None,
    json_file: Path | None,
    junit_file: Path | None,
    markdown_file: Path | None,
) -> int:
    """Compare two revisions and say whether head may be merged.

    Kernels of both are compiled. What is the same machine code, launched in the same way, passes
    by identity. What changed is run in the simulator, and its static cost is held against
    base's `rungwatch.toml`. A revision is a git revision, or WORKTREE: the files as they are.

    \b
    Examples:
      rungwatch gate --base HEAD
      rungwatch gate --base main --backend none
      rungwatch gate --base HEAD~1 --head HEAD --markdown comment.md
    """
    clock = Clock.start()
    require_different(json_file, junit_file, markdown_file)
    run = _Run(names, target, allow_unmeasured, not no_cache, jobs)
    old = new = None
    with contextlib.ExitStack() as stack:
        stack.enter_context(usage_errors())
        kernels = existing_kernels(kernels_dir)
        try:
            old = stack.enter_context(open_revision(base, kernels))
            new = stack.enter_context(open_revision(head, kernels))
            outcome = run.outcome(old, new, clock)
        except RevisionContentError as error:
            outcome = _Outcome([_one_row("load", Reason.KERNEL_LOAD, str(error))])
    record = make_record(
        outcome.rows,
        clock,
        backend=backend_name,
        revision=new.label if new is not None else None,
        base=old.label if old is not None else None,
        settings=outcome.settings,
        accepts_unmeasured=allow_unmeasured,
        compilers=outcome.compilers,
    )
    write_files(record, json_file, junit_file)
    if markdown_file is not None:
        write_atomically(markdown_file, to_markdown(record).encode())
    return show(record)


@dataclass(frozen=True)
class _Outcome:
    rows: list[Row]
    settings: Settings | None = None
    compilers: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Run:
    names: tuple[str, ...]
    target: Target | None
    allow_unmeasured: bool
    use_cache: bool
    jobs: int | None

    def outcome(self, old: Revision, new: Revision, clock: Clock) -> _Outcome:
        """Return every row; one row alone where a side can't be judged."""
        try:
            settings = in_force(read_settings(old.file(CONFIG_FILE)), new)
        except SettingsError as error:
            return _Outcome([_one_row("settings", Reason.SETTINGS, f"base: {error}")])
        try:
            lock = settings.toolchain.lock
            base, head = (party(each, lock, cache_dir(), say) for each in (old, new))
        except PartyError as error:
            return _Outcome([_one_row("build", Reason.TOOLCHAIN, str(error))], settings)
        store = artifact_store()
        changes = self._compare(base, head, store)
        question = Question(
            settings,
            clock.started.date(),
            self.allow_unmeasured,
            shlex.join(["rungwatch", "diff", old.name, new.name]),
        )
        costs = costs_of(store)
        rows = [row for change in changes for row in rows_of(change, question, costs)]
        rows += correctness_rows(changes, self._check)
        compilers = {"base": dict(base.toolchain.versions), "head": dict(head.toolchain.versions)}
        return _Outcome(rows, settings, compilers)

    def _compare(self, base: Party, head: Party, store: Store) -> list[KernelChange]:
        with BuildProgress(None, progress_console()) as progress:
            return compare(
                base,
                head,
                store,
                BuildSteps(progress.started, progress.finished),
                names=self.names,
                target=self.target,
                covering=True,
                worker_count=self.jobs,
            )

    def _check(self, plan: Plan) -> list[Row]:
        cache = VerdictCache(cache_dir() / "verdicts") if self.use_cache else None
        with CheckProgress(len(plan.jobs), progress_console()) as progress:
            return execute(
                plan,
                SimulatorBackend(progress.say),
                "sim",
                cache,
                CheckSteps(progress.started, progress.finished),
                self.jobs,
            )


def _one_row(check: CheckName, reason: Reason, message: str) -> Row:
    return Row(
        id=f"gate-{check}",
        kernel="gate",
        target=None,
        problem=None,
        check=check,
        verdict=verdict_of(reason),
        reason=reason,
        message=message,
        rerun="",
    )
