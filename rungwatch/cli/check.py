"""`rungwatch check`: is every kernel right?"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import click
from rich.console import Console

from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.job import (
    DEVICE_TOOLS,
    SIMULATOR_TOOLS,
    Tool,
)
from rungwatch.backends.simulator.backend import SimulatorBackend
from rungwatch.backends.simulator.cache import CacheLimitError
from rungwatch.cache import cache_dir
from rungwatch.check.execute import Progress, execute
from rungwatch.check.plan import SIMULATOR, AllRefusedError, Plan, Selection, plan_check
from rungwatch.check.self_check import failing_self_checks
from rungwatch.check.source_check import source_rows
from rungwatch.check.verdict_cache import VerdictCache
from rungwatch.cli.device import gpu_of, gpu_required, reach_of, revision_of
from rungwatch.cli.options import debug_option, kernels_option, kernels_root
from rungwatch.cli.output import (
    Clock,
    json_option,
    junit_option,
    make_record,
    require_different,
    show,
    write_files,
)
from rungwatch.cli.progress import CheckProgress
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import TARGETS
from rungwatch.declare.registry import NoKernelsError, discover, select
from rungwatch.declare.subject import ModuleArgumentError, Subject, from_argument, from_file
from rungwatch.explain import picture
from rungwatch.record import model, surroundings
from rungwatch.trusted.inputs import DISTRIBUTIONS
from rungwatch.trusted.matrix import Depth

DEFAULT_SMS = 4
_DEVICE_JOBS = 4
_OUTPUT_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@kernels_option
@click.option(
    "--kernel", "-k", "names", multiple=True, help="A kernel of the list (step7). May be repeated."
)
@click.option(
    "--module",
    metavar="FILE_OR_NAME[:FACTORY]",
    help="A kernel from outside: a factory f(M, N, K[, sm_count]) -> PrimFunc, or a module with"
    " the tirx-kernels protocol. Needs --shape unless the file declares itself.",
)
@click.option("--target", type=click.Choice(TARGETS), help="Only kernels for this target.")
@click.option(
    "--backend",
    "backend_name",
    type=click.Choice(["sim", "cuda"]),
    default="sim",
    help="Where kernels run: the CPU simulator, or this machine's GPU. [sim]",
)
@click.option(
    "--artifacts",
    type=click.Path(file_okay=False, path_type=Path),
    help="What `rungwatch build` made of these kernels, for --backend cuda.",
)
@click.option("--shape", "shape_text", metavar="MxNxK", help="One shape instead of the matrix.")
@click.option(
    "--sms",
    type=click.IntRange(1, 1024),
    help=f"SM count of --shape; persistent kernels spread their tiles over it. [{DEFAULT_SMS}]",
)
@click.option(
    "--dist",
    "distributions",
    multiple=True,
    metavar="NAME",
    type=click.Choice(sorted(DISTRIBUTIONS)),
    help=f"Only numerics, with inputs of this distribution: {', '.join(DISTRIBUTIONS)}.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Seed of the inputs. [0]"
)
@click.option(
    "--only",
    "tools",
    multiple=True,
    metavar="CHECK",
    type=click.Choice([tool.value for tool in Tool]),
    help=f"Only this kind of check, of {', '.join(SIMULATOR_TOOLS)}; on a GPU of"
    f" {', '.join(DEVICE_TOOLS)}. May be repeated.",
)
@click.option(
    "--quick",
    "depth",
    flag_value="quick",
    default=True,
    help="A few problems a kernel (default).",
)
@click.option("--full", "depth", flag_value="full", help="The whole required matrix.")
@click.option(
    "--device",
    "depth",
    flag_value="device",
    help="The whole matrix and large problems, for --backend cuda.",
)
@click.option("--no-cache", is_flag=True, help="Run also what passed before and did not change.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Cases at once. [one a core]")
@json_option
@junit_option
@click.option(
    "--report", "report_dir", type=_OUTPUT_FOLDER, help="Write pictures of wrong tiles here."
)
@debug_option
def check(
    kernels_dir: Path | None,
    names: tuple[str, ...],
    module: str | None,
    target: str | None,
    backend_name: Literal["sim", "cuda"],
    artifacts: Path | None,
    shape_text: str | None,
    sms: int | None,
    distributions: tuple[str, ...],
    seed: int,
    tools: tuple[str, ...],
    depth: Literal["quick", "full", "device"],
    no_cache: bool,
    jobs: int | None,
    json_file: Path | None,
    junit_file: Path | None,
    report_dir: Path | None,
) -> int:
    """Run kernels in the CPU simulator, or on a GPU, and say whether they are right.

    Every case compares D with a NumPy reference element by element, on inputs of several
    distributions; synccheck looks for deadlocks and barrier errors, racecheck for data races;
    the source is read for what the simulator does not model.
    What passed before and did not change is taken from a cache and marked so.

    On a GPU artifacts are run, each problem twice, then under compute-sanitizer; nothing is
    taken from a cache. Kernels for other GPUs are skipped: with RUNGWATCH_REQUIRE_GPU=1 that is
    INVALID.

    The first run builds the simulator's engines (minutes, once). They and the verdicts are kept
    below $RUNGWATCH_CACHE_DIR (default: the user's cache folder), at most
    $RUNGWATCH_CACHE_LIMIT_GB (default 10).

    \b
    Examples:
      rungwatch check
      rungwatch check --kernel step7 --full
      rungwatch check --kernel step7 --shape 512x768x320 --sms 4 --dist normal
      rungwatch check --module my_gemm.py:make --shape 256x256x128
      rungwatch check --backend cuda --artifacts artifacts --device
    """
    clock = Clock.start()
    require_different(json_file, junit_file)
    if report_dir is not None:
        _require_pictures()
    shape = _shape(shape_text, sms)
    subjects = _subjects(kernels_dir, names, module, target, shape)
    selection = Selection(
        depth=Depth(depth),
        shape=shape,
        distributions=distributions,
        seed=seed,
        tools=_tools(tools, distributions),
        target=target,
        gpu_required=gpu_required(),
    )
    device = None
    if backend_name == "cuda":
        if artifacts is None or module is not None:
            raise click.UsageError("--backend cuda needs --artifacts, and takes no --module")
        if not artifacts.is_dir():
            raise click.UsageError(f"--artifacts: there is no folder {artifacts}")
        device = CudaBackend(artifacts)
    elif artifacts is not None or selection.depth is Depth.DEVICE:
        raise click.UsageError("--artifacts and --device belong to --backend cuda")
    _require_tools(selection.tools, DEVICE_TOOLS if device else SIMULATOR_TOOLS, backend_name)
    try:
        plan = plan_check(subjects, selection, reach_of(device) if device else SIMULATOR)
    except AllRefusedError as error:
        raise click.UsageError(f"no chosen kernel takes this shape:\n{error}") from None
    rows = failing_self_checks()
    if not tools and not distributions:
        rows += source_rows(dict.fromkeys(job.subject for job in plan.jobs))
    if device is not None:
        rows += _run_on_device(plan, device, jobs)
    else:
        rows += _run(plan, use_cache=not no_cache, jobs=jobs)
    record = make_record(
        rows,
        clock,
        backend=backend_name,
        revision=(
            revision_of(_where(subjects), device)
            if device
            else surroundings.revision(_where(subjects))
        ),
        gpu=gpu_of(device) if device else None,
    )
    try:
        write_files(record, json_file, junit_file)
        if report_dir is not None:
            picture.write_report(record, report_dir)
    finally:
        code = show(record)
    return code


def _tools(names: tuple[str, ...], distributions: tuple[str, ...]) -> tuple[Tool, ...] | None:
    """Return the kinds of check to run, None for all; naming a distribution asks for numerics."""
    if names:
        return tuple(map(Tool, names))
    return (Tool.NUMERICS,) if distributions else None


def _require_tools(
    asked: tuple[Tool, ...] | None, known: tuple[Tool, ...], backend_name: str
) -> None:
    foreign = [tool.value for tool in asked or () if tool not in known]
    if foreign:
        raise click.UsageError(f"--backend {backend_name} has no {', '.join(foreign)}")


def _shape(text: str | None, sms: int | None) -> Shape | None:
    if text is None:
        if sms is not None:
            raise click.UsageError("--sms belongs to --shape: give both, or neither")
        return None
    try:
        return Shape.parse(text, sms if sms is not None else DEFAULT_SMS)
    except ValueError as error:
        raise click.UsageError(f"--shape: {error}") from None


def _subjects(
    kernels_dir: Path | None,
    names: tuple[str, ...],
    module: str | None,
    target: str | None,
    shape: Shape | None,
) -> list[Subject]:
    if module is None:
        try:
            files = select(discover(kernels_root(kernels_dir)), names, target)
        except NoKernelsError as error:
            raise click.UsageError(str(error)) from None
        return [from_file(file) for file in files]
    if names:
        raise click.UsageError("--kernel and --module exclude each other")
    try:
        subject = from_argument(module)
    except ModuleArgumentError as error:
        raise click.UsageError(str(error)) from None
    if subject.declaration is None and shape is None:
        raise click.UsageError("--module with a bare factory needs --shape, as in 512x512x256")
    return [subject]


def _run_on_device(plan: Plan, device: CudaBackend, jobs: int | None) -> list[model.Row]:
    """Run the jobs: one at a time on the GPU, while results of others are compared on the CPU."""
    console = Console(stderr=True, highlight=False)
    count = jobs or min(_DEVICE_JOBS, os.cpu_count() or 1)
    with CheckProgress(len(plan.jobs), console) as progress:
        shown = Progress(progress.started, progress.finished)
        return execute(plan, device, "cuda", None, shown, count)


def _run(plan: Plan, *, use_cache: bool, jobs: int | None) -> list[model.Row]:
    console = Console(stderr=True, highlight=False)
    cache = VerdictCache(cache_dir() / "verdicts") if use_cache else None
    if cache is not None:
        cache.prune()
    with CheckProgress(len(plan.jobs), console) as progress, _usage_errors():
        return execute(
            plan,
            SimulatorBackend(progress.say),
            "sim",
            cache,
            Progress(progress.started, progress.finished),
            jobs,
        )


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    """Turn a setting of the environment that makes no sense into wrong usage."""
    try:
        yield
    except CacheLimitError as error:
        raise click.UsageError(str(error)) from None


def _require_pictures() -> None:
    """Refuse --report before the run, not after it, where matplotlib is missing."""
    try:
        picture.require_matplotlib()
    except picture.ReportUnavailableError as error:
        raise click.UsageError(f"--report: {error}") from None


def _where(subjects: list[Subject]) -> Path:
    path = next((subject.source.path for subject in subjects if subject.source.path), None)
    return Path(path).parent if path else Path.cwd()
