"""What compute-sanitizer says is read defensively: silence is never a pass."""

import stat
import sys
from pathlib import Path

import pytest

from rungwatch.backends.cuda import sanitizer
from rungwatch.backends.cuda.sanitizer import SanitizerError, report_of
from rungwatch.backends.job import Failure, JobResult, Tool

from .conftest import job, run

MEMCHECK, RACECHECK, SYNCCHECK = (
    Tool.SANITIZER_MEMCHECK,
    Tool.SANITIZER_RACECHECK,
    Tool.SANITIZER_SYNCCHECK,
)
HEAD = "========= COMPUTE-SANITIZER\n"
CLEAN = f"{HEAD}========= ERROR SUMMARY: 0 errors\n"
RACE_CLEAN = f"{HEAD}========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
INVALID_WRITE = (
    f"{HEAD}"
    "========= Invalid __global__ write of size 2 bytes\n"
    "=========     at gemm+0x120\n"
    "=========     by thread (3,0,0) in block (1,0,0)\n"
    "=========     Address 0x7f0000000200 is out of bounds\n"
    "========= \n"
    "========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to a fault\n"
    "=========     Saved host backtrace up to driver entry point at error\n"
    "=========\n"
    "========= ERROR SUMMARY: 2 errors\n"
)
WARNED = (
    f"{HEAD}"
    "========= Warning: Race reported between Write access at gemm+0x80\n"
    "=========     and Read access at gemm+0x90 [16 hazards]\n"
    "=========\n"
    "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n"
)


@pytest.mark.parametrize(
    ("tool", "text"), [(MEMCHECK, CLEAN), (SYNCCHECK, CLEAN), (RACECHECK, RACE_CLEAN)]
)
def test_a_summary_of_zero_is_clean(tool: Tool, text: str) -> None:
    assert report_of(tool, text).verdict == "clean"


def test_an_error_is_told_in_the_sanitizers_words() -> None:
    report = report_of(MEMCHECK, INVALID_WRITE)
    assert report.verdict == "error"
    first, second = report.findings
    assert first.kind == "Invalid __global__ write of size 2 bytes"
    assert first.message.startswith("at gemm+0x120; by thread (3,0,0) in block (1,0,0); Address")
    assert second.kind.startswith("Program hit CUDA_ERROR_LAUNCH_FAILED")


def test_a_warning_alone_is_for_review() -> None:
    report = report_of(RACECHECK, WARNED)
    assert report.verdict == "review"
    assert [finding.status for finding in report.findings] == ["warning"]


def test_a_race_is_an_error() -> None:
    text = WARNED.replace("Warning: Race", "Error: Race")
    report = report_of(RACECHECK, text.replace("0 errors, 1 warning", "1 error, 0 warnings"))
    assert report.verdict == "error"
    assert report.findings[0].kind == "Error: Race reported between Write access at gemm+0x80"


def test_errors_that_are_only_counted_are_errors() -> None:
    report = report_of(SYNCCHECK, f"{HEAD}========= ERROR SUMMARY: 3 errors\n")
    assert report.verdict == "error"
    assert "counts 3 errors" in report.findings[0].message


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (MEMCHECK, ""),
        (MEMCHECK, HEAD),
        (MEMCHECK, CLEAN + CLEAN),
        (MEMCHECK, "ERROR SUMMARY: no errors\n"),
        (MEMCHECK, "========= ERROR SUMMARY: many errors\n"),
        (MEMCHECK, RACE_CLEAN),
        (RACECHECK, CLEAN),
        (RACECHECK, "========= RACECHECK SUMMARY: 0 hazards displayed\n"),
        (MEMCHECK, f"{HEAD}========= Error: Target application terminated before first\n{CLEAN}"),
        (MEMCHECK, f"========= Device not supported. Please refer to the docs\n{CLEAN}"),
        (MEMCHECK, f"========= Internal Sanitizer Error\n{CLEAN}"),
        (MEMCHECK, f"========= Target application terminated before first call\n{CLEAN}"),
    ],
)
def test_anything_else_is_no_report(tool: Tool, text: str) -> None:
    with pytest.raises(SanitizerError):
        report_of(tool, text)


