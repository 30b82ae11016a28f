"""Step 3: a grid of tiles, one CTA each.

Adds      Spatial tiling: the grid is (M / 128, N / 128), and CTA (m, n) computes tile (m, n) of
          D = A @ B^T with step 2's K loop.
Roles     As step 2: one warpgroup. All 128 threads copy the operands in, issue the wgmma together
          and copy the result out.
MMA       Two wgmma of 64 x 128 x 16 for the 128 rows, 4 times a k tile. The first k tile
          overwrites the accumulator, the others add to it.
Barriers  wgmma is asynchronous: the warpgroup commits a k tile as one group and waits for it.
          Two CTA barriers a k tile: the SMEM tiles are complete; all warps' wgmma have read them,
          so that they may be overwritten.
SMEM      A 16,384 + B 16,384 = 32,768 B of 232,448, so CTAs share an SM and fill each other's
          gaps as far as registers go.
Registers 128 a thread for the accumulator.
Wastes    128 threads spend their time on addresses, loads and stores. Step 4 gives the copies to
          the TMA engine.
Source    Own implementation, on Hopper, of the public nine-step TIRx GEMM ladder of the MLC/TVM
          community ("Modern GPU programming for MLSys"); PTX ISA, chapter on wgmma.
"""

import tvm
from tvm.backend.cuda.tile_primitive.tma_utils import SwizzleMode, mma_shared_layout
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx

BLK_M, BLK_N, BLK_K = 128, 128, 64
WGMMA_M, WGMMA_K = 64, 16
WGMMA = f"wgmma.mma_async.sync.aligned.m{WGMMA_M}n{BLK_N}k{WGMMA_K}.f32.f16.f16"
WGMMA_MODES = (1, 1, 0, 0)  # neither operand is negated, both are K-major
HALVES = BLK_M // WGMMA_M
HALF_REGS = BLK_N // 2  # accumulator registers of one wgmma: 64 x 128 fp32 / 128 threads
# Matrix descriptors count in units of 16 bytes. Here: no leading dimension (1), eight rows of
# 128 bytes are 64 units, swizzle of 128 bytes (3).
K_MAJOR_128B = (1, 64, 3)
HALF_UNITS = WGMMA_M * BLK_K * 2 // 16
K_UNITS = WGMMA_K * 2 // 16

PROTOCOL = 1
KERNEL = {
    "name": "step3",
    "step": 3,
    "adds": "spatial tiling",
    "operation": "gemm_nt",
    "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
    "targets": ["sm_90a"],
    "tile": [BLK_M, BLK_N, BLK_K],
    "ring_depth": 1,
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
        raise ValueError(f"step3: {M} x {N} x {K} is not whole tiles of {KERNEL['tile']}")
    f16 = tvm.DataType("float16")
    tile_layout = mma_shared_layout(f16, SwizzleMode.SWIZZLE_128B_ATOM, (BLK_M, BLK_K))

    @T.prim_func
    def hgemm_step3(A: T.Buffer((M, K), f16), B: T.Buffer((N, K), f16), D: T.Buffer((M, N), f16)):
        T.device_entry()
        m_tile, n_tile = T.cta_id([M // BLK_M, N // BLK_N])
        m = T.meta_var(m_tile * BLK_M)
        n = T.meta_var(n_tile * BLK_N)
        T.warpgroup_id([1])
        warp_id = T.warp_id_in_wg([4])
        lane_id = T.lane_id([32])

        # ---- set-up: SMEM and its matrix descriptors, the accumulator ----
        pool = T.SMEMPool()
        A_smem = pool.alloc((BLK_M, BLK_K), f16, layout=tile_layout)
        B_smem = pool.alloc((BLK_N, BLK_K), f16, layout=tile_layout)
        pool.commit()
        A_desc = T.alloc_local((1,), "uint64")
        B_desc = T.alloc_local((1,), "uint64")
        T.cuda.wgmma.encode_matrix_descriptor(
            T.address_of(A_desc[0]), A_smem.ptr_to([0, 0]), *K_MAJOR_128B
        )
        T.cuda.wgmma.encode_matrix_descriptor(
            T.address_of(B_desc[0]), B_smem.ptr_to([0, 0]), *K_MAJOR_128B
        )
        acc = T.alloc_local((HALVES * HALF_REGS,), "float32")
        pair = T.alloc_local((1,), "uint32")

        for k_tile in T.serial(K // BLK_K):
            k = T.meta_var(k_tile * BLK_K)
            # ---- GMEM -> SMEM, all threads ----
            Tx.cta.copy(A_smem[:, :], A[m : m + BLK_M, k : k + BLK_K])
            Tx.cta.copy(B_smem[:, :], B[n : n + BLK_N, k : k + BLK_K])
            # wgmma reads SMEM through the async proxy: every writer fences its own stores first.
            T.ptx.fence.proxy.async_.shared__cta()
            T.cuda.cta_sync()

            # ---- MMA, the whole warpgroup ----
            T.ptx.wgmma.fence.sync.aligned()
            for ki in T.unroll(BLK_K // WGMMA_K):
                for half in T.unroll(HALVES):
                    T.ptx[WGMMA](
                        *[acc[half * HALF_REGS + i] for i in range(HALF_REGS)],
                        A_desc[0] + T.Cast("uint64", half * HALF_UNITS + ki * K_UNITS),
                        B_desc[0] + T.Cast("uint64", ki * K_UNITS),
                        T.Or(k_tile > 0, ki > 0),
                        *WGMMA_MODES,
                    )
            T.ptx.wgmma.commit_group.sync.aligned()
            T.ptx.wgmma.wait_group.sync.aligned(0)
            # A warp has waited for its own wgmma only: nobody overwrites SMEM before the others.
            T.cuda.cta_sync()

        # ---- registers -> fp16 -> GMEM ----
        # A thread holds, of every 8 x 8 block of D, two neighbours in row lane_id / 4; a warp
        # has 16 rows of each half: registers 0, 1 of every four are rows 0-7, 2, 3 rows 8-15.
        for half in T.unroll(HALVES):
            for j in T.unroll(BLK_N // 8):
                for r in T.unroll(2):
                    reg = T.meta_var(half * HALF_REGS + j * 4 + r * 2)
                    row = T.meta_var(half * WGMMA_M + warp_id * 16 + r * 8 + lane_id // 4)
                    col = T.meta_var(j * 8 + lane_id % 4 * 2)
                    T.ptx.cvt.rn.f16x2.f32(pair[0], acc[reg + 1], acc[reg])
                    T.ptx.st.global_.b32(D.ptr_to([m + row, n + col]), pair[0])

    return hgemm_step3
