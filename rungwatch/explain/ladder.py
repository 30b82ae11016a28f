"""Timings for people: the ladder, and one kernel on many problems. 80 columns, also without colour.

Shapes are written MxNxK below the target and SM count that they share.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rungwatch.bench.noise import Noise, noise_of
from rungwatch.decide.timing import Ratio
from rungwatch.decide.verdict import Verdict
from rungwatch.declare.problem import Shape
from rungwatch.explain.console import encodable, say, wrapped
from rungwatch.explain.published import B200_LADDER
from rungwatch.explain.timings import (
    Ladder,
    Timed,
    ladders,
    shape_lists,
    slower_than_before,
    timing_of,
)
from rungwatch.explain.words import one_line
from rungwatch.record.model import Record

_HEADINGS = ("us", "+-\n%", "TFLOP\n/s", "ratio to\ncuBLAS", "fast", "peak\n%")
_LEGEND = (
    "us: median over workers; +-: their standard deviation. Ratio: cuBLAS time / kernel time in"
    " the same worker, all of them, with the 95 % interval of the median; fast: only workers in"
    " which cuBLAS ran in its fast mode. peak: share of what the tensor cores can do at the"
    " highest clock. ?: see the row below."
)


def render_timings(record: Record, console: Console, adds: Mapping[str, str]) -> None:
    """Print the tables of `record`'s timings; nothing where it holds none.

    `adds` says what each kernel adds to the one before, by its key: a record does not hold it.
    """
    shown = ladders(record)
    lists = shape_lists(record)
    for ladder in shown:
        _print_ladder(ladder, console, adds)
    for shapes in lists:
        for name, rows in (("squares", shapes.squares), ("other shapes", shapes.others)):
            if rows:
                _print_shapes(f"{name}, {shapes.kernel}", rows, console)
    for kernel, found in noises(record).items():
        _print_noise(kernel, found, console)
    if shown or lists:
        say(console)
        wrapped(console, "", "", _LEGEND, "dim")
        for line in conditions(record):
            wrapped(console, "", "  ", line, "dim")


def noises(record: Record) -> dict[str, list[Noise]]:
    """Return what was timed twice, a kernel at a time."""
    found: dict[str, list[Noise]] = {}
    for noise in noise_of(record.rows):
        found.setdefault(noise.kernel, []).append(noise)
    return found


def ladder_notes(ladder: Ladder) -> list[str]:
    """Return what must be said below a ladder: other problems, and steps slower than the last."""
    notes = [
        f"{step.name} was timed at {size(step.shape)}, the nearest that it runs: its time is not"
        " comparable with the others'"
        for step in ladder.steps
        if step.shape != ladder.shape
    ]
    for before, after in slower_than_before(ladder.on_shape):
        assert before.summary is not None
        assert after.summary is not None
        notes.append(
            f"{after.name} takes longer than {before.name} before it:"
            f" {us(after.summary.kernel_ns)} and {us(before.summary.kernel_ns)} us"
        )
    if _published(ladder):
        notes.append(
            f"{B200_LADDER.gpu}*: times that {B200_LADDER.source} gives for a {B200_LADDER.gpu},"
            " another GPU, at the same problem; for orientation, nothing is compared with them"
        )
    return notes


def conditions(record: Record) -> list[str]:
    """Return one line on the GPU's state while it was timed; none where nothing was."""
    states = [
        state
        for row in record.rows
        if row.timing is not None
        for worker in row.timing.conditions
        for state in (worker.before, worker.after)
    ]
    if not states:
        return []
    gpu = record.environment.gpu
    slowed = sorted({reason for state in states for reason in state.slowed_by})
    parts = [
        f"{_span(state.sm_mhz for state in states)} MHz",
        f"{_span(round(state.power_w) for state in states)} W",
        f"{_span(state.temperature_c for state in states)} C",
    ]
    name = f"{gpu.model}, driver {gpu.driver}" if gpu is not None else "GPU"
    held = ", ".join(slowed) if slowed else "nothing"
    return [f"{name}: {', '.join(parts)}; clocks held down by {held}"]


def us(nanoseconds: float) -> str:
    """Return a time in microseconds with four digits or more: 5.871, 179.3, 53,600."""
    value = nanoseconds / 1000
    digits = 3 if value < 10 else 2 if value < 100 else 1 if value < 10_000 else 0
    return f"{value:,.{digits}f}"


def size(shape: Shape) -> str:
    """Return MxNxK."""
    return f"{shape.m}x{shape.n}x{shape.k}"


def how(steps: Sequence[Timed]) -> str:
    """Return "sm_90a, 132 SMs, cold L2, 12 workers" for the rows of one table."""
    row = steps[0].row
    words = [str(row.target), f"{steps[0].shape.sm_count} SMs"]
    timings = [timing_of(step) for step in steps if step.row.timing is not None]
    if timings:
        workers = {len(arm.workers) for timing in timings for arm in timing.arms}
        words += [f"{timings[0].cache} L2", f"{_span(workers)} workers"]
    return ", ".join(words)


