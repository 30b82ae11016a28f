"""The command line as a user meets it: what it prints, what it writes, and its exit codes."""

import json
import os
import re
import signal
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from rungwatch.__main__ import main
from rungwatch.artifact.manifest import MANIFEST_FILE, Manifest, encode_manifest
from rungwatch.backends.job import DEVICE_TOOLS
from rungwatch.cli.app import app
from rungwatch.decide.verdict import Reason
from rungwatch.record import model
from rungwatch.trusted import matrix

from ..fakes import FakeBackend, FakeDevice, Kernel, Matrix, finding, right

DECLARATION = """
PROTOCOL = 1
KERNEL = {{
    "name": "{name}", "step": {step}, "adds": "something", "operation": "gemm_nt",
    "dtypes": {{"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"}},
    "targets": ["{target}"], "tile": [128, 128, 64], "ring_depth": 2, "cta_group": 1,
    "l2_group": 1, "persistent": True,
    "rules": {{
        "M": {{"multiple_of": 128}}, "N": {{"multiple_of": 128}},
        "K": {{"multiple_of": 64}}, "sm_count": {{}},
    }},
}}
"""

# The large problems less the one that takes long to compare.
SMALLER = {size: names for size, names in matrix._LARGE.items() if max(size) < 8192}

type Run = Callable[..., int]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with kernels step1 and step7, as the current directory, and a cache of its own."""
    folder = tmp_path / "project" / "kernels" / "family"
    folder.mkdir(parents=True)
    for step in (1, 7):
        text = DECLARATION.format(name=f"step{step}", step=step, target="sm_100a")
        (folder / f"step{step}.py").write_text(text)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("RUNGWATCH_KERNELS", raising=False)
    return folder


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    fake = FakeBackend()
    monkeypatch.setattr("rungwatch.cli.check.SimulatorBackend", lambda say: fake)
    return fake


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    fake = FakeDevice()
    monkeypatch.setattr("rungwatch.cli.check.CudaBackend", lambda folder: fake)
    monkeypatch.setattr("rungwatch.backends.cuda.sanitizer.find", lambda: "/usr/bin/it")
    monkeypatch.setattr("rungwatch.trusted.matrix._LARGE", SMALLER)
    monkeypatch.delenv("RUNGWATCH_REQUIRE_GPU", raising=False)
    return fake


@pytest.fixture
def run(project: Path, backend: FakeBackend) -> Run:
    def call(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert isinstance(ended.value.code, int)
        return int(ended.value.code)

    return call


def wrong(a: Matrix, b: Matrix, d: Matrix) -> None:
    right(a, b, d)
    d[0, 0] = 12_345


def set_kernel(backend: FakeBackend, name: str, kernel: Kernel) -> None:
    backend.kernels = {**backend.kernels, name: kernel}


class TestExitCodes:
    def test_all_right_is_0(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("check") == 0
        assert "PASS" in capsys.readouterr().out.splitlines()[-1]

    def test_a_wrong_kernel_is_1(
        self, run: Run, backend: FakeBackend, capsys: pytest.CaptureFixture[str]
    ) -> None:
        set_kernel(backend, "step7", wrong)
        assert run("check") == 1
        out = capsys.readouterr().out
        assert "FAIL" in out.splitlines()[-1]
        assert "D[0, 0]" in out
        assert "rungwatch check --kernel family/step7" in out

    def test_a_race_is_1(self, run: Run, backend: FakeBackend) -> None:
        backend.reports = {"racecheck": [finding("review")]}
        assert run("check") == 1

    def test_a_backend_that_is_not_there_is_4(
        self, run: Run, backend: FakeBackend, capsys: pytest.CaptureFixture[str]
    ) -> None:
        backend.unavailable = "cargo was not found: install Rust"
        assert run("check") == 4
        assert "cargo was not found" in capsys.readouterr().out

    def test_an_uncaught_error_is_4_in_one_line(
        self, run: Run, backend: FakeBackend, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def explode(*_args: object, **_more: object) -> None:
            raise ZeroDivisionError("a bug\nin two lines")

        backend.run = explode  # type: ignore[method-assign, assignment]
        assert run("check") == 4
        err = capsys.readouterr().err
        assert "internal error: ZeroDivisionError: a bug in two lines" in err
        assert "Traceback" not in err
        assert run("check", "--debug") == 4
        assert "Traceback" in capsys.readouterr().err

    def test_an_interrupt_is_130(
        self, run: Run, backend: FakeBackend, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def interrupt(*_args: object, **_more: object) -> None:
            raise KeyboardInterrupt

        backend.run = interrupt  # type: ignore[method-assign, assignment]
        assert run("check") == 130
        assert "interrupted" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["check", "--kernel", "nope"], "there are: family/step1, family/step7"),
            (["check", "--shape", "100x100"], "write MxNxK"),
            (["check", "--sms", "4"], "--sms belongs to --shape"),
            (["check", "--shape", "100x128x64"], "Nearest valid: --shape 128x128x64 --sms 4"),
            (["check", "--dist", "nope"], "onehot"),
            (["check", "--module", "missing.py"], "no file missing.py"),
            (["check", "--module", "no-module"], "neither a .py file nor a module name"),
            (["check", "--module", "package.module"], "needs --shape"),
            (["check", "--module", "a.b", "--kernel", "step1"], "exclude each other"),
            (["check", "--kernels", "nowhere"], "no folder nowhere"),
            (["check", "--target", "sm_90a"], "builds for target sm_90a"),
            (["check", "--json", "."], "is a directory"),
            (["check", "--json", "a", "--junit", "a"], "name the same file"),
            (["check", "--nope"], "No such option"),
            (["nope"], "No such command"),
            (["list", "--kernels", "nowhere"], "no folder nowhere"),
        ],
    )
    def test_wrong_usage_is_2_and_says_what_is_right(
        self, run: Run, words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(*words) == 2
        assert expected in " ".join(capsys.readouterr().err.split())

    def test_a_reader_that_goes_away_does_not_change_the_verdict(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone(*_arguments: object) -> None:
            raise SystemExit(1)  # what rich does when standard output is closed

        monkeypatch.setattr("rungwatch.cli.output.terminal.render", gone)
        monkeypatch.setattr("rungwatch.cli.output.os.dup2", lambda *_files: None)
        assert run("check", "--only", "synccheck") == 0

    def test_list_into_a_closed_pipe_is_no_rejection(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone(*_arguments: object) -> None:
            raise SystemExit(1)

        monkeypatch.setattr("rungwatch.cli.list_kernels._print_table", gone)
        assert run("list") == 4

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    def test_signals_end_a_check_as_interrupted(
        self, run: Run, backend: FakeBackend, number: signal.Signals
    ) -> None:
        def send(*_args: object, **_more: object) -> None:
            os.kill(os.getpid(), number)
            time.sleep(5)

        backend.run = send  # type: ignore[method-assign, assignment]
        before = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP)]
        try:
            assert run("check", "--only", "synccheck", "--kernel", "step1") == 130
        finally:
            for name, handler in zip((signal.SIGTERM, signal.SIGHUP), before, strict=True):
                signal.signal(name, handler)


class TestBadKernelFiles:
    def test_a_broken_declaration_is_not_taken_for_a_bare_factory(
        self, run: Run, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = project / "step7.py"
        file.write_text(file.read_text().replace("ring_depth", "ring_depht"))
        words = ("check", "--module", str(file), "--shape", "128x128x64")
        assert run(*words) == 4
        assert "ring_dep" in capsys.readouterr().out

    def test_a_syntax_error_is_one_invalid_row_and_the_rest_run(
        self, run: Run, project: Path, tmp_path: Path
    ) -> None:
        (project / "step3.py").write_text("def broken(:\n")
        assert run("check", "--json", str(tmp_path / "r.json")) == 4
        rows = model.decode((tmp_path / "r.json").read_bytes()).rows
        (bad,) = [row for row in rows if row.reason is not Reason.OK]
        assert bad.reason is Reason.KERNEL_LOAD
        assert "step3.py:1: SyntaxError" in bad.message
        assert {row.kernel for row in rows if row.reason is Reason.OK} == {
            "family/step1",
            "family/step7",
        }

    def test_a_hopper_kernel_alone_is_not_a_pass(self, run: Run, project: Path) -> None:
        text = DECLARATION.format(name="h", step=1, target="sm_90a")
        (project / "h.py").write_text(text)
        assert run("check", "--kernel", "h") == 4
        assert run("check") == 0


class TestFiles:
    def test_json_and_junit(self, run: Run, backend: FakeBackend, tmp_path: Path) -> None:
        set_kernel(backend, "step1", wrong)
        code = run("check", "--json", str(tmp_path / "r.json"), "--junit", str(tmp_path / "j.xml"))
        assert code == 1
        record = model.decode((tmp_path / "r.json").read_bytes())
        suite = ET.parse(tmp_path / "j.xml").getroot()
        assert len(suite.findall(".//testcase")) == len(record.rows)
        assert suite.findall(".//failure")

    def test_a_file_that_cannot_be_written_is_4_and_named(
        self, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").write_text("")
        assert run("check", "--json", str(tmp_path / "file" / "r.json")) == 4
        assert "file" in capsys.readouterr().err

    def test_a_report_holds_a_picture_of_the_wrong_tiles(
        self, run: Run, backend: FakeBackend, tmp_path: Path
    ) -> None:
        set_kernel(backend, "step1", wrong)
        run("check", "--kernel", "step1", "--dist", "normal", "--report", str(tmp_path / "r"))
        assert [path for path in (tmp_path / "r").iterdir() if path.suffix == ".png"]


class TestCache:
    def test_a_second_run_is_cached_and_says_so(
        self, run: Run, backend: FakeBackend, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("check")
        capsys.readouterr()
        backend.jobs.clear()
        assert run("check") == 0
        assert backend.jobs == []
        assert "cache" in capsys.readouterr().out
        assert run("check", "--no-cache") == 0
        assert backend.jobs

    def test_an_edited_kernel_is_run_again(
        self, run: Run, backend: FakeBackend, project: Path
    ) -> None:
        run("check")
        backend.jobs.clear()
        file = project / "step7.py"
        file.write_text(file.read_text() + "# edited\n")
        run("check")
        assert {Path(job.source.path or "").stem for job, _ in backend.jobs} == {"step7"}


class TestList:
    def test_it_shows_every_kernel_and_its_rules(
        self, run: Run, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("list") == 0
        out = capsys.readouterr().out
        assert "step1" in out
        assert "step7" in out
        assert "multiple of" in out

    def test_json(self, run: Run, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (project / "bad.py").write_text("x = 1\n")
        assert run("list", "--json") == 0
        listed = {entry["key"]: entry for entry in json.loads(capsys.readouterr().out)}
        assert listed["family/step7"]["declaration"]["rules"]["M"] == {"multiple_of": 128}
        assert "declares no PROTOCOL" in listed["family/bad"]["error"]

    def test_it_works_from_a_folder_below(
        self, run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project)
        assert run("list") == 0


# Those that need no commits; the others are tried in test_revisions.py.
PLAIN = ("list", "check")
# Those that are about this machine: their examples are tried where they are tested.
OF_THE_MACHINE = ("bench", "commission", "doctor")


def examples(command: click.Command) -> list[list[str]]:
    lines = (command.help or "").splitlines()
    return [line.split()[1:] for line in lines if line.strip().startswith("rungwatch ")]


class TestDevice:
    """`check --backend cuda`: what is asked of a GPU, and what is said where it is not there."""

    ON_DEVICE = ("check", "--backend", "cuda", "--artifacts", "artifacts")

    @pytest.fixture(autouse=True)
    def artifacts(self, project: Path, device: FakeDevice) -> None:
        Path("artifacts").mkdir()

    def test_right_kernels_pass_with_every_tool_of_a_gpu(
        self, run: Run, device: FakeDevice, tmp_path: Path
    ) -> None:
        assert run(*self.ON_DEVICE, "--json", str(tmp_path / "r.json")) == 0
        record = model.decode((tmp_path / "r.json").read_bytes())
        assert record.run.backend == "cuda"
        assert record.environment.gpu == model.Gpu("Fake GPU", "580.1 (CUDA 13.0)")
        assert {row.check for row in record.rows} == {"source", *DEVICE_TOOLS}
        assert {job.kernel for job, _ in device.jobs} == {"family/step1", "family/step7"}
        assert {job.target for job, _ in device.jobs} == {"sm_100a"}
        numerics = next(row for row in record.rows if row.check == "numerics")
        assert numerics.rerun.endswith("--backend cuda --artifacts artifacts")

    def test_a_record_names_the_commit_that_the_artifacts_were_built_from(
        self, run: Run, tmp_path: Path
    ) -> None:
        Path("artifacts", MANIFEST_FILE).write_bytes(encode_manifest(Manifest("c0ffee", {}, ())))
        assert run(*self.ON_DEVICE, "--json", str(tmp_path / "r.json")) == 0
        assert model.decode((tmp_path / "r.json").read_bytes()).run.revision == "c0ffee"

    def test_nothing_is_taken_from_a_cache(self, run: Run, device: FakeDevice) -> None:
        for _ in range(2):
            device.jobs.clear()
            assert run(*self.ON_DEVICE) == 0
            assert device.jobs

    def test_device_adds_large_problems(self, run: Run, device: FakeDevice) -> None:
        words = (*self.ON_DEVICE, "-k", "step1", "--only", "numerics", "--dist", "onehot")
        assert run(*words, "--full") == 0
        full = {job.shape for job, _ in device.jobs}
        device.jobs.clear()
        assert run(*words, "--device") == 0
        more = {job.shape for job, _ in device.jobs} - full
        assert {(shape.m, shape.n, shape.k) for shape in more} == {
            (1024, 1024, 1024),
            (2048, 2048, 2048),
            (4096, 2048, 1024),
        }
        assert {shape.sm_count for shape in more} == {148}

    def test_output_that_changes_between_runs_fails(self, run: Run, device: FakeDevice) -> None:
        device.unstable = True
        assert run(*self.ON_DEVICE) == 1

    def test_no_gpu_is_4(
        self, run: Run, device: FakeDevice, capsys: pytest.CaptureFixture[str]
    ) -> None:
        device.unavailable = "libcuda.so.1 can't be loaded"
        assert run(*self.ON_DEVICE) == 4
        out = " ".join(capsys.readouterr().out.split())
        assert "INVALID(backend-unavailable)" in out
        assert "libcuda.so.1 can't be loaded" in out

    def test_a_kernel_for_another_gpu_is_skipped_unless_a_gpu_is_required(
        self,
        run: Run,
        device: FakeDevice,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        device.runs = "sm_90a"
        assert run(*self.ON_DEVICE) == 4
        assert "SKIPPED(other-gpu)" in capsys.readouterr().out
        monkeypatch.setenv("RUNGWATCH_REQUIRE_GPU", "1")
        assert run(*self.ON_DEVICE) == 4
        out = capsys.readouterr().out
        assert "INVALID(gpu-required)" in out
        assert "SKIPPED" not in out

    def test_a_sanitizer_that_is_not_there_is_said(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("rungwatch.backends.cuda.sanitizer.find", lambda: None)
        assert run(*self.ON_DEVICE) == 0
        assert "SKIPPED(no-sanitizer) step1-sanitizer-memcheck" in capsys.readouterr().out
        monkeypatch.setenv("RUNGWATCH_REQUIRE_GPU", "1")
        assert run(*self.ON_DEVICE) == 4
        assert run(*self.ON_DEVICE, "--only", "numerics") == 0

    @pytest.mark.parametrize(
        "words",
        [
            ("check", "--backend", "cuda"),
            ("check", "--backend", "cuda", "--artifacts", "nowhere"),
            ("check", "--artifacts", "artifacts"),
            ("check", "--device"),
            ("check", "--only", "sanitizer-memcheck"),
            (*ON_DEVICE, "--only", "racecheck"),
            (*ON_DEVICE, "--module", "my_gemm.py:make", "--shape", "256x256x128"),
        ],
        ids=" ".join,
    )
    def test_what_the_other_backend_has_is_wrong_usage(self, run: Run, words: list[str]) -> None:
        Path("my_gemm.py").write_text("def make(M, N, K): ...\n")
        assert run(*words) == 2

    def test_a_requirement_that_makes_no_sense_is_wrong_usage(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RUNGWATCH_REQUIRE_GPU", "yes")
        assert run("check") == 2


@pytest.mark.parametrize(
    "words",
    [words for name in PLAIN for words in examples(app.commands[name])],
    ids=" ".join,
)
@pytest.mark.usefixtures("device")
def test_the_examples_in_help_work(run: Run, words: list[str]) -> None:
    Path("my_gemm.py").write_text("def make(M, N, K): ...\n")
    Path("artifacts").mkdir()
    assert run(*words) == 0


@pytest.mark.parametrize("words", [[], *([name] for name in app.commands)], ids=str)
def test_help_is_there_and_fits(
    run: Run, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words, "--help") == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(r"Usage: rungwatch", out)
