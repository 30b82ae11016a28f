"""Beyond step 9: the tile follows the shape, so that every SM has work and all end together.

Adds      Nothing new moves data or multiplies: this is step 9 with what a library adds to it.
          * The width of a tile is a number of the shape (`divide`): D is cut into as many tiles as
            there are places in whole waves, some 8 columns narrower than others. At 8192^3 and
            132 SMs a row of tiles is 33 tiles, not 32, and no SM idles in the last wave.
          * The writeback overlaps the next tile: the accumulator is rounded to fp16 in registers,
            and 64 columns leave behind each of the next tile's first k tiles. The last tile of a
            CTA leaves through the ring, which is idle by then: no warp waits for a buffer.
          * A tile begins where the last one ended: k runs forward and back in turn, and so do the
            columns of one group of rows and of the next. L2 still holds what is read first.
          * L2 is told of the first k tile before the set-up; TMA would ask for it behind that and
            behind its tensor maps.
          * Clusters meet by a relaxed barrier at the start (the mbarriers' init has its own fence),
            and not at all at the end: the producer waits until all its signals have come.
          * Few tensor maps. Each place in the text that copies has its own, fetched at the start
            even if it is never reached, so a shape's program holds only the places it needs.
Roles     In each CTA:
          WG0 warp 0  TMA producer: one thread loads the CTA's rows of A, and its share of B for the
                      whole cluster.
          WG1, WG2    consumers of 64 rows each: wgmma from the ring into registers, then the
                      writeback in chunks of 64 columns, two of which may be on their way. Columns
                      beyond the last whole chunk are stored from registers. Where M is no multiple
                      of 128 there is one consumer, and the tile has 64 rows.
MMA       One wgmma of 64 x width x 16 a consumer, 4 times a k tile: one group a k tile, of which
          one is in flight while the next is issued.
Barriers  tma2mma  one mbarrier a stage in each CTA, 1 arrival (its producer's, with the bytes
                   expected) + the bytes by TMA, its peer's share of B among them; all consumers
                   wait: the stage is full.
          mma2tma  one mbarrier a stage in each CTA, an arrival of each consumer warp of the
                   cluster; the producer waits.
          Who waits for something to become free starts at phase 1: the first round passes.
          Named barriers 10 and 11 keep WG1 and WG2 each together around its D staging, and before
          its last tile goes through the ring.
SMEM      1,024 B barriers + ring + D 2 x 2 x 8,192 where tiles overlap. A stage is 128 bytes for
          each row of A and B; the ring has as many as fit, 16 at most. 4 stages of 128 x 256 and D
          are 230,400 B of 232,448 in all.
Registers 384 threads begin with 168 each. Where tiles overlap the producer's warpgroup gives up
          all but 40, so that each consumer may take 232: 128 accumulators and 64 pairs of fp16.
Source    Own implementation; what was measured on the way is in docs/hopper-tuning.md. PTX ISA,
          chapters on wgmma, mbarrier, stmatrix, setmaxnreg, prefetch and cp.async.bulk.tensor.
"""

from typing import NamedTuple

import tvm
from tvm.backend.cuda.lang.pipeline import MBarrier, PipelineState, TMABar
from tvm.backend.cuda.tile_primitive.tma_utils import SwizzleMode, mma_shared_layout
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx

BLK_K = 64
WIDEST, NARROWEST, STEP_N = 256, 24, 8  # columns of a tile; wgmma takes multiples of 8
CHUNK_N = 64  # columns of D that pass through SMEM at a time
D_BUFFERS = 2  # chunks of a consumer that SMEM holds
L2_GROUPS = (8, 4, 2, 1)  # rows of tiles that are worked through together: the first that divides
MOST_STAGES = 16  # of small tiles; what a stream of weights needs to hide the way to DRAM
STRIP = 16  # rows of a consumer warp
SMEM_BYTES = 232_448  # all that a CTA may have
BARRIER_BYTES = 1024  # the ring starts behind them
WRITEBACK_BARRIER = 10  # named barrier of WG1, WG2 has the next; 0 is the CTA barrier
PRODUCER_REGS, CONSUMER_REGS = 40, 232
WGMMA_M, WGMMA_K = 64, 16
WGMMA_MODES = (1, 1, 0, 0)  # neither operand is negated, both are K-major
# Matrix descriptors count in units of 16 bytes. Here: no leading dimension (1), eight rows of
# 128 bytes are 64 units, swizzle of 128 bytes (3).
K_MAJOR_128B = (1, 64, 3)
K_UNITS = WGMMA_K * 2 // 16
# TMA writes the rows of A and B of a k tile to SMEM, and each consumer reads its rows of A and all
# of B: at 128 bytes a cycle that never takes less than its MMAs.
SMEM_BYTES_A_CYCLE = 128
TILE_CYCLES = 2000  # what a tile costs besides
SMALL_TILE = 64  # up to this width a cluster costs more than its shared loads save

