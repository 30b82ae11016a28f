"""What one streaming multiprocessor (SM) of each target offers: the only place for these facts.

Sources: NVIDIA, "CUDA C++ Programming Guide", table of technical specifications by compute
capability (9.0 and 10.0 are alike in all of these); how resources are handed out:
`cuda_occupancy.h` of CUDA 13; SM counts: the data sheets of H200 (SXM) and B200. Tensor
cores, dense fp16: NVIDIA, "H100 Tensor Core GPU Architecture": 989.4 TFLOP/s by 132 SMs at
1830 MHz, which is 4096 FLOP a clock and SM; data sheet of B200: 2250 TFLOP/s by 148 SMs at
1.85 GHz, twice as many.
"""

import msgspec

from rungwatch.declare.protocol import Target

WARP_THREADS = 32


class SmFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of one SM and how they are allocated.

    Registers are given to warps in units of `register_unit`, in `partitions` equal parts of the
    register file. SMEM is given to CTAs in units of `smem_unit_bytes`; the system takes
    `smem_reserved_bytes` of it for each CTA, which is no part of `smem_cta_bytes`, the most that
    a CTA may ask for. `barriers` are the named barriers of all its CTAs together; `sm_count` the
    SMs of the GPU that is meant where nothing else is said (B200, H200 SXM). `fp16_flops_a_clock`
    is what its tensor cores do in one clock, dense fp16 operands with an fp32 accumulator.
    """

    threads: int = 2048
    ctas: int = 32
    cta_threads: int = 1024
    registers: int = 65536
    thread_registers: int = 256
    register_unit: int = 256
    partitions: int = 4
    smem_bytes: int = 228 * 1024
    smem_cta_bytes: int = 227 * 1024
    smem_reserved_bytes: int = 1024
    smem_unit_bytes: int = 128
    barriers: int = 64
    sm_count: int
    fp16_flops_a_clock: int


SM_FACTS: dict[Target, SmFacts] = {
    "sm_90a": SmFacts(sm_count=132, fp16_flops_a_clock=4096),
    "sm_100a": SmFacts(sm_count=148, fp16_flops_a_clock=8192),
}
