"""`rungwatch doctor`: what it prints, writes and ends with."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rungwatch.__main__ import _run
from rungwatch.backends.cuda.nvml import GpuProcess
from rungwatch.cli import doctor as command
from rungwatch.cli.output import Clock, make_record
from rungwatch.decide.replay import replay
from rungwatch.decide.verdict import Reason
from rungwatch.doctor.examine import judge
from rungwatch.doctor.facts import Facts, GpuLook, SimulatorFacts
from rungwatch.doctor.finding import EVERYTHING, ON_CPU, Activity
from rungwatch.doctor.report import render, rows_of
from rungwatch.explain import terminal
from rungwatch.record import model

from .machines import CPU, DEVICE, GB, GPU
from .test_judge import NOTES, TROUBLES, UNKNOWNS, disk, status

type Doctor = Callable[..., int]


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Return a function that runs the command on a machine of given facts."""
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("RUNGWATCH_REQUIRE_GPU", raising=False)

    def run(facts: Facts, *words: str) -> int:
        def collect(artifacts: Path | None, *, gpu_required: bool) -> Facts:
            return replace(facts, variables=replace(facts.variables, gpu_required=gpu_required))

        monkeypatch.setattr(command, "collect", collect)
        return _run(["doctor", *words])

    return run


def last_lines(capsys: pytest.CaptureFixture[str], count: int) -> list[str]:
    return capsys.readouterr().out.splitlines()[-count:]


def test_a_machine_without_a_gpu_is_asked_for_what_needs_none(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(CPU) == 0
    assert last_lines(capsys, 6) == [
        "check in the simulator: ready",
        "build: ready",
        "check on the GPU: not fit: there is no GPU here (not asked for)",
        "measure: not fit: there is no GPU here (not asked for)",
        "",
        "PASS  asked for: check, build",
    ]


def test_what_is_not_asked_for_is_no_trouble(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(CPU) == 0
    assert "\nnote     gpu: there is no GPU here\n" in capsys.readouterr().out
    assert doctor(CPU, "--for", "cuda") == 4
    assert "\ntrouble  gpu: there is no GPU here\n" in capsys.readouterr().out


def test_a_machine_with_a_gpu_is_asked_for_everything(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(GPU) == 0
    assert last_lines(capsys, 1) == ["PASS  asked for: check, build, cuda, measure"]


def test_a_required_gpu_that_is_missing(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNGWATCH_REQUIRE_GPU", "1")
    assert doctor(CPU) == 4
    assert doctor(CPU, "--for", "check") == 0
    assert doctor(replace(GPU, sanitizer=False)) == 4
    monkeypatch.setenv("RUNGWATCH_REQUIRE_GPU", "yes")
    assert doctor(CPU) == 2


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        (status(mig=True), (0, 0, 0, 4)),
        (status(power_w=None), (0, 0, 0, 3)),
        (status(uncorrected_errors=1), (0, 0, 4, 4)),
        (disk(cache_writable=False), (4, 4, 4, 4)),
        (replace(GPU, packages={}), (0, 4, 0, 0)),
        (GPU, (0, 0, 0, 0)),
    ],
)
def test_only_what_is_asked_for_counts(
    doctor: Doctor, facts: Facts, codes: tuple[int, ...]
) -> None:
    assert tuple(doctor(facts, "--for", activity.value) for activity in Activity) == codes
    assert doctor(facts, "--for", "check", "--for", "measure") == max(codes[0], codes[3])


def test_what_is_wrong_is_said_in_few_words(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(status(power_limit_w=500.0, mig=True), "--for", "measure") == 4
    text = capsys.readouterr().out
    assert "\nmeasure: not fit: MIG is on: " in text
    assert "; and 1 more\n" in " ".join(text.split("\n  "))
    assert text.endswith("\nINVALID(machine-unfit)  asked for: measure\n")


@pytest.mark.parametrize(
    "facts",
    [
        *(case[1] for case in (*TROUBLES, *NOTES)),
        *(status(**{field: None}) for _, field in UNKNOWNS),
    ],
)
def test_everything_fits_80_columns_and_can_be_decided_again(
    doctor: Doctor, capsys: pytest.CaptureFixture[str], tmp_path: Path, facts: Facts
) -> None:
    file = tmp_path / "record.json"
    words = [word for activity in Activity for word in ("--for", activity.value)]
    code = doctor(facts, "--json", str(file), *words)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    record = model.decode(file.read_bytes())
    assert replay(record) == (record.verdict, record.reason, [])
    assert _run(["decide", str(file)]) == code
    assert len(record.rows) == len([one for one in judge(facts) if one.affects])


def test_the_record_names_the_gpu_and_no_machine(doctor: Doctor, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    doctor(GPU, "--json", str(file))
    record = model.decode(file.read_bytes())
    assert record.environment.gpu == model.Gpu("NVIDIA H200", DEVICE.driver)
    assert "UUID" not in file.read_text(encoding="utf-8")


def test_a_row_stands_for_each_finding_that_was_asked_for() -> None:
    rows = rows_of(judge(status(mig=True)), (Activity.MEASURE,))
    (bad,) = [row for row in rows if row.reason is not Reason.OK]
    assert (bad.id, bad.reason) == ("doctor-mig", Reason.MACHINE_UNFIT)
    assert bad.rerun == "rungwatch doctor --for measure"
    assert "nvidia-smi -mig 0" in bad.message
    assert "doctor-build" not in {row.id for row in rows}
    assert "doctor-build" in {row.id for row in rows_of(judge(GPU), EVERYTHING)}


def test_rows_of_a_gpu_are_not_in_a_record_of_the_cpu() -> None:
    broken = replace(GPU, gpu=GpuLook(problem="the driver hangs"))
    assert {row.reason for row in rows_of(judge(broken), ON_CPU)} == {Reason.OK}


def test_decide_shows_such_a_record(doctor: Doctor, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    doctor(status(mig=True), "--json", str(file))
    text = io.StringIO()
    terminal.render(model.decode(file.read_bytes()), Console(file=text, width=80))
    assert "INVALID(machine-unfit)  doctor-mig" in text.getvalue()


def example() -> str:
    """Return what docs/doctor.md shows."""
    busy = status(processes=(GpuProcess(2 * GB),), power_limit_w=500.0, power_w=312.4)
    facts = replace(
        busy,
        packages={"cuda-bindings": "13.3.0", "nvidia-ml-py": "13.580.82", "torch": "2.11.0"},
        simulator=SimulatorFacts(
            problems=("the simulator is not installed: pip install 'rungwatch[sim]'",)
        ),
        artifacts=None,
    )
    findings, asked = judge(facts), (Activity.MEASURE,)
    record = make_record(rows_of(findings, asked), Clock.start(), backend="none", revision=None)
    text = io.StringIO()
    render(findings, asked, record, Console(file=text, width=80))
    return text.getvalue()


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(tmp_path))
    page = Path(__file__).parents[2] / "docs" / "doctor.md"
    assert f"```text\n{example()}```\n" in page.read_text(encoding="utf-8")
