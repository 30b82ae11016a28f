"""The launch plan is what the host function does, and host code beyond it is refused by name."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rungwatch.artifact.host_plan import HostCodeError, read_plan
from rungwatch.artifact.plan import LaunchPlan, Pointer, TensorMap
from rungwatch.backends.job import KernelSource
from rungwatch.declare.problem import Shape
from rungwatch.load.kernel import build_kernel
from rungwatch.load.lower import LoweringError, cuda_target, lower

from ..projects import KERNELS


def lowered(path: Path, shape: Shape) -> Any:
    kernel = build_kernel(KernelSource("get_kernel", path=str(path)), shape, lambda stage: None)
    return lower(kernel.func, cuda_target("sm_100a"))


def plan_of(rung: str, shape: Shape) -> LaunchPlan:
    return read_plan(lowered(KERNELS / f"{rung}.py", shape).host)


def test_a_kernel_with_pointers() -> None:
    plan = plan_of("step3", Shape(512, 256, 64, 4))
    assert plan.entry == "hgemm_step3_kernel"
    assert plan.grid == (4, 2, 1)
    assert plan.block == (128, 1, 1)
    assert plan.cluster == (1, 1, 1)
    assert plan.dynamic_smem_bytes == 33_792
    assert plan.parameters == tuple(Pointer(buffer=name) for name in ("A", "B", "D"))


def test_a_kernel_with_tensor_maps_and_clusters() -> None:
    plan = plan_of("step9", Shape(1024, 512, 192, 8))
    assert plan.grid == (8, 1, 1)
    assert plan.cluster == (2, 1, 1)
    assert plan.cluster_ctas == 2
    a, b, d = plan.parameters
    assert isinstance(a, TensorMap)
    assert isinstance(b, TensorMap)
    assert isinstance(d, TensorMap)
    assert (a.buffer, b.buffer, d.buffer) == ("A", "B", "D")
    assert a.dims == (192, 1024)
    assert a.strides_bytes == (384,)
    assert a.box == (64, 128)
    assert a.box_bytes == 16_384
    assert (a.swizzle, a.l2_promotion, a.out_of_bounds) == ("128B", "128B", "zero")
    assert b.dims == (192, 512)
    assert d.dims == (512, 1024)


def test_a_map_of_rank_three() -> None:
    plan = plan_of("step4", Shape(256, 256, 64, 4))
    d = plan.parameters[2]
    assert isinstance(d, TensorMap)
    assert d.dims == (64, 256, 4)
    assert d.strides_bytes == (512, 128)
    assert d.box == (64, 128, 2)


class Node(SimpleNamespace):
    """A node of TVM's IR as the reader sees one: a class name and fields."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __str__(self) -> str:
        return str(self.text)


def node(kind: str, **fields: Any) -> Any:
    return type(kind, (Node,), {})(**{"text": f"<{kind}>", **fields})


def call(name: str, *args: Any, **fields: Any) -> Any:
    fields = {"text": name, **fields}
    return node("Call", op=SimpleNamespace(name=name), args=list(args), **fields)


def number(value: int) -> Any:
    return node("IntImm", value=value, dtype="int32")


A, B, D = (node("Var", text=name) for name in "ABD")
DATA = [call("tirx.buffer_data", each) for each in (A, B, D)]
LAUNCH = ["blockIdx.x", "threadIdx.x"]


def launch(*arguments: Any, names: list[str] = LAUNCH) -> Any:
    entry = node("StringImm", value="k")
    attrs = SimpleNamespace(launch_params=names)
    return node("Evaluate", value=call("tirx.call_ffi_kernel", entry, *arguments, attrs=attrs))


def host(*statements: Any) -> Any:
    return SimpleNamespace(params=[A, B, D], body=node("SeqStmt", seq=list(statements)))


def encode(handle: Any, *numbers: int, rank: int = 2, **changes: Any) -> Any:
    attrs = SimpleNamespace(
        **{"rank": rank, "interleave": 0, "swizzle": 3, "l2_promotion": 2, "oob_fill": 0,
           "force_cu_dtype": -1, "descriptor_dtype": "float16", **changes}
    )  # fmt: skip
    values = map(number, numbers)
    return node(
        "Evaluate", value=call("tirx.tensormap_encode_tiled", handle, DATA[0], *values, attrs=attrs)
    )


def bind(handle: Any) -> Any:
    return node("Bind", var=handle, value=call("tirx.tvm_stack_alloca"))


RIGHT = launch(*DATA, number(4), number(128))
HANDLE = node("Var", text="map")


def test_the_smallest_host_function() -> None:
    plan = read_plan(host(RIGHT))
    assert (plan.grid, plan.block) == ((4, 1, 1), (128, 1, 1))
    assert plan.dynamic_smem_bytes == 0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (host(), "launches no kernel"),
        (host(RIGHT, RIGHT), "goes on after the launch"),
        (host(node("Evaluate", value=call("tirx.call_extern", text="memset(D)")), RIGHT),
         "unknown host code"),
        (host(node("For", text="for i in range(3)"), RIGHT), "unknown host code: for i"),
        (host(launch(*DATA, node("Var", text="n"), number(128))), "not a constant: n"),
        (host(launch(*DATA, number(4), number(128), names=["blockIdx.x", "vthread"])),
         "unknown launch setting: vthread"),
        (host(launch(*DATA, number(4), number(128), names=["blockIdx.x", "blockIdx.x"])),
         "given twice"),
        (host(launch(call("tirx.address_of", text="&x"), number(4), number(128))),
         "not the address of A, B or D"),
        (host(bind(HANDLE), launch(HANDLE, number(4), number(128))), "never encoded"),
        (host(encode(HANDLE, 64, 64, 128, 64, 64, 1, 1), RIGHT), "no tensor map"),
        (host(bind(HANDLE), encode(HANDLE, 64, 64, 128, 64, 64, 1, 1, swizzle=7), RIGHT),
         "unknown swizzle 7"),
        (host(bind(HANDLE), encode(HANDLE, 64, 64, 128, 64, 64, 1, 1, interleave=1), RIGHT),
         "unknown interleave 1"),
        (host(bind(HANDLE), encode(HANDLE, 64, 64, 128, 64, 64, 1, 1, descriptor_dtype="float8"),
              RIGHT), "other than float16"),
        (host(bind(HANDLE), encode(HANDLE, 64, 64, 128, 64, 64, 1), RIGHT), "with 6 numbers"),
        (SimpleNamespace(params=[A, B], body=RIGHT), "takes 2 parameters"),
    ],
)  # fmt: skip
def test_what_a_plan_cannot_hold_is_refused_by_name(function: Any, said: str) -> None:
    with pytest.raises(HostCodeError, match=said):
        read_plan(function)


def test_a_function_that_is_no_kernel_is_refused() -> None:
    from tvm.script import tirx as T

    @T.prim_func
    def nothing(A: T.Buffer((128, 64), "float16")):  # type: ignore[valid-type]
        T.evaluate(0)

    with pytest.raises(LoweringError, match="code for 0 targets"):
        lower(nothing, cuda_target("sm_100a"))
