"""Source rules in a check: a row a kernel, from the syntax tree alone."""

from dataclasses import replace
from pathlib import Path

from rungwatch.backends.job import KernelSource
from rungwatch.check.plan import SIMULATED_TARGETS
from rungwatch.check.source_check import source_rows
from rungwatch.decide.verdict import Reason
from rungwatch.declare.registry import discover
from rungwatch.declare.subject import Subject, from_file

from ..fakes import make_subject

KERNELS = Path(__file__).parents[2] / "kernels"


def subject_with(path: Path) -> Subject:
    return replace(make_subject("one"), source=KernelSource("get_kernel", path=str(path)))


def test_every_kernel_that_the_rules_are_about_keeps_them() -> None:
    subjects = [from_file(file) for file in discover(KERNELS)]
    rows = source_rows(subjects)
    assert {row.kernel for row in rows} == {
        subject.key
        for subject in subjects
        if subject.declaration and not SIMULATED_TARGETS.isdisjoint(subject.declaration.targets)
    }
    assert {(row.reason, row.check) for row in rows} == {(Reason.OK, "source")}


def test_a_broken_rule_names_its_line(tmp_path: Path) -> None:
    text = (KERNELS / "hgemm" / "blackwell" / "step3.py").read_text()
    path = tmp_path / "step3.py"
    path.write_text(text.replace("TMEM_COLS = 512", "TMEM_COLS = 128"))
    (row,) = source_rows([subject_with(path)])
    assert row.reason is Reason.SOURCE_RULE
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "TMEMPool(" in text)
    assert row.message.startswith(f"step3.py:{line}: tmem-columns: ")


def test_a_file_that_went_away_is_invalid(tmp_path: Path) -> None:
    (row,) = source_rows([subject_with(tmp_path / "gone.py")])
    assert row.reason is Reason.KERNEL_LOAD


def test_nothing_is_said_of_kernels_that_the_rules_are_not_about() -> None:
    bare = Subject("bare", KernelSource("make", path="/nowhere.py"), None)
    assert source_rows([bare, make_subject("h", targets=("sm_90a",))]) == []
