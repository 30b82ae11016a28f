"""What limits a kernel: names and ratios from the closed form."""

import pytest

from rungwatch.cost.limiter import Limit, Limiter, limiter
from rungwatch.cost.work import Work
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Declaration, Dtypes, Rule, Rules

ANY = Rule()


def declared(tile: tuple[int, int, int], ring_depth: int, cta_group: int = 1) -> Declaration:
    return Declaration(
        name="kernel",
        step=1,
        adds="nothing",
        operation="gemm_nt",
        dtypes=Dtypes("float16", "float16", "float16", "float32"),
        targets=("sm_100a", "sm_90a"),
        tile=tile,
        ring_depth=ring_depth,
        cta_group=cta_group,
        l2_group=1,
        persistent=True,
        rules=Rules(ANY, ANY, ANY, ANY),
    )


def work_of(shape: Shape, ctas: int, flops_per_cta_max: int) -> Work:
    zeros = dict.fromkeys(Work.__struct_fields__, 0)
    flops = 2 * shape.m * shape.n * shape.k
    return Work(**zeros | {"ctas": ctas, "flops": flops, "flops_per_cta_max": flops_per_cta_max})


def limit_of(ring_depth: int, waves: int = 7, sms: int = 148, size: int = 4096) -> Limit:
    shape = Shape(size, size, size, sms)
    work = work_of(shape, sms, waves * 2 * 128 * 128 * size)
    return limiter(work, shape, declared((128, 128, 64), ring_depth), "sm_100a")


def test_a_shallow_ring_is_limited_by_latency_and_a_deep_one_is_not() -> None:
    assert limit_of(ring_depth=1).limiter is Limiter.LATENCY
    assert limit_of(ring_depth=2).limiter is Limiter.LATENCY
    assert limit_of(ring_depth=8).limiter is Limiter.POWER


def test_the_share_of_the_second_says_how_close_it_is() -> None:
    shallow, deeper = limit_of(ring_depth=1), limit_of(ring_depth=2)
    assert shallow.second is deeper.second is Limiter.POWER
    # Halving what a k tile waits for nearly doubles the share of what comes second.
    assert deeper.second_share / shallow.second_share == pytest.approx(2, rel=0.1)
    assert 0 < shallow.second_share < deeper.second_share < 1


def test_uneven_tiles_make_the_busiest_tensor_core_the_limit() -> None:
    # 148 SMs, of which one works through half of all tiles.
    assert limit_of(ring_depth=8, waves=512).limiter is Limiter.LATENCY
    assert limit_of(ring_depth=64, waves=512).limiter is Limiter.TENSOR_CORE


def test_one_cta_a_tile_comes_in_rounds() -> None:
    shape = Shape(4096, 4096, 4096, 148)
    tile_flops = 2 * 128 * 128 * 4096
    grid = limiter(work_of(shape, 1024, tile_flops), shape, declared((128, 128, 64), 2), "sm_100a")
    assert grid == limit_of(ring_depth=2, waves=7)


def test_a_thin_problem_is_limited_by_memory() -> None:
    shape = Shape(1 << 20, 128, 64, 148)
    waves = -(-(shape.m // 256) // 148)
    work = work_of(shape, 148, waves * 2 * 256 * 128 * 64)
    found = limiter(work, shape, declared((256, 128, 64), 64), "sm_100a")
    assert (found.limiter, found.second) == (Limiter.MEMORY, Limiter.LATENCY)


def test_two_ctas_share_a_tile() -> None:
    shape = Shape(4096, 4096, 4096, 148)
    per_cta = 2 * 2 * 512 * 256 * 4096 // 2  # two tiles of 512 x 256, half of each
    found = limiter(work_of(shape, 148, per_cta), shape, declared((512, 256, 64), 4, 2), "sm_100a")
    assert (found.limiter, found.second) == (Limiter.POWER, Limiter.TENSOR_CORE)


def test_the_same_kernel_on_another_gpu() -> None:
    shape = Shape(4096, 4096, 4096, 132)
    work = work_of(shape, 132, 4 * 2 * 128 * 256 * 4096)
    found = limiter(work, shape, declared((128, 256, 64), 4), "sm_90a")
    assert (found.limiter, found.second) == (Limiter.POWER, Limiter.TENSOR_CORE)


def test_nothing_in_the_answer_is_a_time() -> None:
    assert Limit.__struct_fields__ == ("limiter", "second", "second_share")
