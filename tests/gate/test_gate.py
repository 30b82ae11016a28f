"""The gate on real kernels, really compiled: each kind of commit is named right."""

import datetime
import os
from pathlib import Path

import pytest

from rungwatch.record.model import decode

from ..fakes import FakeBackend, Matrix, right
from ..projects import HOPPER, KERNELS, Project
from .conftest import Gate

pytestmark = pytest.mark.xdist_group("gate")

# Where the simulator's engines are, which no test may have to build.
ENGINES = os.environ.get("RUNGWATCH_CACHE_DIR")

EPILOGUE = """        Tx.wg.copy_async(acc_regs, acc[:, :])
        T.ptx.tcgen05.wait__ld.sync.aligned()
"""
TWICE = """        Tx.wg.copy_async(more_regs, acc[:, :])
        T.ptx.tcgen05.wait__ld.sync.aligned()
        Tx.wg.copy_async(acc_regs, acc[:, :])
        T.ptx.tcgen05.wait__ld.sync.aligned()
        Tx.wg.maximum(acc_regs, acc_regs, more_regs)
"""


def make_it_spill(project: Project) -> None:
    """Give step 3 twice the registers that a thread of it can have."""
    tile = "acc_regs = T.wg_reg_tile(BLK_N)"
    project.edit("step3", EPILOGUE, TWICE)
    project.edit("step3", tile, f"{tile}\n        more_regs = T.wg_reg_tile(BLK_N)")
    bounds = 'T.attr({"tirx.launch_bounds_min_blocks_per_sm": 3})'
    project.edit("step3", "T.device_entry()", f"T.device_entry()\n        {bounds}")


def change_the_code(project: Project) -> None:
    """Make step 3 other machine code that does the same."""
    project.edit("step3", "        tmem_pool.dealloc()\n", "        tmem_pool.dealloc()\n"
                 "        T.cuda.cta_sync()\n")  # fmt: skip


def wrong(a: Matrix, b: Matrix, d: Matrix) -> None:
    right(a, b, d)
    d[0, 0] = 12_345


