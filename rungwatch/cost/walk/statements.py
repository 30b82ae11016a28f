"""Reading a device function as a program to count: its statements."""

import itertools
from typing import Any

from rungwatch.artifact.plan import LaunchPlan, Scalar, TensorMap
from rungwatch.cost.walk.calls import Calls
from rungwatch.cost.walk.expressions import bits_of, dtype_of, is_integer
from rungwatch.cost.walk.program import (
    Assign,
    Axis,
    Branch,
    Leave,
    Program,
    Repeat,
    Site,
    Statement,
    Unit,
    Value,
    While,
)
from rungwatch.cost.work import UnwalkableError

SERIAL, UNROLLED = 0, 3


class Reader:
    """Reads one device function for one launch; `program` holds what was read."""

    def __init__(self, function: Any, plan: LaunchPlan) -> None:
        if len(function.params) != len(plan.parameters):
            raise UnwalkableError(
                f"the function has {len(function.params)} parameters, its plan"
                f" {len(plan.parameters)}"
            )
        self.program = Program()
        self._plan = plan
        self._numbers = itertools.count()
        given = list(zip(function.params, plan.parameters, strict=True))
        maps = {variable: what for variable, what in given if isinstance(what, TensorMap)}
        self._exprs = Calls(self.program, maps)
        for variable, what in given:
            if isinstance(what, Scalar):
                self._exprs.bound[variable] = Value(f"({what.value})")
        self._addressed = _addressed(function.body)
        self.program.body = self._block(function.body)

    def _block(self, node: Any) -> list[Statement]:
        if node is None:
            return []
        reader = getattr(self, f"_read_{type(node).__name__}", None)
        if reader is None:
            raise UnwalkableError(f"statements of kind {type(node).__name__} are not known")
        statements = reader(node)
        assert isinstance(statements, list)
        return statements

    def _value(self, node: Any) -> tuple[Value, list[Statement]]:
        value = self.program.frozen(self._exprs.read(node))
        return value, self._exprs.taken()

    def _read_SeqStmt(self, node: Any) -> list[Statement]:
        return [statement for part in node.seq for statement in self._block(part)]

    def _read_Evaluate(self, node: Any) -> list[Statement]:
        return self._value(node.value)[1]

    def _read_AssertStmt(self, node: Any) -> list[Statement]:
        return self._value(node.condition)[1]

    def _read_Break(self, _node: Any) -> list[Statement]:
        return [Leave("break")]

    def _read_Continue(self, _node: Any) -> list[Statement]:
        return [Leave("continue")]

    def _read_Return(self, node: Any) -> list[Statement]:
        return [*self._value(node.value)[1], Leave("return")]

    def _read_Bind(self, node: Any) -> list[Statement]:
        value = self._exprs.read(node.value)
        effects = self._exprs.taken()
        if value.axis is not Axis.RUN or value.unknown is not None:
            self._exprs.bound[node.var] = value
            return effects
        name = f"let_{next(self._numbers)}"
        self._exprs.bound[node.var] = Value(name, Axis.RUN, frozenset({name}))
        return [*effects, Assign(name, None, value)]

    def _read_AllocBuffer(self, node: Any) -> list[Statement]:
        buffer = node.buffer
        self._exprs.is_global(buffer)
        known = str(buffer.scope()) == "local" and is_integer(str(buffer.dtype))
        lengths = [int(extent) for extent in buffer.shape] if known else []
        if len(lengths) == 1 and buffer not in self._addressed:
            name = f"local_{next(self._numbers)}"
            self.program.arrays[name] = lengths[0]
            self._exprs.locals[buffer] = name
        return []

    def _read_DeclBuffer(self, node: Any) -> list[Statement]:
        self._exprs.is_global(node.buffer)
        return []

    def _read_BufferStore(self, node: Any) -> list[Statement]:
        exprs = self._exprs
        value, effects = self._value(node.value)
        indices = [self._value(index) for index in node.indices]
        for _, more in indices:
            effects += more
        array = exprs.locals.get(node.buffer)
        if array is not None:
            effects.append(Assign(array, indices[0][0], value))
        elif exprs.is_global(node.buffer):
            size = bits_of(dtype_of(node.value)) // 8
            effects.append(self.program.hit(Site("store", Unit.THREAD, {"stored_bytes": size})))
        return effects

    def _read_IfThenElse(self, node: Any) -> list[Statement]:
        condition, effects = self._value(node.condition)
        then, otherwise = self._block(node.then_case), self._block(node.else_case)
        return [*effects, Branch(condition, then, otherwise)]

    def _read_While(self, node: Any) -> list[Statement]:
        condition, effects = self._value(node.condition)
        if effects:
            raise UnwalkableError("the condition of a while loop counts something itself")
        return [While(condition, self._block(node.body))]

    def _read_For(self, node: Any) -> list[Statement]:
        if int(node.kind) not in (SERIAL, UNROLLED):
            raise UnwalkableError(f"loops of kind {int(node.kind)} are not known")
        first, effects = self._value(node.min)
        extent, more = self._value(node.extent)
        step = Value("1") if node.step is None else self._value(node.step)[0]
        name = f"loop_{next(self._numbers)}"
        self._exprs.bound[node.loop_var] = Value(name, Axis.RUN, frozenset({name}))
        return [*effects, *more, Repeat(name, first, extent, step, self._block(node.body))]

    def _read_AttrStmt(self, node: Any) -> list[Statement]:
        if node.attr_key == "thread_extent":
            self._launch(str(node.node.thread_tag), node.node.var, int(node.value))
        elif not str(node.attr_key).startswith("pragma_"):
            raise UnwalkableError(f"the attribute '{node.attr_key}' is not known")
        return self._block(node.body)

    def _launch(self, tag: str, variable: Any, extent: int) -> None:
        prefix, _, axis = tag.partition(".")
        extents = {
            "threadIdx": (self._plan.block, "thread", Axis.THREAD),
            "blockIdx": (self._plan.grid, "block", Axis.CTA),
            "clusterCtaIdx": (self._plan.cluster, "rank", Axis.CTA),
        }
        if prefix not in extents or axis not in ("x", "y", "z"):
            raise UnwalkableError(f"the launch index '{tag}' is not known")
        planned, name, kind = extents[prefix]
        if planned["xyz".index(axis)] != extent:
            raise UnwalkableError(f"{tag} runs to {extent}, but the plan says {planned}")
        self._exprs.bound[variable] = Value(f"{name}_{axis}", kind)


def _addressed(body: Any) -> set[Any]:
    """Return the buffers whose address is taken or that have a second name: not followed."""
    import tvm
    import tvm_ffi

    found: set[Any] = set()

    def see(call: Any) -> None:
        if getattr(call.op, "name", "") in ("tirx.address_of", "tirx.buffer_data"):
            found.add(getattr(call.args[0], "source", call.args[0]))

    tvm_ffi.structural_walk(body, (tvm.ir.Call, see))
    return found
