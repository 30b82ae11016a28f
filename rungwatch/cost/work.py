"""The work that a kernel executes for one problem, as exact counts, and what must hold of them.

The counts are of a run that ends: nobody waits in it, so a deadlock is not seen here.
"""

import msgspec

from rungwatch.artifact.plan import ELEMENT_BYTES
from rungwatch.declare.problem import Shape


class UnwalkableError(RuntimeError):
    """A kernel whose work cannot be counted exactly, and what stands in the way."""


class Work(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the whole grid executes for one problem.

    Bytes. `tma_in_bytes` are the boxes that TMA loads ask for, each load counted once;
    `tma_delivered_bytes` what they write into SMEM, a multicast counted once a receiving CTA.
    `tma_out_bytes` are the boxes of TMA stores. `loaded_bytes` and `stored_bytes` are what threads
    move by plain loads and stores of global memory, of all threads together.

    Tensor cores. `mma_instructions` counts a `tcgen05.mma` once, also where two CTAs share it, and
    a `wgmma` once a warpgroup; `flops` is 2 x m x n x k of each. An accumulator is one CTA's part
    of what an MMA writes; it begins with an MMA that overwrites instead of adding. `accumulators`
    counts these beginnings, `accumulators_per_cta_min` and `_max` those of one CTA, and
    `accumulated_k` the k elements of all MMAs (those of two CTAs counted in both), so that
    `accumulated_k / accumulators` is the k elements of one tile. `flops_per_cta_max` is the most
    that one CTA's tensor core does.

    Synchronisation. `barrier_waits` counts threads that wait for an mbarrier, each time;
    `barrier_arrivals` the arrivals that mbarriers receive: one a thread for `mbarrier.arrive`
    (with `expect_tx` or not, times its count), one a receiving CTA for `tcgen05.commit`. The bytes
    that TMA completes are no arrivals. `cta_barriers`, `cluster_barriers` and `named_barriers`
    (a warpgroup's, or a count of threads) count warps that come to one, each time.
    """

    ctas: int
    tma_in_bytes: int
    tma_delivered_bytes: int
    tma_out_bytes: int
    loaded_bytes: int
    stored_bytes: int
    mma_instructions: int
    flops: int
    flops_per_cta_max: int
    accumulators: int
    accumulators_per_cta_min: int
    accumulators_per_cta_max: int
    accumulated_k: int
    barrier_waits: int
    barrier_arrivals: int
    cta_barriers: int
    cluster_barriers: int
    named_barriers: int

    @property
    def bytes_in(self) -> int:
        """Bytes asked of global memory, by TMA and by threads."""
        return self.tma_in_bytes + self.loaded_bytes

    @property
    def bytes_out(self) -> int:
        """Bytes written to global memory, by TMA and by threads."""
        return self.tma_out_bytes + self.stored_bytes


def mismatches(work: Work, shape: Shape) -> tuple[str, ...]:
    """Say where `work` is not that of D (m, n) = A (m, k) @ B (n, k)^T in fp16.

    Empty where nothing contradicts it; that is no proof, since counts know no coordinates.
    """
    size = ELEMENT_BYTES["float16"]
    flops = 2 * shape.m * shape.n * shape.k
    operands = (shape.m + shape.n) * shape.k * size
    result = shape.m * shape.n * size
    found = []
    if work.flops != flops:
        found.append(f"its MMAs do {work.flops:,} FLOP, 2 x M x N x K is {flops:,}")
    if work.bytes_out != result:
        found.append(f"it writes {work.bytes_out:,} B of D, which has {result:,} B")
    if work.bytes_in < operands:
        found.append(f"it reads {work.bytes_in:,} B, A and B together have {operands:,} B")
    return tuple(f"work-mismatch at {shape}: {what}" for what in found)
