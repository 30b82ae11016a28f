"""A small artifact that the loader takes, and how to change it."""

from functools import lru_cache

from msgspec.structs import replace

from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.plan import LaunchPlan, Parameter, Pointer, TensorMap
from rungwatch.declare.problem import Shape

from ..cost.nvrtc import compiled

SHAPE = Shape(256, 128, 64, 4)
MAP = TensorMap(
    buffer="A",
    dtype="float16",
    offset_bytes=0,
    dims=(64, 256),
    strides_bytes=(128,),
    box=(64, 128),
    element_strides=(1, 1),
    interleave="none",
    swizzle="128B",
    l2_promotion="128B",
    out_of_bounds="zero",
)
PLAN = LaunchPlan(
    entry="gemm",
    grid=(4, 1, 1),
    block=(128, 1, 1),
    cluster=(1, 1, 1),
    dynamic_smem_bytes=1024,
    parameters=(MAP, Pointer(buffer="B"), Pointer(buffer="D")),
)


@lru_cache
def cubin(arch: str = "sm_100a", entry: str = "gemm", source: str = "d[threadIdx.x] = 0;") -> bytes:
    """Return the machine code of a kernel of one line."""
    code = f'extern "C" __global__ void {entry}(int *d) {{ {source} }}'
    return compiled(code, arch)[0]


def artifact(plan: LaunchPlan = PLAN, code: bytes | None = None) -> Artifact:
    """Return an artifact that may be launched for `SHAPE` on sm_100a."""
    return Artifact(cubin() if code is None else code, plan)


def with_parameter(parameter: Parameter) -> Artifact:
    """Return one whose first parameter is another."""
    return artifact(replace(PLAN, parameters=(parameter, *PLAN.parameters[1:])))
