"""A record as a comment on a pull request, in GitHub's Markdown.

Everything that came from the code under test stands in a code span or a fenced block, where no
markup, link or mention is read, and which its text can't end.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rungwatch.decide.exit_code import exit_code_of
from rungwatch.decide.verdict import EXPLANATIONS, Reason, Verdict
from rungwatch.explain.costs import cost_changes
from rungwatch.explain.details import details
from rungwatch.explain.grouping import groups, rejected
from rungwatch.explain.tilemap import tile_map
from rungwatch.explain.words import (
    EXIT_MEANINGS,
    GOOD,
    VERDICT_ORDER,
    counts,
    duration,
    label,
    one_line,
    plural,
    visible,
)
from rungwatch.record.model import CHECKS, CheckName, Record, Row

# The last line of every comment: by it a CI job finds its own comment, to replace it.
MARKER = "<!-- rungwatch gate -->"

# GitHub refuses a comment of more than 65,536 characters.
_MOST_CHARS = 60_000
_TABLE_CHARS = 20_000
_END_CHARS = 400  # for the marker and the note of what was left out
_NAME_CHARS = 80
_NAMES_A_REASON = 6
_IDS_A_GROUP = 5

_SIGNS = {
    Verdict.PASS: "\N{WHITE HEAVY CHECK MARK}",
    Verdict.IMPROVED: "\N{WHITE HEAVY CHECK MARK}",
    Verdict.FAIL: "\N{CROSS MARK}",
    Verdict.REGRESSION: "\N{CROSS MARK}",
    Verdict.INVALID: "\N{NO ENTRY SIGN}",
    Verdict.INCONCLUSIVE: "\N{WHITE QUESTION MARK ORNAMENT}",
    Verdict.SKIPPED: "\N{NO ENTRY SIGN}",
}
_CORRECTNESS: tuple[CheckName, ...] = ("source", "numerics", "synccheck", "racecheck")
_AS_BASE = "as base"


def to_markdown(record: Record) -> str:
    """Return `record` as Markdown of less than 60,000 characters, ending in a line of `MARKER`.

    The verdict stands in the first line. What had no room is counted before the marker.
    """
    parts = [part for part in (_first_line(record), _reasons(record), _table(record.rows)) if part]
    room = _MOST_CHARS - sum(len(part) + 2 for part in parts) - _END_CHARS
    details_parts, left_out = _folded(record, room)
    parts += details_parts
    if left_out:
        parts.append(f"Left out for length, all in the JSON record: {', '.join(left_out)}.")
    return "\n\n".join(parts) + f"\n\n{MARKER}\n"


def code(text: str) -> str:
    r"""Return one line of foreign text as a code span, long ones without their beginning.

    A backtick is shown as \x60 and "|", which would end a cell of a table even here, as \x7c.
    """
    kept = text[-_NAME_CHARS:]
    shown = one_line(kept).replace("`", "\\x60").replace("|", "\\x7c")
    if kept != text or len(shown) > _NAME_CHARS:
        shown = f"...{shown[-_NAME_CHARS:]}"
    return f"`{shown}`" if shown.strip() else "(no name)"


def fence(lines: Iterable[str]) -> str:
    """Return foreign lines as a block in which nothing is read as markup."""
    text = "\n".join(visible(line) for line in lines)
    longest = max(map(len, re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}text\n{text}\n{ticks}"


def _first_line(record: Record) -> str:
    verdict = label(record.verdict, record.reason)
    exit_code = exit_code_of(record.verdict).value
    return f"### {_SIGNS[record.verdict]} rungwatch: {verdict}, exit code {exit_code}"


def _reasons(record: Record) -> str:
    """Return a line a reason, that of the run first: what it means and what to do next."""
    meaning = EXIT_MEANINGS[exit_code_of(record.verdict)]
    lines = [f"{meaning[0].upper()}{meaning[1:]}. {_sides(record)}".rstrip(), ""]
    met: dict[Reason, list[Row]] = {}
    for row in record.rows:
        if row.reason is not Reason.OK:
            met.setdefault(row.reason, []).append(row)
    if record.reason not in met and record.verdict not in GOOD:
        met[record.reason] = []
    ranks = {
        reason: (reason is not record.reason, VERDICT_ORDER.index(EXPLANATIONS[reason].verdict))
        for reason in met
    }
    for reason in sorted(met, key=ranks.__getitem__):
        explanation, rows = EXPLANATIONS[reason], met[reason]
        kernels = list(dict.fromkeys(row.kernel for row in rows))
        names = ", ".join(code(kernel) for kernel in kernels[:_NAMES_A_REASON])
        if len(kernels) > _NAMES_A_REASON:
            names += f" and {len(kernels) - _NAMES_A_REASON} more"
        line = f"- **{label(explanation.verdict, reason)}**"
        if rows:
            line += f", {plural(len(rows), 'row')} of {names}"
        line += f": {explanation.meaning}."
        if explanation.next_step:
            line += f" **Next:** {explanation.next_step}."
        lines.append(line)
    return "\n".join(lines).rstrip()


def _sides(record: Record) -> str:
    if record.run.base is None:
        return ""
    return f"Base {code(record.run.base)}, head {code(record.run.revision or 'without git')}."


def _table(rows: Sequence[Row]) -> str:
    """Return a line a kernel, the worst verdict first."""
    own: dict[str, list[Row]] = {}
    for row in rows:
        own.setdefault(row.kernel, []).append(row)
    ranked = sorted(own, key=lambda kernel: min(map(_rank, own[kernel])))
    lines = [
        "| kernel | code | correctness | static cost | timing |",
        "| --- | --- | --- | --- | --- |",
    ]
    size = 0
    for index, kernel in enumerate(ranked):
        cells = (
            _code_state(own[kernel]),
            _worst(own[kernel], _CORRECTNESS),
            _worst(own[kernel], ("static",)),
            _worst(own[kernel], ("timing",)),
        )
        line = f"| {code(kernel)} | {' | '.join(cells)} |"
        size += len(line) + 1
        if size > _TABLE_CHARS:
            more = plural(len(ranked) - index, "more kernel")
            return "\n".join(lines) + f"\n\nAnd {more}, none of them worse: see the JSON record."
        lines.append(line)
    return "\n".join(lines) if ranked else ""


def _rank(row: Row) -> tuple[int, bool]:
    """Return what the worst row is the least of; a pass that needs words comes before others."""
    return VERDICT_ORDER.index(row.verdict), row.reason is Reason.OK


def _code_state(rows: Sequence[Row]) -> str:
    """Return what became of a kernel's machine code: "identical", "changed", "removed"."""
    met = {(row.check, row.reason) for row in rows}
    checks = {row.check for row in rows}
    if ("coverage", Reason.REMOVED) in met or ("coverage", Reason.ACCEPTED) in met:
        state = "removed"
    elif "load" in checks:
        state = "unreadable"
    elif any(row.check == "build" and row.verdict not in GOOD for row in rows):
        state = "not built"
    elif ("identity", Reason.NO_BASELINE) in met:
        state = "added"
    elif ("identity", Reason.IDENTICAL) in met and ("identity", Reason.CHANGED) not in met:
        state = "identical"
    elif checks.isdisjoint({"identity", "static", "timing", *_CORRECTNESS}):
        state = "-"
    else:
        state = "changed"
    told = [row for row in rows if row.check in {"load", "settings", "coverage", "build"}]
    worst = min((row for row in told if row.verdict not in GOOD), key=_rank, default=None)
    return state if worst is None else f"{state}: {label(worst.verdict, worst.reason)}"


