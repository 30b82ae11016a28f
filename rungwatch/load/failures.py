"""Turn exceptions into the one or two lines that a person should see.

Files are named without their folder: messages end up in records that may be committed.
"""

import re
import traceback
from pathlib import Path

from rungwatch.backends.job import Failure, JobFailure, Stage

_LONGEST = 600
# TVMScript's own diagnostics: "error: TEXT\n --> FILE:LINE:COLUMN\n ... LINE |  SOURCE\n ..."
_DIAGNOSTIC = re.compile(
    r"error: (?P<text>.*?)\n\s*--> (?P<file>.*?):(?P<line>\d+):\d+\n(?P<rest>.*)", re.DOTALL
)
_SIMULATOR_PREFIX = re.compile(
    r"^NumSim artifact execution failed: (NumSim kernel phase \d+ failed: )?"
)


class JobError(Exception):
    """A job, or one of its problems, that ends without output."""

    def __init__(self, failure: Failure, stage: Stage, message: str) -> None:
        super().__init__(message)
        # A lone surrogate is fine in a Python string and in nothing that is written.
        printable = message.encode("utf-8", "backslashreplace").decode()
        self.failure = JobFailure(failure, stage, shorten(printable))


def shorten(text: str, longest: int = _LONGEST) -> str:
    """Cut `text` to at most `longest` characters, saying so."""
    text = text.strip()
    return text if len(text) <= longest else f"{text[: longest - 6].rstrip()} (...)"


def without_folders(text: str) -> str:
    """Return `text` with absolute paths of source files reduced to their names."""
    return re.sub(r"/[^\s'\"<>|:(]*/([^\s/'\"<>|:(]+\.(?:py|h|hpp|cuh|cu))\b", r"\1", text)


def describe(error: BaseException, kernel_file: str | None) -> str:
    """Return "file:line: Error: message" for an exception that came out of a kernel file."""
    diagnostic = _DIAGNOSTIC.match(str(error))
    if diagnostic is not None:
        return _describe_diagnostic(diagnostic)
    place = _place(error, kernel_file)
    kind = type(error).__name__
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    what = f"{kind}: {without_folders(text)}" if text else kind
    return shorten(f"{place}: {what}" if place else what)


def describe_execution(error: Exception) -> str:
    """Return what the simulator says of a run that it could not finish, less its own prefixes."""
    return shorten(without_folders(_SIMULATOR_PREFIX.sub("", str(error))))


def _describe_diagnostic(match: re.Match[str]) -> str:
    shown = re.search(rf"^\s*{match['line']} \|(.*)$", match["rest"], re.MULTILINE)
    source = f"\n    {shown[1].strip()}" if shown else ""
    place = f"{Path(match['file']).name}:{match['line']}"
    return f"{place}: {shorten(without_folders(match['text']), 400)}{source}"


def _place(error: BaseException, kernel_file: str | None) -> str | None:
    """Return the innermost line of the kernel's file that the error came through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if kernel_file is not None and frame.filename == kernel_file:
            return f"{Path(frame.filename).name}:{frame.lineno}"
    return None
