"""Reading TIR expressions: the value of each, and what evaluating it counts.

Nodes are told apart by the name of their class, so that nothing here imports tvm.
"""

from typing import Any

from rungwatch.cost.walk.program import Axis, Branch, Program, Site, Statement, Unit, Value
from rungwatch.cost.work import UnwalkableError

BINARY = {
    "Add": "({} + {})",
    "Sub": "({} - {})",
    "Mul": "({} * {})",
    "FloorDiv": "({} // {})",
    "FloorMod": "({} % {})",
    # C's division rounds towards zero, Python's down.
    "Div": "(lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))({}, {})",
    "Mod": "(lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1))({}, {})",
    "Min": "min({}, {})",
    "Max": "max({}, {})",
    "EQ": "({} == {})",
    "NE": "({} != {})",
    "LT": "({} < {})",
    "LE": "({} <= {})",
    "GT": "({} > {})",
    "GE": "({} >= {})",
    "BitwiseAnd": "({} & {})",
    "BitwiseOr": "({} | {})",
    "BitwiseXor": "({} ^ {})",
    "LShift": "({} << {})",
    "RShift": "({} >> {})",
}
# Results of these can leave the range of an unsigned type; signed overflow is undefined in C.
WRAPPING = frozenset({"Add", "Sub", "Mul", "LShift"})
# An elected lane stands for any: which one it is changes no count.
ELECTED = "(thread % 32 == 0)"


def unknown(reason: str) -> Value:
    """Return a value that cannot be known, and why."""
    return Value("None", Axis.RUN, frozenset(), reason)


def dtype_of(node: Any) -> str:
    """Return the dtype of an expression, "int32" or "float16x8"; "handle" for a pointer."""
    return str(getattr(node.ty, "dtype", "handle"))


def bits_of(dtype: str) -> int:
    """Return the size of one value of `dtype` in bits, all lanes together.

    Raises:
        UnwalkableError: not a scalar or vector of a plain number type.
    """
    kind = dtype.rstrip("0123456789x")
    number, _, lanes = dtype[len(kind) :].partition("x")
    if kind == "bool":
        number = "8"
    if kind not in ("int", "uint", "float", "bfloat", "bool") or not number.isdigit():
        raise UnwalkableError(f"values of type {dtype} are not known")
    return int(number) * int(lanes or 1)


def is_integer(dtype: str) -> bool:
    """Whether values of `dtype` are single integers or truth values, which the walk computes."""
    return dtype.startswith(("int", "uint", "bool")) and "x" not in dtype


