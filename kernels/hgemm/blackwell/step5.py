"""Step 5: a two-stage ring lets loads run while the MMA does.

Adds      A software pipeline. SMEM holds PIPE_DEPTH = 2 stages; the loads of k tile i + 1 are in
          flight while the MMA works on k tile i.
Roles     As step 4: one CTA a tile, one warpgroup. One elected thread of warp 0 drives loads,
          MMAs and the store; the 128 threads bring the accumulator from TMEM to SMEM.
Barriers  tiles_full  one mbarrier a stage, 1 arrival (with the expected bytes) + 32,768 B by
                      TMA; only the driving thread waits for it.
          mma_done    one mbarrier, 1 arrival (the tcgen05 commit); all 128 threads wait for it,
                      and the driving thread then refills the stage that the MMA has read.
          One CTA barrier a k tile after that wait: one thread drives the mbarriers, and a warp
          that lagged two phases behind it would wait for ever.
SMEM      1,024 B barriers and TMEM address + 2 stages x (A 16,384 + B 16,384) + D 32,768
          = 99,328 B of 232,448.
TMEM      128 of the 512 columns used, all allocated (TMEMPool numbers them from 0).
Wastes    Every tile pays for a launch, a barrier set-up and an empty pipeline; tiles that share
          rows of A or B meet in L2 by chance only. Step 6 keeps the CTAs and orders the tiles.
Source    Own implementation of the public nine-step TIRx GEMM ladder of the MLC/TVM community
          ("Modern GPU programming for MLSys"); PTX ISA, chapters on tcgen05 and mbarrier.
"""

import tvm
from tvm.backend.cuda.lang.pipeline import PipelineState, TCGen05Bar, TMABar
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx

BLK_M, BLK_N, BLK_K = 128, 128, 64
PIPE_DEPTH = 2
TMEM_COLS = 512
STAGE_BYTES = (BLK_M + BLK_N) * BLK_K * 2

PROTOCOL = 1
KERNEL = {
    "name": "step5",
    "step": 5,
    "adds": "two-stage software pipeline",
    "operation": "gemm_nt",
    "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
    "targets": ["sm_100a"],
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

    @T.prim_func
    def hgemm_step5(A: T.Buffer((M, K), f16), B: T.Buffer((N, K), f16), D: T.Buffer((M, N), f16)):
        T.device_entry()
        m_tile, n_tile = T.cta_id([M // BLK_M, N // BLK_N])
        m = T.meta_var(m_tile * BLK_M)
        n = T.meta_var(n_tile * BLK_N)
        T.warpgroup_id([1])
        warp_id = T.warp_id_in_wg([4])
        T.lane_id([32])

        # ---- set-up: barriers, SMEM, TMEM ----
        pool = T.SMEMPool()
        tmem_pool = T.TMEMPool(pool, total_cols=TMEM_COLS)
        tiles_full = TMABar(pool, PIPE_DEPTH)
        mma_done = TCGen05Bar(pool, 1)
        tiles_full.init(1)
        mma_done.init(1)
        pool.move_base_to(1024)
        A_smem = pool.alloc_tcgen05_mma_AB((PIPE_DEPTH, BLK_M, BLK_K), f16)
        B_smem = pool.alloc_tcgen05_mma_AB((PIPE_DEPTH, BLK_N, BLK_K), f16)
        D_smem = pool.alloc_tcgen05_mma_AB((BLK_M, BLK_N), f16)
        pool.commit()
        acc = tmem_pool.alloc((BLK_M, BLK_N), "float32")
        tmem_pool.commit()
        T.ptx.fence.proxy.async_.shared__cta()
        T.ptx.fence.mbarrier_init.release.cluster()
        T.ptx.tcgen05.fence__before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence__after_thread_sync()

        acc_regs = T.wg_reg_tile(BLK_N)
        out_regs = T.wg_reg_tile(BLK_N, dtype=f16)
        ring = PipelineState(PIPE_DEPTH, phase=0)
        mma_phase: T.int32
        mma_phase = 0

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
            if warp_id == 0:
                if T.cuda.elect_sync():
                    tiles_full.wait(ring.stage, ring.phase)
                    # The first k tile overwrites what TMEM holds, the others add to it.
                    Tx.gemm_async(
                        acc[:, :],
                        A_smem[ring.stage, :, :],
                        B_smem[ring.stage, :, :],
                        accum=k_tile > 0,
                        dispatch="tcgen05",
                        cta_group=1,
                    )
                    mma_done.arrive(0)
            mma_done.wait(0, mma_phase)
            T.cuda.cta_sync()
            # The MMA has read this stage: refill it, one round of the ring ahead.
            if warp_id == 0:
                if T.cuda.elect_sync():
                    if k_tile + PIPE_DEPTH < K_TILES:
                        load_stage(ring.stage, m, n, k_tile + PIPE_DEPTH)
            ring.advance()
            mma_phase = mma_phase ^ 1
        T.ptx.tcgen05.fence__after_thread_sync()

        # ---- TMEM -> registers -> fp16 -> SMEM, one row a thread, 16 bytes a store ----
        Tx.wg.copy_async(acc_regs, acc[:, :])
        T.ptx.tcgen05.wait__ld.sync.aligned()
        Tx.wg.cast(out_regs, acc_regs)
        for j in T.unroll(BLK_N // 8):
            Tx.wg.copy(D_smem[:, j * 8 : j * 8 + 8], out_regs[:, j * 8 : j * 8 + 8])

        # ---- SMEM -> GMEM; TMA reads through the async proxy, so the writers fence first ----
        T.ptx.fence.proxy.async_.shared__cta()
        T.ptx.tcgen05.fence__before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence__after_thread_sync()
        if warp_id == 0:
            if T.cuda.elect_sync():
                Tx.copy_async(D[m : m + BLK_M, n : n + BLK_N], D_smem[:, :], dispatch="tma_auto")
                T.ptx.cp.async_.bulk.commit_group()
                T.ptx.cp.async_.bulk.wait_group(0)  # SMEM must outlive the store

        # All warps have read TMEM (CTA barrier above); one of them frees it.
        tmem_pool.dealloc()

    return hgemm_step5
