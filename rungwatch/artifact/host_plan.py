"""In the worker: read the launch plan from the host function that TVM lowered.

Source: the host function after the pass `tirx.SplitHostDevice` (apache-tvm 0.27). It encodes the
tensor maps and launches one kernel; whatever else it does could not be done by a runner that
has only the plan, so every other statement is refused by name.
"""

from collections.abc import Sequence
from typing import Any

from rungwatch.artifact.plan import (
    BufferName,
    Dim3,
    LaunchPlan,
    Parameter,
    Pointer,
    Scalar,
    TensorMap,
)

_ENCODE = "tirx.tensormap_encode_tiled"
_LAUNCH = "tirx.call_ffi_kernel"
_BUFFER_DATA = "tirx.buffer_data"
_ADD_OFFSET = "tirx.handle_add_byte_offset"
_STACK = "tirx.tvm_stack_alloca"
_DYNAMIC_SMEM = "tirx.use_dyn_shared_memory"
_AXES = ("x", "y", "z")
# The numbers of the enumerations of cuda.h (CUtensorMapSwizzle and its neighbours).
_INTERLEAVE = {0: "none"}
_SWIZZLE = {0: "none", 1: "32B", 2: "64B", 3: "128B"}
_L2_PROMOTION = {0: "none", 1: "64B", 2: "128B", 3: "256B"}
_OUT_OF_BOUNDS = {0: "zero", 1: "nan"}


class HostCodeError(ValueError):
    """The host function does something that a launch plan cannot hold; names it."""


def read_plan(host: Any) -> LaunchPlan:
    """Return the plan of a lowered host `PrimFunc` whose parameters are the buffers A, B and D.

    Raises:
        HostCodeError: it holds a statement, a parameter or a setting that the plan has no word for.
    """
    return _Reader(host).read()


class _Reader:
    def __init__(self, host: Any) -> None:
        names: tuple[BufferName, ...] = ("A", "B", "D")
        if len(host.params) != len(names):
            raise HostCodeError(f"the host function takes {len(host.params)} parameters, not 3")
        self._body = host.body
        self._buffers: dict[Any, BufferName] = dict(zip(host.params, names, strict=True))
        self._maps: dict[Any, TensorMap | None] = {}
        self._plan: LaunchPlan | None = None

    def read(self) -> LaunchPlan:
        for statement in _statements(self._body):
            self._take(statement)
        if self._plan is None:
            raise HostCodeError("the host function launches no kernel")
        return self._plan

    def _take(self, statement: Any) -> None:
        if self._plan is not None:
            raise HostCodeError(f"the host function goes on after the launch: {_show(statement)}")
        kind = type(statement).__name__
        if kind == "DeclBuffer":
            self._buffers[statement.buffer] = self._buffer_of(statement.data)
        elif kind == "Bind" and _is_call(statement.value, _STACK):
            self._maps[statement.var] = None
        elif kind == "Evaluate" and _is_call(statement.value, _ENCODE):
            self._encode(statement.value)
        elif kind == "Evaluate" and _is_call(statement.value, _LAUNCH):
            self._plan = self._launch(statement.value)
        else:
            raise HostCodeError(f"unknown host code: {_show(statement)}")

    def _buffer_of(self, data: Any) -> BufferName:
        if not _is_call(data, _BUFFER_DATA) or data.args[0] not in self._buffers:
            raise HostCodeError(f"not the address of A, B or D: {_show(data)}")
        return self._buffers[data.args[0]]

    def _encode(self, call: Any) -> None:
        handle, address, *numbers = call.args
        if handle not in self._maps:
            raise HostCodeError(f"encodes into what is no tensor map: {_show(call)}")
        offset = 0
        if _is_call(address, _ADD_OFFSET):
            address, offset = address.args[0], _integer(address.args[1])
        attributes = call.attrs
        rank = int(attributes.rank)
        if int(attributes.force_cu_dtype) != -1 or str(attributes.descriptor_dtype) != "float16":
            raise HostCodeError(f"a tensor map of elements other than float16: {_show(call)}")
        values = [_integer(number) for number in numbers]
        if len(values) != 4 * rank - 1:
            raise HostCodeError(f"a tensor map of rank {rank} with {len(values)} numbers")
        dims, rest = values[:rank], values[rank:]
        strides, rest = rest[: rank - 1], rest[rank - 1 :]
        self._maps[handle] = TensorMap(
            buffer=self._buffer_of(address),
            dtype="float16",
            offset_bytes=offset,
            dims=tuple(dims),
            strides_bytes=tuple(strides),
            box=tuple(rest[:rank]),
            element_strides=tuple(rest[rank:]),
            interleave=_word(_INTERLEAVE, attributes.interleave, "interleave"),
            swizzle=_word(_SWIZZLE, attributes.swizzle, "swizzle"),
            l2_promotion=_word(_L2_PROMOTION, attributes.l2_promotion, "L2 promotion"),
            out_of_bounds=_word(_OUT_OF_BOUNDS, attributes.oob_fill, "out-of-bounds fill"),
        )

    def _launch(self, call: Any) -> LaunchPlan:
        names = [str(name) for name in call.attrs.launch_params]
        entry, *arguments = call.args
        count = len(arguments) - len(names)
        sizes = dict(zip(names, map(_integer, arguments[count:]), strict=True))
        if len(sizes) != len(names):
            raise HostCodeError(f"a launch setting is given twice: {', '.join(names)}")
        smem = sizes.pop(_DYNAMIC_SMEM, 0)
        plan = LaunchPlan(
            entry=str(entry.value),
            grid=_take_axes(sizes, "blockIdx"),
            block=_take_axes(sizes, "threadIdx"),
            cluster=_take_axes(sizes, "clusterCtaIdx"),
            dynamic_smem_bytes=smem,
            parameters=tuple(map(self._parameter, arguments[:count])),
        )
        if sizes:
            raise HostCodeError(f"unknown launch setting: {', '.join(sizes)}")
        return plan

    def _parameter(self, argument: Any) -> Parameter:
        if argument in self._maps:
            encoded = self._maps[argument]
            if encoded is None:
                raise HostCodeError(f"the tensor map {_show(argument)} is never encoded")
            return encoded
        if type(argument).__name__ == "IntImm":
            return Scalar(dtype=str(argument.dtype), value=int(argument.value))  # type: ignore[arg-type]
        return Pointer(buffer=self._buffer_of(argument))


def _statements(body: Any) -> Sequence[Any]:
    return list(body.seq) if type(body).__name__ == "SeqStmt" else [body]


def _is_call(node: Any, operation: str) -> bool:
    return type(node).__name__ == "Call" and getattr(node.op, "name", None) == operation


def _integer(node: Any) -> int:
    if type(node).__name__ != "IntImm":
        raise HostCodeError(f"not a constant: {_show(node)}")
    return int(node.value)


def _word(words: dict[int, str], number: Any, what: str) -> Any:
    if int(number) not in words:
        raise HostCodeError(f"unknown {what} {number}")
    return words[int(number)]


def _take_axes(sizes: dict[str, int], name: str) -> Dim3:
    x, y, z = (sizes.pop(f"{name}.{axis}", 1) for axis in _AXES)
    return x, y, z


def _show(node: Any) -> str:
    """Return the last line of a node's text: what comes before it declares its variables."""
    lines = str(node).strip().splitlines() or [type(node).__name__]
    return lines[-1][:200]
