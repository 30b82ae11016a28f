"""Check the source of guarded kernels against the rules that no simulator run can show broken."""

from collections.abc import Iterable
from pathlib import Path

from rungwatch.check.plan import SIMULATED_TARGETS, settled_row
from rungwatch.decide.verdict import Reason
from rungwatch.declare.subject import Subject
from rungwatch.record.model import Row
from rungwatch.trusted.source_rules import broken_rules


def source_rows(subjects: Iterable[Subject]) -> list[Row]:
    """Return one row a kernel that declares itself for a target the rules are about.

    The source is parsed, not run. Kernels from outside do not follow the idiom that the rules
    know, so nothing is said of them.
    """
    return [
        _row(subject, Path(subject.source.path))
        for subject in subjects
        if subject.declaration is not None
        and subject.source.path is not None
        and not SIMULATED_TARGETS.isdisjoint(subject.declaration.targets)
    ]


def _row(subject: Subject, path: Path) -> Row:
    try:
        broken = broken_rules(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        message = f"{path.name} changed during the run: {error}"
        return settled_row(subject, Reason.KERNEL_LOAD, message, check="source")
    if not broken:
        return settled_row(subject, Reason.OK, "keeps every source rule", check="source")
    lines = [f"{path.name}:{rule.line}: {rule.rule}: {rule.message}" for rule in broken]
    return settled_row(subject, Reason.SOURCE_RULE, "\n".join(lines), check="source")
