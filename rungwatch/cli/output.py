"""From the rows of a run to a record, files, a table and an exit code, for all commands."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Literal

import click
from msgspec.structs import replace
from rich.console import Console

from rungwatch.cache import cache_dir
from rungwatch.decide.exit_code import ExitCode, decide_run, exit_code_of
from rungwatch.decide.settings import Settings
from rungwatch.explain import junit, terminal
from rungwatch.record import model, surroundings
from rungwatch.record.files import write_atomically

OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class Clock:
    """When a command began: wall time for the record, a monotonic one for its length."""

    started: datetime
    monotonic_s: float

    @classmethod
    def start(cls) -> "Clock":
        """Begin now."""
        return cls(datetime.now(UTC), time.monotonic())


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json FILE`."""
    return click.option("--json", "json_file", type=OUTPUT_FILE, help="Write the record here.")(
        command
    )


def junit_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--junit FILE`."""
    return click.option("--junit", "junit_file", type=OUTPUT_FILE, help="Write JUnit XML.")(command)


def require_different(*files: Path | None) -> None:
    """Refuse two outputs with one name.

    Raises:
        click.UsageError: two of them are the same file.
    """
    given = [file.resolve() for file in files if file is not None]
    if len(set(given)) < len(given):
        raise click.UsageError("two outputs name the same file")


def make_record(
    rows: Sequence[model.Row],
    clock: Clock,
    *,
    backend: Literal["sim", "cuda", "none"],
    revision: str | None,
    base: str | None = None,
    settings: Settings | None = None,
    accepts_unmeasured: bool = False,
    compilers: dict[str, dict[str, str]] | None = None,
    gpu: model.Gpu | None = None,
) -> model.Record:
    """Return the record of the command that runs now, with the verdict of its rows."""
    verdict, reason = decide_run(row.reason for row in rows)
    return model.Record(
        run=model.Run(
            command=shlex.join(["rungwatch", *map(without_path, sys.argv[1:])]),
            started_utc=clock.started.isoformat(timespec="seconds"),
            seconds=time.monotonic() - clock.monotonic_s,
            backend=backend,
            revision=revision,
            base=base,
            accepts_unmeasured=accepts_unmeasured,
            compilers=compilers or {},
        ),
        environment=replace(surroundings.environment(cache_dir()), gpu=gpu),
        toolchain=surroundings.toolchain(),
        rows=tuple(rows),
        verdict=verdict,
        reason=reason,
        settings=settings,
    )


def without_path(word: str) -> str:
    """Return a word of a command with its path made relative, so that it names no machine.

    What lies below the current folder is named from there, anything else by its last part.
    """
    head, equals, tail = word.partition("=") if word.startswith("-") else ("", "", word)
    path = PurePath(tail)
    if path.is_absolute():
        here = Path.cwd()
        tail = str(path.relative_to(here)) if path.is_relative_to(here) else path.name
    elif ".." in path.parts:
        tail = path.name
    return f"{head}{equals}{tail}"


def write_files(record: model.Record, json_file: Path | None, junit_file: Path | None) -> None:
    """Write the record and the JUnit file, where they were asked for."""
    if json_file is not None:
        write_atomically(json_file, model.encode(record))
    if junit_file is not None:
        write_atomically(junit_file, junit.to_xml(record))


def show(record: model.Record, adds: Mapping[str, str] | None = None) -> ExitCode:
    """Print the record and return its exit code; `adds` says what each kernel's step adds."""
    print_quietly(lambda console: terminal.render(record, console, adds))
    return exit_code_of(record.verdict)


def print_quietly(render: Callable[[Console], None]) -> None:
    """Print results; that nobody reads on (`| head`) does not change the verdict."""
    try:
        render(Console(highlight=False))
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