def test_comments_and_documents_change_nothing(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    source = project.path("step3").read_text().replace('"""Step 3', '"""Documented. Step 3')
    project.write("step3", source.replace("import tvm\n", "import tvm  # a comment\n"))
    assert rungwatch.gate() == 0
    assert rungwatch.reasons() == {"identical"}
    assert rungwatch.record.reason == "identical"
    [row] = rungwatch.rows("identity")
    assert "3 of 3 problems" in row.message
    assert simulator.jobs == []


def test_nothing_changed_at_all(project: Project, rungwatch: Gate, simulator: FakeBackend) -> None:
    assert rungwatch("gate", "--base", "HEAD", "--head", "HEAD", "--json", "gate.json") == 0
    assert rungwatch.reasons() == {"identical"}


def test_other_code_is_run_and_not_timed(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    change_the_code(project)
    assert rungwatch.gate() == 3
    assert rungwatch.record.reason == "not-timed"
    [row] = rungwatch.rows("identity")
    assert row.reason == "changed"
    assert len(rungwatch.rows("numerics")) == 16
    assert {job.source.path for job, _ in simulator.jobs} == {str(project.path("step3"))}
    [static] = rungwatch.rows("static")
    assert static.base is not None
    assert static.head is not None
    assert static.base.code_sha256 != static.head.code_sha256
    assert rungwatch.gate("--allow-unmeasured") == 0
    assert "timing-waived" in rungwatch.reasons()


def test_a_wrong_head_is_refused(
    project: Project, rungwatch: Gate, simulator: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    change_the_code(project)
    simulator.kernels = {"step3": wrong}
    assert rungwatch.gate("--markdown", "comment.md", "--junit", "gate.xml") == 1
    assert rungwatch.record.reason == "numerics"
    comment = Path("comment.md").read_text()
    assert "FAIL(numerics)" in comment.splitlines()[0]
    assert "FAIL" in Path("gate.xml").read_text()
    assert "FAIL(numerics)" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.sim
def test_a_wrong_head_is_refused_by_the_simulator_itself(
    project: Project, rungwatch: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole path: the last k tile is dropped, which the work that is counted shows as well."""
    if ENGINES is None:
        monkeypatch.delenv("RUNGWATCH_CACHE_DIR")
    else:
        monkeypatch.setenv("RUNGWATCH_CACHE_DIR", ENGINES)
    project.edit("step3", "T.serial(K // BLK_K)", "T.serial(max(K // BLK_K - 1, 1))")
    assert rungwatch.gate() == 1
    assert "numerics" in rungwatch.reasons()
    assert [row.reason for row in rungwatch.rows("static")] == ["work-mismatch"]


def test_a_head_that_does_not_compile_shows_the_message(
    project: Project, rungwatch: Gate, simulator: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    project.edit("step3", 'dispatch="tcgen05"', 'dispatch="no_such_way"')
    assert rungwatch.gate() == 4
    [row, *_] = rungwatch.rows("build")
    assert row.reason == "kernel-build"
    assert row.id.endswith("-head")
    assert "no_such_way" in row.message
    assert "no_such_way" in capsys.readouterr().out


def test_a_head_that_is_no_python_is_invalid(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    project.write("step3", "def get_kernel(:\n")
    assert rungwatch.gate() == 4
    assert rungwatch.reasons() & {"kernel-load", "removed"}


def test_new_spills_are_a_regression(
    project: Project, rungwatch: Gate, simulator: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    make_it_spill(project)
    assert rungwatch.gate("--allow-unmeasured") == 1
    assert rungwatch.record.reason == "static-worse"
    [row] = rungwatch.rows("static")
    assert "local_store_bytes 0 -> " in row.message
    assert "stack_bytes 0 -> " in row.message
    assert "local_store_bytes" in capsys.readouterr().out
    assert rungwatch("decide", "gate.json") == 1


def accepted(metrics: list[str], commit: str, expires: datetime.date) -> str:
    return "".join(
        f'[[accepted]]\nkernel = "hgemm/blackwell/step3"\nmetric = "{metric}"\n'
        f'reason = "measured faster"\n'
        f'commit = "{commit}"\nexpires = {expires}\n'
        for metric in metrics
    )


def test_a_regression_can_be_accepted_by_base_for_a_time(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    settings = project.root / "rungwatch.toml"
    metrics = ["local_store_bytes", "local_load_bytes", "stack_bytes"]
    today = datetime.datetime.now(datetime.UTC).date()
    commit = project.git("rev-parse", "HEAD")
    settings.write_text(accepted(metrics, commit, today + datetime.timedelta(days=1)))
    project.commit("accept")
    make_it_spill(project)
    assert rungwatch.gate("--allow-unmeasured") == 0
    [row] = rungwatch.rows("static")
    assert row.reason == "accepted"
    assert "measured faster" in row.message
    for text in (
        accepted(metrics, commit, today - datetime.timedelta(days=1)),
        accepted(metrics, "0123456789", today + datetime.timedelta(days=1)),
        accepted(metrics[:2], commit, today + datetime.timedelta(days=1)),
        "[static]\n",
    ):
        project.git("stash", "--quiet")
        settings.write_text(text)
        project.commit("settings")
        project.git("stash", "pop", "--quiet")
        assert rungwatch.gate("--allow-unmeasured") == 1, text


def test_heads_own_settings_count_for_nothing(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    make_it_spill(project)
    (project.root / "rungwatch.toml").write_text(
        "[static]\nlocal_store_bytes = 1e9\nlocal_load_bytes = 1e9\nstack_bytes = 1e9\n"
    )
    assert rungwatch.gate("--allow-unmeasured") == 1


@pytest.mark.parametrize("text", ["[statik]\n", "[static]\nspils = 0\n", "[static\n", "x = 1\n"])
def test_settings_that_cannot_be_used_pass_nothing(
    project: Project, rungwatch: Gate, simulator: FakeBackend, text: str
) -> None:
    (project.root / "rungwatch.toml").write_text(text)
    project.commit("settings")
    assert rungwatch.gate() == 4
    assert rungwatch.reasons() == {"settings"}


def test_a_kernel_that_is_added_must_be_right(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    project.write("step2", (KERNELS / "step2.py").read_text())
    assert rungwatch.gate() == 0
    assert {row.reason for row in rungwatch.rows("identity")} == {"identical", "no-baseline"}
    assert rungwatch.rows("numerics")
    simulator.kernels = {"step2": wrong}
    assert rungwatch.gate() == 1


def test_a_kernel_that_is_removed_is_invalid_unless_base_names_it(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    project.write("step2", (KERNELS / "step2.py").read_text())
    project.commit("two kernels")
    project.path("step2").unlink()
    assert rungwatch.gate() == 4
    [row] = rungwatch.rows("coverage")
    assert (row.reason, row.kernel) == ("removed", "hgemm/blackwell/step2")
    project.git("checkout", "--quiet", ".")
    (project.root / "rungwatch.toml").write_text(
        '[[removed]]\nkernel = "hgemm/blackwell/step2"\nreason = "step 3 does it"\n'
    )
    project.commit("name it")
    project.path("step2").unlink()
    assert rungwatch.gate() == 0
    assert [row.reason for row in rungwatch.rows("coverage")] == ["accepted"]


def test_all_kernels_removed_is_no_pass(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    project.path("step3").unlink()
    assert rungwatch.gate() == 4


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"K": {"multiple_of": BLK_K, "min": BLK_K}', '"K": {"multiple_of": 128, "min": 128}', "K"),
        ('"M": {"multiple_of": BLK_M, "min": BLK_M}',
         '"M": {"multiple_of": BLK_M, "min": BLK_M, "max": 4096}', "M"),
        ('"sm_count": {"min": 1}', '"sm_count": {"equal": 148}', "sm_count"),
    ],
)  # fmt: skip
def test_a_rule_that_is_narrower_is_invalid(
    project: Project, rungwatch: Gate, simulator: FakeBackend, old: str, new: str, said: str
) -> None:
    project.edit("step3", old, new)
    assert rungwatch.gate() == 4
    [row] = rungwatch.rows("coverage")
    assert row.reason == "coverage-reduced"
    assert said in row.message


def test_a_head_that_declares_easier_problems_is_tried_on_bases_as_well(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    change_the_code(project)
    rungwatch.gate()
    bases = {row.problem for row in rungwatch.rows("numerics")}
    project.edit("step3", '"ring_depth": 1', '"ring_depth": 7')
    rungwatch.gate()
    assert {row.problem for row in rungwatch.rows("numerics")} > bases


def test_a_head_with_a_link_for_a_kernel_is_invalid(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    project.git("checkout", "--quiet", "-b", "work")
    project.path("link").symlink_to("/etc/passwd")
    project.commit("a link")
    assert rungwatch.gate("--head", "work") == 4
    [row] = rungwatch.rows("load")
    assert "link.py is a link" in row.message


def test_a_kernels_folder_that_became_a_link_hides_nothing(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    project.git("checkout", "--quiet", "-b", "work")
    project.git("mv", "kernels", "real")
    project.kernels.symlink_to("real")
    project.commit("a link")
    assert rungwatch.gate("--head", "work") == 4
    assert [row.reason for row in rungwatch.rows("coverage")] == ["removed"]
    assert rungwatch.gate() == 4  # the work tree


def test_a_copy_does_not_hide_a_broken_kernel(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    source = project.path("step3").read_text()
    project.write("a_copy", source)
    project.write("step3", source + "raise SystemError\n")
    assert rungwatch.gate("--kernel", "step3") == 4


def test_a_target_that_nothing_builds_for_is_wrong_usage(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    assert rungwatch.gate("--target", "sm_90a", "--allow-unmeasured") == 2
    assert rungwatch.gate("--kernel", "step3", "--kernel", "step99") == 2


def test_a_helper_beside_the_kernels_is_part_of_their_source(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    """It changes what the check's problems compile to, and nothing of the four squares."""
    project.edit("step3", "import tvm\n", "import runpy\nfrom pathlib import Path\n\nimport tvm\n")
    project.edit(
        "step3",
        "for k_tile in T.serial(K // BLK_K)",
        "for k_tile in T.serial(TUNE(M, K))",
    )
    project.edit(
        "step3",
        "    f16 = tvm.DataType",
        '    TUNE = runpy.run_path(str(Path(__file__).with_name("_tune.py")))["tune"]\n'
        "    f16 = tvm.DataType",
    )
    tune = project.path("_tune")
    tune.write_text("def tune(M, K):\n    return K // 64\n")
    project.commit("a helper")
    assert rungwatch.gate() == 0
    tune.write_text("def tune(M, K):\n    return K // 64 - (M < 512 and K > 64)\n")
    assert rungwatch.gate() == 3
    assert [row.reason for row in rungwatch.rows("identity")] == ["changed"]


def test_a_hopper_kernel_that_changed_needs_a_gpu(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    source = (HOPPER / "step3.py").read_text()
    project.write("step3", source)
    project.commit("for another GPU")
    epilogue = "        # ---- registers -> fp16 -> GMEM ----\n"
    project.edit("step3", epilogue, f"        T.cuda.cta_sync()\n{epilogue}")
    assert rungwatch.gate("--allow-unmeasured") == 3
    assert rungwatch.record.reason == "needs-gpu"
    assert simulator.jobs == []
    project.git("checkout", "--quiet", ".")
    project.write("step3", source + "# a note\n")
    assert rungwatch.gate() == 0


def test_a_name_that_nobody_has_is_wrong_usage(project: Project, rungwatch: Gate) -> None:
    assert rungwatch.gate("--kernel", "step99") == 2
    assert rungwatch("gate", "--base", "nowhere") == 2


def test_less_smem_is_an_improvement_and_still_not_timed(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    """A ring of another depth is other SMEM: what `PIPE_DEPTH` is lowered for."""
    project.write("step8", (KERNELS / "step8.py").read_text())
    project.commit("step 8")
    project.edit("step8", "PIPE_DEPTH = 4", "PIPE_DEPTH = 3")
    assert rungwatch.gate("--kernel", "step8") == 3
    [row] = rungwatch.rows("static")
    assert row.reason == "static-better"
    assert "smem_bytes" in row.message
    assert rungwatch.gate("--kernel", "step8", "--allow-unmeasured") == 0
    project.commit("three stages")
    project.edit("step8", "PIPE_DEPTH = 3", "PIPE_DEPTH = 4")
    assert rungwatch.gate("--kernel", "step8", "--allow-unmeasured") == 1
    assert [row.reason for row in rungwatch.rows("static")] == ["static-worse"]


def test_the_verdict_can_be_had_from_the_record_alone(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    change_the_code(project)
    assert rungwatch.gate("--allow-unmeasured") == 0
    assert rungwatch("decide", "gate.json") == 0
    data = (project.root / "gate.json").read_bytes()
    Path("edited.json").write_bytes(
        data.replace(b'"head": {\n    "artifact"', b'"head": {\n    "x"')
    )
    assert rungwatch("decide", "edited.json") == 4
    assert decode(data).settings is not None
