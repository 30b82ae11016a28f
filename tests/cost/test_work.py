"""What must hold of a kernel's work, whatever the kernel."""

import msgspec
import pytest

from rungwatch.cost.work import Work, mismatches
from rungwatch.declare.problem import Shape

SHAPE = Shape(256, 128, 192, 4)
RIGHT = Work(
    ctas=2,
    tma_in_bytes=2 * (128 + 128) * 192 * 2,
    tma_delivered_bytes=2 * (128 + 128) * 192 * 2,
    tma_out_bytes=256 * 128 * 2,
    loaded_bytes=0,
    stored_bytes=0,
    mma_instructions=24,
    flops=2 * 256 * 128 * 192,
    flops_per_cta_max=256 * 128 * 192,
    accumulators=2,
    accumulators_per_cta_min=1,
    accumulators_per_cta_max=1,
    accumulated_k=2 * 192,
    barrier_waits=0,
    barrier_arrivals=0,
    cta_barriers=0,
    cluster_barriers=0,
    named_barriers=0,
)


def test_the_right_work_has_no_mismatch() -> None:
    assert mismatches(RIGHT, SHAPE) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"flops": 2 * 256 * 128 * 128},
            "its MMAs do 8,388,608 FLOP, 2 x M x N x K is 12,582,912",
        ),
        ({"tma_out_bytes": 32_768}, "it writes 32,768 B of D, which has 65,536 B"),
        ({"stored_bytes": 2}, "it writes 65,538 B of D, which has 65,536 B"),
        ({"tma_in_bytes": 147_454}, "it reads 147,454 B, A and B together have 147,456 B"),
    ],
)
def test_a_mismatch_says_both_numbers(changes: dict[str, int], message: str) -> None:
    wrong = msgspec.structs.replace(RIGHT, **changes)
    assert mismatches(wrong, SHAPE) == (f"work-mismatch at {SHAPE}: {message}",)


def test_plain_loads_and_stores_count_like_tma() -> None:
    plain = msgspec.structs.replace(
        RIGHT, tma_in_bytes=0, loaded_bytes=147_456, tma_out_bytes=0, stored_bytes=65_536
    )
    assert mismatches(plain, SHAPE) == ()


def test_reading_more_than_once_is_no_mismatch() -> None:
    assert RIGHT.bytes_in > (256 + 128) * 192 * 2
    assert mismatches(RIGHT, SHAPE) == ()


def test_all_that_is_wrong_is_said() -> None:
    idle = msgspec.structs.replace(RIGHT, flops=0, tma_out_bytes=0, tma_in_bytes=0)
    assert len(mismatches(idle, SHAPE)) == 3
