"""The commands that work on revisions, as a user types them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rungwatch.__main__ import main
from rungwatch.artifact.manifest import MANIFEST_FILE, decode_manifest
from rungwatch.artifact.store import Store
from rungwatch.cli.app import app
from rungwatch.record.model import decode
from rungwatch.trusted import matrix

from ..fakes import FakeBackend
from ..projects import Project
from .test_cli import OF_THE_MACHINE, PLAIN, examples

pytestmark = pytest.mark.xdist_group("gate")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Step 7 with three stages, and a branch on which the second commit takes one away."""
    made = Project.make(tmp_path / "project", "step7")
    made.edit("step7", "PIPE_DEPTH = 2", "PIPE_DEPTH = 3")
    made.commit("three stages")
    made.git("checkout", "--quiet", "-b", "work")
    source = made.path("step7").read_text()
    made.write("step7", f"{source}# a note\n")
    made.commit("a note")
    made.edit("step7", "PIPE_DEPTH = 3", "PIPE_DEPTH = 2")
    made.commit("a stage less")
    made.edit("step7", "# a note", "# another note")
    made.commit("another note")
    (made.root / "record.json").write_bytes(b"")
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(cache))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("RUNGWATCH_KERNELS", raising=False)
    monkeypatch.setattr(matrix, "COMPARED_SIZES", (512,))
    monkeypatch.setattr("rungwatch.cli.gate.SimulatorBackend", lambda say: FakeBackend())
    return made


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return int(ended.value.code)


# What each example ends with in this project: 3 where code changed and nothing was timed.
ENDS = {"gate": {0, 3}, "bisect": {0}, "build": {0}, "diff": {0}, "decide": {0}}


@pytest.mark.parametrize(
    "words",
    [
        words
        for name in app.commands
        if name not in (*PLAIN, *OF_THE_MACHINE)
        for words in examples(app.commands[name])
    ],
    ids=" ".join,
)
def test_the_examples_in_help_work(project: Project, words: list[str]) -> None:
    if words[0] == "decide":
        assert run("diff", "HEAD", "--json", "record.json") == 0
    assert run(*words) in ENDS[words[0]]


def test_build_leaves_artifacts_that_can_be_found(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("build", "--rev", "HEAD", "--out", "out", "--json", "build.json") == 0
    manifest = decode_manifest(Path("out", MANIFEST_FILE).read_bytes())
    assert manifest.revision == project.git("rev-parse", "HEAD")
    [item] = manifest.items
    assert item.artifact is not None
    artifact = Store(Path("out")).get(item.artifact)
    assert artifact.plan.entry == "hgemm_step7_kernel"
    [row] = decode(Path("build.json").read_bytes()).rows
    assert row.head is not None
    assert row.head.cost["registers"] > 0
    assert "static cost" in capsys.readouterr().out
    first = Path("out", MANIFEST_FILE).read_bytes()
    assert run("build", "--rev", "HEAD", "--out", "again") == 0
    assert Path("again", MANIFEST_FILE).read_bytes() == first


def test_the_same_source_gives_the_same_artifact_in_another_folder_and_cache(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("build", "--out", "one") == 0
    project.root.rename(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(tmp_path / "another cache"))
    assert run("build", "--out", "two") == 0
    one, two = (decode_manifest(Path(name, MANIFEST_FILE).read_bytes()) for name in ("one", "two"))
    assert one.items == two.items
    assert one.items[0].artifact


def test_a_kernel_that_does_not_build_is_invalid_and_the_rest_is_built(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("broken", project.path("step7").read_text().replace('"step7"', '"broken"'))
    project.edit("broken", "min(M, N, K) < 1", "undefined_name")
    assert run("build", "--out", "out") == 4
    out = capsys.readouterr().out
    assert "undefined_name" in out
    items = decode_manifest(Path("out", MANIFEST_FILE).read_bytes()).items
    assert {item.kernel: item.artifact is not None for item in items} == {
        "hgemm/blackwell/broken": False,
        "hgemm/blackwell/step7": True,
    }


def test_an_unknown_protocol_is_skipped_with_its_reason(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("future", "PROTOCOL = 99\nKERNEL = {}\n")
    assert run("build", "--out", "out", "--json", "build.json") == 0
    assert "unknown-protocol" in capsys.readouterr().out
    project.path("step7").unlink()
    assert run("build", "--out", "out") == 4  # nothing but a skip is no success


def test_two_builds_at_once_on_one_cache_both_end_right(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(tmp_path / "fresh"))
    words = [sys.executable, "-m", "rungwatch", "build", "--shape", "512x512x512", "--out"]
    both = [subprocess.Popen([*words, name], env=dict(os.environ)) for name in ("one", "two")]
    assert [process.wait(240) for process in both] == [0, 0]
    one, two = (Path(name, MANIFEST_FILE).read_bytes() for name in ("one", "two"))
    assert one == two


def test_diff_names_what_changed(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", "HEAD~1", "--json", "diff.json") == 0
    assert {row.reason for row in decode(Path("diff.json").read_bytes()).rows} == {"identical"}
    assert run("diff", "main", "HEAD", "--json", "diff.json", "--source", "--sass") == 0
    out = capsys.readouterr().out
    [row] = decode(Path("diff.json").read_bytes()).rows
    assert row.reason == "changed"
    assert "smem_bytes" in row.message
    assert "PIPE_DEPTH = 2" in out
    assert "UTCHMMA" in out or "BRA" in out
    assert run("decide", "diff.json") == 0


def test_bisect_finds_the_commit(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bisect", "-k", "step7", "--metric", "smem_bytes", "--shape", "512x512x512",
               "main", "work") == 0  # fmt: skip
    assert "a stage less" in capsys.readouterr().out.splitlines()[-1]
    assert run("bisect", "-k", "step7", "--metric", "threads", "main", "work") == 3
    assert run("bisect", "-k", "step9", "--metric", "threads", "main", "work") == 4
    assert run("bisect", "-k", "step7", "--metric", "threads", "work", "main") == 2
    assert run("bisect", "-k", "step7", "--metric", "speed", "main", "work") == 2


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "not json", '{"rows": []}', "[" * 10_000])
def test_what_is_no_record_is_invalid(project: Project, text: str) -> None:
    Path("record.json").write_text(text)
    assert run("decide", "record.json") == 4
    assert run("decide", "missing.json") == 2


def test_records_of_every_command_can_be_decided_again(project: Project) -> None:
    assert run("build", "--out", "out", "--json", "a.json") == run("decide", "a.json") == 0
    gate = ["gate", "--base", "main", "--json", "b.json"]
    assert run(*gate) == run("decide", "b.json") == 3
    assert run(*gate, "--allow-unmeasured") == run("decide", "b.json") == 0
    assert json.loads(Path("b.json").read_text())["run"]["compilers"]["head"]["apache-tvm"]
