"""`rungwatch bench`: how fast are the kernels on this machine's GPU, beside cuBLAS?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from rungwatch.backends.cuda.artifacts import ArtifactFolder
from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.backends.job import BackendUnavailableError
from rungwatch.bench.fitness import fitness_row
from rungwatch.bench.plan import Asked, plan_bench
from rungwatch.bench.rows import Rerun
from rungwatch.bench.session import time_all
from rungwatch.cli.device import gpu_of, gpu_required, revision_of
from rungwatch.cli.options import debug_option, kernels_option, kernels_root
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
from rungwatch.cli.progress import TimingProgress
from rungwatch.cli.revisions import progress_console, say
from rungwatch.cost.targets import SM_FACTS
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import TARGETS, Target
from rungwatch.declare.registry import NoKernelsError, discover, select
from rungwatch.declare.subject import Subject, from_file
from rungwatch.explain import ladder_plot, picture
from rungwatch.measure.order import MeasureSettings, TimedCase
from rungwatch.measure.session import Measured, measure
from rungwatch.trusted.matrix import TimedSet

_ALL = "all"
_DEFAULTS = MeasureSettings()


@click.command()
@kernels_option
@click.option(
    "--kernel", "-k", "names", multiple=True, help="A kernel of the list (step7). May be repeated."
)
@click.option("--target", type=click.Choice(TARGETS), help="Only kernels for this target.")
@click.option(
    "--artifacts",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="What `rungwatch build --for bench` made of these kernels.",
)
@click.option(
    "--shapes",
    "set_name",
    type=click.Choice([*(timed.value for timed in TimedSet), _ALL]),
    help="Every chosen kernel at 4096x4096x4096 (ladder); or the last step of each family at the"
    " squares from 1024 to 16384 (squares), at layers of language models (models); or all of it."
    " [ladder, unless there is a --shape]",
)
@click.option(
    "--shape",
    "shape_texts",
    metavar="MxNxK",
    multiple=True,
    help="A shape for every chosen kernel. May be repeated.",
)
@click.option(
    "--cache",
    type=click.Choice(["cold", "warm"]),
    default="cold",
    help="What L2 holds before a launch: nothing, or what the last one left. [cold]",
)
@click.option(
    "--workers",
    type=click.IntRange(2, 200),
    default=_DEFAULTS.workers,
    show_default=True,
    help="Processes that time everything once each: what intervals are computed over.",
)
@click.option(
    "--twice",
    is_flag=True,
    help="Time each artifact as two arms: how they differ is noise, and says which slowdown"
    " could be seen.",
)
@json_option
@junit_option
@click.option("--plot", "plot_file", type=OUTPUT_FILE, help="Draw the timings: a .png or .svg.")
@debug_option
def bench(
    kernels_dir: Path | None,
    names: tuple[str, ...],
    target: Target | None,
    artifacts: Path,
    set_name: str | None,
    shape_texts: tuple[str, ...],
    cache: Literal["cold", "warm"],
    workers: int,
    twice: bool,
    json_file: Path | None,
    junit_file: Path | None,
    plot_file: Path | None,
) -> int:
    """Time kernels on this machine's GPU, interleaved with cuBLAS in the same processes.

    Artifacts are run, as built elsewhere by `rungwatch build --for bench`. The time is that of
    the kernel alone. Times, ratios and samples are facts and decide nothing: the verdict says
    whether they were measured well. M is padded where a kernel's rules need it.

    \b
    Examples:
      rungwatch bench --artifacts artifacts
      rungwatch bench --artifacts artifacts --shapes all --plot all.png
      rungwatch bench --artifacts artifacts -k step9 --shape 2048x4096x512
      rungwatch bench --artifacts artifacts --shapes squares --twice
    """
    clock = Clock.start()
    require_different(json_file, junit_file, plot_file)
    if plot_file is not None:
        _require_plot(plot_file)
    if not artifacts.is_dir():
        raise click.UsageError(f"--artifacts: there is no folder {artifacts}")
    asked = _asked(set_name, shape_texts)
    root = kernels_root(kernels_dir)
    subjects = _subjects(root, names, target)
    device = CudaBackend(artifacts)
    rerun = Rerun(artifacts.resolve().name, cache, twice)
    plan = plan_bench(subjects, asked, _sm_counts(device), rerun, gpu_required=gpu_required())
    settings = MeasureSettings(workers=workers, cache=cache)
    # Before the first launch: what is on the GPU now is not ours.
    fitness = [fitness_row()] if isinstance(device.device, DeviceFacts) else []
    with TimingProgress(None, progress_console()) as progress:

        def timed(cases: Sequence[TimedCase], folder: ArtifactFolder) -> list[Measured]:
            return measure(cases, folder, settings, progress.update)

        rows = [*plan.rows, *time_all(plan.cases, device, rerun, timed, twice=twice)]
    if any(row.timing is not None for row in rows):
        rows += fitness
    record = make_record(
        rows, clock, backend="cuda", revision=revision_of(root, device), gpu=gpu_of(device)
    )
    try:
        write_files(record, json_file, junit_file)
        if plot_file is not None and not ladder_plot.write_plot(record, plot_file):
            say(f"nothing was timed: {plot_file.name} was not drawn")
    finally:
        adds = {each.key: each.declaration.adds for each in subjects if each.declaration}
        code = show(record, adds)
    return code


def _asked(set_name: str | None, shape_texts: tuple[str, ...]) -> Asked:
    if set_name is None:
        sets: tuple[TimedSet, ...] = () if shape_texts else (TimedSet.LADDER,)
    else:
        sets = tuple(TimedSet) if set_name == _ALL else (TimedSet(set_name),)
    try:
        shapes = [Shape.parse(text, 1) for text in shape_texts]
    except ValueError as error:
        raise click.UsageError(f"--shape: {error}") from None
    return Asked(sets, tuple((shape.m, shape.n, shape.k) for shape in shapes))


def _subjects(root: Path, names: tuple[str, ...], target: Target | None) -> list[Subject]:
    try:
        return [from_file(file) for file in select(discover(root), names, target)]
    except NoKernelsError as error:
        raise click.UsageError(str(error)) from None


def _sm_counts(device: CudaBackend) -> dict[Target, int]:
    """Return the SMs for what runs here; where there is no GPU, of the GPUs that are meant."""
    try:
        target = device.target()
    except BackendUnavailableError:
        return {name: facts.sm_count for name, facts in SM_FACTS.items()}
    assert not isinstance(device.device, BackendUnavailableError)  # target() had raised it
    return {target: device.device.sm_count}


def _require_plot(path: Path) -> None:
    """Refuse --plot before the run, not after it.

    Raises:
        click.UsageError: another kind of file was asked for, or matplotlib is missing.
    """
    if path.suffix.lower() not in ladder_plot.SUFFIXES:
        raise click.UsageError(f"--plot: {path.name} ends in neither .png nor .svg")
    try:
        picture.require_matplotlib()
    except picture.ReportUnavailableError as error:
        raise click.UsageError(f"--plot: {error}") from None
