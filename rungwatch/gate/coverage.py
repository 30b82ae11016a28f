"""Pair the kernels of base and head, and see that head accepts all that base was checked on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rungwatch.declare.protocol import DIMENSIONS, Declaration, Rule
from rungwatch.declare.registry import KernelFile


@dataclass(frozen=True)
class Pair:
    """A kernel of base, of head, or of both: at least one of them is set."""

    key: str
    base: KernelFile | None
    head: KernelFile | None

    @property
    def names(self) -> set[str]:
        """What the pair may be called: its key, its name, and the names of its files."""
        files = [file for file in (self.base, self.head) if file is not None]
        return {self.key, self.key.rpartition("/")[2], *(file.path.stem for file in files)}


def pair_up(base: Iterable[KernelFile], head: Iterable[KernelFile]) -> list[Pair]:
    """Return every kernel of either side, base's order first, then what head adds."""
    old: Mapping[str, KernelFile] = {file.key: file for file in base}
    new: Mapping[str, KernelFile] = {file.key: file for file in head}
    return [Pair(key, old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new))]


def narrowed(base: Declaration, head: Declaration) -> list[str]:
    """Return in words each way in which head accepts less than base, none where it does not."""
    lost = [f"target {target}" for target in base.targets if target not in head.targets]
    if head.dtypes != base.dtypes or head.operation != base.operation:
        lost.append("the operation or its element types")
    for name in DIMENSIONS:
        old, new = getattr(base.rules, name), getattr(head.rules, name)
        if not _covers(new, old):
            lost.append(f"{name} was {old.describe() or 'any'}, is {new.describe() or 'any'}")
    return lost


def _covers(new: Rule, old: Rule) -> bool:
    """Return whether `new` takes every value that `old` takes."""
    if old.equal is not None:
        return new.broken_by(old.equal) is None
    if new.equal is not None:
        return False
    lowest = old.nearest(old.min)
    below = new.min > lowest
    above = new.max is not None and (old.max is None or old.nearest(old.max) > new.max)
    return old.multiple_of % new.multiple_of == 0 and not below and not above
