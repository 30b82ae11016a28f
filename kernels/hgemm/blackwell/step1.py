"""Step 1: one synchronous tile, D (128 x 128) = A (128 x 64) @ B (128 x 64)^T.

Adds      The smallest complete path through a Blackwell SM: GMEM -> SMEM by ordinary loads and
          stores, one tcgen05 MMA from SMEM into TMEM, TMEM -> registers -> GMEM.
Roles     One CTA, one warpgroup. All 128 threads copy the operands in and the result out; one
          elected thread of warp 0 issues the MMA; warp 0 allocates and frees TMEM.
Barriers  mma_done  mbarrier, 1 arrival (the tcgen05 commit); all 128 threads wait for it.
          The CTA barrier hands over what threads write for each other: SMEM tiles and TMEM.
SMEM      1,024 B barrier and TMEM address + A 16,384 + B 16,384 = 33,792 B of 232,448.
TMEM      The accumulator takes 128 of the 512 columns. All 512 are allocated, because TMEMPool
          numbers columns from 0: a second CTA on the SM has to wait until they are free.
Wastes    Everything is in sequence, K ends at 64 and one SM works. Step 2 adds the K loop.
Source    Own implementation of the public nine-step TIRx GEMM ladder of the MLC/TVM community
          ("Modern GPU programming for MLSys"); PTX ISA, chapters on tcgen05 and mbarrier.
"""

import tvm
from tvm.backend.cuda.lang.pipeline import TCGen05Bar
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx

BLK_M, BLK_N, BLK_K = 128, 128, 64
TMEM_COLS = 512

PROTOCOL = 1
KERNEL = {
    "name": "step1",
    "step": 1,
    "adds": "synchronous load + MMA",
    "operation": "gemm_nt",
    "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
    "targets": ["sm_100a"],
    "tile": [BLK_M, BLK_N, BLK_K],
    "ring_depth": 1,
    "cta_group": 1,
    "l2_group": 1,
    "persistent": False,
    "rules": {
        "M": {"equal": BLK_M},
        "N": {"equal": BLK_N},
        "K": {"equal": BLK_K},
        "sm_count": {"min": 1},
    },
}


def get_kernel(M: int, N: int, K: int, sm_count: int) -> tvm.tirx.PrimFunc:
    """Build the kernel for one shape; one CTA does the work, so sm_count is not used."""
    if (M, N, K) != (BLK_M, BLK_N, BLK_K):
        raise ValueError(f"step1 takes {BLK_M} x {BLK_N} x {BLK_K} only, not {M} x {N} x {K}")
    f16 = tvm.DataType("float16")

    @T.prim_func
    def hgemm_step1(A: T.Buffer((M, K), f16), B: T.Buffer((N, K), f16), D: T.Buffer((M, N), f16)):
        T.device_entry()
        T.cta_id([1])
        T.warpgroup_id([1])
        warp_id = T.warp_id_in_wg([4])
        T.lane_id([32])

        # ---- set-up: barrier, SMEM, TMEM ----
        pool = T.SMEMPool()
        tmem_pool = T.TMEMPool(pool, total_cols=TMEM_COLS)
        mma_done = TCGen05Bar(pool, 1)
        mma_done.init(1)
        pool.move_base_to(1024)
        A_smem = pool.alloc_tcgen05_mma_AB((BLK_M, BLK_K), f16)
        B_smem = pool.alloc_tcgen05_mma_AB((BLK_N, BLK_K), f16)
        pool.commit()
        acc = tmem_pool.alloc((BLK_M, BLK_N), "float32")
        tmem_pool.commit()
        T.ptx.fence.mbarrier_init.release.cluster()
        T.ptx.tcgen05.fence__before_thread_sync()

        # ---- GMEM -> SMEM, all threads ----
        Tx.cta.copy(A_smem[:, :], A[0:BLK_M, 0:BLK_K])
        Tx.cta.copy(B_smem[:, :], B[0:BLK_N, 0:BLK_K])
        # The MMA reads SMEM through the async proxy: every writer fences its own stores first.
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence__after_thread_sync()

        # ---- MMA, one thread ----
        if warp_id == 0:
            if T.cuda.elect_sync():
                Tx.gemm_async(
                    acc[:, :],
                    A_smem[:, :],
                    B_smem[:, :],
                    accum=False,
                    dispatch="tcgen05",
                    cta_group=1,
                )
                mma_done.arrive(0)
        mma_done.wait(0, 0)
        T.ptx.tcgen05.fence__after_thread_sync()

        # ---- TMEM -> registers -> fp16 -> GMEM, one row a thread ----
        acc_regs = T.wg_reg_tile(BLK_N)
        out_regs = T.wg_reg_tile(BLK_N, dtype=f16)
        Tx.wg.copy_async(acc_regs, acc[:, :])
        T.ptx.tcgen05.wait__ld.sync.aligned()
        Tx.wg.cast(out_regs, acc_regs)
        Tx.wg.copy(D[0:BLK_M, 0:BLK_N], out_regs)

        # ---- TMEM is freed by one warp, when all have read it ----
        T.ptx.tcgen05.fence__before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence__after_thread_sync()
        tmem_pool.dealloc()

    return hgemm_step1
