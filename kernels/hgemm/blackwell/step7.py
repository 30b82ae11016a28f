"""Step 7: warp specialisation, a warp for each job.

Adds      Roles that run at their own pace and meet at mbarriers only. Loads for the next tile
          start while this one is still being computed, and nobody waits at a CTA barrier.
Roles     WG1 warp 3  TMA producer: one thread loads A and B into the ring.
          WG1 warp 0  MMA issuer: one thread, MMAs from the ring into TMEM.
          WG0         writeback: 128 threads, TMEM -> registers -> fp16 -> SMEM -> TMA store.
          Each role walks the same tiles with its own scheduler, stage and phase.
Barriers  tma2mma  one mbarrier a stage, 1 arrival (with the expected bytes) + 32,768 B by TMA;
                   the MMA issuer waits: the stage is full.
          mma2tma  one mbarrier a stage, 1 arrival (tcgen05 commit after the MMA); the producer
                   waits: the stage has been read.
          mma2ld   one mbarrier, 1 arrival (commit after the last k tile); WG0 waits: the
                   accumulator is complete.
          ld2mma   one mbarrier, 128 arrivals (every writeback thread, when it has read its TMEM
                   row); the MMA issuer waits before a tile overwrites TMEM.
          Who waits for something to become free starts at phase 1: the first round passes.
          Named barrier 10 keeps WG0 together around its D staging.
SMEM      1,024 B barriers and TMEM address + 2 stages x (A 16,384 + B 16,384) + D 32,768
          = 99,328 B of 232,448.
TMEM      128 of the 512 columns used, all allocated (TMEMPool numbers them from 0).
Wastes    Each CTA loads all of its A and B: of every byte that two neighbours both need, two
          copies cross L2 and fill SMEM. Step 8 lets two CTAs share one MMA.
Source    Own implementation of the public nine-step TIRx GEMM ladder of the MLC/TVM community
          ("Modern GPU programming for MLSys"); PTX ISA, chapters on tcgen05 and mbarrier.
"""

import tvm
from tvm.backend.cuda.lang.pipeline import MBarrier, PipelineState, TCGen05Bar, TMABar
from tvm.backend.cuda.lang.tile_scheduler import ClusterPersistentScheduler2D
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx

BLK_M, BLK_N, BLK_K = 128, 128, 64
PIPE_DEPTH = 2
L2_GROUP = 8
TMEM_COLS = 512
STAGE_BYTES = (BLK_M + BLK_N) * BLK_K * 2
WG_THREADS = 128
WRITEBACK_BARRIER = 10  # named barrier; 0 is the CTA barrier

PROTOCOL = 1
KERNEL = {
    "name": "step7",
    "step": 7,
    "adds": "warp specialisation",
    "operation": "gemm_nt",
    "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
    "targets": ["sm_100a"],
    "tile": [BLK_M, BLK_N, BLK_K],
    "ring_depth": PIPE_DEPTH,
    "cta_group": 1,
    "l2_group": L2_GROUP,
    "persistent": True,
    "rules": {
        "M": {"multiple_of": BLK_M, "min": BLK_M},
        "N": {"multiple_of": BLK_N, "min": BLK_N},
        "K": {"multiple_of": BLK_K, "min": BLK_K},
        "sm_count": {"min": 1},
    },
}


