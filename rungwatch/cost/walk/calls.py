"""Reading the calls of a kernel: what each counts, and the few whose result is known."""

from collections.abc import Mapping
from typing import Any

from rungwatch.artifact.plan import TensorMap
from rungwatch.cost.walk import intrinsics, ptx
from rungwatch.cost.walk.expressions import ELECTED, Expressions, unknown
from rungwatch.cost.walk.program import (
    Assign,
    Axis,
    Branch,
    Hit,
    Leave,
    Program,
    Site,
    Unit,
    Value,
)
from rungwatch.cost.work import UnwalkableError

# Calls that count nothing and whose result is not computed: addresses, descriptors, conversions.
NOT_COUNTED = frozenset(
    {
        "tirx.buffer_data",
        "tirx.buffer_offset",
        "tirx.cuda.cvta_generic_to_shared",
        "tirx.cuda.get_tmem_addr",
        "tirx.cuda.tcgen05_encode_matrix_descriptor",
        "tirx.cuda.thread_fence",
        "tirx.cuda.wgmma_encode_matrix_descriptor",
        "tirx.cuda.wgmma_noop_barrier",
        "tirx.handle_add_byte_offset",
        "tirx.ptr_byte_offset",
        "tirx.reinterpret",
        # It converges a warp and signals nobody else.
        "tirx.cuda.warp_sync",
    }
)
SITES: Mapping[str, tuple[Unit, str]] = {
    "tirx.cuda.mbarrier_wait": (Unit.THREAD, "barrier_waits"),
    "tirx.cuda.mbarrier_wait_acquire_cluster": (Unit.THREAD, "barrier_waits"),
    "tirx.cuda.cta_sync": (Unit.WARP, "cta_barriers"),
    "tirx.cuda.cluster_sync": (Unit.WARP, "cluster_barriers"),
    "tirx.cuda.warpgroup_sync": (Unit.WARP, "named_barriers"),
}
# Device functions that the compiler writes as source: pointer arithmetic and conversions.
HELPERS = ("tvm_builtin_pointer_offset", "tvm_builtin_cast_")
LEAVES = {
    "tirx.break_loop": "break",
    "tirx.continue_loop": "continue",
    "tirx.thread_return": "return",
}


class Calls(Expressions):
    """Reads expressions of one kernel, calls among them; `maps` are its tensor maps."""

    def __init__(self, program: Program, maps: Mapping[Any, TensorMap]) -> None:
        super().__init__(program)
        self._maps = maps

    # ---- what counting an instruction asks of its surroundings (intrinsics.Reading) ----

    def hit(self, site: Site) -> Hit:
        """Add a site."""
        return self.program.hit(site)

    def condition(self, node: Any) -> Value:
        """Return the value of a condition, to branch on."""
        return self.program.frozen(self._again(node))

    def constant(self, node: Any, what: str) -> int:
        """Return the value of a constant."""
        value = self._again(node)
        if value.axis is not Axis.CONSTANT:
            raise UnwalkableError(f"{what} is not a constant: {node}")
        return int(eval(value.source, {}))

    def tensor_map(self, node: Any) -> TensorMap:
        """Return the tensor map that an operand is the address of."""
        inner = node
        while type(inner).__name__ == "Call" and len(inner.args) == 1:
            inner = inner.args[0]
        found = self._maps.get(inner) if type(inner).__name__ == "Var" else None
        if found is None:
            raise UnwalkableError(f"not the address of a tensor map: {node}")
        return found

    def _again(self, node: Any) -> Value:
        """Read an operand once more, without counting once more what evaluating it does."""
        before = self.taken()
        value = self.read(node)
        self.effects = before
        return value

    # ---- calls ----

    def _read_Call(self, node: Any) -> Value:
        name = str(getattr(node.op, "name", node.op))
        if name.startswith(ptx.PREFIX):
            return self._instruction(node)
        if name == "tirx.address_of":
            (place,) = node.args
            for index in getattr(place, "indices", ()):
                self.read(index)
            return unknown("an address")
        if name in ("prim.if_then_else", "tirx.if_then_else"):
            return self.choice(*node.args)
        if name in LEAVES:
            self.effects.append(Leave(LEAVES[name]))
            return unknown("nothing")
        values = [self.read(argument) for argument in node.args]
        if name == "tirx.cuda.thread_rank":
            return Value("thread", Axis.THREAD)
        if name == "tirx.cuda.elect_sync":
            self.effects.append(self.hit(Site("elect.sync", Unit.WARP, {})))
            return Value(ELECTED, Axis.THREAD)
        if name == "tirx.tvm_warp_shuffle":
            return self._shuffled(values[1])
        if name in SITES:
            unit, field = SITES[name]
            site = Site(name.removeprefix("tirx.cuda."), unit, {field: 1})
            self.effects.append(self.hit(site))
        elif name == "tirx.cuda.func_call":
            helper = str(node.args[0].value)
            if not helper.startswith(HELPERS):
                raise UnwalkableError(f"the device function '{helper}' is not known")
        elif name not in NOT_COUNTED:
            raise UnwalkableError(f"the call '{name}' is not known")
        return unknown(f"the result of {name}")

    def _shuffled(self, value: Value) -> Value:
        """Return what a lane gets from another lane of its warp: known where all hold the same."""
        if value.axis is Axis.THREAD and value.unknown is None:
            self.program.uniform.add(value.source)
        elif value.axis not in (Axis.CONSTANT, Axis.CTA):
            return unknown("the result of a warp shuffle")
        return value

    def _instruction(self, node: Any) -> Value:
        instruction = ptx.decode(node)
        guard = None if instruction.guard is None else self.read(instruction.guard)
        for operand in instruction.read:
            self.read(operand)
        counted = intrinsics.count(instruction, self)
        reason = f"what {instruction.name} writes"
        for operand in instruction.written:
            buffer = getattr(operand, "source", None)
            if buffer is None or self.is_global(buffer):
                raise UnwalkableError(f"{instruction.name} writes no register: {operand}")
            if buffer in self.locals:
                counted.append(Assign(self.locals[buffer], None, unknown(reason)))
        if guard is None:
            self.effects += counted
        elif counted:
            self.effects.append(Branch(self.program.frozen(guard), counted))
        return unknown(reason)
