"""What a build worker is told and what it answers, in files of its private folder."""

from pathlib import Path

import msgspec

from rungwatch.backends.job import JobFailure, KernelSource
from rungwatch.cost.work import Work
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Target


class Order(msgspec.Struct, frozen=True):
    """Build one kernel for several shapes, one after the other."""

    source: KernelSource
    shapes: tuple[Shape, ...]
    target: Target
    cuda_home: str


class Answer(msgspec.Struct, frozen=True):
    """What became of one shape: `failure` is None where the code and the plan were written.

    `work` is what the program executes, None where it could not be counted: then `uncounted`
    says why. `self_contained` says that the kernel read no file but its own: its file's hash
    stands for it.
    """

    failure: JobFailure | None = None
    work: Work | None = None
    uncounted: str = ""
    self_contained: bool = False


class BuildFolder:
    """The files of one build, by the position of the shape in the order."""

    def __init__(self, path: Path) -> None:
        self.order = path / "order.json"
        self.temporary = path / "tmp"
        self._path = path

    def cubin(self, position: int) -> Path:
        """Return where the machine code goes."""
        return self._path / f"{position}.cubin"

    def plan(self, position: int) -> Path:
        """Return where the launch plan goes, as JSON."""
        return self._path / f"{position}.plan.json"

    def answer(self, position: int) -> Path:
        """Return where the answer goes; written last."""
        return self._path / f"{position}.answer.json"
