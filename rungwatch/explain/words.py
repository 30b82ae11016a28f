"""Words that every rendering shares: labels, counts, durations, and text made safe to show.

Ids, messages and findings come from code under test, so they may hold anything. They pass
through `visible` or `one_line` before they reach a terminal, a log, XML or a picture.
"""

import re
from collections import Counter
from collections.abc import Iterable

from rungwatch.decide.exit_code import ExitCode
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.record.model import CheckName, Row

EXIT_MEANINGS: dict[ExitCode, str] = {
    ExitCode.PASS: "everything that was asked for holds",
    ExitCode.REJECTED: "a kernel is wrong (FAIL) or costs more than base allows (REGRESSION)",
    ExitCode.USAGE: "the command line is wrong; nothing was run",
    ExitCode.INCONCLUSIVE: "a row could not be decided either way",
    ExitCode.INVALID: "nothing was learnt about a row, or the tool itself failed: never a pass",
    ExitCode.INTERRUPTED: "the run was interrupted",
}

# Worst first: the order of cells, counts and legends.
VERDICT_ORDER = (
    Verdict.FAIL,
    Verdict.REGRESSION,
    Verdict.INVALID,
    Verdict.INCONCLUSIVE,
    Verdict.IMPROVED,
    Verdict.PASS,
    Verdict.SKIPPED,
)
GOOD = frozenset({Verdict.PASS, Verdict.IMPROVED})

# Headings for tables that the full names are too wide for.
SHORT_CHECKS: dict[CheckName, str] = {
    "load": "load",
    "settings": "sett.",
    "coverage": "cover",
    "build": "build",
    "identity": "ident.",
    "source": "src",
    "numerics": "num.",
    "synccheck": "sync",
    "racecheck": "race",
    "sanitizer-memcheck": "s-mem",
    "sanitizer-racecheck": "s-race",
    "sanitizer-synccheck": "s-sync",
    "static": "cost",
    "timing": "time",
    "doctor": "doct.",
}

# What stands for a PASS in a cell, by reason.
_PASS_WORDS = {
    Reason.OK: "ok",
    Reason.IDENTICAL: "identical",
    Reason.NO_BASELINE: "new",
    Reason.CHANGED: "changed",
    Reason.ACCEPTED: "accepted",
}

_COUNT_WORDS = {
    Verdict.FAIL: "failed",
    Verdict.REGRESSION: "regressed",
    Verdict.INVALID: "invalid",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.IMPROVED: "improved",
    Verdict.PASS: "passed",
    Verdict.SKIPPED: "skipped",
}

# CI systems read "##[command]" anywhere in a line of a log as an instruction to themselves.
_LOG_COMMAND = re.compile(r"##(?=\[)")


def visible(text: str) -> str:
    r"""Return `text` with every character that would not show as itself as an escape (\x1b).

    Line ends are kept. Control, bidirectional and invisible characters and lone surrogates are
    escaped, so the result is also free of what XML 1.0 cannot hold.
    """
    plain = text.replace("\r\n", "\n").expandtabs(4)
    shown = "".join(
        char if char == "\n" or char.isprintable() else char.encode("unicode_escape").decode()
        for char in plain
    )
    return _LOG_COMMAND.sub(r"##\\", shown)


def one_line(text: str) -> str:
    r"""Return `text` as `visible` does, with line ends as \n: for ids and other names."""
    return visible(text).replace("\n", "\\n")


def clip(text: str, max_lines: int = 12, max_chars: int = 1600) -> str:
    """Return the beginning of `text`, with a last line that says how much was left out."""
    kept = "\n".join(text[:max_chars].splitlines()[:max_lines])
    left_out = len(text.rstrip()) - len(kept)
    if left_out <= 0:
        return kept
    return f"{kept}\n... {left_out:,} more characters in the JSON record"


def label(verdict: Verdict, reason: Reason) -> str:
    """Return FAIL(racecheck); a plain PASS needs no reason."""
    return verdict.value if reason is Reason.OK else f"{verdict}({reason})"


def cell_word(verdict: Verdict, reason: Reason) -> str:
    """Return what a cell of a table says of a row: "ok", "identical", "FAIL"."""
    return _PASS_WORDS.get(reason, "PASS") if verdict is Verdict.PASS else verdict.value


def plural(count: int, noun: str) -> str:
    """Return "1 row", "2 rows", "1,024 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def counts(rows: Iterable[Row]) -> str:
    """Return rows by verdict, worst first: "2 failed, 80 passed (60 from cache), 17 skipped"."""
    by_verdict: Counter[Verdict] = Counter()
    from_cache: Counter[Verdict] = Counter()
    for row in rows:
        by_verdict[row.verdict] += 1
        from_cache[row.verdict] += row.cached
    return ", ".join(
        f"{by_verdict[verdict]} {_COUNT_WORDS[verdict]}"
        + (f" ({from_cache[verdict]} from cache)" if from_cache[verdict] else "")
        for verdict in VERDICT_ORDER
        if by_verdict[verdict]
    )


def duration(seconds: float) -> str:
    """Return wall time for people: "0.4 s", "41 s", "3 min 12 s", "1 h 2 min"."""
    whole = round(seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(part: int, whole: int) -> str:
    """Return `part` of `whole` in per cent; a small share is never shown as 0, nor 100 early."""
    if whole <= 0:
        return "? %"
    share = 100 * part / whole
    if 0 < share < 0.01:
        return "< 0.01 %"
    if 99.99 < share < 100:
        return "> 99.99 %"
    return f"{share:.3g} %"
