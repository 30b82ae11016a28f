"""Step 5: a two-stage ring lets loads run while the MMA does.

Adds      A software pipeline. SMEM holds PIPE_DEPTH = 2 stages; the loads of k tile i + 1 are in
          flight while the wgmma work on k tile i.
Roles     As step 4: one CTA a tile, one warpgroup. One elected thread of warp 0 issues loads and
          the store. The 128 threads wait for the tiles, issue the wgmma together and bring the
          accumulator from registers to SMEM.
MMA       Two wgmma of 64 x 128 x 16 for the 128 rows, 4 times a k tile.
Barriers  tiles_full  one mbarrier a stage, 1 arrival (with the expected bytes) + 32,768 B by
                      TMA; all 128 threads wait for it.
          One CTA barrier a k tile, after the wgmma: all warps have read the stage, which the
          loading thread then refills; nor can a warp lag two phases behind and wait for ever.
SMEM      1,024 B barriers + 2 stages x (A 16,384 + B 16,384) + D 32,768 = 99,328 B of 232,448.
Registers 128 a thread for the accumulator.
Wastes    Every tile pays for a launch, a barrier set-up and an empty pipeline; tiles that share
          rows of A or B meet in L2 by chance only. Step 6 keeps the CTAs and orders the tiles.
Source    Own implementation, on Hopper, of the public nine-step TIRx GEMM ladder of the MLC/TVM
          community ("Modern GPU programming for MLSys"); PTX ISA, chapters on wgmma, mbarrier
          and stmatrix.
"""

import tvm
from tvm.backend.cuda.lang.pipeline import PipelineState, TMABar
from tvm.backend.cuda.tile_primitive.tma_utils import SwizzleMode, mma_shared_layout
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx

BLK_M, BLK_N, BLK_K = 128, 128, 64
PIPE_DEPTH = 2
STAGE_BYTES = (BLK_M + BLK_N) * BLK_K * 2
WGMMA_M, WGMMA_K = 64, 16
WGMMA = f"wgmma.mma_async.sync.aligned.m{WGMMA_M}n{BLK_N}k{WGMMA_K}.f32.f16.f16"
WGMMA_MODES = (1, 1, 0, 0)  # neither operand is negated, both are K-major
HALVES = BLK_M // WGMMA_M
HALF_REGS = BLK_N // 2  # accumulator registers of one wgmma: 64 x 128 fp32 / 128 threads
# Matrix descriptors count in units of 16 bytes. Here: no leading dimension (1), eight rows of
# 128 bytes are 64 units, swizzle of 128 bytes (3).
K_MAJOR_128B = (1, 64, 3)
STAGE_UNITS = BLK_M * BLK_K * 2 // 16  # of A, and of B
HALF_UNITS = WGMMA_M * BLK_K * 2 // 16
K_UNITS = WGMMA_K * 2 // 16

PROTOCOL = 1
KERNEL = {
    "name": "step5",
    "step": 5,
    "adds": "two-stage software pipeline",
    "operation": "gemm_nt",
    "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
    "targets": ["sm_90a"],
    "tile": [BLK_M, BLK_N, BLK_K],
    "ring_depth": PIPE_DEPTH,
    "cta_group": 1,
    "l2_group": 1,
    "persistent": False,
    "rules": {
        "M": {"multiple_of": BLK_M, "min": BLK_M},
        "N": {"multiple_of": BLK_N, "min": BLK_N},
        "K": {"multiple_of": BLK_K, "min": BLK_K},
        "sm_count": {"min": 1},
    },
}


