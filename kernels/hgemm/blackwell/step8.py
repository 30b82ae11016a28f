"""Step 8: two CTAs, one MMA.

Adds      A cluster of two CTAs on neighbouring SMs whose tensor cores work as one: an MMA of
          256 x 256 (cta_group 2). Each CTA holds its 128 rows of A and half of B, and each
          tensor core reads both halves of B: SMEM a flop falls by half, so the ring can be 4 deep.
Roles     In both CTAs:  WG1 warp 3  TMA producer: 128 rows of A, half of the B tile.
                         WG0         writeback of this CTA's 128 rows, 2 chunks of 128 columns.
          In CTA 0 only: WG1 warp 0  MMA issuer for both CTAs.
Barriers  tma2mma  CTA 0's, one a stage, 1 arrival (CTA 0's producer, with the bytes expected in
                   both CTAs) + 65,536 B by the TMA loads of both; the MMA issuer waits.
          mma2tma  one a stage in each CTA, 1 arrival (a commit that is multicast, mask 3); the
                   CTA's producer waits.
          mma2ld   one in each CTA, 1 arrival (multicast commit after the last k tile); the CTA's
                   WG0 waits.
          ld2mma   CTA 0's, 256 arrivals (128 threads x 2 CTAs, CTA 1's are remote); the MMA
                   issuer waits: both CTAs have read TMEM.
          Who waits for something to become free starts at phase 1: the first round passes.
          Named barrier 10 keeps WG0 together around its D staging. Cluster barriers: after the
          mbarriers are initialised, and before TMEM is freed and a CTA may leave.
SMEM      1,024 B barriers and TMEM address + 4 stages x (A 16,384 + B 16,384) + D 32,768
          = 164,864 B of 232,448 in each CTA.
TMEM      256 of the 512 columns used in each CTA, all allocated (cta_group 2; TMEMPool numbers
          them from 0).
Wastes    A stage of B feeds one MMA of 256 rows, and half of TMEM is idle: SMEM traffic, not the
          tensor core, sets the pace. Step 9 adds a second consumer for each B tile.
Source    Own implementation of the public nine-step TIRx GEMM ladder of the MLC/TVM community
          ("Modern GPU programming for MLSys"); PTX ISA, chapters on tcgen05 and mbarrier.
"""

import tvm
from tvm.backend.cuda.lang.pipeline import MBarrier, PipelineState, TCGen05Bar, TMABar
from tvm.backend.cuda.lang.tile_scheduler import ClusterPersistentScheduler2D
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx

BLK_M, BLK_N, BLK_K = 128, 128, 64
CTA_GROUP = 2
CTA_MASK = 3  # both CTAs of the cluster
MMA_N = CTA_GROUP * BLK_N
TILE_M, TILE_N = CTA_GROUP * BLK_M, MMA_N
CHUNK_N = 128  # columns of D that pass through SMEM at a time
PIPE_DEPTH = 4
L2_GROUP = 8
TMEM_COLS = 512
STAGE_BYTES = CTA_GROUP * (BLK_M + BLK_N) * BLK_K * 2
WG_THREADS = 128
WRITEBACK_BARRIER = 10  # named barrier; 0 is the CTA barrier

PROTOCOL = 1
KERNEL = {
    "name": "step8",
    "step": 8,
    "adds": "two-CTA cluster",
    "operation": "gemm_nt",
    "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
    "targets": ["sm_100a"],
    "tile": [TILE_M, TILE_N, BLK_K],
    "ring_depth": PIPE_DEPTH,
    "cta_group": CTA_GROUP,
    "l2_group": L2_GROUP,
    "persistent": True,
    "rules": {
        "M": {"multiple_of": TILE_M, "min": TILE_M},
        "N": {"multiple_of": TILE_N, "min": TILE_N},
        "K": {"multiple_of": BLK_K, "min": BLK_K},
        "sm_count": {"multiple_of": CTA_GROUP, "min": CTA_GROUP},
    },
}


