"""`rungwatch commission`: all parts run, whatever becomes of one, and the worst decides."""

import subprocess
import sys
from pathlib import Path

import pytest

from rungwatch.__main__ import main
from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.cli import commission as module
from rungwatch.cli.app import app
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.explain.commission import Part, to_markdown, verdict_of_parts
from rungwatch.record.model import encode

from ..cli.test_cli import examples
from .samples import record, row, timing

H200 = DeviceFacts("NVIDIA H200", (9, 0), 132, 2**37, 2**37, (13, 0), "580.1")
GOOD = record(row("step9", timed=timing(178.0)))
WRONG = record(row("step9", reason=Reason.EXECUTION, message="an illegal address"))


def part(name, found, ending="exit code 0", text="the table", pictures=()):
    return Part(name, name.title(), f"rungwatch {name}", found, ending, text, pictures)


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        ([GOOD, GOOD], Verdict.PASS),
        ([GOOD, WRONG, None], Verdict.FAIL),
        ([GOOD, None], Verdict.INVALID),
        ([], Verdict.INVALID),
    ],
)
def test_the_worst_part_decides_and_a_missing_one_is_no_pass(records, verdict):
    parts = [part(f"p{index}", found) for index, found in enumerate(records)]
    assert verdict_of_parts(parts)[0] is verdict


def test_the_report_has_every_part_and_names_what_could_not_run():
    page = to_markdown(
        [
            part("doctor", None, "exit code 2"),
            part("bench", GOOD, text="```\n| table", pictures=("bench.png",)),
        ]
    )
    assert page.startswith("# First report on a GPU\n\n**INVALID(no-rows)**")
    assert "- GPU: NVIDIA H200, driver 580.1" in page
    assert "- kernels: 0f3c" in page
    assert "| Doctor | could not run: exit code 2 | - | - | - |" in page
    assert "| Bench | PASS | 1 passed | 41 s | [bench.json](bench.json) |" in page
    assert "````text\n$ rungwatch bench\n\n```\n| table\n````\n\n![bench.png](bench.png)" in page


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Parts that are stand-ins: `answers` holds (record, exit code) by the part's record."""
    monkeypatch.chdir(tmp_path)
    for name in ("kernels", "artifacts"):
        (tmp_path / name).mkdir()
    (tmp_path / "kernels" / "one.py").write_text("PROTOCOL = 1\n")
    answers = dict.fromkeys(("doctor.json", "matrix.json", "bench.json", "noise.json"), (GOOD, 0))
    started = []

    def run(command, *, stdout, env, timeout, check):
        assert (env["RUNGWATCH_REQUIRE_GPU"], check) == ("1", False)
        assert timeout > 0
        assert command[:4] == [sys.executable, "-P", "-m", "rungwatch"]
        words = command[4:]
        # It must be a command that exists, with these options.
        app.commands[words[0]].make_context(words[0], words[1:])
        started.append(words)
        path = Path(words[words.index("--json") + 1])
        found, code = answers[path.name]
        stdout.write(b"what it printed")
        if found is not None:
            path.write_bytes(encode(found))
        if "--plot" in words:
            Path(words[words.index("--plot") + 1]).write_bytes(b"picture")
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.setattr(
        "rungwatch.backends.cuda.backend.CudaBackend.device", property(lambda self: H200)
    )
    return answers, started


def commission(*words):
    with pytest.raises(SystemExit) as ended:
        main(words or ("commission", "--artifacts", "artifacts", "--out", "report"))
    return ended.value.code


@pytest.mark.parametrize("words", examples(app.commands["commission"]), ids=" ".join)
def test_the_examples_in_help_work(machine, words):
    assert commission(*words) == 0


def test_every_part_is_run_for_this_gpu_and_reported(machine, capsys):
    _, started = machine
    assert commission() == 0
    assert [words[0] for words in started] == ["doctor", "check", "bench", "bench"]
    assert all("sm_90a" in words for words in started[1:])
    page = Path("report/report.md").read_text()
    assert page.count("what it printed") == 4
    assert "![bench.png](bench.png)" in page
    assert str(Path.cwd()) not in page
    assert capsys.readouterr().out.splitlines()[-1] == "PASS  report/report.md"


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ((WRONG, 1), 1, "FAIL(execution)"),
        ((None, 2), 4, "could not run: exit code 2"),
        ((GOOD, None), 4, "could not run: ended after 4 h"),
        ((GOOD, 4), 4, "could not run: exit code 4, which is not that of its record"),
    ],
    ids=["wrong", "no record", "deadline", "contradiction"],
)
def test_a_bad_part_decides_and_the_others_go_on(machine, answer, code, said):
    answers, started = machine
    answers["matrix.json"] = answer
    assert commission() == code
    assert len(started) == 4
    assert f"| Correctness | {said} |" in Path("report/report.md").read_text()


def test_a_record_of_an_earlier_report_is_not_taken_for_this_ones(machine):
    answers, _ = machine
    assert commission() == 0
    answers["bench.json"] = (None, 4)
    assert commission() == 4


def test_an_interrupt_ends_it(machine):
    answers, started = machine
    answers["matrix.json"] = (None, 130)
    assert commission() == 130
    assert len(started) == 2


@pytest.mark.parametrize("out", ["kernels/one.py/report", "kernels/one.py"])
def test_a_folder_that_can_not_be_made_is_wrong_usage(machine, capsys, out):
    _, started = machine
    assert commission("commission", "--artifacts", "artifacts", "--out", out) == 2
    assert "--out" in capsys.readouterr().err
    assert started == []


def test_without_kernels_nothing_is_begun(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "artifacts").mkdir()
    assert commission() == 2
    assert "kernels" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()