def get_kernel(M: int, N: int, K: int, sm_count: int) -> tvm.tirx.PrimFunc:
    """Build the kernel for one shape and a grid of sm_count CTAs."""
    if min(M, N, K) < 1 or M % BLK_M or N % BLK_N or K % BLK_K:
        raise ValueError(f"step7: {M} x {N} x {K} is not whole tiles of {KERNEL['tile']}")
    if sm_count < 1:
        raise ValueError(f"step7: sm_count is {sm_count}")
    K_TILES = K // BLK_K
    f16 = tvm.DataType("float16")

    @T.prim_func
    def hgemm_step7(A: T.Buffer((M, K), f16), B: T.Buffer((N, K), f16), D: T.Buffer((M, N), f16)):
        T.device_entry()
        cta = T.cta_id([sm_count])
        wg_id = T.warpgroup_id([2])
        warp_id = T.warp_id_in_wg([4])
        T.lane_id([32])

        # ---- set-up: barriers, SMEM, TMEM ----
        pool = T.SMEMPool()
        tmem_pool = T.TMEMPool(pool, total_cols=TMEM_COLS)
        tma2mma = TMABar(pool, PIPE_DEPTH)
        mma2tma = TCGen05Bar(pool, PIPE_DEPTH)
        mma2ld = TCGen05Bar(pool, 1)
        ld2mma = MBarrier(pool, 1)
        tma2mma.init(1)
        mma2tma.init(1)
        mma2ld.init(1)
        ld2mma.init(WG_THREADS)
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

        tiles = ClusterPersistentScheduler2D(
            "tiles",
            num_m_tiles=M // BLK_M,
            num_n_tiles=N // BLK_N,
            num_clusters=sm_count,
            l2_group_size=L2_GROUP,
        )
        tiles.init(cta)
        m = T.meta_var(tiles.m_idx * BLK_M)
        n = T.meta_var(tiles.n_idx * BLK_N)

        if wg_id == 1:
            if warp_id == 3:
                # ---- TMA producer ----
                if T.cuda.elect_sync():
                    ring = PipelineState(PIPE_DEPTH, phase=1)
                    while tiles.valid():
                        for k_tile in T.serial(K_TILES):
                            stage = T.meta_var(ring.stage)
                            k = T.meta_var(k_tile * BLK_K)
                            load = T.meta_var(
                                {"dispatch": "tma_auto", "mbar": tma2mma.ptr_to([stage])}
                            )
                            mma2tma.wait(stage, ring.phase)
                            tma2mma.arrive(stage, STAGE_BYTES)
                            Tx.copy_async(
                                A_smem[stage, :, :], A[m : m + BLK_M, k : k + BLK_K], **load
                            )
                            Tx.copy_async(
                                B_smem[stage, :, :], B[n : n + BLK_N, k : k + BLK_K], **load
                            )
                            ring.advance()
                        tiles.next_tile()
                T.cuda.warp_sync()
            elif warp_id == 0:
                # ---- MMA issuer ----
                if T.cuda.elect_sync():
                    ring = PipelineState(PIPE_DEPTH, phase=0)
                    tmem_free = PipelineState(1, phase=1)
                    while tiles.valid():
                        ld2mma.wait(0, tmem_free.phase)
                        T.ptx.tcgen05.fence__after_thread_sync()
                        for k_tile in T.serial(K_TILES):
                            stage = T.meta_var(ring.stage)
                            tma2mma.wait(stage, ring.phase)
                            # The first k tile overwrites what TMEM holds, the others add to it.
                            Tx.gemm_async(
                                acc[:, :],
                                A_smem[stage, :, :],
                                B_smem[stage, :, :],
                                accum=k_tile > 0,
                                dispatch="tcgen05",
                                cta_group=1,
                            )
                            mma2tma.arrive(stage)
                            ring.advance()
                        mma2ld.arrive(0)
                        tmem_free.advance()
                        tiles.next_tile()
                T.cuda.warp_sync()
        else:
            # ---- writeback ----
            acc_full = PipelineState(1, phase=0)
            acc_regs = T.wg_reg_tile(BLK_N)
            out_regs = T.wg_reg_tile(BLK_N, dtype=f16)
            while tiles.valid():
                mma2ld.wait(0, acc_full.phase)
                T.ptx.tcgen05.fence__after_thread_sync()
                Tx.wg.copy_async(acc_regs, acc[:, :])
                T.ptx.tcgen05.wait__ld.sync.aligned()
                # This thread's TMEM row is in its registers: the next tile may overwrite it.
                T.ptx.tcgen05.fence__before_thread_sync()
                ld2mma.arrive(0)
                Tx.wg.cast(out_regs, acc_regs)

                # D_smem is free when the thread that stored the last tile sees it read.
                if warp_id == 0:
                    if T.cuda.elect_sync():
                        T.ptx.cp.async_.bulk.wait_group.read(0)
                T.cuda.warpgroup_sync(WRITEBACK_BARRIER)
                for j in T.unroll(BLK_N // 8):
                    Tx.wg.copy(D_smem[:, j * 8 : j * 8 + 8], out_regs[:, j * 8 : j * 8 + 8])
                # TMA reads through the async proxy, so every writer fences its own stores.
                T.ptx.fence.proxy.async_.shared__cta()
                T.cuda.warpgroup_sync(WRITEBACK_BARRIER)
                if warp_id == 0:
                    if T.cuda.elect_sync():
                        Tx.copy_async(
                            D[m : m + BLK_M, n : n + BLK_N], D_smem[:, :], dispatch="tma_auto"
                        )
                        T.ptx.cp.async_.bulk.commit_group()
                acc_full.advance()
                tiles.next_tile()
            # SMEM must outlive the last store.
            if warp_id == 0:
                if T.cuda.elect_sync():
                    T.ptx.cp.async_.bulk.wait_group(0)
            T.ptx.tcgen05.fence__before_thread_sync()

        # ---- all roles are done; one warp of the CTA frees TMEM ----
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence__after_thread_sync()
        tmem_pool.dealloc()

    return hgemm_step7
