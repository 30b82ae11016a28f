"""`rungwatch bench`: its options, its files and its exit codes; the workers are stood in for."""

import shutil
from pathlib import Path

import pytest

from rungwatch.__main__ import main
from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.manifest import MANIFEST_FILE, Item, Manifest, encode_manifest
from rungwatch.artifact.store import Store
from rungwatch.backends.cuda.backend import CudaBackend
from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.backends.job import BackendUnavailableError, Failure, JobFailure, Stage
from rungwatch.bench.fitness import fitness_row
from rungwatch.bench.plan import Asked, plan_bench
from rungwatch.bench.rows import Rerun
from rungwatch.cli.app import app
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.declare.registry import discover
from rungwatch.declare.subject import from_file
from rungwatch.doctor.finding import Activity, trouble
from rungwatch.measure.session import Measured
from rungwatch.record.model import decode
from rungwatch.trusted.matrix import TimedSet

from ..artifact.samples import cubin
from ..backends.cuda.conftest import PLAN
from ..cli.test_cli import examples
from .samples import timing

ROOT = Path(__file__).parents[2]
H200 = DeviceFacts("NVIDIA H200", (9, 0), 132, 2**37, 2**37, (13, 0), "580.1")
CODE = Artifact(cubin("sm_90a", PLAN.entry), PLAN)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two Hopper steps and a Blackwell one, artifacts of all that is timed, on an H200."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNGWATCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("RUNGWATCH_KERNELS", "RUNGWATCH_REQUIRE_GPU"):
        monkeypatch.delenv(name, raising=False)
    for name in ("hopper/step1", "hopper/step9", "blackwell/step9"):
        to = tmp_path / f"kernels/hgemm/{name}.py"
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / f"kernels/hgemm/{name}.py", to)
    make_artifacts(tmp_path)
    monkeypatch.setattr("rungwatch.cli.bench.CudaBackend", lambda at: CudaBackend(at, lambda: H200))
    # The artifact is a stand-in that fits none of these shapes; nothing is launched.
    monkeypatch.setattr("rungwatch.backends.cuda.artifacts.require_loadable", lambda *_: None)
    monkeypatch.setattr("rungwatch.cli.bench.measure", fake_measure)
    monkeypatch.setattr("rungwatch.cli.bench.fitness_row", lambda: fitness_row(lambda: ()))
    return tmp_path


def make_artifacts(root):
    subjects = [from_file(file) for file in discover(root / "kernels")]
    asked = Asked(tuple(TimedSet), ((2048, 4096, 512),))
    plan = plan_bench(subjects, asked, {"sm_90a": 132}, Rerun("a", "cold"), gpu_required=False)
    identity = Store(root / "artifacts").put(CODE)
    items = {
        (case.subject.key, case.launched): Item(
            kernel=case.subject.key,
            source_sha256=case.subject.sha256,
            shape=case.launched,
            target="sm_90a",
            artifact=identity,
            code_sha256="code",
            reason=Reason.OK,
            message="",
        )
        for case in plan.cases
    }
    manifest = Manifest("c0ffee", {}, tuple(items.values()))
    (root / "artifacts" / MANIFEST_FILE).write_bytes(encode_manifest(manifest))


def fake_measure(cases, folder, settings, progress):
    progress(len(cases), len(cases))
    return [
        Measured(
            case, timing(us_of(case.launched), us_of(case.launched), launched=case.launched), None
        )
        for case in cases
    ]


def us_of(shape):
    return 5.0 + 2 * shape.m * shape.n * shape.k / 700e6


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def bench(*words):
    return run("bench", "--artifacts", "artifacts", *words)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("words", examples(app.commands["bench"]), ids=" ".join)
def test_the_examples_in_help_work(words):
    assert run(*words) == 0


