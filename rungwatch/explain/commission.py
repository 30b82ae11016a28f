"""The report on a GPU that is new to the project: what each part said, in one Markdown page."""

from collections.abc import Sequence
from dataclasses import dataclass

from rungwatch.decide.exit_code import decide_run
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.explain.words import counts, duration, label, visible
from rungwatch.record.model import Record


@dataclass(frozen=True)
class Part:
    """One command of the report. `record` is None where it left none: `ending` says how it ended.

    `text` is what it printed; `pictures` the files that it drew, beside the report.
    """

    name: str
    title: str
    command: str
    record: Record | None
    ending: str
    text: str
    pictures: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The part's verdict in words; never a pass where there is no record."""
        if self.record is None:
            return f"could not run: {self.ending}"
        return label(self.record.verdict, self.record.reason)


def verdict_of_parts(parts: Sequence[Part]) -> tuple[Verdict, Reason]:
    """Return the verdict of all parts together; one without a record counts as one without rows."""
    return decide_run(
        part.record.reason if part.record is not None else Reason.NO_ROWS for part in parts
    )


def to_markdown(parts: Sequence[Part]) -> str:
    """Return the report."""
    verdict, reason = verdict_of_parts(parts)
    lines = ["# First report on a GPU", "", f"**{label(verdict, reason)}**", "", *_where(parts)]
    lines += ["| part | verdict | rows | time | record |", "|---|---|---|---|---|"]
    for part in parts:
        record = part.record
        known = (
            f"{counts(record.rows) or 'none'} | {duration(record.run.seconds)}"
            if record
            else "- | -"
        )
        link = f"[{part.name}.json]({part.name}.json)" if record else "-"
        lines.append(f"| {part.title} | {_cell(part.verdict)} | {known} | {link} |")
    for part in parts:
        lines += ["", f"## {part.title}", "", *_fenced(f"$ {part.command}\n\n{part.text}")]
        lines += [f"\n![{name}]({name})" for name in part.pictures]
    return "\n".join(lines) + "\n"


def _where(parts: Sequence[Part]) -> list[str]:
    """Return what the records say of the machine and the kernels, from the first that has it."""
    records = [part.record for part in parts if part.record is not None]
    gpu = next((record.environment.gpu for record in records if record.environment.gpu), None)
    revision = next((record.run.revision for record in records if record.run.revision), None)
    facts = {
        "GPU": f"{gpu.model}, driver {gpu.driver}" if gpu is not None else "none was found",
        "kernels": revision or "of no commit that is known",
    }
    if records:
        facts["rungwatch"] = records[0].toolchain.rungwatch
        facts["begun"] = records[0].run.started_utc
    return [f"- {name}: {_cell(text)}" for name, text in facts.items()] + [""]


def _cell(text: str) -> str:
    return " ".join(visible(text).split()).replace("|", "\\|").replace("<", "&lt;")


def _fenced(text: str) -> list[str]:
    """Return a block of code that nothing in `text` can end."""
    shown = visible(text).rstrip()
    fence = "```"
    while fence in shown:
        fence += "`"
    return [f"{fence}text", shown, fence]