def get_kernel(M: int, N: int, K: int, sm_count: int) -> tvm.tirx.PrimFunc:
    """Build the kernel for one shape; the grid is one CTA a tile, sm_count is not used."""
    if min(M, N, K) < 1 or M % BLK_M or N % BLK_N or K % BLK_K:
        raise ValueError(f"step5: {M} x {N} x {K} is not whole tiles of {KERNEL['tile']}")
    K_TILES = K // BLK_K
    f16 = tvm.DataType("float16")
    swizzle = SwizzleMode.SWIZZLE_128B_ATOM
    ring_layout = mma_shared_layout(f16, swizzle, (PIPE_DEPTH, BLK_M, BLK_K))
    d_layout = mma_shared_layout(f16, swizzle, (BLK_M, BLK_N))

    @T.prim_func
    def hgemm_step5(A: T.Buffer((M, K), f16), B: T.Buffer((N, K), f16), D: T.Buffer((M, N), f16)):
        T.device_entry()
        m_tile, n_tile = T.cta_id([M // BLK_M, N // BLK_N])
        m = T.meta_var(m_tile * BLK_M)
        n = T.meta_var(n_tile * BLK_N)
        T.warpgroup_id([1])
        warp_id = T.warp_id_in_wg([4])
        lane_id = T.lane_id([32])

        # ---- set-up: barriers, SMEM and its matrix descriptors, the accumulator ----
        pool = T.SMEMPool()
        tiles_full = TMABar(pool, PIPE_DEPTH)
        tiles_full.init(1)
        pool.move_base_to(1024)
        A_smem = pool.alloc((PIPE_DEPTH, BLK_M, BLK_K), f16, layout=ring_layout)
        B_smem = pool.alloc((PIPE_DEPTH, BLK_N, BLK_K), f16, layout=ring_layout)
        D_smem = pool.alloc((BLK_M, BLK_N), f16, layout=d_layout)
        pool.commit()
        A_desc = T.alloc_local((1,), "uint64")
        B_desc = T.alloc_local((1,), "uint64")
        T.cuda.wgmma.encode_matrix_descriptor(
            T.address_of(A_desc[0]), A_smem.ptr_to([0, 0, 0]), *K_MAJOR_128B
        )
        T.cuda.wgmma.encode_matrix_descriptor(
            T.address_of(B_desc[0]), B_smem.ptr_to([0, 0, 0]), *K_MAJOR_128B
        )
        acc = T.alloc_local((HALVES * HALF_REGS,), "float32")
        pairs = T.alloc_local((4,), "uint32")
        ring = PipelineState(PIPE_DEPTH, phase=0)
        T.ptx.fence.proxy.async_.shared__cta()
        T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cta_sync()

        @T.inline
        def load_stage(stage, m, n, k_tile):
            k = T.meta_var(k_tile * BLK_K)
            load = T.meta_var({"dispatch": "tma_auto", "mbar": tiles_full.ptr_to([stage])})
            tiles_full.arrive(stage, STAGE_BYTES)
            Tx.copy_async(A_smem[stage, :, :], A[m : m + BLK_M, k : k + BLK_K], **load)
            Tx.copy_async(B_smem[stage, :, :], B[n : n + BLK_N, k : k + BLK_K], **load)

        # ---- fill the ring ----
        if warp_id == 0:
            if T.cuda.elect_sync():
                for i in T.unroll(min(PIPE_DEPTH, K_TILES)):
                    load_stage(i, m, n, i)

        for k_tile in T.serial(K_TILES):
            tiles_full.wait(ring.stage, ring.phase)

            # ---- MMA, the whole warpgroup: the first k tile overwrites, the others add ----
            T.ptx.wgmma.fence.sync.aligned()
            for ki in T.unroll(BLK_K // WGMMA_K):
                for half in T.unroll(HALVES):
                    at = T.meta_var(ring.stage * STAGE_UNITS + ki * K_UNITS)
                    T.ptx[WGMMA](
                        *[acc[half * HALF_REGS + i] for i in range(HALF_REGS)],
                        A_desc[0] + T.Cast("uint64", at + half * HALF_UNITS),
                        B_desc[0] + T.Cast("uint64", at),
                        T.Or(k_tile > 0, ki > 0),
                        *WGMMA_MODES,
                    )
            T.ptx.wgmma.commit_group.sync.aligned()
            T.ptx.wgmma.wait_group.sync.aligned(0)
            T.cuda.cta_sync()
            # The wgmma have read this stage: refill it, one round of the ring ahead.
            if warp_id == 0:
                if T.cuda.elect_sync():
                    if k_tile + PIPE_DEPTH < K_TILES:
                        load_stage(ring.stage, m, n, k_tile + PIPE_DEPTH)
            ring.advance()

        # ---- registers -> fp16 -> SMEM, a block of 16 x 16 a warp and stmatrix ----
        for half in T.unroll(HALVES):
            for j in T.unroll(BLK_N // 16):
                # Registers 0, 1 of eight: rows 0-7; 2, 3: rows 8-15; 4 to 7: columns 8-15.
                for r in T.unroll(4):
                    reg = T.meta_var(half * HALF_REGS + j * 8 + r * 2)
                    T.ptx.cvt.rn.f16x2.f32(pairs[r], acc[reg + 1], acc[reg])
                # Each lane names one row of one of the four 8 x 8 matrices.
                row = T.meta_var(half * WGMMA_M + warp_id * 16 + lane_id % 16)
                col = T.meta_var(j * 16 + lane_id // 16 * 8)
                T.ptx.stmatrix.sync.aligned.m8n8.x4.shared.b16(
                    D_smem.ptr_to([row, col]), pairs[0], pairs[1], pairs[2], pairs[3]
                )

        # ---- SMEM -> GMEM; TMA reads through the async proxy, so the writers fence first ----
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.cta_sync()
        if warp_id == 0:
            if T.cuda.elect_sync():
                Tx.copy_async(D[m : m + BLK_M, n : n + BLK_N], D_smem[:, :], dispatch="tma_auto")
                T.ptx.cp.async_.bulk.commit_group()
                T.ptx.cp.async_.bulk.wait_group(0)  # SMEM must outlive the store

    return hgemm_step5