def test_the_ladder_ends_in_a_table_a_record_and_a_picture(project, capsys):
    out = project / "out"
    files = ("--json", str(out / "bench.json"), "--plot", str(out / "bench.png"))
    assert bench(*files) == 0
    shown = capsys.readouterr()
    assert "ladder of hgemm/hopper, 4096x4096x4096: sm_90a, 132 SMs, cold L2" in shown.out
    assert "synchronous load" in shown.out  # what a step adds is taken from its declaration
    assert "SKIPPED(other-gpu) step9-timing: for sm_100a; this GPU runs sm_90a" in shown.out
    assert "[2/2] timed" in shown.err
    record = decode((out / "bench.json").read_bytes())
    assert [row.kernel for row in record.rows if row.timing] == [
        "hgemm/hopper/step1", "hgemm/hopper/step9",
    ]  # fmt: skip
    assert record.run.backend == "cuda"
    assert record.environment.gpu.model == "NVIDIA H200"
    assert (out / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert run("decide", str(out / "bench.json")) == 0
    assert "ladder of hgemm/hopper" in capsys.readouterr().out


def test_a_record_names_the_commit_of_the_artifacts_and_no_folder(project, monkeypatch):
    words = ["--json", str(project / "out.json"), "--kernels", str(project / "kernels")]
    monkeypatch.setattr("sys.argv", ["rungwatch", "bench", "--artifacts", "artifacts", *words])
    assert bench(*words) == 0
    run_of = decode((project / "out.json").read_bytes()).run
    assert run_of.revision == "c0ffee"
    assert str(project) not in (project / "out.json").read_text()
    assert run_of.command == (
        "rungwatch bench --artifacts artifacts --json out.json --kernels kernels"
    )


def test_what_the_workers_could_not_time_is_told_and_fails(project, monkeypatch, capsys):
    hang = JobFailure(Failure.EXECUTION, Stage.RUN, "did not end")

    def measure(cases, *rest):
        return [Measured(case, None, hang) for case in cases[:1]] + fake_measure(cases[1:], *rest)

    monkeypatch.setattr("rungwatch.cli.bench.measure", measure)
    assert bench() == 1
    assert "FAIL(execution)" in capsys.readouterr().out


def test_without_a_gpu_it_is_invalid_and_says_so(project, monkeypatch, capsys):
    def none():
        raise BackendUnavailableError("there is no NVIDIA driver")

    monkeypatch.setattr("rungwatch.cli.bench.CudaBackend", lambda at: CudaBackend(at, none))
    assert bench("--plot", "plot.svg") == 4
    shown = capsys.readouterr()
    assert "INVALID(backend-unavailable)" in shown.out
    assert "there is no NVIDIA driver" in shown.out
    assert "plot.svg was not drawn" in shown.err
    assert not Path("plot.svg").exists()


def test_where_a_gpu_is_required_a_kernel_for_another_one_is_invalid(project, monkeypatch):
    monkeypatch.setenv("RUNGWATCH_REQUIRE_GPU", "1")
    assert bench() == 4
    assert bench("--target", "sm_90a") == 0


def test_a_shape_that_was_not_built_is_invalid(project, capsys):
    assert bench("-k", "hgemm/hopper/step9", "--shape", "512x512x512") == 4
    assert "INVALID(no-artifact)" in capsys.readouterr().out


def test_twice_shows_the_noise(project, capsys):
    assert bench("--shapes", "squares", "--twice", "--json", "out.json") == 0
    assert "noise, hgemm/hopper/step9: the same artifact in two arms" in capsys.readouterr().out
    kernels = {row.kernel for row in decode(Path("out.json").read_bytes()).rows if row.timing}
    assert kernels == {"hgemm/hopper/step9", "hgemm/hopper/step9:again"}


def test_cache_and_workers_reach_the_measurement(project, monkeypatch):
    given = []

    def measure(cases, folder, settings, progress):
        given.append(settings)
        return fake_measure(cases, folder, settings, progress)

    monkeypatch.setattr("rungwatch.cli.bench.measure", measure)
    assert bench("--cache", "warm", "--workers", "20") == 0
    assert [(each.cache, each.workers) for each in given] == [("warm", 20)]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--plot", "plot.pdf"), "ends in neither .png nor .svg"),
        (("--shape", "512"), "is not a shape"),
        (("-k", "nothing"), "no kernel 'nothing'"),
        (("--workers", "1"), "--workers"),
        (("--json", "a.png", "--plot", "a.png"), "two outputs name the same file"),
        (("--artifacts", "nowhere"), "there is no folder nowhere"),
    ],
    ids=str,
)
def test_wrong_usage_is_said_before_anything_is_timed(words, message, capsys):
    assert bench(*words) == 2
    assert message in capsys.readouterr().err


def test_what_bench_asks_for_is_what_build_builds(project):
    """Both take the shapes from one place: whatever is timed has an artifact."""
    from rungwatch.cli.build import Wanted

    subject = next(
        from_file(file)
        for file in discover(project / "kernels")
        if file.key == "hgemm/hopper/step9"
    )
    built = Wanted(("bench",), (), None).shapes_of(subject.declaration, "sm_90a", is_top=True)
    plan = plan_bench(
        [subject], Asked(tuple(TimedSet)), {"sm_90a": 132}, Rerun("a", "cold"), gpu_required=False
    )
    assert set(built) == {case.launched for case in plan.cases}
    below = Wanted(("bench",), (), None).shapes_of(subject.declaration, "sm_90a", is_top=False)
    assert below == [Shape(4096, 4096, 4096, 132)]


def test_times_of_an_unfit_machine_are_no_pass(project, monkeypatch):
    busy = trouble("gpu-use", "another process uses the GPU", "wait", (Activity.MEASURE,))
    monkeypatch.setattr("rungwatch.cli.bench.fitness_row", lambda: fitness_row(lambda: (busy,)))
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--artifacts", "artifacts", "--json", "unfit.json"])
    assert ended.value.code == 4
    last = decode(Path("unfit.json").read_bytes()).rows[-1]
    assert (last.reason, last.check) == (Reason.MACHINE_UNFIT, "doctor")
    assert "another process uses the GPU" in last.message


def test_a_fit_machine_alone_is_no_measurement(project, monkeypatch):
    """A row that says that the machine is fit must not be all that a run passes by."""
    shutil.rmtree("artifacts")
    Path("artifacts").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--artifacts", "artifacts", "--json", "none.json"])
    assert ended.value.code == 4
    assert all(row.check == "timing" for row in decode(Path("none.json").read_bytes()).rows)
