"""What changed between two revisions: build both, and compare machine code and launch plans."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from rungwatch.artifact.build import Built, Case, Progress, build
from rungwatch.artifact.store import Store
from rungwatch.artifact.toolchain import Toolchain
from rungwatch.cost.targets import SM_FACTS
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Declaration, Target
from rungwatch.declare.registry import KernelFile
from rungwatch.declare.subject import from_file
from rungwatch.gate.coverage import Pair, pair_up
from rungwatch.revision.revision import Revision
from rungwatch.trusted import matrix
from rungwatch.trusted.matrix import Depth


class NoSuchKernelError(LookupError):
    """What was asked for is in neither revision."""


@dataclass(frozen=True)
class Party:
    """One revision that takes part, what compiles it, and the hash of files beside its kernels."""

    revision: Revision
    toolchain: Toolchain
    files: tuple[KernelFile, ...]
    other_files_sha256: str


@dataclass(frozen=True)
class CaseChange:
    """One problem of one kernel on both sides; a side is None where it does not have the kernel.

    `bench` says that the problem is one whose cost is compared; the others are those of the
    check, whose machine code must be known before "identical" can cover them.
    """

    shape: Shape
    target: Target
    bench: bool
    base: Built | None
    head: Built | None

    @property
    def known(self) -> bool:
        """Whether both sides could be built."""
        return all(side is not None and side.entry is not None for side in (self.base, self.head))

    @property
    def identical(self) -> bool:
        """Whether the GPU would execute the same: the same code, launched in the same way."""
        old = self.base.entry if self.base is not None else None
        new = self.head.entry if self.head is not None else None
        if old is None or new is None:
            return False
        return (old.code_sha256, old.plan_sha256) == (new.code_sha256, new.plan_sha256)


@dataclass(frozen=True)
class KernelChange:
    """A kernel in both revisions, with every problem that was built of it."""

    pair: Pair
    cases: tuple[CaseChange, ...]

    @property
    def identical(self) -> bool:
        """Whether every problem is; never where nothing was built."""
        return bool(self.cases) and all(case.identical for case in self.cases)

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets that were built for."""
        return tuple(dict.fromkeys(case.target for case in self.cases))


def compare(
    base: Party,
    head: Party,
    store: Store,
    progress: Progress,
    *,
    names: Sequence[str] = (),
    target: Target | None = None,
    sizes: Sequence[Shape] = (),
    covering: bool = False,
    worker_count: int | None = None,
) -> list[KernelChange]:
    """Build the kernels of both sides and pair the results.

    `names` (keys or names, all where empty) and `target` choose; `sizes` are M, N and K to
    compare instead of the four squares; `covering` builds the problems of the quick check as
    well, where the source or the compiler differs.

    Raises:
        NoSuchKernelError: a name or the target fits no kernel of either side.
    """
    known = pair_up(base.files, head.files)
    for name in names:
        if not any(name in pair.names for pair in known):
            raise NoSuchKernelError(f"neither revision has a kernel '{name}'")
    pairs = [pair for pair in known if _chosen(pair, names, target)]
    if not pairs and target is not None:
        raise NoSuchKernelError(f"neither revision has such a kernel for {target}")
    wanted = {
        pair.key: _problems(pair, target, sizes, covering and _may_differ(pair, base, head))
        for pair in pairs
    }
    built = {
        side: _build(party, side, pairs, wanted, store, progress, worker_count)
        for side, party in (("base", base), ("head", head))
    }
    return [
        KernelChange(
            pair,
            tuple(
                CaseChange(
                    shape,
                    on,
                    bench,
                    built["base"].get((pair.key, shape, on)),
                    built["head"].get((pair.key, shape, on)),
                )
                for (shape, on), bench in wanted[pair.key].items()
            ),
        )
        for pair in pairs
    ]


def declarations(pair: Pair) -> list[Declaration]:
    """Return what base and head declare: base's problems are tried on head, and head's own."""
    files = [file for file in (pair.base, pair.head) if file is not None]
    return [file.declaration for file in files if file.declaration is not None]


def _chosen(pair: Pair, names: Sequence[str], target: Target | None) -> bool:
    """Return whether the pair was asked for; what can't be read is for every target."""
    declared = declarations(pair)
    unreadable = any(file is not None and file.error is not None for file in (pair.base, pair.head))
    fits = target is None or unreadable or any(target in each.targets for each in declared)
    return fits and (not names or not pair.names.isdisjoint(names))


def _may_differ(pair: Pair, base: Party, head: Party) -> bool:
    if pair.base is None or pair.head is None:
        return False
    same_source = (pair.base.sha256, base.other_files_sha256) == (
        pair.head.sha256,
        head.other_files_sha256,
    )
    return not same_source or base.toolchain.versions != head.toolchain.versions


def _problems(
    pair: Pair, target: Target | None, sizes: Sequence[Shape], covering: bool
) -> dict[tuple[Shape, Target], bool]:
    """Return each shape and target with whether its cost is compared."""
    wanted: dict[tuple[Shape, Target], bool] = {}
    for declared in declarations(pair):
        for on in declared.targets:
            if target not in (None, on):
                continue
            sm_count = SM_FACTS[on].sm_count
            asked = [replace(size, sm_count=sm_count) for size in sizes]
            for shape in asked or matrix.compared_shapes(declared, sm_count):
                wanted[shape, on] = True
            for shape in _check_shapes(declared) if covering else ():
                wanted.setdefault((shape, on), False)
    return wanted


def _check_shapes(declared: Declaration) -> Iterable[Shape]:
    yield from matrix.checker_shapes(declared, Depth.QUICK)
    for problem in matrix.numerics_problems(declared, Depth.QUICK):
        yield problem.shape


def _build(
    party: Party,
    side: str,
    pairs: Sequence[Pair],
    wanted: dict[str, dict[tuple[Shape, Target], bool]],
    store: Store,
    progress: Progress,
    worker_count: int | None,
) -> dict[tuple[str, Shape, Target], Built]:
    cases = [
        Case(from_file(file), shape, on)
        for pair in pairs
        if (file := getattr(pair, side)) is not None and file.declaration is not None
        for shape, on in wanted[pair.key]
        if on in file.declaration.targets and file.declaration.rules.refusal(shape) is None
    ]
    results = build(cases, party.toolchain, store, progress, worker_count)
    return {
        (built.case.subject.key, built.case.shape, built.case.target): built for built in results
    }
