"""Decoding a PTX call into named modifiers and operands, by the compiler's own table of PTX."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from rungwatch.cost.work import UnwalkableError

PREFIX = "tirx.ptx."


@dataclass(frozen=True)
class Instruction:
    """One PTX call: the operands it reads and writes, and its predicate, if it has one."""

    name: str
    modifiers: dict[str, str]
    operands: dict[str, tuple[Any, ...]]
    read: tuple[Any, ...]
    written: tuple[Any, ...]
    guard: Any | None

    def operand(self, name: str) -> Any:
        """Return an operand that is one register, address or immediate."""
        (value,) = self.operands[name]
        return value


@cache
def _table() -> dict[str, Any]:
    from tvm.backend.cuda.ptx.table import TABLE

    return {entry.op_name: entry for entry in TABLE.values()}


def decode(call: Any) -> Instruction:
    """Decode a call of `tirx.ptx.*`: operands, then a predicate, modifiers and a marker.

    Raises:
        UnwalkableError: the call does not fit the compiler's table.
    """
    from tvm.backend.cuda.ptx.table import mods, operand_layout

    entry = _table().get(call.op.name)
    arguments = list(call.args)
    slots = 0 if entry is None else len(entry.slots)
    if entry is None or len(arguments) <= slots:
        raise UnwalkableError(f"{call.op.name} is not in the compiler's table of PTX")
    marker = str(arguments.pop().value).split(",")
    tokens = [str(token.value) for token in arguments[len(arguments) - slots :]]
    operands = arguments[: len(arguments) - slots]
    guard = operands.pop() if "pred" in marker else None
    if any(flag[:1] == "s" and flag[1:].isdigit() for flag in marker):
        raise UnwalkableError(f"{call.op.name} drops a part of its result")
    modifiers = {name: str(token) for name, token in mods(entry, tokens).items()}
    named: dict[str, tuple[Any, ...]] = {}
    read: list[Any] = []
    written: list[Any] = []
    taken = 0
    for slot, start, lanes in operand_layout(entry, modifiers):
        named[slot.name] = tuple(operands[start : start + lanes])
        taken = start + lanes
        if "w" in slot.rw:
            written += named[slot.name]
        if "r" in slot.rw:
            read += named[slot.name]
    if taken != len(operands):
        raise UnwalkableError(f"{call.op.name} has {len(operands)} operands, not {taken}")
    name = call.op.name.removeprefix(PREFIX)
    return Instruction(name, modifiers, named, tuple(read), tuple(written), guard)
