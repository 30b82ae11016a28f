"""`rungwatch doctor`: is this machine fit to check, build and measure?"""

from pathlib import Path

import click

from rungwatch.cli.device import gpu_required
from rungwatch.cli.options import debug_option
from rungwatch.cli.output import Clock, json_option, make_record, print_quietly, write_files
from rungwatch.decide.exit_code import exit_code_of
from rungwatch.doctor.collect import collect
from rungwatch.doctor.examine import default_activities, judge
from rungwatch.doctor.finding import Activity
from rungwatch.doctor.report import render, rows_of
from rungwatch.record import model


@click.command()
@click.option(
    "--for",
    "wanted",
    multiple=True,
    type=click.Choice([activity.value for activity in Activity]),
    help="What it is wanted for. May be repeated. Default: all four with a GPU,"
    " or with RUNGWATCH_REQUIRE_GPU=1; else check and build.",
)
@click.option(
    "--artifacts",
    type=click.Path(file_okay=False, path_type=Path),
    help="Look for what `rungwatch build` made for this GPU here.",
)
@json_option
@debug_option
def doctor(wanted: tuple[str, ...], artifacts: Path | None, json_file: Path | None) -> int:
    """Say whether this machine is fit for what it is wanted for.

    That is: check kernels in the simulator (check), build artifacts (build),
    check on its GPU (cuda), measure on its GPU (measure). Runs no kernel and
    changes nothing. Ends with 0 if it is fit, 4 if not, 3 if that can't be told.

    \b
    Examples:
      rungwatch doctor
      rungwatch doctor --for cuda --for measure --artifacts artifacts
    """
    clock = Clock.start()
    facts = collect(artifacts, gpu_required=gpu_required())
    asked = tuple(map(Activity, dict.fromkeys(wanted))) or default_activities(facts)
    findings = judge(facts)
    device = facts.gpu.device
    record = make_record(
        rows_of(findings, asked),
        clock,
        backend="none",
        revision=None,
        gpu=model.Gpu(device.name, device.driver) if device is not None else None,
    )
    write_files(record, json_file, None)
    print_quietly(lambda console: render(findings, asked, record, console))
    return exit_code_of(record.verdict)