def get_kernel(M: int, N: int, K: int, sm_count: int) -> tvm.tirx.PrimFunc:
    """Build the kernel for one shape and a grid of sm_count CTAs, two a cluster."""
    if min(M, N, K) < 1 or M % TILE_M or N % TILE_N or K % BLK_K:
        raise ValueError(f"step8: {M} x {N} x {K} is not whole tiles of {KERNEL['tile']}")
    if sm_count < CTA_GROUP or sm_count % CTA_GROUP:
        raise ValueError(f"step8: {sm_count} SMs are not whole clusters of {CTA_GROUP}")
    K_TILES = K // BLK_K
    f16 = tvm.DataType("float16")

    @T.prim_func
    def hgemm_step8(A: T.Buffer((M, K), f16), B: T.Buffer((N, K), f16), D: T.Buffer((M, N), f16)):
        T.device_entry()
        rank, _ = T.cta_id_in_cluster([CTA_GROUP, 1])
        cta = T.cta_id([sm_count])
        wg_id = T.warpgroup_id([2])
        warp_id = T.warp_id_in_wg([4])
        T.lane_id([32])

        # ---- set-up: barriers, SMEM, TMEM ----
        pool = T.SMEMPool()
        tmem_pool = T.TMEMPool(pool, total_cols=TMEM_COLS, cta_group=CTA_GROUP)
        tma2mma = TMABar(pool, PIPE_DEPTH)
        mma2tma = TCGen05Bar(pool, PIPE_DEPTH)
        mma2ld = TCGen05Bar(pool, 1)
        ld2mma = MBarrier(pool, 1)
        tma2mma.init(1)
        mma2tma.init(1)
        mma2ld.init(1)
        ld2mma.init(WG_THREADS * CTA_GROUP)
        pool.move_base_to(1024)
        A_smem = pool.alloc_tcgen05_mma_AB((PIPE_DEPTH, BLK_M, BLK_K), f16)
        B_smem = pool.alloc_tcgen05_mma_AB((PIPE_DEPTH, BLK_N, BLK_K), f16)
        D_smem = pool.alloc_tcgen05_mma_AB((BLK_M, CHUNK_N), f16)
        pool.commit()
        acc = tmem_pool.alloc((BLK_M, MMA_N), "float32")
        tmem_pool.commit()
        tma2mma_cta0 = tma2mma.remote_view(0)
        T.ptx.fence.proxy.async_.shared__cta()
        T.ptx.fence.mbarrier_init.release.cluster()
        T.ptx.tcgen05.fence__before_thread_sync()
        # The whole cluster: a CTA must not signal barriers that its peer has yet to initialise.
        T.cuda.cluster_sync()
        T.ptx.tcgen05.fence__after_thread_sync()

        # The unit of the schedule is the cluster: both CTAs walk the same tiles.
        tiles = ClusterPersistentScheduler2D(
            "tiles",
            num_m_tiles=M // TILE_M,
            num_n_tiles=N // TILE_N,
            num_clusters=sm_count // CTA_GROUP,
            l2_group_size=L2_GROUP,
        )
        tiles.init(cta // CTA_GROUP)
        m = T.meta_var(tiles.m_idx * TILE_M + rank * BLK_M)  # this CTA's rows of A and D
        n = T.meta_var(tiles.n_idx * TILE_N)

        if wg_id == 1:
            if warp_id == 3:
                # ---- TMA producer, in both CTAs ----
                if T.cuda.elect_sync():
                    ring = PipelineState(PIPE_DEPTH, phase=1)
                    while tiles.valid():
                        for k_tile in T.serial(K_TILES):
                            stage = T.meta_var(ring.stage)
                            k = T.meta_var(k_tile * BLK_K)
                            b_row = T.meta_var(n + rank * BLK_N)  # half of the B tile a CTA
                            load = T.meta_var(
                                {
                                    "dispatch": "tma_auto",
                                    "cta_group": CTA_GROUP,
                                    "mbar": tma2mma_cta0.ptr_to([stage]),
                                }
                            )
                            mma2tma.wait(stage, ring.phase)
                            # One barrier, CTA 0's, counts the bytes that reach both CTAs.
                            if rank == 0:
                                tma2mma.arrive(stage, STAGE_BYTES)
                            Tx.copy_async(
                                A_smem[stage, :, :], A[m : m + BLK_M, k : k + BLK_K], **load
                            )
                            Tx.copy_async(
                                B_smem[stage, :, :],
                                B[b_row : b_row + BLK_N, k : k + BLK_K],
                                **load,
                            )
                            ring.advance()
                        tiles.next_tile()
                    # CTA 0's commits arrive here too: stay until the last of them has.
                    for _ in T.serial(PIPE_DEPTH):
                        mma2tma.wait(ring.stage, ring.phase)
                        ring.advance()
                T.cuda.warp_sync()
            elif (warp_id == 0) & (rank == 0):
                # ---- MMA issuer, in CTA 0 for both CTAs ----
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
                                cta_group=CTA_GROUP,
                            )
                            mma2tma.arrive(stage, cta_group=CTA_GROUP, cta_mask=CTA_MASK)
                            ring.advance()
                        mma2ld.arrive(0, cta_group=CTA_GROUP, cta_mask=CTA_MASK)
                        tmem_free.advance()
                        tiles.next_tile()
                T.cuda.warp_sync()
        else:
            # ---- writeback, in both CTAs: 128 rows of D each ----
            acc_full = PipelineState(1, phase=0)
            acc_regs = T.wg_reg_tile(CHUNK_N)
            out_regs = T.wg_reg_tile(CHUNK_N, dtype=f16)
            while tiles.valid():
                mma2ld.wait(0, acc_full.phase)
                T.ptx.tcgen05.fence__after_thread_sync()
                for chunk in T.unroll(MMA_N // CHUNK_N):
                    col = T.meta_var(chunk * CHUNK_N)
                    Tx.wg.copy_async(acc_regs, acc[:, col : col + CHUNK_N])
                    T.ptx.tcgen05.wait__ld.sync.aligned()
                    if chunk == MMA_N // CHUNK_N - 1:
                        # This thread has read all of its TMEM row: tell the issuer in CTA 0.
                        T.ptx.tcgen05.fence__before_thread_sync()
                        ld2mma.arrive(0, remote=0)
                    Tx.wg.cast(out_regs, acc_regs)

                    # D_smem is free when the thread that stored the last chunk sees it read.
                    if warp_id == 0:
                        if T.cuda.elect_sync():
                            T.ptx.cp.async_.bulk.wait_group.read(0)
                    T.cuda.warpgroup_sync(WRITEBACK_BARRIER)
                    for j in T.unroll(CHUNK_N // 8):
                        Tx.wg.copy(D_smem[:, j * 8 : j * 8 + 8], out_regs[:, j * 8 : j * 8 + 8])
                    # TMA reads through the async proxy, so every writer fences its own stores.
                    T.ptx.fence.proxy.async_.shared__cta()
                    T.cuda.warpgroup_sync(WRITEBACK_BARRIER)
                    if warp_id == 0:
                        if T.cuda.elect_sync():
                            d_col = T.meta_var(n + chunk * CHUNK_N)
                            Tx.copy_async(
                                D[m : m + BLK_M, d_col : d_col + CHUNK_N],
                                D_smem[:, :],
                                dispatch="tma_auto",
                            )
                            T.ptx.cp.async_.bulk.commit_group()
                acc_full.advance()
                tiles.next_tile()
            # SMEM must outlive the last store.
            if warp_id == 0:
                if T.cuda.elect_sync():
                    T.ptx.cp.async_.bulk.wait_group(0)
            T.ptx.tcgen05.fence__before_thread_sync()

        # ---- no CTA leaves while its peer may still signal it; then one warp frees TMEM ----
        T.cuda.cluster_sync()
        T.ptx.tcgen05.fence__after_thread_sync()
        tmem_pool.dealloc()

    return hgemm_step8