PROTOCOL = 1
KERNEL = {
    "name": "tuned",
    "step": 10,
    "adds": "tiles by shape",
    "operation": "gemm_nt",
    "dtypes": {"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"},
    "targets": ["sm_90a"],
    "tile": [128, 256, 64],
    "ring_depth": 4,
    "cta_group": 1,
    "l2_group": 8,
    "persistent": True,
    "rules": {
        "M": {"multiple_of": 64, "min": 64},
        "N": {"multiple_of": 64, "min": 64},
        "K": {"multiple_of": 64, "min": 64},
        "sm_count": {"multiple_of": 2, "min": 2},
    },
}


class Division(NamedTuple):
    """How D is cut into tiles.

    `cluster` CTAs stack their tiles and share B. A row of tiles has `per_row` tiles: the first
    `narrow` of them are 8 columns narrower than `columns`.
    """

    cluster: int
    per_row: int
    columns: int
    narrow: int


def consumers_of(M: int) -> int:
    """Return how many consumers of 64 rows a CTA has: two, if tiles of 128 rows fill M."""
    return 1 if M % (2 * WGMMA_M) else 2


def divide(M: int, N: int, K: int, sm_count: int) -> Division:
    """Return the division that costs the fewest cycles; of equals the one with fewest tiles."""
    best: list[tuple[int, Division]] = []
    consumers = consumers_of(M)
    rows_a = consumers * WGMMA_M
    for cluster in (2, 1):
        clusters, rows = sm_count // cluster, M // (rows_a * cluster)
        if M % (rows_a * cluster):
            continue
        for per_row in range(-(-N // WIDEST), max(1, N // NARROWEST) + 1):
            columns = -(-N // (per_row * STEP_N)) * STEP_N
            if cluster > 1 and columns <= SMALL_TILE:
                break
            moved_bytes = (2 * rows_a + (1 + consumers) * N // per_row) * BLK_K * 2
            k_tile_cycles = moved_bytes // SMEM_BYTES_A_CYCLE
            waves = -(-rows * per_row // clusters)
            narrow = (per_row * columns - N) // STEP_N
            division = Division(cluster, per_row, columns, narrow)
            best.append((waves * (K // BLK_K * k_tile_cycles + TILE_CYCLES), division))
    return min(best, key=lambda found: (found[0], found[1].per_row))[1]


def get_kernel(M: int, N: int, K: int, sm_count: int) -> tvm.tirx.PrimFunc:
    """Build the kernel for one shape and a grid of sm_count CTAs."""
    if min(M, N, K) < 1 or M % 64 or N % 64 or K % BLK_K:
        raise ValueError(f"tuned: {M} x {N} x {K} is not a multiple of 64 x 64 x 64")
    if sm_count < 2 or sm_count % 2:
        raise ValueError(f"tuned: {sm_count} SMs are not whole clusters of 2")
    CLUSTER, PER_ROW, BLK_N, NARROW = divide(M, N, K, sm_count)
    CONSUMERS = consumers_of(M)
    BLK_M = CONSUMERS * WGMMA_M
    CONSUMER_WARPS = CONSUMERS * 4
    A_STAGE_UNITS = BLK_M * BLK_K * 2 // 16
    NARROW_N = BLK_N - STEP_N
    CLUSTERS = sm_count // CLUSTER
    TILE_M = CLUSTER * BLK_M
    TILE_ROWS = M // TILE_M
    GROUP = next(group for group in L2_GROUPS if TILE_ROWS % group == 0)
    TILES = TILE_ROWS * PER_ROW
    K_TILES = K // BLK_K
    # What a CTA loads of B for its cluster: whole swizzle atoms of 8 rows, the last CTA the rest.
    SHARE_N = -(-BLK_N // (CLUSTER * STEP_N)) * STEP_N
    LAST_SHARE_AT = (CLUSTER - 1) * SHARE_N
    EVEN_SHARES = NARROW == 0 and CLUSTER * SHARE_N == BLK_N
    STAGE_BYTES = (BLK_M + BLK_N) * BLK_K * 2
    OVERLAP = TILES > CLUSTERS
    D_BYTES = CONSUMERS * D_BUFFERS * WGMMA_M * CHUNK_N * 2 if OVERLAP else 0
    DEPTH = min(MOST_STAGES, (SMEM_BYTES - BARRIER_BYTES - D_BYTES) // STAGE_BYTES)
    B_STAGE_UNITS = BLK_N * BLK_K * 2 // 16
    # Chunks that every tile has whole; what is left over depends on the tile's width.
    WHOLE = (NARROW_N if NARROW else BLK_N) // CHUNK_N
    CHUNKS = -(-BLK_N // CHUNK_N)
    ALL_WHOLE = WHOLE == CHUNKS
    # Behind how many k tiles of a tile the one before it is stored.
    BEHIND = min(CHUNKS, K_TILES) if OVERLAP else 1
    f16 = tvm.DataType("float16")
    swizzle = SwizzleMode.SWIZZLE_128B_ATOM
    a_layout = mma_shared_layout(f16, swizzle, (DEPTH, BLK_M, BLK_K))
    b_layout = mma_shared_layout(f16, swizzle, (DEPTH, BLK_N, BLK_K))
    d_layout = mma_shared_layout(f16, swizzle, (CONSUMERS, D_BUFFERS, WGMMA_M, CHUNK_N))
    multicast = {"cta_mask": (1 << CLUSTER) - 1} if CLUSTER > 1 else {}

    @T.prim_func
    def hgemm_tuned(A: T.Buffer((M, K), f16), B: T.Buffer((N, K), f16), D: T.Buffer((M, N), f16)):
        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 1})  # setmaxnreg needs a known budget
        rank, _ = T.cta_id_in_cluster([CLUSTER, 1])
        cta = T.cta_id([CLUSTERS * CLUSTER])
        wg_id = T.warpgroup_id([1 + CONSUMERS])
        warp_id = T.warp_id_in_wg([4])
        lane_id = T.lane_id([32])

        # The unit of the schedule is the cluster: its CTAs walk the same tiles, down the rows of
        # a group and then to the next column; every other group from the last column to the first.
        tile: T.int32
        tile = cta // CLUSTER
        group = T.meta_var(tile // (GROUP * PER_ROW))
        along = T.meta_var(tile % (GROUP * PER_ROW) // GROUP)
        column = T.meta_var(T.Select(group % 2 == 0, along, PER_ROW - 1 - along))
        m = T.meta_var((group * GROUP + tile % GROUP) * TILE_M + rank * BLK_M)
        n = T.meta_var(column * BLK_N - T.min(column, NARROW) * STEP_N)
        is_narrow = T.meta_var(T.And(NARROW > 0, column < NARROW))

        # ---- the first k tile, on its way to L2: a consumer thread has a row of A or B ----
        if T.And(wg_id > 0, tile < TILES):
            row = T.meta_var((wg_id - 1) * 128 + warp_id * 32 + lane_id)
            b_row = T.meta_var(rank * SHARE_N + row - BLK_M)
            if row < BLK_M:
                T.ptx["prefetch.global.L2"](A.ptr_to([m + row, 0]))
            elif T.And(row < BLK_M + SHARE_N, b_row < BLK_N):
                T.ptx["prefetch.global.L2"](B.ptr_to([n + b_row, 0]))

        # ---- set-up: barriers, SMEM ----
        pool = T.SMEMPool()
        tma2mma = TMABar(pool, DEPTH)
        mma2tma = MBarrier(pool, DEPTH)
        tma2mma.init(1)
        mma2tma.init(CLUSTER * CONSUMER_WARPS)
        pool.move_base_to(BARRIER_BYTES)
        A_smem = pool.alloc((DEPTH, BLK_M, BLK_K), f16, layout=a_layout)
        B_smem = pool.alloc((DEPTH, BLK_N, BLK_K), f16, layout=b_layout)
        if OVERLAP:
            D_smem = pool.alloc((CONSUMERS, D_BUFFERS, WGMMA_M, CHUNK_N), f16, layout=d_layout)
        pool.commit()
        T.ptx.fence.proxy.async_.shared__cta()
        T.ptx.fence.mbarrier_init.release.cluster()
        # The whole cluster: a CTA must not signal barriers that its peer has yet to initialise.
        T.ptx.barrier.cluster.arrive.relaxed.aligned()
        T.ptx.barrier.cluster.wait.aligned()

        if wg_id == 0:
            if OVERLAP:
                T.ptx.setmaxnreg.dec.sync.aligned.u32(PRODUCER_REGS)
            if warp_id == 0:
                # ---- TMA producer ----
                if T.cuda.elect_sync():
                    ring = PipelineState(DEPTH, phase=1)
                    back: T.bool
                    back = False

                    @T.inline
                    def load_b(stage, k, first, rows):
                        row = T.meta_var(n + first)
                        Tx.copy_async(
                            B_smem[stage, first : first + rows, :],
                            B[row : row + rows, k : k + BLK_K],
                            dispatch="tma_auto",
                            mbar=tma2mma.ptr_to([stage]),
                            prefetch_tensormap=True,
                            **multicast,
                        )

                    while tile < TILES:
                        for step in T.serial(K_TILES):
                            stage = T.meta_var(ring.stage)
                            k = T.meta_var(T.Select(back, K_TILES - 1 - step, step) * BLK_K)
                            narrow_bytes = T.meta_var(T.Select(is_narrow, STEP_N * BLK_K * 2, 0))
                            mma2tma.wait(stage, ring.phase)  # in the whole cluster
                            tma2mma.arrive(stage, STAGE_BYTES - narrow_bytes)
                            Tx.copy_async(
                                A_smem[stage, :, :],
                                A[m : m + BLK_M, k : k + BLK_K],
                                dispatch="tma_auto",
                                mbar=tma2mma.ptr_to([stage]),
                                prefetch_tensormap=True,
                            )
                            if EVEN_SHARES or rank < CLUSTER - 1:
                                load_b(stage, k, rank * SHARE_N, SHARE_N)
                            elif is_narrow:
                                load_b(stage, k, LAST_SHARE_AT, NARROW_N - LAST_SHARE_AT)
                            else:
                                load_b(stage, k, LAST_SHARE_AT, BLK_N - LAST_SHARE_AT)
                            ring.advance()
                        back = T.Not(back)
                        tile = tile + CLUSTERS
                    # No CTA leaves while its peer may still signal it. A warp's signals come in
                    # order: the stage before the next one is the last to be freed.
                    if CLUSTER > 1:
                        for _ in T.unroll(DEPTH - 1):
                            ring.advance()
                        mma2tma.wait(ring.stage, ring.phase)
                T.cuda.warp_sync()
        else:
            # ---- consumers ----
            if OVERLAP:
                T.ptx.setmaxnreg.inc.sync.aligned.u32(CONSUMER_REGS)
            consumer = T.meta_var(wg_id - 1)
            a_row = T.meta_var(consumer * WGMMA_M)  # where its rows start in the CTA's
            A_desc = T.alloc_local((1,), "uint64")
            B_desc = T.alloc_local((1,), "uint64")
            T.cuda.wgmma.encode_matrix_descriptor(
                T.address_of(A_desc[0]), A_smem.ptr_to([0, a_row, 0]), *K_MAJOR_128B
            )
            T.cuda.wgmma.encode_matrix_descriptor(
                T.address_of(B_desc[0]), B_smem.ptr_to([0, 0, 0]), *K_MAJOR_128B
            )
            acc = T.alloc_local((BLK_N // 2,), "float32")
            pairs = T.alloc_local((BLK_N // 4,), "uint32")  # a finished tile, on its way to D
            ring = PipelineState(DEPTH, phase=0)
            d_row: T.int32
            d_row = -1  # no tile is finished yet
            d_col: T.int32
            d_col = 0
            d_narrow: T.bool
            d_narrow = False

            @T.inline
            def multiply(width, k_tile):
                tma2mma.wait(ring.stage, ring.phase)
                T.ptx.wgmma.fence.sync.aligned()
                for ki in T.unroll(BLK_K // WGMMA_K):
                    a_at = T.meta_var(ring.stage * A_STAGE_UNITS + ki * K_UNITS)
                    b_at = T.meta_var(ring.stage * B_STAGE_UNITS + ki * K_UNITS)
                    T.ptx[f"wgmma.mma_async.sync.aligned.m{WGMMA_M}n{width}k{WGMMA_K}.f32.f16.f16"](
                        *[acc[i] for i in range(width // 2)],
                        A_desc[0] + T.Cast("uint64", a_at),
                        B_desc[0] + T.Cast("uint64", b_at),
                        # The first k tile overwrites the accumulator, the others add to it.
                        T.Or(k_tile > 0, ki > 0),
                        *WGMMA_MODES,
                    )
                T.ptx.wgmma.commit_group.sync.aligned()

            @T.inline
            def free_previous_stage():
                """Give back the stage before the ring's: lane 0 tells CTA 0, lane 1 CTA 1."""
                if lane_id < CLUSTER:
                    previous = T.meta_var(T.Select(ring.stage == 0, DEPTH, ring.stage) - 1)
                    mma2tma.arrive(previous, remote=lane_id)

            @T.inline
            def round_pairs(first, count):
                """Round accumulators to pairs of fp16."""
                for i in T.unroll(count):
                    at = T.meta_var(first + i)
                    T.ptx.cvt.rn.f16x2.f32(pairs[at], acc[2 * at + 1], acc[2 * at])

            @T.inline
            def stage_chunk(staging, at, first_row, chunk):
                """Put 64 columns of this warp's rows in SMEM, by stmatrix in blocks of 16 x 16."""
                for j in T.unroll(CHUNK_N // 16):
                    pair = T.meta_var((chunk * CHUNK_N + j * 16) // 4)
                    # Each lane names one row of one of the four 8 x 8 matrices.
                    row = T.meta_var(first_row + lane_id % 16)
                    col = T.meta_var(j * 16 + lane_id // 16 * 8)
                    T.ptx.stmatrix.sync.aligned.m8n8.x4.shared.b16(
                        staging.ptr_to([*at, row, col]),
                        pairs[pair],
                        pairs[pair + 1],
                        pairs[pair + 2],
                        pairs[pair + 3],
                    )
                # TMA reads through the async proxy, so every writer fences its own stores.
                T.ptx.fence.proxy.async_.shared__cta()

            @T.inline
            def store_whole(chunk):
                """Send 64 columns of the tile before this one through SMEM."""
                buffer = T.meta_var(chunk % D_BUFFERS)
                # A buffer is free when the thread that stores sees all older stores read.
                if warp_id == 0:
                    if T.cuda.elect_sync():
                        T.ptx.cp.async_.bulk.wait_group.read(D_BUFFERS - 1)
                T.cuda.warpgroup_sync(WRITEBACK_BARRIER + consumer)
                stage_chunk(D_smem, (consumer, buffer), warp_id * STRIP, chunk)
                T.cuda.warpgroup_sync(WRITEBACK_BARRIER + consumer)
                if warp_id == 0:
                    if T.cuda.elect_sync():
                        col_at = T.meta_var(d_col + chunk * CHUNK_N)
                        Tx.copy_async(
                            D[d_row : d_row + WGMMA_M, col_at : col_at + CHUNK_N],
                            D_smem[consumer, buffer, :, :],
                            dispatch="tma_auto",
                            prefetch_tensormap=True,
                        )
                        T.ptx.cp.async_.bulk.commit_group()

            @T.inline
            def store_last_whole(chunk):
                """Store 64 columns of the CTA's last tile: each warp sends its own 16 rows.

                They pass through a stage of the ring, which is idle by then: its rows of A were
                read by this consumer only.
                """
                strip = T.meta_var(a_row + warp_id * STRIP)
                if not OVERLAP:
                    round_pairs(chunk * CHUNK_N // 4, CHUNK_N // 4)
                stage_chunk(A_smem, (chunk,), strip, chunk)
                T.cuda.warp_sync()
                if T.cuda.elect_sync():
                    row_at = T.meta_var(d_row + warp_id * STRIP)
                    col_at = T.meta_var(d_col + chunk * CHUNK_N)
                    Tx.copy_async(
                        D[row_at : row_at + STRIP, col_at : col_at + CHUNK_N],
                        A_smem[chunk, strip : strip + STRIP, :],
                        dispatch="tma_auto",
                        prefetch_tensormap=True,
                    )
                    T.ptx.cp.async_.bulk.commit_group()

            @T.inline
            def store_part(columns):
                """Store the first columns of the last chunk: a box would overwrite a neighbour."""
                if not OVERLAP:
                    round_pairs(WHOLE * CHUNK_N // 4, columns // 4)
                for j in T.unroll(columns // 8):
                    for half in T.unroll(2):
                        row = T.meta_var(d_row + warp_id * STRIP + half * 8 + lane_id // 4)
                        col = T.meta_var(d_col + WHOLE * CHUNK_N + j * 8 + lane_id % 4 * 2)
                        pair = T.meta_var(WHOLE * CHUNK_N // 4 + j * 2 + half)
                        T.ptx["st.global.b32"](D.ptr_to([row, col]), pairs[pair])

            @T.inline
            def store(chunk, store_whole):
                if ALL_WHOLE or chunk < WHOLE:
                    store_whole(chunk)
                elif d_narrow:
                    store_part(NARROW_N - WHOLE * CHUNK_N)
                elif BLK_N % CHUNK_N == 0:
                    store_whole(chunk)
                else:
                    store_part(BLK_N - WHOLE * CHUNK_N)

            @T.inline
            def work(width):
                """Multiply one tile; the one before it is stored behind its first k tiles."""
                for k_tile in T.unroll(BEHIND):
                    multiply(width, k_tile)
                    if k_tile > 0:
                        T.ptx.wgmma.wait_group.sync.aligned(1)
                        free_previous_stage()
                    ring.advance()
                    if OVERLAP:
                        if d_row >= 0:
                            store(k_tile, store_whole)
                            if CHUNKS > BEHIND:
                                if k_tile == BEHIND - 1:
                                    for rest in T.unroll(CHUNKS - BEHIND):
                                        store(BEHIND + rest, store_whole)
                for _ in T.serial(K_TILES - BEHIND):
                    multiply(width, 1)
                    # All but the newest group are complete: the k tile before it is read.
                    T.ptx.wgmma.wait_group.sync.aligned(1)
                    free_previous_stage()
                    ring.advance()
                T.ptx.wgmma.wait_group.sync.aligned(0)
                free_previous_stage()
                if OVERLAP:
                    round_pairs(0, width // 4)

            while tile < TILES:
                if NARROW > 0:
                    if is_narrow:
                        work(NARROW_N)
                    else:
                        work(BLK_N)
                else:
                    work(BLK_N)
                d_row = m + a_row
                d_col = n
                d_narrow = is_narrow
                tile = tile + CLUSTERS
            # All four warps have waited for their last MMA: nobody reads the ring any more.
            T.cuda.warpgroup_sync(WRITEBACK_BARRIER + consumer)
            if d_row >= 0:
                for chunk in T.unroll(CHUNKS):
                    store(chunk, store_last_whole)
            # SMEM must outlive what is read from it.
            if T.cuda.elect_sync():
                T.ptx.cp.async_.bulk.wait_group.read(0)
            T.cuda.warp_sync()

    return hgemm_tuned
