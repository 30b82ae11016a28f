"""Step 7: warp specialisation, loads and MMA in warps of their own.

Adds      Roles that run at their own pace and meet at mbarriers only. Loads for the next tile
          start while this one is still being computed, and nobody waits at a CTA barrier. The
          producer runs ahead through every writeback, as far as the ring lets it: 6 stages.
Roles     WG0 warp 0  TMA producer: one thread loads A and B into the ring.
          WG1         consumer: wgmma from the ring into registers, then the writeback,
                      registers -> fp16 -> SMEM -> TMA store.
          Each role walks the same tiles with its own scheduler, stage and phase.
MMA       Two wgmma of 64 x 128 x 16 for the 128 rows, 4 times a k tile: one group a k tile, of
          which one is in flight while the next is issued.
Barriers  tma2mma  one mbarrier a stage, 1 arrival (with the expected bytes) + 32,768 B by TMA;
                   the consumer waits: the stage is full.
          mma2tma  one mbarrier a stage, 4 arrivals (a lane of each consumer warp, when the warp's
                   wgmma are complete); the producer waits: the stage has been read.
          Who waits for something to become free starts at phase 1: the first round passes.
          Named barrier 10 keeps WG1 together around its D staging.
SMEM      1,024 B barriers + 6 stages x (A 16,384 + B 16,384) + D 32,768 = 230,400 B of 232,448.
Registers 128 a thread for the accumulator; 256 threads leave each up to 255.
Wastes    Each CTA loads all of its A and B: of every byte that two neighbours both need, two
          copies cross L2. In step 8 two CTAs share B.
Source    Own implementation, on Hopper, of the public nine-step TIRx GEMM ladder of the MLC/TVM
          community ("Modern GPU programming for MLSys"); PTX ISA, chapters on wgmma, mbarrier
          and stmatrix.
"""

import tvm
from tvm.backend.cuda.lang.pipeline import MBarrier, PipelineState, TMABar
from tvm.backend.cuda.lang.tile_scheduler import ClusterPersistentScheduler2D
from tvm.backend.cuda.tile_primitive.tma_utils import SwizzleMode, mma_shared_layout
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx

BLK_M, BLK_N, BLK_K = 128, 128, 64
PIPE_DEPTH = 6
L2_GROUP = 8
STAGE_BYTES = (BLK_M + BLK_N) * BLK_K * 2
CONSUMER_WARPS = 4
WRITEBACK_BARRIER = 10  # named barrier; 0 is the CTA barrier
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
    "name": "step7",
    "step": 7,
    "adds": "warp specialisation",
    "operation": "gemm_nt",
    "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
    "targets": ["sm_90a"],
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
    swizzle = SwizzleMode.SWIZZLE_128B_ATOM
    ring_layout = mma_shared_layout(f16, swizzle, (PIPE_DEPTH, BLK_M, BLK_K))
    d_layout = mma_shared_layout(f16, swizzle, (BLK_M, BLK_N))

    @T.prim_func
    def hgemm_step7(A: T.Buffer((M, K), f16), B: T.Buffer((N, K), f16), D: T.Buffer((M, N), f16)):
        T.device_entry()
        cta = T.cta_id([sm_count])
        wg_id = T.warpgroup_id([2])
        warp_id = T.warp_id_in_wg([4])
        lane_id = T.lane_id([32])

        # ---- set-up: barriers, SMEM ----
        pool = T.SMEMPool()
        tma2mma = TMABar(pool, PIPE_DEPTH)
        mma2tma = MBarrier(pool, PIPE_DEPTH)
        tma2mma.init(1)
        mma2tma.init(CONSUMER_WARPS)
        pool.move_base_to(1024)
        A_smem = pool.alloc((PIPE_DEPTH, BLK_M, BLK_K), f16, layout=ring_layout)
        B_smem = pool.alloc((PIPE_DEPTH, BLK_N, BLK_K), f16, layout=ring_layout)
        D_smem = pool.alloc((BLK_M, BLK_N), f16, layout=d_layout)
        pool.commit()
        T.ptx.fence.proxy.async_.shared__cta()
        T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cta_sync()

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

        if wg_id == 0:
            if warp_id == 0:
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
        else:
            # ---- consumer: MMA ----
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
            last_stage: T.int32
            last_stage = 0
            while tiles.valid():
                for k_tile in T.serial(K_TILES):
                    tma2mma.wait(ring.stage, ring.phase)
                    # The first k tile overwrites the accumulator, the others add to it.
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
                    # All but the newest group are complete: the last k tile's stage is free.
                    T.ptx.wgmma.wait_group.sync.aligned(1)
                    if (k_tile > 0) & (lane_id == 0):
                        mma2tma.arrive(last_stage)
                    last_stage = ring.stage
                    ring.advance()
                T.ptx.wgmma.wait_group.sync.aligned(0)
                if lane_id == 0:
                    mma2tma.arrive(last_stage)

                # ---- consumer: writeback, a block of 16 x 16 a warp and stmatrix ----
                # D_smem is free when the thread that stored the last tile sees it read.
                if warp_id == 0:
                    if T.cuda.elect_sync():
                        T.ptx.cp.async_.bulk.wait_group.read(0)
                T.cuda.warpgroup_sync(WRITEBACK_BARRIER)
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
                # TMA reads through the async proxy, so every writer fences its own stores.
                T.ptx.fence.proxy.async_.shared__cta()
                T.cuda.warpgroup_sync(WRITEBACK_BARRIER)
                if warp_id == 0:
                    if T.cuda.elect_sync():
                        Tx.copy_async(
                            D[m : m + BLK_M, n : n + BLK_N], D_smem[:, :], dispatch="tma_auto"
                        )
                        T.ptx.cp.async_.bulk.commit_group()
                tiles.next_tile()
            # SMEM must outlive the last store.
            if warp_id == 0:
                if T.cuda.elect_sync():
                    T.ptx.cp.async_.bulk.wait_group(0)

    return hgemm_step7