def test_it_is_found_on_the_path_only_if_it_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sanitizer, "_USUAL_FOLDER", str(tmp_path / "usual"))
    program = tmp_path / "compute-sanitizer"
    program.write_text("#!/bin/sh\n")
    assert sanitizer.find() is None
    program.chmod(0o755)
    assert sanitizer.find() == str(program)


class TestRun:
    """The worker runs under a program that stands for compute-sanitizer."""

    @pytest.fixture
    def said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: object) -> "Path":
        """Return the folder where a test puts the report, and the exit code where it is another."""
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "compute-sanitizer"
        program.write_text(
            f"#!{sys.executable}\n"
            "import pathlib, subprocess, sys\n"
            "here, given = pathlib.Path(__file__).parent, sys.argv[1:]\n"
            "log = pathlib.Path(given[given.index('--log-file') + 1])\n"
            "code = subprocess.run(given[given.index('--log-file') + 2:]).returncode\n"
            "if (here / 'report').exists(): log.write_bytes((here / 'report').read_bytes())\n"
            "(here / 'given').write_text(' '.join(given))\n"
            "own = here / 'code'\n"
            "sys.exit(int(own.read_text()) if own.exists() and not code else code)\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return folder

    def run(self, folder: Path, kernel: str = "right", tool: Tool = MEMCHECK) -> JobResult:
        return run(folder, job(kernel, tool=tool))

    @pytest.mark.parametrize(("tool", "text"), [(MEMCHECK, CLEAN), (RACECHECK, RACE_CLEAN)])
    def test_a_clean_kernel(self, tmp_path: Path, said: Path, tool: Tool, text: str) -> None:
        (said / "report").write_text(text)
        result = self.run(tmp_path, tool=tool)
        assert result.failure is None
        assert result.report is not None
        assert result.report.verdict == "clean"
        assert f"--tool {sanitizer.TOOLS[tool]} " in (said / "given").read_text()

    def test_what_it_finds_counts(self, tmp_path: Path, said: Path) -> None:
        (said / "report").write_text(INVALID_WRITE)
        (said / "code").write_text(str(sanitizer.FOUND_EXIT_CODE))
        report = self.run(tmp_path).report
        assert report is not None
        assert report.verdict == "error"

    def test_what_it_finds_counts_also_where_the_kernel_then_faults(
        self, tmp_path: Path, said: Path
    ) -> None:
        (said / "report").write_text(INVALID_WRITE)
        result = self.run(tmp_path, "stray")
        assert result.failure is None
        assert result.report is not None

    def test_a_fault_that_it_does_not_see_is_the_kernels(self, tmp_path: Path, said: Path) -> None:
        (said / "report").write_text(CLEAN)
        failure = self.run(tmp_path, "stray").failure
        assert failure is not None
        assert failure.failure is Failure.EXECUTION

    def test_no_report_is_no_pass(self, tmp_path: Path, said: Path) -> None:
        failure = self.run(tmp_path).failure
        assert failure is not None
        assert failure.failure is Failure.BAD_OUTPUT

    def test_an_exit_code_that_contradicts_the_report_is_no_pass(
        self, tmp_path: Path, said: Path
    ) -> None:
        (said / "report").write_text(CLEAN)
        (said / "code").write_text(str(sanitizer.FOUND_EXIT_CODE))
        failure = self.run(tmp_path).failure
        assert failure is not None
        assert failure.failure is Failure.BAD_OUTPUT
        assert "its exit code says otherwise" in failure.message

    def test_a_sanitizer_that_fails_is_no_pass(self, tmp_path: Path, said: Path) -> None:
        (said / "report").write_text(CLEAN)
        (said / "code").write_text("1")
        failure = self.run(tmp_path).failure
        assert failure is not None
        assert failure.failure is Failure.WORKER_DIED

    def test_a_gpu_that_it_can_not_watch_is_no_fault_of_the_kernel(
        self, tmp_path: Path, said: Path, machine: object
    ) -> None:
        (said / "report").write_text(f"========= Device not supported\n{CLEAN}")
        failure = self.run(tmp_path).failure
        assert failure is not None
        assert failure.failure is Failure.BAD_OUTPUT
        assert "could not watch the kernel: Device not supported" in failure.message
