"""The mutants: what goes wrong in kernels like these, each as a small edit of a right one.

One table. `seen` is measured, never guessed: the tools that refuse the mutant on its shape, each
with words of its answer. A mutant that no tool sees stays in the table with an empty `seen`, so
that a simulator that learns to see it is noticed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rungwatch.backends.job import Tool
from rungwatch.declare.problem import Shape

NUMERICS, SYNCCHECK, RACECHECK = Tool.NUMERICS, Tool.SYNCCHECK, Tool.RACECHECK
KERNELS = Path(__file__).resolve().parents[2] / "kernels" / "hgemm" / "blackwell"


@dataclass(frozen=True)
class Mutant:
    """One fault: `kernel` with every `old` text, which occurs once, replaced by its `new` text.

    `published` says that the public listing of this rung has the fault. `source_rule` names what
    covers a mutant that no tool sees.
    """

    name: str
    what: str
    kernel: str
    edits: tuple[tuple[str, str], ...]
    shape: Shape
    seen: Mapping[Tool, str] = field(default_factory=dict)
    published: bool = False
    source_rule: str = ""

    @property
    def cheapest(self) -> Tool:
        """Return the tool that refuses the mutant in the least time.

        A checker's code is compiled in half the time of numerics', and no checker has the edge
        over the other (measured).
        """
        return next(tool for tool in (SYNCCHECK, RACECHECK, NUMERICS) if tool in self.seen)

    def source(self) -> str:
        """Return the kernel's source with the fault in it.

        Raises:
            ValueError: a text to replace does not occur exactly once.
        """
        source = (KERNELS / f"{self.kernel}.py").read_text(encoding="utf-8")
        for old, new in self.edits:
            if source.count(old) != 1:
                raise ValueError(f"{self.name}: {source.count(old)} times in {self.kernel}: {old}")
            source = source.replace(old, new)
        return source


# The shapes of the required matrix (quick) on which the mutants run: three tiles of D, two units,
# so that one unit has a second tile, and k tiles that end in the middle of the ring.
_STEP1 = Shape(128, 128, 64, 1)
_STEP2 = Shape(128, 128, 192, 1)
_STEP3 = Shape(384, 128, 192, 1)
_STEP4 = Shape(384, 128, 192, 1)
_STEP5 = Shape(384, 128, 320, 1)
_STEP6 = Shape(384, 128, 320, 2)
_STEP7 = Shape(384, 128, 320, 2)
_STEP8 = Shape(768, 256, 576, 4)
_STEP9 = Shape(1536, 256, 576, 4)


def _checkers(words: str) -> dict[Tool, str]:
    return {SYNCCHECK: words, RACECHECK: words}


_DEADLOCK = {NUMERICS: "executor deadlock"} | _checkers("error: deadlock")
_RACE = {RACECHECK: "error: data_race"}
_WRONG = {NUMERICS: "elements are wrong"}
_UNWRITTEN = {NUMERICS: "were never written"}

_FENCE = "T.ptx.fence.proxy.async_.shared__cta()\n"
_MMA_FENCE = f"fences its own stores.\n            {_FENCE}"


def _free_in_every_warpgroup(cta_group: int) -> tuple[tuple[str, str], ...]:
    free = f"""\
        if warp_id == 0:
            T.ptx.tcgen05.relinquish_alloc_permit.cta_group__{cta_group}.sync.aligned()
            T.ptx.tcgen05.dealloc.cta_group__{cta_group}.sync.aligned.b32(
                tmem_pool.addr, T.uint32(TMEM_COLS)
            )
