"""What is to be timed, and what the fork server is told: plain data in its private folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Target

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]

# The slots of a group are the things that are timed in turn: an empty interval, which gives the
# method's floor, cuBLAS, and from FIRST_KERNEL on the kernels, in the order of `Group.cases`.
NOTHING = 0
CUBLAS = 1
FIRST_KERNEL = 2


class TimedCase(msgspec.Struct, frozen=True):
    """One kernel on one problem.

    `kernel` names it in messages; `artifact` is the id of what is launched. `launched` is the
    shape that it was built for: `shape` with M padded up where the kernel's rules need it.
    cuBLAS runs `shape` itself.
    """

    kernel: str
    artifact: str
    shape: Shape
    launched: Shape


class MeasureSettings(msgspec.Struct, frozen=True):
    """How to measure.

    `rounds` is the most that a worker times each thing; fewer where a round takes long
    (`rungwatch.measure.budget`). `cache` is what L2 holds before each launch: nothing of the
    operands (cold), or what the same launch just left (warm). `seed` decides every random order
    and all inputs.
    """

    workers: AtLeastOne = 12
    rounds: AtLeastOne = 20
    cache: Literal["cold", "warm"] = "cold"
    seed: int = 0


class Group(msgspec.Struct, frozen=True):
    """One problem with all kernels that are timed on it, beside cuBLAS and interleaved."""

    shape: Shape
    cases: tuple[TimedCase, ...]

    @property
    def slots(self) -> range:
        """The slots of its kernels."""
        return range(FIRST_KERNEL, FIRST_KERNEL + len(self.cases))

    @property
    def rows(self) -> int:
        """The rows of A and D that its buffers must have."""
        return max(case.launched.m for case in self.cases)

    def case(self, slot: int) -> TimedCase:
        """Return the case of a kernel's slot."""
        return self.cases[slot - FIRST_KERNEL]


class Order(msgspec.Struct, frozen=True):
    """All that the fork server is told. The artifacts lie beside it, by their ids."""

    groups: tuple[Group, ...]
    target: Target
    settings: MeasureSettings


def grouped(cases: Iterable[TimedCase]) -> tuple[Group, ...]:
    """Return one group a problem, problems and kernels in the order in which they come."""
    found: dict[Shape, list[TimedCase]] = {}
    for case in cases:
        found.setdefault(case.shape, []).append(case)
    return tuple(Group(shape, tuple(members)) for shape, members in found.items())


class MeasureFolder:
    """The files of one measurement; `results` holds one message a line, appended as they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.order = path / "order.json"
        self.results = path / "results.jsonl"
        self.temporary = path / "tmp"

    def cubin(self, artifact: str) -> Path:
        """Return where the machine code of an artifact lies."""
        return self.path / f"{artifact}.cubin"

    def plan(self, artifact: str) -> Path:
        """Return where the launch plan of an artifact lies, as JSON."""
        return self.path / f"{artifact}.plan.json"