class Expressions:
    """Reads expressions of one kernel, calls aside.

    `effects` collects what evaluating them counts; `bound` and `locals` are the known variables
    and the arrays of integers.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.effects: list[Statement] = []
        self.bound: dict[Any, Value] = {}
        self.locals: dict[Any, str] = {}

    def read(self, node: Any) -> Value:
        """Return the value of an expression.

        Raises:
            UnwalkableError: it holds a kind of node, a call or a memory that is not known.
        """
        kind = type(node).__name__
        if kind in BINARY:
            return self._binary(kind, node)
        reader = getattr(self, f"_read_{kind}", None)
        if reader is None:
            raise UnwalkableError(f"expressions of kind {kind} are not known")
        value = reader(node)
        assert isinstance(value, Value)
        return value

    def taken(self) -> list[Statement]:
        """Return the effects since the last call, in order."""
        effects, self.effects = self.effects, []
        return effects

    def _wrapped(self, value: Value, dtype: str) -> Value:
        if not is_integer(dtype) or dtype == "bool" or value.unknown is not None:
            return value
        bits = bits_of(dtype)
        if dtype.startswith("uint"):
            return self.program.combined(f"({{}} & {(1 << bits) - 1})", (value,))
        half = 1 << (bits - 1)
        template = f"((({{}} + {half}) & {(1 << bits) - 1}) - {half})"
        return self.program.combined(template, (value,))

    def _binary(self, kind: str, node: Any) -> Value:
        value = self.program.combined(BINARY[kind], (self.read(node.a), self.read(node.b)))
        dtype = dtype_of(node)
        if kind in WRAPPING and dtype.startswith("uint"):
            return self._wrapped(value, dtype)
        return value

    def _guarded(self, condition: Value, node: Any, when: bool) -> Value:
        """Read an expression that is evaluated only where `condition` is `when`."""
        before = self.taken()
        value = self.read(node)
        inside = self.taken()
        self.effects = before
        if inside:
            frozen = self.program.frozen(condition)
            self.effects.append(Branch(frozen, inside, []) if when else Branch(frozen, [], inside))
        return value

    def _read_And(self, node: Any) -> Value:
        left = self.read(node.a)
        return self.program.combined(
            "bool({} and {})", (left, self._guarded(left, node.b, when=True))
        )

    def _read_Or(self, node: Any) -> Value:
        left = self.read(node.a)
        return self.program.combined(
            "bool({} or {})", (left, self._guarded(left, node.b, when=False))
        )

    def _read_Not(self, node: Any) -> Value:
        return self.program.combined("(not {})", (self.read(node.a),))

    def _read_BitwiseNot(self, node: Any) -> Value:
        if dtype_of(node) == "bool":
            return self._read_Not(node)
        return self._wrapped(self.program.combined("(~{})", (self.read(node.a),)), dtype_of(node))

    def _read_Select(self, node: Any) -> Value:
        return self.choice(node.condition, node.true_value, node.false_value)

    def choice(self, condition: Any, true: Any, false: Any) -> Value:
        """Read `condition ? true : false`, of which one side is evaluated."""
        chosen = self.read(condition)
        sides = (self._guarded(chosen, true, True), self._guarded(chosen, false, False))
        return self.program.combined("({1} if {0} else {2})", (chosen, *sides))

    def _read_IntImm(self, node: Any) -> Value:
        return Value(f"({int(node.value)})" if int(node.value) < 0 else str(int(node.value)))

    def _read_FloatImm(self, _node: Any) -> Value:
        return unknown("floating-point numbers")

    def _read_StringImm(self, _node: Any) -> Value:
        return unknown("a text")

    def _read_Var(self, node: Any) -> Value:
        return self.bound.get(node) or unknown(f"'{node.name}'")

    def _read_Cast(self, node: Any) -> Value:
        value = self.read(node.value)
        if not (is_integer(dtype_of(node)) and is_integer(dtype_of(node.value))):
            return unknown("floating-point numbers")
        if dtype_of(node) == "bool":
            return self.program.combined("({} != 0)", (value,))
        return self._wrapped(self.program.combined("int({})", (value,)), dtype_of(node))

    def _read_Let(self, node: Any) -> Value:
        self.bound[node.var] = self.read(node.value)
        return self.read(node.body)

    def _vector(self, *parts: Any) -> Value:
        for part in parts:
            self.read(part)
        return unknown("a vector")

    def _read_Shuffle(self, node: Any) -> Value:
        return self._vector(*node.vectors, *node.indices)

    def _read_Ramp(self, node: Any) -> Value:
        return self._vector(node.base, node.stride)

    def _read_Broadcast(self, node: Any) -> Value:
        return self._vector(node.value)

    def _read_TensorLoad(self, node: Any) -> Value:
        indices = [self.read(index) for index in node.indices]
        array = self.locals.get(node.source)
        if array is not None:
            if len(indices) != 1:
                return unknown(f"'{node.source.name}', which has several dimensions")
            index = self.program.frozen(indices[0])
            value = self.program.combined(f"{array}[{{}}]", (index,))
            if value.unknown is not None:
                return value
            return Value(value.source, Axis.RUN, value.reads | {array})
        if self.is_global(node.source):
            size = bits_of(dtype_of(node)) // 8
            site = Site("load", Unit.THREAD, {"loaded_bytes": size})
            self.effects.append(self.program.hit(site))
        return unknown(f"memory: '{node.source.name}' ({node.source.scope()})")

    def is_global(self, buffer: Any) -> bool:
        """Whether a buffer lies in global memory.

        Raises:
            UnwalkableError: in a memory that is not known.
        """
        scope = str(buffer.scope())
        if scope == "global":
            return True
        if scope not in ("local", "shared", "shared.dyn", "tmem"):
            raise UnwalkableError(f"memory of scope '{scope}' is not known")
        return False
