"""The program that is left of a kernel when only what decides counts is kept.

Expressions are Python source over launch indices, loop variables and integer locals. Statements
form a small tree that `rungwatch.cost.walk.emit` turns into one Python function.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum


class Axis(Enum):
    """What an expression varies with: nothing, the thread of a CTA, the CTA, or the run itself."""

    CONSTANT = "constant"
    THREAD = "thread"
    CTA = "cta"
    RUN = "run"


@dataclass(frozen=True)
class Value:
    """An integer expression: its Python source, and the names that must be computed for it.

    Where `unknown` is set the value cannot be known without running the kernel on data; the text
    says why, and counts must not depend on it.
    """

    source: str
    axis: Axis = Axis.CONSTANT
    reads: frozenset[str] = frozenset()
    unknown: str | None = None


class Unit(IntEnum):
    """How many threads execute an instruction together, and so count as one execution."""

    THREAD = 1
    WARP = 32
    WARPGROUP = 128


@dataclass(frozen=True)
class Site:
    """One place in the kernel that is counted: `adds` says to which fields of `Work` how much.

    `name` is the instruction's, for messages. `pair` marks an instruction that the CTA's peer
    takes half of.
    """

    name: str
    unit: Unit
    adds: Mapping[str, int]
    pair: bool = False


@dataclass(frozen=True)
class Hit:
    """An execution of the site with this number."""

    site: int


@dataclass(frozen=True)
class Assign:
    """`target[index] = value`, or `target = value` where there is no index."""

    target: str
    index: Value | None
    value: Value


@dataclass(frozen=True)
class Branch:
    """An `if`."""

    condition: Value
    then: "list[Statement]"
    otherwise: "list[Statement]" = field(default_factory=list)


@dataclass(frozen=True)
class Repeat:
    """A `for` over `extent` values of `variable`, from `first` on in steps of `step`."""

    variable: str
    first: Value
    extent: Value
    step: Value
    body: "list[Statement]"


@dataclass(frozen=True)
class While:
    """A `while`."""

    condition: Value
    body: "list[Statement]"


@dataclass(frozen=True)
class Leave:
    """A `break`, `continue` or `return`."""

    keyword: str


Statement = Hit | Assign | Branch | Repeat | While | Leave


@dataclass
class Program:
    """A kernel, read: statements, sites, and the sources of what is fixed for a thread or a CTA.

    `thread_atoms` and `cta_atoms` map a name to its source; `uniform` holds sources that must be
    the same in all threads of a warp; `arrays` the lengths of the local arrays.
    """

    body: list[Statement] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    arrays: dict[str, int] = field(default_factory=dict)
    thread_atoms: dict[str, str] = field(default_factory=dict)
    cta_atoms: dict[str, str] = field(default_factory=dict)
    uniform: set[str] = field(default_factory=set)

    def hit(self, site: Site) -> Hit:
        """Add a site and return its execution."""
        self.sites.append(site)
        return Hit(len(self.sites) - 1)

    def frozen(self, value: Value) -> Value:
        """Return `value` under a name, where it is fixed for a thread or a CTA."""
        if value.axis not in (Axis.THREAD, Axis.CTA):
            return value
        atoms = self.thread_atoms if value.axis is Axis.THREAD else self.cta_atoms
        for known, source in atoms.items():
            if source == value.source:
                name = known
                break
        else:
            name = f"{value.axis.value}_{len(atoms)}"
            atoms[name] = value.source
        return Value(name, Axis.RUN, frozenset({name}))

    def combined(self, template: str, parts: Iterable[Value]) -> Value:
        """Put the sources of `parts` into `template`, keeping what is fixed for a thread apart."""
        values = tuple(parts)
        for value in values:
            if value.unknown is not None:
                return value
        axes = {value.axis for value in values} - {Axis.CONSTANT}
        if len(axes) > 1:
            values = tuple(self.frozen(value) for value in values)
            axes = {Axis.RUN}
        reads = frozenset().union(*(value.reads for value in values))
        source = template.format(*(value.source for value in values))
        return Value(source, axes.pop() if axes else Axis.CONSTANT, reads)