def _print_ladder(ladder: Ladder, console: Console, adds: Mapping[str, str]) -> None:
    say(console)
    title = f"ladder of {ladder.family}, {size(ladder.shape)}: {how(ladder.steps)}"
    wrapped(console, "", "  ", one_line(title), "bold")
    published = _published(ladder)
    table = _table("step", "adds", *_HEADINGS)
    if published:
        table.add_column(f"{B200_LADDER.gpu}*\nus", justify="right", no_wrap=True)
    for step in ladder.steps:
        cells = [
            _words(f"{step.name}{'' if step.shape == ladder.shape else ' !'}", console),
            _told(step, _words(adds.get(step.row.kernel, ""), console)),
            *_numbers(step),
        ]
        if published:
            known = published.get(step.name)
            cells.append(Text(us(1000 * known), "dim") if known is not None else Text("-", "dim"))
        table.add_row(*cells)
    if (found := ladder.reference) is not None:
        own = Text(us(1000 * B200_LADDER.cublas_us), "dim")
        for name, nanoseconds, note in (
            ("cuBLAS", found.reference_ns, f"beside {ladder.on_shape[-1].name}"),
            ("", found.reference_fast_ns, f"fast mode, {found.fast_workers} workers"),
        ):
            cells = [_words(name, console), _words(note, console), Text(us(nanoseconds))]
            cells += [Text("")] * 5
            table.add_row(*cells, *([own if name else Text("")] if published else []))
    console.print(table, crop=False)
    for note in ladder_notes(ladder):
        wrapped(console, "  - ", "    ", one_line(note))


def _print_shapes(title: str, rows: Sequence[Timed], console: Console) -> None:
    say(console)
    wrapped(console, "", "  ", one_line(f"{title}: {how(rows)}"), "bold")
    table = _table("MxNxK", None, *_HEADINGS)
    table.add_column("cuBLAS\nus", justify="right", no_wrap=True)
    for timed in rows:
        found = timed.summary
        table.add_row(
            _told(timed, Text(size(timed.shape) + _padding(timed))),
            *_numbers(timed, wide=True),
            Text(us(found.reference_ns) if found is not None else "-"),
        )
    console.print(table, crop=False)


def _print_noise(kernel: str, found: Sequence[Noise], console: Console) -> None:
    say(console)
    wrapped(console, "", "  ", one_line(f"noise, {kernel}: the same artifact in two arms"), "bold")
    table = _table("MxNxK", None, "workers", "offset", "+-", "smallest slowdown\nthat is seen")
    for noise in found:
        table.add_row(
            Text(size(noise.shape)),
            Text(str(noise.workers)),
            Text(f"{100 * noise.offset:+.3f} %{' !' if noise.biased else ''}"),
            Text(f"{100 * noise.spread:.3f} %"),
            Text(f"{100 * noise.smallest_slowdown:.2f} %"),
        )
    console.print(table, crop=False)
    if any(noise.biased for noise in found):
        text = "!: more than chance explains. The second arm's place has an effect of its own"
        wrapped(console, "  - ", "    ", text)


def _padding(timed: Timed) -> str:
    """Return a second line where the kernel ran a larger M than was asked for."""
    if timed.row.timing is None or timed.row.timing.launched.m == timed.shape.m:
        return ""
    return f"\n  M padded to {timed.row.timing.launched.m}"


def _told(timed: Timed, words: Text) -> Text:
    """Return `words`, and below them why a row has no numbers."""
    if timed.summary is not None:
        return words
    reason = Text(timed.row.reason.value, "bold red")
    return Text("\n").join([words, reason]) if words else reason


def _numbers(timed: Timed, *, wide: bool = False) -> list[Text]:
    """Return the cells of a row from "us" to "peak"."""
    found = timed.summary
    if found is None:
        return [Text("-", "dim")] * 6
    mark = "" if timed.row.verdict in (Verdict.PASS, Verdict.IMPROVED) else " ?"
    fast = _ratio(found.ratio_fast) if wide else _coloured(found.ratio_fast)
    return [
        Text(us(found.kernel_ns) + mark),
        Text(f"{100 * found.kernel_spread:.2f}" if found.kernel_spread >= 0 else "-"),
        Text(f"{found.tflops:,.{0 if found.tflops >= 10 else 1 if found.tflops >= 1 else 2}f}"),
        _ratio(found.ratio),
        fast,
        Text(f"{100 * found.peak_share:.0f}"),
    ]


def _ratio(ratio: Ratio) -> Text:
    """Return the ratio, with its interval below; too few workers give none."""
    known = ratio.high < math.inf
    below = f"{ratio.low:.3f}-{ratio.high:.3f}" if known else f"{ratio.workers} workers"
    return _coloured(ratio) + Text(f"\n{below}", "dim")


def _coloured(ratio: Ratio) -> Text:
    style = "green" if ratio.low >= 1 else "yellow" if ratio.high >= 1 else ""
    return Text(f"{ratio.median:.{3 if ratio.median >= 0.1 else 4}f}", style)


def _published(ladder: Ladder) -> dict[str, float]:
    """Return the published times by step, where they are of the same problem and name a step."""
    shape = ladder.shape
    if (shape.m, shape.n, shape.k) != B200_LADDER.problem:
        return {}
    names = {step.name for step in ladder.steps}
    return {name: time for name, time in B200_LADDER.microseconds.items() if name in names}


def _table(first: str, second: str | None, *numbers: str) -> Table:
    """Return a table whose text columns fold, and whose numbers never do."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, header_style="bold")
    table.add_column(first, no_wrap=second is None, overflow="fold")
    if second is not None:
        table.add_column(second, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _words(text: str, console: Console) -> Text:
    return Text(encodable(one_line(text), console))


def _span(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"
