"""The kernel protocol, version 1: what a kernel file declares about itself.

A kernel file holds `PROTOCOL = 1`, a dict `KERNEL` with the fields of `Declaration`, and the
factory `get_kernel(M, N, K, sm_count) -> PrimFunc`. It declares nothing that judges it.
"""

from typing import Annotated, Literal, get_args

import msgspec

from rungwatch.declare.problem import Shape

PROTOCOL_VERSION = 1
DIMENSIONS = ("M", "N", "K", "sm_count")

PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
Target = Literal["sm_100a", "sm_90a"]
TARGETS: tuple[Target, ...] = get_args(Target)
# Names become ids, file names and arguments of commands.
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which values one dimension of a problem may take."""

    multiple_of: PositiveInt = 1
    min: PositiveInt = 1
    max: PositiveInt | None = None
    equal: PositiveInt | None = None

    def broken_by(self, value: int) -> str | None:
        """Say in words which part of the rule `value` breaks, or return None."""
        if self.equal is not None and value != self.equal:
            return f"must be {self.equal}"
        if value < self.min:
            return f"must be at least {self.min}"
        if self.max is not None and value > self.max:
            return f"must be at most {self.max}"
        if value % self.multiple_of:
            return f"must be a multiple of {self.multiple_of}"
        return None

    def nearest(self, value: int) -> int:
        """Return the valid value closest to `value`; of two equally close ones the larger."""
        if self.equal is not None:
            return self.equal
        step = self.multiple_of
        lowest = -(-self.min // step) * step
        below = max(lowest, value // step * step)
        above = max(lowest, -(-value // step) * step)
        if self.max is not None:
            highest = self.max // step * step
            below, above = min(below, highest), min(above, highest)
        return above if above - value <= value - below else below

    def next_up(self, value: int) -> int | None:
        """Return the smallest valid value that is not below `value`, None where there is none."""
        if self.equal is not None:
            return self.equal if self.equal >= value else None
        step = self.multiple_of
        found = -(-max(value, self.min) // step) * step
        return found if self.max is None or found <= self.max else None

    def describe(self) -> str:
        """Return the rule as a phrase, "multiple of 128, at most 4096"; empty for "any"."""
        if self.equal is not None:
            return f"= {self.equal}"
        parts = [f"multiple of {self.multiple_of}"] if self.multiple_of > 1 else []
        if self.min > self.multiple_of:
            parts.append(f"at least {self.min}")
        if self.max is not None:
            parts.append(f"at most {self.max}")
        return ", ".join(parts)


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule a dimension; the registry, the matrix, the CLI and the messages share them."""

    M: Rule
    N: Rule
    K: Rule
    sm_count: Rule

    def describe(self) -> str:
        """Return all rules in one phrase: "M, N multiple of 128; K multiple of 64"."""
        by_phrase: dict[str, list[str]] = {}
        for name in DIMENSIONS:
            phrase = getattr(self, name).describe()
            if phrase:
                by_phrase.setdefault(phrase, []).append(name)
        return "; ".join(f"{', '.join(names)} {phrase}" for phrase, names in by_phrase.items())

    def nearest(self, shape: Shape) -> Shape:
        """Return the valid shape closest to `shape`, each dimension by itself."""
        return Shape(
            self.M.nearest(shape.m),
            self.N.nearest(shape.n),
            self.K.nearest(shape.k),
            self.sm_count.nearest(shape.sm_count),
        )

    def padded(self, shape: Shape) -> Shape | None:
        """Return `shape` with M raised to the next valid one: rows of zeros below A.

        The SM count is the nearest valid one. Returns None where M is larger than any valid one,
        or N or K break a rule: they are those of the weights, which nobody pads for one product.
        """
        m = self.M.next_up(shape.m)
        if m is None:
            return None
        padded = Shape(m, shape.n, shape.k, self.sm_count.nearest(shape.sm_count))
        return padded if self.refusal(padded) is None else None

    def refusal(self, shape: Shape) -> str | None:
        """Return one line that says which rules `shape` breaks and the nearest valid shape.

        Returns None where the shape is valid.
        """
        values = (shape.m, shape.n, shape.k, shape.sm_count)
        pairs = [
            (name, getattr(self, name), value)
            for name, value in zip(DIMENSIONS, values, strict=True)
        ]
        broken = [
            f"{name} {why}, not {value}"
            for name, rule, value in pairs
            if (why := rule.broken_by(value)) is not None
        ]
        if not broken:
            return None
        nearest = self.nearest(shape)
        return (
            f"{'; '.join(broken)}. Nearest valid: --shape {nearest.m}x{nearest.n}x{nearest.k}"
            f" --sms {nearest.sm_count}"
        )


class Dtypes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Element types of the operands, of the result and of the accumulator."""

    A: Literal["float16"]
    B: Literal["float16"]
    D: Literal["float16"]
    accumulator: Literal["float32"]


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a kernel says of itself: facts that the tool needs, never a judgement.

    `tile` is rows and columns of D that one unit of the schedule owns and the k elements of one
    stage; `ring_depth` the stages of its SMEM ring; `cta_group` the CTAs that share a tile;
    `l2_group` the rows of tiles in one group of the tile order; `persistent` that the grid is
    the SM count, each CTA working through several tiles.
    """

    name: Name
    step: PositiveInt
    adds: str
    operation: Literal["gemm_nt"]
    dtypes: Dtypes
    targets: Annotated[tuple[Target, ...], msgspec.Meta(min_length=1)]
    tile: tuple[PositiveInt, PositiveInt, PositiveInt]
    ring_depth: PositiveInt
    cta_group: PositiveInt
    l2_group: PositiveInt
    persistent: bool
    rules: Rules


class ProtocolError(ValueError):
    """A kernel file that does not follow a protocol this version knows."""


class UnknownProtocolError(ProtocolError):
    """A kernel file of a protocol version that is not known here: nothing is wrong with it."""


def read_declaration(version: object, declared: object) -> Declaration:
    """Turn a kernel file's `PROTOCOL` and `KERNEL` into a `Declaration`.

    Raises:
        UnknownProtocolError: the version is a number that this version of the tool does not know.
        ProtocolError: it is no number, or a field is missing, unknown or of a wrong type.
    """
    if version != PROTOCOL_VERSION:
        is_number = isinstance(version, int) and not isinstance(version, bool)
        raise (UnknownProtocolError if is_number else ProtocolError)(
            f"declares protocol {version!r}; this version knows {PROTOCOL_VERSION} only"
        )
    try:
        return msgspec.convert(declared, Declaration)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"KERNEL: {error}") from None
