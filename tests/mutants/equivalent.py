"""Mutants that are right kernels, with the argument; and classes that nothing here can see."""

from dataclasses import dataclass

from .hazards import Change, Class


@dataclass(frozen=True)
class Claim:
    """Something said of the mutants of some classes."""

    of: tuple[Class, ...]
    argument: str

    def holds(self, mutant: Change) -> bool:
        """Say whether the claim is about a mutant."""
        return any(one.holds(mutant) for one in self.of)


_AFTER = "- T.ptx.tcgen05.fence__after_thread_sync()\n+ pass\n  "
_BEFORE = "- T.ptx.tcgen05.fence__before_thread_sync()\n+ pass\n  "

EQUIVALENT: tuple[Claim, ...] = (
    Claim(
        (
            Class("*:drop-fence-set-up", "- T.ptx.fence.proxy.async_.shared__cta()"),
            Class("*:swap-neighbours", "+ T.ptx.fence.mbarrier_init.release.cluster()\n"),
        ),
        "Only the barriers' init has to reach the async proxy here, and `fence.mbarrier_init` is"
        " the fence for it: the proxy fence beside it orders nothing else.",
    ),
    Claim(
        (
            Class("step1_matrix:drop-tcgen05-fence", f"{_AFTER}phase: T.int32"),
            Class("step6:drop-tcgen05-fence", f"{_AFTER}acc_regs ="),
            Class("step[789]:drop-tcgen05-fence", f"{_AFTER}tiles ="),
        ),
        "After the set-up each thread passes another `fence::after_thread_sync` before its first"
        " use of TMEM.",
    ),
    Claim(
        (
            Class(
                "step1_matrix:drop-tcgen05-fence",
                "  T.ptx.tcgen05.fence__before_thread_sync()\n" + _BEFORE,
            ),
            Class(
                "step6:drop-tcgen05-fence",
                "  T.ptx.cp.async_.bulk.wait_group(0)\n" + _BEFORE,
            ),
            Class(
                "step7:drop-tcgen05-fence",
                "  T.ptx.cp.async_.bulk.wait_group(0)\n" + _BEFORE,
            ),
        ),
        "Each tile ends with a `fence::before_thread_sync` after the last use of TMEM: the one"
        " before the last barrier has nothing left to order.",
    ),
    Claim(
        (Class("*:tile-count-l2-group"),),
        "The L2 group only orders the tiles; each is still computed once.",
    ),
    Claim(
        (
            Class("*:weaker-wait-group-read", "+ T.ptx.cp.async_.bulk.wait_group.read(0)"),
            Class("step6:drop-wait-group", "- T.ptx.cp.async_.bulk.wait_group(0)"),
            Class("step6:weaker-wait-group-one-left", "- T.ptx.cp.async_.bulk.wait_group(0)"),
        ),
        "A CTA may end once its last store has read SMEM; D is complete at the end of the grid"
        " without a wait. In step 6 each tile ends with that wait.",
    ),
    Claim(
        (
            Class("step[789]:late-signal", "+ mma2ld.arrive"),
            Class("step7:late-signal", "+ ld2mma.arrive"),
        ),
        "The signal comes later by steps of the same thread that need nothing of who waits for it:"
        " slower, not wrong.",
    ),
    Claim(
        (Class("step[78]:named-barrier", "+ T.cuda.warpgroup_sync(WRITEBACK_BARRIER + 1)"),),
        "One warpgroup then alternates between two named barriers that nobody else uses.",
    ),
    Claim(
        (
            Class("step7:swap-neighbours", "  )\n+ tma2mma.arrive(stage, STAGE_BYTES)\n  Tx.copy"),
            Class("step4:swap-neighbours", "  tiles_full.arrive(0, STAGE_BYTES)\n- Tx.copy"),
            Class("step[56]:swap-neighbours", "  tiles_full.arrive(stage, STAGE_BYTES)\n- Tx.copy"),
            Class("step[56]:late-signal", "+ tiles_full.arrive(stage, STAGE_BYTES)"),
        ),
        "The phase can't end before its one arrival, and the count of bytes may be negative until"
        " then: it does not matter that copies are issued before they are expected.",
    ),
    Claim(
        (
            Class("*:ring-depth-longer*", "Bar(pool, (PIPE_DEPTH + 1))"),
            Class("*:ring-depth-longer*", "+ A_smem = pool.alloc_tcgen05_mma_AB(((PIPE_DEPTH + 1)"),
            Class("*:ring-depth-longer*", "+ B_smem = pool.alloc_tcgen05_mma_AB(((PIPE_DEPTH + 1)"),
        ),
        "A barrier, or a stage, is there that nobody uses.",
    ),
)

UNSEEN: tuple[Claim, ...] = ()


def claim_for(mutant: Change, claims: tuple[Claim, ...]) -> Claim | None:
    """Return the first claim that is about a mutant."""
    return next((claim for claim in claims if claim.holds(mutant)), None)
