"""Step 3: a grid of tiles, one CTA each.

Adds      Spatial tiling: the grid is (M / 128, N / 128), and CTA (m, n) computes tile (m, n) of
          D = A @ B^T with step 2's K loop.
Roles     As step 2: one warpgroup. All 128 threads copy the operands in and the result out; one
          elected thread of warp 0 issues the MMAs; warp 0 allocates and frees TMEM.
Barriers  mma_done  mbarrier, 1 arrival (the tcgen05 commit); all 128 threads wait for it, once
                    a k tile: then the MMA has read SMEM, which may be overwritten.
          One CTA barrier a k tile, before the MMA: the SMEM tiles are complete.
SMEM      1,024 B barrier and TMEM address + A 16,384 + B 16,384 = 33,792 B of 232,448.
TMEM      128 of the 512 columns used, all allocated (TMEMPool numbers them from 0). So the CTAs
          that share an SM take turns: an allocation waits for the last CTA's columns.
Wastes    128 threads spend their time on addresses, loads and stores; nothing overlaps. Step 4
          gives the copies to the TMA engine.
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
    "name": "step3",
    "step": 3,
    "adds": "spatial tiling",
    "operation": "gemm_nt",
    "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
    "targets": ["sm_100a"],
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

    @T.prim_func
    def hgemm_step3(A: T.Buffer((M, K), f16), B: T.Buffer((N, K), f16), D: T.Buffer((M, N), f16)):
        T.device_entry()
        m_tile, n_tile = T.cta_id([M // BLK_M, N // BLK_N])
        m = T.meta_var(m_tile * BLK_M)
        n = T.meta_var(n_tile * BLK_N)
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
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence__after_thread_sync()

        phase: T.int32
        phase = 0
        acc_regs = T.wg_reg_tile(BLK_N)
        out_regs = T.wg_reg_tile(BLK_N, dtype=f16)
        for k_tile in T.serial(K // BLK_K):
            k = T.meta_var(k_tile * BLK_K)
            # The MMA of the last round has read both SMEM tiles: all threads waited for it.
            Tx.cta.copy(A_smem[:, :], A[m : m + BLK_M, k : k + BLK_K])
            Tx.cta.copy(B_smem[:, :], B[n : n + BLK_N, k : k + BLK_K])
            # The MMA reads SMEM through the async proxy: every writer fences its own stores.
            T.ptx.fence.proxy.async_.shared__cta()
            T.cuda.cta_sync()
            if warp_id == 0:
                if T.cuda.elect_sync():
                    # The first k tile overwrites what TMEM holds, the others add to it.
                    Tx.gemm_async(
                        acc[:, :],
                        A_smem[:, :],
                        B_smem[:, :],
                        accum=k_tile > 0,
                        dispatch="tcgen05",
                        cta_group=1,
                    )
                    mma_done.arrive(0)
            # No warp can lag two phases: the next MMA is behind the CTA barrier above.
            mma_done.wait(0, phase)
            phase = phase ^ 1
            # Back from the async proxy (the MMA's reads) to the stores of the next round.
            T.ptx.fence.proxy.async_.shared__cta()
        T.ptx.tcgen05.fence__after_thread_sync()

        # ---- TMEM -> registers -> fp16 -> GMEM, one row a thread ----
        Tx.wg.copy_async(acc_regs, acc[:, :])
        T.ptx.tcgen05.wait__ld.sync.aligned()
        Tx.wg.cast(out_regs, acc_regs)
        Tx.wg.copy(D[m : m + BLK_M, n : n + BLK_N], out_regs)

        # ---- TMEM is freed by one warp, when all have read it ----
        T.ptx.tcgen05.fence__before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence__after_thread_sync()
        tmem_pool.dealloc()

    return hgemm_step3
