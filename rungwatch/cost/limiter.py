"""What limits a kernel: the largest term of a closed form, never a time.

The form is T = max(t0 + waves x (k tiles x max(MMA, round trip / ring depth) + epilogue),
bytes / bandwidth, FLOP / sustained rate). As a clock it is too coarse, so that only ratios of its
terms leave this module; docs/executed-work.md says where it was compared with published times.
"""

from enum import StrEnum

import msgspec

from rungwatch.artifact.plan import ELEMENT_BYTES
from rungwatch.cost.targets import SM_FACTS
from rungwatch.cost.work import Work
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Declaration, Target


class Limiter(StrEnum):
    """What a kernel's duration is made of."""

    LATENCY = "latency"
    TENSOR_CORE = "tensor core"
    MEMORY = "memory"
    POWER = "power"


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest term, the second, and the second as a share of the largest: above 0, at most 1.

    A share near 1 says that the two are too close to tell apart.
    """

    limiter: Limiter
    second: Limiter
    second_share: float


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """What the terms are computed with, of a whole GPU.

    `peak` and `sustained` are FLOP/s of dense fp16 tensor cores: at the boost clock, and under the
    power limit in a long run; `bandwidth` bytes/s of DRAM; `launch_s` what a kernel takes that
    does nothing; `round_trip_s` from the moment a stage of the ring is free until the MMA that
    reads its next contents has freed it again.
    """

    peak: float
    sustained: float
    bandwidth: float
    launch_s: float
    round_trip_s: float


RATES: dict[Target, Rates] = {
    "sm_100a": Rates(
        # Data sheet of DGX B200: 8 GPUs, 36 PFLOP/s with sparsity (half of it without), 64 TB/s.
        peak=2.25e15,
        bandwidth=8.0e12,
        # A line through tirx-kernels' committed B200 baseline (4096^3 97.4 us, 8192^3 737 us,
        # 16384^3 5,960 us): 5.3 us + FLOP / 1.486 PFLOP/s.
        sustained=1.486e15,
        launch_s=5.3e-6,
        # No public figure. From the ladder's published times at 4096^3, 7 waves of 64 k tiles:
        # step 4, ring depth 1, 0.49 ms, and step 7, ring depth 2, 0.23 ms, give 1.1 and 1.0 us.
        round_trip_s=1.0e-6,
    ),
    "sm_90a": Rates(
        # Data sheet of H200 SXM: 1,979 TFLOP/s with sparsity (half of it without), 4.8 TB/s.
        peak=0.9895e15,
        bandwidth=4.8e12,
        # Measured on an H200 at its 700 W limit: cuBLAS 4096^3 in 179 us, less the launch.
        sustained=0.791e15,
        # Assumed to be as on a B200: no public figure, and the clocks are alike.
        launch_s=5.3e-6,
        round_trip_s=1.0e-6,
    ),
}


def limiter(work: Work, shape: Shape, declaration: Declaration, target: Target) -> Limit:
    """Say which term of the closed form is the largest for `work`, one CTA an SM.

    Latency is the launch, the round trips that the ring cannot hide and, once a wave, an epilogue
    of one round trip; the tensor core's term is what the busiest SM multiplies. Memory is A, B and
    D once each, from DRAM.
    """
    rates = RATES[target]
    sm_count = SM_FACTS[target].sm_count
    rounds = -(-work.ctas // sm_count)
    tile_flops = 2 * declaration.tile[0] * declaration.tile[1] * shape.k // declaration.cta_group
    waves = rounds * work.flops_per_cta_max / tile_flops
    k_tiles = shape.k / declaration.tile[2]
    exposed_s = (k_tiles / declaration.ring_depth + 1) * rates.round_trip_s
    elements = shape.m * shape.k + shape.n * shape.k + shape.m * shape.n
    terms = {
        Limiter.LATENCY: rates.launch_s + waves * exposed_s,
        Limiter.TENSOR_CORE: rounds * work.flops_per_cta_max / (rates.peak / sm_count),
        Limiter.MEMORY: elements * ELEMENT_BYTES["float16"] / rates.bandwidth,
        Limiter.POWER: work.flops / rates.sustained,
    }
    largest, second = sorted(terms, key=terms.__getitem__, reverse=True)[:2]
    return Limit(largest, second, terms[second] / terms[largest])
