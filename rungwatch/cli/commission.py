"""`rungwatch commission`: the first day on a GPU that is new to the project."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.environment import import_path
from rungwatch.backends.job import BackendUnavailableError
from rungwatch.cli.options import debug_option, kernels_option, kernels_root
from rungwatch.cli.output import without_path
from rungwatch.cli.revisions import say
from rungwatch.decide.exit_code import ExitCode, exit_code_of
from rungwatch.declare.registry import NoKernelsError, discover
from rungwatch.explain import commission as report
from rungwatch.explain import picture
from rungwatch.explain.words import label
from rungwatch.record import model
from rungwatch.record.files import write_atomically

REPORT_FILE = "report.md"
_PLOT = "bench.png"
# The longest part, the matrix under compute-sanitizer, takes minutes; each case in it has a
# deadline of its own.
_DEADLINE_S = 4 * 3600.0


@click.command()
@kernels_option
@click.option(
    "--artifacts",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="What `rungwatch build --for device --for bench` made of these kernels.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the report, the records and the pictures.",
)
@debug_option
def commission(kernels_dir: Path | None, artifacts: Path, out: Path) -> int:
    """Say all that there is to know of a GPU that is new here, in one report.

    Runs doctor, the correctness matrix (`check --device`), the timings of the ladder, of squares
    and of models' layers, and the noise: the same artifacts as two arms, which gives the smallest
    slowdown that can be seen at each square. Leaves report.md and a record a part, and ends with
    the worst of their codes. Every skip for lack of a GPU or a tool counts as INVALID.

    \b
    Examples:
      rungwatch commission --artifacts artifacts --out report
    """
    if not artifacts.is_dir():
        raise click.UsageError(f"--artifacts: there is no folder {artifacts}")
    root = kernels_root(kernels_dir)
    try:
        discover(root)
        out.mkdir(parents=True, exist_ok=True)
    except NoKernelsError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"--out: {out.name} can't be made: {error.strerror}") from None
    common = ["--artifacts", str(artifacts.absolute())]
    on_kernels = [*common, "--kernels", str(root.absolute())]
    try:
        on_kernels += ["--target", CudaBackend(artifacts).target()]
    except BackendUnavailableError as error:
        say(f"no GPU can be used: {error}")
    plot = _plot(out)
    parts = []
    for name, title, words in (
        ("doctor", "The machine", ["doctor", "--for", "cuda", "--for", "measure", *common]),
        ("matrix", "Correctness", ["check", "--backend", "cuda", "--device", *on_kernels]),
        ("bench", "Timings", ["bench", "--shapes", "all", *on_kernels, *plot]),
        ("noise", "Noise and margins", ["bench", "--shapes", "squares", "--twice", *on_kernels]),
    ):
        say(f"{title}: rungwatch {words[0]}")
        parts.append(_run(name, title, words, out))
        say(f"{title}: {parts[-1].verdict}")
    write_atomically(out / REPORT_FILE, report.to_markdown(parts).encode())
    verdict, reason = report.verdict_of_parts(parts)
    for part in parts:
        click.echo(f"{part.title}: {part.verdict}")
    click.echo(f"{label(verdict, reason)}  {out.name}/{REPORT_FILE}")
    return exit_code_of(verdict)


def _plot(out: Path) -> list[str]:
    """Return the words that ask for a picture, none where it can't be drawn."""
    try:
        picture.require_matplotlib()
    except picture.ReportUnavailableError as error:
        say(str(error))
        return []
    return ["--plot", str(out.absolute() / _PLOT)]


def _run(name: str, title: str, words: Sequence[str], out: Path) -> report.Part:
    """Run one command in a process of its own: one that crashes does not end the others."""
    record_file, text_file = out / f"{name}.json", out / f"{name}.txt"
    # What an earlier report left must not be taken for this one's.
    for left in (record_file, out / _PLOT) if "--plot" in words else (record_file,):
        left.unlink(missing_ok=True)
    all_words = [*words, "--json", str(record_file.absolute())]
    environment = os.environ | import_path() | {"RUNGWATCH_REQUIRE_GPU": "1", "COLUMNS": "80"}
    try:
        with text_file.open("wb") as text:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "rungwatch", *all_words],
                stdout=text, env=environment, timeout=_DEADLINE_S, check=False,
            )  # fmt: skip
        if done.returncode == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        ending = f"exit code {done.returncode}"
        record = _read(record_file)
        if record is not None and done.returncode != exit_code_of(record.verdict):
            record, ending = None, f"{ending}, which is not that of its record"
    except subprocess.TimeoutExpired:
        record, ending = None, f"ended after {_DEADLINE_S / 3600:.0f} h"
    return report.Part(
        name=name,
        title=title,
        command=shlex.join(["rungwatch", *map(without_path, words)]),
        record=record,
        ending=ending,
        text=text_file.read_text(encoding="utf-8", errors="replace"),
        pictures=(_PLOT,) if "--plot" in words and (out / _PLOT).is_file() else (),
    )


def _read(path: Path) -> model.Record | None:
    try:
        return model.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