def _worst(rows: Sequence[Row], checks: tuple[CheckName, ...]) -> str:
    """Return the worst verdict of some checks; "as base" where nothing had to be checked."""
    asked = [row for row in rows if row.check in checks]
    if not asked:
        identical = any(row.reason is Reason.IDENTICAL for row in rows)
        return _AS_BASE if identical else "-"
    # A skip says nothing beside a row that was decided.
    decided = [row for row in asked if row.verdict is not Verdict.SKIPPED] or asked
    worst = min(decided, key=_rank)
    same = sum(row.reason is worst.reason for row in asked)
    share = f"{same} of " if same < len(asked) else ""
    return f"{label(worst.verdict, worst.reason)}, {share}{plural(len(asked), 'row')}"


def _folded(record: Record, room: int) -> tuple[list[str], list[str]]:
    """Return what is shown when it is asked for, in `room` characters, and what had none.

    Each part but the first may take half of what is left, the last one first: so that many
    failing rows can't push out what is short.
    """
    bad = rejected(record.rows)
    changed = [
        fence([each.title, *(f"  - {line.text}" for line in each.lines)])
        for each in cost_changes(record)
    ]
    parts = [
        ("Rows that did not pass", [_group(group) for group in groups(bad)]),
        ("Changes of static cost", changed),
        ("How it was measured", [fence(_surroundings(record))]),
    ]
    shown: list[str] = []
    left_out: list[str] = []
    for index in reversed(range(len(parts))):
        title, blocks = parts[index]
        text, missing = _details_of(title, blocks, room // 2 if index else room)
        if text:
            shown.insert(0, text)
            room -= len(text) + 2
        if missing:
            left_out.insert(0, f"{missing} of {plural(len(blocks), 'block')} of '{title}'")
    return shown, left_out


def _details_of(title: str, blocks: Sequence[str], room: int) -> tuple[str, int]:
    """Return a part that is folded away, and how many blocks had no room in it."""
    opening, end = f"<details>\n<summary>{title}</summary>", "</details>"
    room -= len(opening) + len(end) + 2
    kept: list[str] = []
    for block in blocks:
        if len(block) + 2 <= room:
            room -= len(block) + 2
            kept.append(block)
    text = "\n\n".join([opening, *kept, end]) if kept else ""
    return text, len(blocks) - len(kept)


def _group(group: Sequence[Row]) -> str:
    """Return what is told of rows with the same failure, as in the terminal."""
    row, same = group[0], group[1:]
    told = details(row)
    lines = [f"{label(row.verdict, row.reason)}  {one_line(row.id)}"]
    lines += [f"  | {line}" for line in told.quoted]
    lines += [f"  {name}: {text}" for name, text in told.facts]
    if (drawn := tile_map(row)) is not None:
        lines += [f"    {line}" for line in drawn.text().splitlines()]
    lines += [f"  {name}: {text}" for name, text in told.advice]
    if same:
        lines.append(f"  the same in {plural(len(same), 'more row')}:")
        lines += [f"  - {one_line(other.id)}" for other in same[:_IDS_A_GROUP]]
    if len(same) > _IDS_A_GROUP:
        lines.append(f"  - and {len(same) - _IDS_A_GROUP} more in the JSON record")
    return fence(lines)


def _surroundings(record: Record) -> list[str]:
    run, tools, place = record.run, record.toolchain, record.environment
    gpu = "no GPU" if place.gpu is None else f"{place.gpu.model}, driver {place.gpu.driver}"
    spent: Counter[str] = Counter()
    for row in record.rows:
        spent[row.check] += round(1000 * row.seconds)
    by_check = [f"{check} {duration(spent[check] / 1000)}" for check in CHECKS if spent[check]]
    facts = {
        "command": run.command,
        "base": run.base or "-",
        "head": run.revision or "-",
        "rows": counts(record.rows) or "none",
        "backend": f"{run.backend}, {gpu}",
        "rungwatch": tools.rungwatch,
        "tvm": tools.tvm or "not installed",
        "simulator": tools.simulator or "not installed",
        "numpy": tools.numpy,
        "machine": f"{place.system}, {plural(place.cpu_count, 'CPU')}, Python {place.python}",
        "started": run.started_utc,
        "took": duration(run.seconds),
        "by check": ", ".join(by_check) or "-",
    }
    return [f"{name:<9} {one_line(text)}" for name, text in facts.items()]
