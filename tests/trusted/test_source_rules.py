"""The source rules refuse what no simulator run can show, and nothing else."""

import re
from pathlib import Path

import pytest

from rungwatch.trusted import source_rules
from rungwatch.trusted.source_rules import broken_rules

KERNELS = sorted((Path(__file__).parents[2] / "kernels" / "hgemm" / "blackwell").glob("*.py"))
BEFORE = "T.ptx.tcgen05.fence__before_thread_sync()"
AFTER = "T.ptx.tcgen05.fence__after_thread_sync()"


def source(rung: str) -> str:
    [path] = [path for path in KERNELS if path.stem == rung]
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_right_kernels_break_no_rule(path: Path) -> None:
    assert broken_rules(path.read_text(encoding="utf-8")) == ()


@pytest.mark.parametrize(
    ("rung", "old", "new", "rule"),
    [
        ("step2", f"release.cluster()\n        {BEFORE}", "release.cluster()", "tcgen05-fence"),
        ("step4", f"mma_done.wait(0, phase)\n            T.cuda.cta_sync()\n            phase = "
         f"phase ^ 1\n        {AFTER}", "mma_done.wait(0, phase)", "tcgen05-fence"),
        ("step7", f"mma2ld.wait(0, acc_full.phase)\n                {AFTER}",
         "mma2ld.wait(0, acc_full.phase)", "tcgen05-fence"),
        ("step7", f"{BEFORE}\n                ld2mma.arrive(0)", "ld2mma.arrive(0)",
         "tcgen05-fence"),
        ("step9", f"ld2mma.wait(consumer, tmem_free.phase)\n                        {AFTER}",
         "ld2mma.wait(consumer, tmem_free.phase)", "tcgen05-fence"),
        ("step8", f"T.cuda.cluster_sync()\n        {AFTER}\n        tmem_pool.dealloc()",
         "T.cuda.cluster_sync()\n        tmem_pool.dealloc()", "tcgen05-fence"),
        ("step7", "mma2ld = TCGen05Bar(pool, 1)", "mma2ld = MBarrier(pool, 1)", "commit"),
        ("step1", "T.ptx.tcgen05.wait__ld.sync.aligned()", "pass", "wait-ld"),
        ("step2", "T.ptx.fence.proxy.async_.shared__cta()\n            T.cuda.cta_sync()",
         "T.ptx.fence.proxy.async_.shared__cta()", "smem-handover"),
        ("step2", "T.ptx.fence.proxy.async_.shared__cta()\n            T.cuda.cta_sync()",
         "T.cuda.cta_sync()", "smem-handover"),
        ("step9", "T.ptx.fence.proxy.async_.shared__cta()\n"
         "                    T.cuda.warpgroup_sync(barrier)",
         "T.ptx.fence.proxy.async_.shared__cta()", "smem-handover"),
        ("step6", "                    T.ptx.cp.async_.bulk.commit_group()\n", "", "last-store"),
        ("step4", "        tmem_pool.dealloc()\n", "", "tmem-free"),
        ("step7", f"T.cuda.cta_sync()\n        {AFTER}\n        tmem_pool.dealloc()",
         "tmem_pool.dealloc()\n        T.cuda.cta_sync()", "tmem-free"),
        ("step3", "TMEM_COLS = 512", "TMEM_COLS = 128", "tmem-columns"),
        ("step9", "mma2tma.wait(ring.stage, ring.phase)\n                        ring.advance()",
         "mma2tma.wait(ring.stage, ring.phase)", "cluster-drain"),
        ("step8", "for _ in T.serial(PIPE_DEPTH):", "for _ in T.serial(PIPE_DEPTH - 1):",
         "cluster-drain"),
        ("step3", "total_cols=TMEM_COLS", "total_cols=TMEM_COLS // 4", "tmem-columns"),
        ("step5", "T.ptx.cp.async_.bulk.wait_group(0)", "pass", "last-store"),
        ("step7", "T.ptx.cp.async_.bulk.wait_group(0)", "T.ptx.cp.async_.bulk.wait_group(1)",
         "last-store"),
        ("step8", "T.ptx.fence.mbarrier_init.release.cluster()", "pass", "mbarrier-init"),
        ("step8", f"T.cuda.cluster_sync()\n        {AFTER}\n        tmem_pool.dealloc()",
         f"T.cuda.cta_sync()\n        {AFTER}\n        tmem_pool.dealloc()", "cluster-end"),
        ("step7", "                T.cuda.warp_sync()\n            elif", "            elif",
         "role-end"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named(rung: str, old: str, new: str, rule: str) -> None:
    text = source(rung)
    assert text.count(old) == 1
    broken = broken_rules(text.replace(old, new))
    assert rule in {one.rule for one in broken}
    lines = text.count("\n")
    assert all(0 < one.line <= lines and one.message for one in broken)


def test_a_source_without_a_kernel_breaks_nothing() -> None:
    assert broken_rules("def get_kernel(M, N, K):\n    return None\n") == ()


def test_what_is_not_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        broken_rules("def (:")


def test_the_page_lists_every_rule() -> None:
    code = Path(source_rules.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r'Broken\([^"]*?"([a-z-]+)"', code))
    page = (Path(__file__).parents[2] / "docs" / "source-rules.md").read_text(encoding="utf-8")
    assert named == set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))