"""
    return (("        tmem_pool.dealloc()\n", free),)


_CTA_BARRIER_AFTER_INIT = (
    (
        "yet to initialise.\n        T.cuda.cluster_sync()",
        "yet to initialise.\n        T.cuda.cta_sync()",
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    # ---- what the published listings have ----
    Mutant(
        "step1-no-proxy-fence",
        "no proxy fence between the threads' SMEM stores and the MMA that reads them",
        "step1",
        ((f"fences its own stores first.\n        {_FENCE}", "\n"),),
        _STEP1,
        seen=_RACE,
        published=True,
    ),
    Mutant(
        "step2-no-proxy-fence",
        "no proxy fence between the threads' SMEM stores and the MMA that reads them",
        "step2",
        ((_MMA_FENCE, "\n"),),
        _STEP2,
        seen=_RACE,
        published=True,
    ),
    Mutant(
        "step3-no-proxy-fence",
        "no proxy fence between the threads' SMEM stores and the MMA that reads them",
        "step3",
        ((_MMA_FENCE, "\n"),),
        _STEP3,
        seen=_RACE,
        published=True,
    ),
    Mutant(
        "step4-no-cta-barrier",
        "no CTA barrier a k tile after the MMA wait: a warp may lag two phases",
        "step4",
        (("T.cuda.cta_sync()\n            phase = phase ^ 1", "phase = phase ^ 1"),),
        _STEP4,
        seen={NUMERICS: "executor deadlock", SYNCCHECK: "error: fixed_sync_protocol_error"},
        published=True,
    ),
    Mutant(
        "step5-no-cta-barrier",
        "no CTA barrier a k tile after the MMA wait: a warp may lag two phases",
        "step5",
        (("(0, mma_phase)\n            T.cuda.cta_sync()\n", "(0, mma_phase)\n"),),
        _STEP5,
        seen={NUMERICS: "executor deadlock"}
        | _checkers("error: completion_source_operation_failed"),
        published=True,
    ),
    Mutant(
        "step6-no-cta-barrier",
        "no CTA barrier a k tile after the MMA wait: a warp may lag two phases",
        "step6",
        (("(0, mma_phase)\n                T.cuda.cta_sync()\n", "(0, mma_phase)\n"),),
        _STEP6,
        seen={NUMERICS: "executor deadlock"}
        | _checkers("error: completion_source_operation_failed"),
        published=True,
    ),
    Mutant(
        "step7-freed-twice",
        "warp 0 of every warpgroup frees TMEM",
        "step7",
        _free_in_every_warpgroup(1),
        _STEP7,
        seen={NUMERICS: "tcgen_deallocation_mismatch"}
        | _checkers("error: tcgen_deallocation_mismatch"),
        published=True,
    ),
    Mutant(
        "step8-freed-twice",
        "warp 0 of every warpgroup frees TMEM",
        "step8",
        _free_in_every_warpgroup(2),
        _STEP8,
        seen={NUMERICS: "participant contract changed"}
        | _checkers("error: synchronization_contract_mismatch"),
        published=True,
    ),
    Mutant(
        "step9-freed-thrice",
        "warp 0 of every warpgroup frees TMEM",
        "step9",
        _free_in_every_warpgroup(2),
        _STEP9,
        seen={NUMERICS: "participant contract changed"}
        | _checkers("error: synchronization_contract_mismatch"),
        published=True,
    ),
    Mutant(
        "step8-cta-barrier-after-init",
        "a CTA barrier, not a cluster barrier, after the mbarriers are initialised",
        "step8",
        _CTA_BARRIER_AFTER_INIT,
        _STEP8,
        seen=_checkers("error: mbarrier_init_not_happens_before_use"),
        published=True,
    ),
    Mutant(
        "step9-cta-barrier-after-init",
        "a CTA barrier, not a cluster barrier, after the mbarriers are initialised",
        "step9",
        _CTA_BARRIER_AFTER_INIT,
        _STEP9,
        seen=_checkers("error: mbarrier_init_not_happens_before_use"),
        published=True,
    ),
    # ---- phases ----
    Mutant(
        "step7-producer-phase-0",
        "the producer starts at phase 0: it waits for a free stage that nobody has used",
        "step7",
        (
            (
                "ring = PipelineState(PIPE_DEPTH, phase=1)",
                "ring = PipelineState(PIPE_DEPTH, phase=0)",
            ),
        ),
        _STEP7,
        seen=_DEADLOCK,
    ),
    Mutant(
        "step7-issuer-phase-1",
        "the MMA issuer starts at phase 1: it takes an empty stage for a full one",
        "step7",
        (
            (
                "ring = PipelineState(PIPE_DEPTH, phase=0)",
                "ring = PipelineState(PIPE_DEPTH, phase=1)",
            ),
        ),
        _STEP7,
        seen=_DEADLOCK,
    ),
    Mutant(
        "step7-tmem-free-phase-0",
        "the MMA issuer waits at phase 0 for TMEM that nobody has used",
        "step7",
        (("tmem_free = PipelineState(1, phase=1)", "tmem_free = PipelineState(1, phase=0)"),),
        _STEP7,
        seen=_DEADLOCK,
    ),
    Mutant(
        "step7-writeback-phase-1",
        "the writeback starts at phase 1: it reads TMEM before the MMA is done",
        "step7",
        (("acc_full = PipelineState(1, phase=0)", "acc_full = PipelineState(1, phase=1)"),),
        _STEP7,
        seen=_DEADLOCK,
    ),
    Mutant(
        "step9-producer-phase-0",
        "the producer starts at phase 0: it waits for a free stage that nobody has used",
        "step9",
        (
            (
                "ring = PipelineState(PIPE_DEPTH, phase=1)",
                "ring = PipelineState(PIPE_DEPTH, phase=0)",
            ),
        ),
        _STEP9,
        seen=_DEADLOCK,
    ),
    # ---- barriers: who takes part ----
    Mutant(
        "step7-cta-barrier-in-role",
        "a CTA barrier inside the writeback's branch",
        "step7",
        (
            (
                "T.cuda.warpgroup_sync(WRITEBACK_BARRIER)\n                for j",
                "T.cuda.cta_sync()\n                for j",
            ),
        ),
        _STEP7,
        seen=_DEADLOCK,
    ),
    Mutant(
        "step9-one-named-barrier",
        "both writeback warpgroups use one named barrier",
        "step9",
        (("T.meta_var(WRITEBACK_BARRIER + wg_id)", "T.meta_var(WRITEBACK_BARRIER)"),),
        _STEP9,
        seen={
            NUMERICS: "executor deadlock",
            SYNCCHECK: "error: deadlock",
            RACECHECK: "error: data_race",
        },
    ),
    Mutant(
        "step8-ld2mma-128",
        "ld2mma expects 128 arrivals, not 128 from each CTA",
        "step8",
        (("ld2mma.init(WG_THREADS * CTA_GROUP)", "ld2mma.init(WG_THREADS)"),),
        _STEP8,
        seen={NUMERICS: "executor deadlock"}
        | _checkers("error: mbarrier_prior_generation_not_consumed"),
    ),
    Mutant(
        "step9-ld2mma-128",
        "ld2mma expects 128 arrivals, not 128 from each CTA",
        "step9",
        (("ld2mma.init(WG_THREADS * CTA_GROUP)", "ld2mma.init(WG_THREADS)"),),
        _STEP9,
        seen={NUMERICS: "executor deadlock"}
        | _checkers("error: mbarrier_prior_generation_not_consumed"),
    ),
    Mutant(
        "step8-ld2mma-local",
        "CTA 1 signals its own ld2mma, not CTA 0's",
        "step8",
        (("ld2mma.arrive(0, remote=0)", "ld2mma.arrive(0)"),),
        _STEP8,
        seen=_DEADLOCK,
    ),
    Mutant(
        "step9-one-consumer-frees-a-stage",
        "mma2tma expects one issuer's commit, not both: B is overwritten under the other's MMA",
        "step9",
        (("mma2tma.init(CONSUMERS)", "mma2tma.init(1)"),),
        _STEP9,
        seen={NUMERICS: "executor deadlock"}
        | _checkers("error: mbarrier_arrive_before_consumption"),
    ),
    Mutant(
        "step8-cta-mask-1",
        "commits reach CTA 0 only",
        "step8",
        (("CTA_MASK = 3", "CTA_MASK = 1"),),
        _STEP8,
        seen=_DEADLOCK,
    ),
    Mutant(
        "step7-expect-too-few-bytes",
        "a stage counts as full when A has landed",
        "step7",
        (("tma2mma.arrive(stage, STAGE_BYTES)", "tma2mma.arrive(stage, STAGE_BYTES // 2)"),),
        _STEP7,
        seen={NUMERICS: "completed 32768 transactions, expected 16384"}
        | _checkers("error: mbarrier_completion_after_generation_complete"),
    ),
    Mutant(
        "step7-expect-too-many-bytes",
        "a stage waits for bytes that nobody loads",
        "step7",
        (("tma2mma.arrive(stage, STAGE_BYTES)", "tma2mma.arrive(stage, STAGE_BYTES * 2)"),),
        _STEP7,
        seen=_DEADLOCK,
    ),
    Mutant(
        "step8-expect-own-bytes",
        "CTA 0 expects the bytes that it loads itself, not those of both CTAs",
        "step8",
        (
            (
                "tma2mma.arrive(stage, STAGE_BYTES)",
                "tma2mma.arrive(stage, STAGE_BYTES // CTA_GROUP)",
            ),
        ),
        _STEP8,
        seen={
            NUMERICS: "completed 65536 transactions, expected 32768",
            SYNCCHECK: "error: mbarrier_transaction_over_delivery",
            RACECHECK: "error: data_race",
        },
    ),
    # ---- signals that come too early, or mean nothing ----
    Mutant(
        "step7-early-ld2mma",
        "the writeback says that TMEM is free before it has read it",
        "step7",
        (
            ("                ld2mma.arrive(0)\n", ""),
            (
                "                Tx.wg.copy_async(acc_regs",
                "                ld2mma.arrive(0)\n                Tx.wg.copy_async(acc_regs",
            ),
        ),
        _STEP7,
        seen=_RACE,
    ),
    Mutant(
        "step8-early-ld2mma",
        "the writeback says that TMEM is free after the first of two chunks",
        "step8",
        (("if chunk == MMA_N // CHUNK_N - 1:", "if chunk == 0:"),),
        _STEP8,
        seen={NUMERICS: "elements are wrong", RACECHECK: "error: data_race"},
    ),
    Mutant(
        "step7-commit-before-mma",
        "the commit that frees a stage comes before the MMA that reads it",
        "step7",
        (
            ("                            mma2tma.arrive(stage)\n", ""),
            (
                "                            # The first k tile",
                "                            mma2tma.arrive(stage)\n"
                "                            # The first k tile",
            ),
        ),
        _STEP7,
        seen=_RACE,
    ),
    Mutant(
        "step7-plain-arrive-frees-a-stage",
        "a plain arrive, not a tcgen05 commit, frees a stage: it does not wait for the MMA",
        "step7",
        (("mma2tma = TCGen05Bar(pool, PIPE_DEPTH)", "mma2tma = MBarrier(pool, PIPE_DEPTH)"),),
        _STEP7,
        seen=_RACE,
    ),
    Mutant(
        "step7-plain-arrive-ends-a-tile",
        "a plain arrive, not a tcgen05 commit, says that the accumulator is complete",
        "step7",
        (("mma2ld = TCGen05Bar(pool, 1)", "mma2ld = MBarrier(pool, 1)"),),
        _STEP7,
        source_rule="commit",
    ),
    Mutant(
        "step1-plain-arrive",
        "a plain arrive, not a tcgen05 commit, says that the MMA is done",
        "step1",
        (
            ("mma_done = TCGen05Bar(pool, 1)", "mma_done = MBarrier(pool, 1)"),
            ("import TCGen05Bar", "import MBarrier"),
        ),
        _STEP1,
        seen=_RACE,
    ),
    Mutant(
        "step1-no-wait",
        "nobody waits for the MMA",
        "step1",
        (("        mma_done.wait(0, 0)\n", ""),),
        _STEP1,
        seen={
            NUMERICS: "elements are wrong",
            SYNCCHECK: "review: uninitialized_read",
            RACECHECK: "error: data_race",
        },
    ),
    # ---- the D staging ----
    Mutant(
        "step6-no-wait-group",
        "the D staging is used again before the bulk store has read it",
        "step6",
        (
            (
                "                    T.ptx.cp.async_.bulk.wait_group.read(0)\n            T.cuda",
                "            T.cuda",
            ),
        ),
        _STEP6,
        seen=_RACE,
    ),
    Mutant(
        "step7-no-wait-group",
        "the D staging is used again before the bulk store has read it",
        "step7",
        (
            (
                "                if warp_id == 0:\n"
                "                    if T.cuda.elect_sync():\n"
                "                        T.ptx.cp.async_.bulk.wait_group.read(0)\n",
                "",
            ),
        ),
        _STEP7,
        seen=_RACE,
    ),
    Mutant(
        "step9-wait-group-1",
        "the wait leaves one bulk store under way, and there is one D staging buffer",
        "step9",
        (("bulk.wait_group.read(0)", "bulk.wait_group.read(1)"),),
        _STEP9,
        seen=_RACE,
    ),
    Mutant(
        "step7-no-last-wait-group",
        "the CTA may end before its last bulk store has read SMEM",
        "step7",
        (
            (
                "            if warp_id == 0:\n"
                "                if T.cuda.elect_sync():\n"
                "                    T.ptx.cp.async_.bulk.wait_group(0)\n",
                "",
            ),
        ),
        _STEP7,
        source_rule="last-store",
    ),
    Mutant(
        "step4-no-store-fence",
        "no proxy fence between the stores to the D staging and the TMA store",
        "step4",
        ((f"so the writers fence first ----\n        {_FENCE}", "\n"),),
        _STEP4,
        seen=_RACE,
    ),
    Mutant(
        "step7-no-store-fence",
        "no proxy fence between the stores to the D staging and the TMA store",
        "step7",
        ((f"fences its own stores.\n                {_FENCE}", "\n"),),
        _STEP7,
        seen=_RACE,
    ),
    Mutant(
        "step7-no-first-warpgroup-sync",
        "the D staging is written before the thread that stored it has seen it read",
        "step7",
        (
            (
                "                T.cuda.warpgroup_sync(WRITEBACK_BARRIER)\n                for j",
                "                for j",
            ),
        ),
        _STEP7,
        seen=_RACE,
    ),
    Mutant(
        "step7-no-second-warpgroup-sync",
        "one thread stores D before the others have written theirs",
        "step7",
        (
            (
                "                T.cuda.warpgroup_sync(WRITEBACK_BARRIER)\n"
                "                if warp_id",
                "                if warp_id",
            ),
        ),
        _STEP7,
        seen={
            NUMERICS: "elements are wrong",
            SYNCCHECK: "review: uninitialized_read",
            RACECHECK: "error: data_race",
        },
    ),
    # ---- the sum over k ----
    Mutant(
        "step1-accumulate-first",
        "the only k tile adds to whatever TMEM holds",
        "step1",
        (("accum=False", "accum=True"),),
        _STEP1,
        seen=_checkers("review: uninitialized_read"),
    ),
    Mutant(
        "step7-accumulate-first",
        "the first k tile adds to what the last tile of D left",
        "step7",
        (("accum=k_tile > 0", "accum=True"),),
        _STEP7,
        seen={NUMERICS: "elements are wrong"} | _checkers("review: uninitialized_read"),
    ),
    Mutant(
        "step2-overwrite-always",
        "every k tile overwrites the sum",
        "step2",
        (("accum=k_tile > 0", "accum=False"),),
        _STEP2,
        seen=_WRONG,
    ),
    Mutant(
        "step7-last-k-dropped",
        "every role leaves out the last k tile",
        "step7",
        (("K_TILES = K // BLK_K", "K_TILES = K // BLK_K - 1"),),
        _STEP7,
        seen=_WRONG,
    ),
    Mutant(
        "step7-a-from-first-k",
        "A is always loaded from the first k tile",
        "step7",
        (("A[m : m + BLK_M, k : k + BLK_K]", "A[m : m + BLK_M, 0:BLK_K]"),),
        _STEP7,
        seen=_WRONG,
    ),
    Mutant(
        "step7-b-from-first-k",
        "B is always loaded from the first k tile",
        "step7",
        (("B[n : n + BLK_N, k : k + BLK_K]", "B[n : n + BLK_N, 0:BLK_K]"),),
        _STEP7,
        seen=_WRONG,
    ),
    # ---- the schedule ----
    Mutant(
        "step8-stride-of-all-sms",
        "the stride over tiles is the SM count, not the number of clusters",
        "step8",
        (("num_clusters=sm_count // CTA_GROUP", "num_clusters=sm_count"),),
        _STEP8,
        seen=_UNWRITTEN,
    ),
    Mutant(
        "step7-swapped-coordinates",
        "m and n of a tile are swapped",
        "step7",
        (
            ("T.meta_var(tiles.m_idx * BLK_M)", "T.meta_var(tiles.n_idx * BLK_M)"),
            ("n = T.meta_var(tiles.n_idx * BLK_N)", "n = T.meta_var(tiles.m_idx * BLK_N)"),
        ),
        _STEP7,
        seen=_UNWRITTEN,
    ),
    Mutant(
        "step8-same-half-of-b",
        "both CTAs load the same half of B",
        "step8",
        (("T.meta_var(n + rank * BLK_N)", "T.meta_var(n)"),),
        _STEP8,
        seen=_WRONG,
    ),
    # ---- the end of a cluster ----
    Mutant(
        "step8-cta-barrier-at-the-end",
        "CTA 0 may leave before its peer's last signal has reached it",
        "step8",
        (
            (
                "one warp frees TMEM ----\n        T.cuda.cluster_sync()",
                "one warp frees TMEM ----\n        T.cuda.cta_sync()",
            ),
        ),
        _STEP8,
        source_rule="cluster-end",
    ),
    # ---- TMEM ----
    Mutant(
        "step7-no-tcgen05-fence",
        "no tcgen05 fence between the wait for the accumulator and reading it",
        "step7",
        (
            (
                "mma2ld.wait(0, acc_full.phase)\n"
                "                T.ptx.tcgen05.fence__after_thread_sync()\n",
                "mma2ld.wait(0, acc_full.phase)\n",
            ),
        ),
        _STEP7,
        source_rule="tcgen05-fence",
    ),
    Mutant(
        "step3-128-tmem-columns",
        "TMEM for four CTAs on an SM, but all of them use columns 0 to 127",
        "step3",
        (("TMEM_COLS = 512", "TMEM_COLS = 128"),),
        _STEP3,
        source_rule="tmem-columns",
    ),
    Mutant(
        "step7-no-wait-ld",
        "registers are used before tcgen05.ld has filled them",
        "step7",
        (("                T.ptx.tcgen05.wait__ld.sync.aligned()\n", ""),),
        _STEP7,
        seen={RACECHECK: "review: tmem_lifetime_review"},
    ),
)
