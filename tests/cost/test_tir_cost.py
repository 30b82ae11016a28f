"""The static cost of kernels, counted from their lowered TIR in a worker."""

import textwrap
from pathlib import Path

import pytest

from rungwatch.backends.supervise import Limits
from rungwatch.cost.tir_cost import CostError, TirCost, cost_of
from rungwatch.declare.problem import Shape

LADDER = Path(__file__).parents[2] / "kernels" / "hgemm" / "blackwell"
TILE = Shape(128, 128, 64, 4)
LARGE = Shape(1024, 1024, 1024, 8)


def written(folder: Path, body: str) -> Path:
    path = folder / "kernel.py"
    path.write_text(textwrap.dedent(body), encoding="utf-8")
    return path


def test_step1_counted_by_hand() -> None:
    found = cost_of(LADDER / "step1.py", TILE, "sm_100a")
    assert (found.mma_calls, found.tma_calls) == (1, 0)
    assert (found.barrier_waits, found.barrier_arrivals) == (1, 1)
    assert found.threads == 128
    # 1,024 B of barrier and TMEM address, then one tile each of A and B: 128 x 64 x 2 B.
    assert found.shared_memory_bytes == 1024 + 2 * 128 * 64 * 2


def test_the_mechanisms_of_the_ladder_are_seen() -> None:
    step3, step4, step7 = (cost_of(LADDER / f"step{n}.py", LARGE, "sm_100a") for n in (3, 4, 7))
    assert step3.tma_calls == 0 < step4.tma_calls  # step 4 brings TMA
    assert step7.threads == 2 * step4.threads  # step 7 brings a second warpgroup
    assert step7.barrier_waits > step4.barrier_waits


def test_counts_are_the_same_every_time() -> None:
    first, second = (cost_of(LADDER / "step4.py", LARGE, "sm_100a") for _ in range(2))
    assert first == second
    assert isinstance(first, TirCost)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise RuntimeError('broken file')", "kernel.py:1: RuntimeError: broken file"),
        ("x = 1", "no function 'get_kernel'"),
        ("import os; os._exit(7)", "exit code 7"),
        ("import os; os.abort()", "signal SIGABRT"),
        ("raise SystemExit(0)", "SystemExit"),
        (
            "def get_kernel(M, N, K, sm_count): raise ValueError('no')",
            "kernel.py:1: ValueError: no",
        ),
        ("def get_kernel(M, N, K, sm_count): return 3", "not one PrimFunc"),
    ],
)
def test_what_cannot_be_counted_says_why(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(CostError) as caught:
        cost_of(written(tmp_path, body), TILE, "sm_100a")
    assert words in str(caught.value)
    assert str(caught.value).startswith("kernel.py at 128x128x64-sm4: ")


def test_a_kernel_without_mma_is_refused_and_not_counted_as_zero(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        from tvm.script import tirx as T

        def get_kernel(M, N, K, sm_count):
            @T.prim_func
            def nothing(
                A: T.Buffer((M, K), "float16"),
                B: T.Buffer((N, K), "float16"),
                D: T.Buffer((M, N), "float16"),
            ):
                T.device_entry()
                T.cta_id([1])
                thread = T.thread_id([128])
                D[thread, 0] = A[thread, 0]

            return nothing
        """,
    )
    with pytest.raises(CostError, match="calls no MMA that this version knows"):
        cost_of(path, TILE, "sm_100a")


def test_a_kernel_that_hangs_is_ended(tmp_path: Path) -> None:
    path = written(tmp_path, "import time\ntime.sleep(600)")
    with pytest.raises(CostError, match=r"ended at its deadline limit \(stage: load\)"):
        cost_of(path, TILE, "sm_100a", Limits(deadline_s=3.0, memory_bytes=2**32))
