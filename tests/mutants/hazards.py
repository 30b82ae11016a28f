"""The hazards that a harness for these kernels must see, and the mutants that stand for each.

A pattern is matched against a mutant's kind (step7:init-phase); `says` must be in the lines that
differ. All mutants of a hazard run in every sample, and all must be caught.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol


class Change(Protocol):
    """What a class is told by: a mutant or the result of one."""

    @property
    def kind(self) -> str:
        """The rung, the operator and the variant: step7:init-phase."""

    @property
    def diff(self) -> str:
        """The lines that differ."""


@dataclass(frozen=True)
class Class:
    """A class of mutants: a pattern of kinds, and words that the lines that differ must hold."""

    pattern: str
    says: str = ""

    def holds(self, mutant: Change) -> bool:
        """Say whether a mutant is of this class."""
        return fnmatchcase(mutant.kind, self.pattern) and self.says in mutant.diff


HAZARDS: dict[str, tuple[Class, ...]] = {
    "wrong initial phase of a ring": (Class("step7:init-phase"),),
    "a CTA-wide barrier inside one role's branch": (Class("step7:barrier-in-role*"),),
    "both writeback warpgroups on one named barrier": (Class("step9:named-barrier-shared"),),
    "ld2mma expects the arrivals of one CTA": (
        Class("step[89]:arrival-count-fewer", "- ld2mma.init"),
    ),
    "a stride of all SMs, not of the clusters": (Class("step[89]:stride-all-sms"),),
    "ld2mma signalled before TMEM was read": (
        Class("step7:early-signal", "+ ld2mma.arrive"),
        Class("step[89]:early-signal-first-chunk"),
    ),
    "the D staging used again before the store has read it": (
        Class("step[79]:drop-wait-group", "- T.ptx.cp.async_.bulk.wait_group.read(0)"),
        Class("step[679]:weaker-wait-group-one-left", ".read(1)"),
    ),
    "wrong expected bytes": (Class("step[78]:expected-bytes-*"),),
    "accumulating on the first k tile": (Class("step[17]:accumulate-always"),),
    "the last k tile dropped": (Class("step7:k-tiles"),),
    "A or B loaded from the wrong k": (Class("step7:k-offset-?-first"),),
    "swapped tile coordinates": (
        Class("step3:swap-coordinates-both"),
        Class("step7:swap-coordinates-both"),
    ),
    "a commit to CTA 0 alone": (Class("step8:cta-mask-1"),),
    "a commit before the MMA": (
        Class("step1:early-signal", "mma_done.arrive"),
        Class("step7:early-signal", "+ mma2tma.arrive"),
    ),
    "a plain arrive, not a commit": (Class("step7:plain-arrive"),),
    "no proxy fence before a TMA store": (Class("step[4-9]:drop-fence"),),
    "no second warpgroup barrier": (Class("step[789]:drop-barrier*", "- T.cuda.warpgroup_sync"),),
}


def hazards_of(mutant: Change) -> list[str]:
    """Return the hazards that a mutant stands for."""
    return [name for name, classes in HAZARDS.items() if any(one.holds(mutant) for one in classes)]
