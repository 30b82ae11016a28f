"""Start the command line and turn whatever ends it into one of the exit codes."""

import signal
import sys
import threading
import traceback
from collections.abc import Sequence

import click

from rungwatch.cli.app import app
from rungwatch.decide.exit_code import ExitCode


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `rungwatch` and exit with a code of `ExitCode`.

    An uncaught exception ends as INVALID (4), never as Python's own 1: that means REJECTED here.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)  # so that workers are ended and files cleaned up
    sys.exit(_run(words))


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _run(words: list[str]) -> int:
    try:
        code = app.main(words, prog_name="rungwatch", standalone_mode=False)
        return code if isinstance(code, int) else ExitCode.PASS
    except click.UsageError as error:
        error.show()
        return ExitCode.USAGE
    except (SystemExit, BrokenPipeError):  # standard output was closed before all was said
        return ExitCode.INVALID
    except (click.Abort, KeyboardInterrupt):
        click.echo("rungwatch: interrupted; the running cases were ended", err=True)
        return ExitCode.INTERRUPTED
    except Exception as error:
        if "--debug" in words:
            traceback.print_exc()
        message = " ".join(str(error).split())
        click.echo(f"rungwatch: internal error: {type(error).__name__}: {message}", err=True)
        if "--debug" not in words:
            click.echo("rungwatch: run the command again with --debug for the trace", err=True)
        return ExitCode.INVALID


if __name__ == "__main__":
    main()
