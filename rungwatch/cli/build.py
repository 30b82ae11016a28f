"""`rungwatch build`: compile the kernels of any commit into artifacts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from msgspec.structs import replace

from rungwatch.artifact.build import Built, Case, Progress, build, by_kernel
from rungwatch.artifact.costs import CostUnknownError, SideOf, WorkMismatchError
from rungwatch.artifact.manifest import MANIFEST_FILE, Item, Manifest, encode_manifest
from rungwatch.artifact.store import Store
from rungwatch.artifact.toolchain import Toolchain
from rungwatch.bench.plan import Asked, top_steps
from rungwatch.cache import cache_dir
from rungwatch.cli.options import debug_option, kernels_option
from rungwatch.cli.output import (
    Clock,
    json_option,
    junit_option,
    make_record,
    require_different,
    show,
    write_files,
)
from rungwatch.cli.progress import BuildProgress
from rungwatch.cli.revisions import (
    artifact_store,
    costs_of,
    existing_kernels,
    progress_console,
    usage_errors,
)
from rungwatch.cost.targets import SM_FACTS
from rungwatch.decide.settings import SettingsError, read_settings
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.problem import Problem, Shape
from rungwatch.declare.protocol import TARGETS, Declaration, Target
from rungwatch.declare.registry import KernelFile, NoKernelsError, select
from rungwatch.declare.subject import Subject, from_file
from rungwatch.gate.parties import PartyError, party
from rungwatch.record.files import write_atomically
from rungwatch.record.model import Row
from rungwatch.revision.revision import CONFIG_FILE, WORKTREE, Revision, open_revision
from rungwatch.trusted import matrix
from rungwatch.trusted.matrix import Depth, TimedSet

# What neither a check nor timings need, but the gate: where static costs are compared.
_COMPARE = "compare"
_BENCH = "bench"


@dataclass(frozen=True)
class Wanted:
    """Which shapes to build: those of some purposes, and single ones, for `sms` SMs if given."""

    purposes: tuple[str, ...]
    shapes: tuple[Shape, ...]
    sms: int | None

    def shapes_of(self, declared: Declaration, target: Target, is_top: bool) -> list[Shape]:
        """Return the shapes to build of a kernel, less those that its rules refuse.

        `is_top` says whether it is the last step of its ladder: timings of many shapes are its.
        """
        count = self.sms or SM_FACTS[target].sm_count
        found = [replace(shape, sm_count=count) for shape in self.shapes]
        for purpose in self.purposes:
            if purpose == _COMPARE:
                found += matrix.compared_shapes(declared, count)
            elif purpose == _BENCH:
                timed = Asked(tuple(TimedSet)).shapes_of(declared, is_top, count)
                found += [padded for shape in timed if (padded := declared.rules.padded(shape))]
            else:
                found += matrix.required_shapes(declared, Depth(purpose), count)
        return [s for s in dict.fromkeys(found) if declared.rules.refusal(s) is None]


@click.command("build")
@kernels_option
@click.option(
    "--rev", default=WORKTREE, show_default=True, help="A git revision, or the files as they are."
)
@click.option(
    "--kernel", "-k", "names", multiple=True, help="A kernel of the list (step7). May be repeated."
)
@click.option(
    "--for",
    "purposes",
    multiple=True,
    type=click.Choice([_COMPARE, _BENCH, *(depth.value for depth in Depth)]),
    help="The shapes of what will be done with the artifacts: the four squares at which commits"
    " are compared (compare), those of `rungwatch bench`, or those of `rungwatch check` with"
    " --quick, --full or --device. May be repeated. [compare, unless there is a --shape]",
)
@click.option(
    "--shape",
    "shape_texts",
    metavar="MxNxK",
    multiple=True,
    help="A shape beside those of --for. May be repeated.",
)
@click.option("--sms", type=click.IntRange(1, 1024), help="SM count. [148 or 132, by target]")
@click.option("--target", type=click.Choice(TARGETS), help="Only this target.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the artifacts and their list, manifest.json.",
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Kernels at once. [one a core]")
@json_option
@junit_option
@debug_option
def build_command(
    kernels_dir: Path | None,
    rev: str,
    names: tuple[str, ...],
    purposes: tuple[str, ...],
    shape_texts: tuple[str, ...],
    sms: int | None,
    target: Target | None,
    out: Path,
    jobs: int | None,
    json_file: Path | None,
    junit_file: Path | None,
) -> int:
    """Compile kernels to machine code and launch plans, without a GPU.

    An artifact is data only: a cubin and a launch plan, named by their hash. Each revision is
    compiled by the compiler that its lock file names (`rungwatch.toml`, [toolchain]).

    \b
    Examples:
      rungwatch build --out artifacts
      rungwatch build --for quick --out artifacts
      rungwatch build --rev HEAD~1 -k step7 --shape 512x512x512 --out artifacts
    """
    clock = Clock.start()
    require_different(json_file, junit_file)
    wanted = Wanted(
        purposes or (() if shape_texts else (_COMPARE,)),
        tuple(_shape(text) for text in shape_texts),
        sms,
    )
    store = artifact_store()
    with usage_errors(), open_revision(rev, existing_kernels(kernels_dir)) as revision:
        rows, built, toolchain = _build(revision, names, wanted, target, store, jobs)
    if built:
        _write(out, built, store, revision, toolchain)
    record = make_record(rows, clock, backend="none", revision=revision.label)
    write_files(record, json_file, junit_file)
    return show(record)


def _shape(text: str) -> Shape:
    try:
        return Shape.parse(text, 1)
    except ValueError as error:
        raise click.UsageError(f"--shape: {error}") from None


def _build(
    revision: Revision,
    names: tuple[str, ...],
    wanted: "Wanted",
    target: Target | None,
    store: Store,
    jobs: int | None,
) -> tuple[list[Row], list[Built], Toolchain | None]:
    found = revision.kernel_files()
    if not found:
        raise click.UsageError(f"{revision.name} holds no kernel file in {revision.kernels.name}/")
    try:
        files = select(found, names, target)
    except NoKernelsError as error:
        raise click.UsageError(f"{revision.name}: {error}") from None
    rows = [_unreadable(file) for file in files if file.declaration is None]
    subjects = [from_file(file) for file in files]
    cases = [case for each in subjects for case in _cases(each, subjects, wanted, target)]
    if not cases and not rows:
        raise click.UsageError("no chosen kernel takes these shapes: see `rungwatch list`")
    console = progress_console()
    with BuildProgress(len(by_kernel(cases)), console) as progress:
        try:
            settings = read_settings(revision.file(CONFIG_FILE))
            side = party(revision, settings.toolchain.lock, cache_dir(), progress.say)
        except (PartyError, SettingsError) as error:
            reason = Reason.TOOLCHAIN if isinstance(error, PartyError) else Reason.SETTINGS
            return rows + [_row(case, reason, str(error)) for case in cases], [], None
        built = build(
            cases, side.toolchain, store, Progress(progress.started, progress.finished), jobs
        )
    costs = costs_of(store)
    rows += [_row_of(each, costs) for each in built]
    return rows, built, side.toolchain


def _cases(
    subject: Subject, subjects: Sequence[Subject], wanted: Wanted, target: Target | None
) -> list[Case]:
    """Return the cases of one of `subjects`; shapes that its rules refuse are left out."""
    declared = subject.declaration
    if declared is None:
        return []
    cases = []
    for on in declared.targets:
        if target not in (None, on):
            continue
        is_top = subject.key in top_steps(subjects, on)
        cases += [Case(subject, shape, on) for shape in wanted.shapes_of(declared, on, is_top)]
    return cases


def _row_of(built: Built, side_of: SideOf) -> Row:
    """Return the row of one case, with its static cost where it was built."""
    if built.entry is None:
        return _row(built.case, built.reason, built.message)
    try:
        side = side_of(built)
    except CostUnknownError as error:
        return _row(built.case, Reason.COST_UNKNOWN, str(error))
    except WorkMismatchError as error:
        return _row(built.case, Reason.WORK_MISMATCH, str(error))
    row = _row(built.case, Reason.OK, f"artifact {built.entry.artifact[:12]}")
    return replace(row, head=side, cached=built.cached)


def _row(case: Case, reason: Reason, message: str) -> Row:
    shape = case.shape
    return Row(
        id=f"{case.subject.name}-{shape}-{case.target}-build",
        kernel=case.subject.key,
        target=case.target,
        problem=Problem(shape, "normal"),
        check="build",
        verdict=verdict_of(reason),
        reason=reason,
        message=message,
        rerun=f"rungwatch build {case.subject.selector} --shape {shape.m}x{shape.n}x{shape.k}"
        f" --sms {shape.sm_count} --target {case.target} --out artifacts",
    )


def _unreadable(file: KernelFile) -> Row:
    reason = Reason.UNKNOWN_PROTOCOL if file.unknown_protocol else Reason.PROTOCOL
    return Row(
        id=f"{file.name}-load",
        kernel=file.key,
        target=None,
        problem=None,
        check="load",
        verdict=verdict_of(reason),
        reason=reason,
        message=file.error or "",
        rerun="rungwatch list",
    )


def _write(
    out: Path, built: list[Built], store: Store, revision: Revision, toolchain: Toolchain | None
) -> None:
    """Copy the artifacts into `out`, and write their list last."""
    target = Store(out)
    items = []
    for each in built:
        entry = each.entry
        if entry is not None:
            target.put(store.get(entry.artifact))
        items.append(
            Item(
                kernel=each.case.subject.key,
                source_sha256=each.case.subject.sha256,
                shape=each.case.shape,
                target=each.case.target,
                artifact=entry.artifact if entry is not None else None,
                code_sha256=entry.code_sha256 if entry is not None else None,
                reason=each.reason,
                message=each.message,
            )
        )
    versions = dict(toolchain.versions) if toolchain is not None else {}
    manifest = Manifest(revision.label, versions, tuple(items))
    write_atomically(out / MANIFEST_FILE, encode_manifest(manifest))
