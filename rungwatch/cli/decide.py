"""`rungwatch decide`: the verdict of a record, from the record alone."""

from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from rungwatch.cli.options import debug_option
from rungwatch.cli.output import junit_option, show, write_files
from rungwatch.decide.exit_code import ExitCode
from rungwatch.decide.replay import replay
from rungwatch.decide.verdict import Reason
from rungwatch.record import model


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@junit_option
@debug_option
def decide(file: Path, junit_file: Path | None) -> int:
    """Decide again from a JSON record, and end with the same exit code.

    Nothing is built or run. A record whose verdicts do not follow from its own data is
    INVALID(record).

    \b
    Examples:
      rungwatch decide record.json
    """
    try:
        record = model.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        click.echo(f"INVALID({Reason.RECORD})  {file.name} is no record: {error}", err=True)
        return ExitCode.INVALID
    verdict, reason, contradictions = replay(record)
    for line in contradictions:
        click.echo(f"contradiction: {line}", err=True)
    decided = replace(record, verdict=verdict, reason=reason)
    write_files(decided, None, junit_file)
    return show(decided)
