"""The launch plan: all that a runner must know to launch a kernel's machine code.

Sources: the fields of a tensor map are those of `cuTensorMapEncodeTiled`, the launch those of
`cuLaunchKernelEx` (CUDA driver API).
"""

from typing import Annotated, Literal

import msgspec

NonNegative = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Dim3 = tuple[Positive, Positive, Positive]
BufferName = Literal["A", "B", "D"]

# An entry point is put into file names and handed to the driver.
EntryName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class TensorMap(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="tensor_map"
):
    """A parameter that is a tensor map over one buffer, innermost dimension first.

    `dims`, `box` and `element_strides` are in elements, one a dimension; `strides_bytes` leaves
    out the innermost dimension, whose stride is one element; `offset_bytes` is where the map
    starts in its buffer.
    """

    buffer: BufferName
    dtype: Literal["float16"]
    offset_bytes: NonNegative
    dims: tuple[Positive, ...]
    strides_bytes: tuple[Positive, ...]
    box: tuple[Positive, ...]
    element_strides: tuple[Positive, ...]
    interleave: Literal["none"]
    swizzle: Literal["none", "32B", "64B", "128B"]
    l2_promotion: Literal["none", "64B", "128B", "256B"]
    out_of_bounds: Literal["zero", "nan"]

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy of this map's box moves."""
        elements = 1
        for extent in self.box:
            elements *= extent
        return elements * ELEMENT_BYTES[self.dtype]


class Pointer(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pointer"
):
    """A parameter that is the address of one buffer's first element."""

    buffer: BufferName


class Scalar(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="scalar"
):
    """A parameter that is an integer, passed by value."""

    dtype: Literal["int32", "int64", "uint32", "uint64"]
    value: int


Parameter = TensorMap | Pointer | Scalar
ELEMENT_BYTES = {"float16": 2}


class LaunchPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to launch a kernel. `grid` counts CTAs, clusters included; `cluster` is CTAs a cluster.

    `parameters` are those of the kernel, in its order.
    """

    entry: EntryName
    grid: Dim3
    block: Dim3
    cluster: Dim3
    dynamic_smem_bytes: NonNegative
    parameters: tuple[Parameter, ...]

    @property
    def ctas(self) -> int:
        """CTAs of the whole grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of one CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def cluster_ctas(self) -> int:
        """CTAs of one cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


def encode_plan(plan: LaunchPlan) -> bytes:
    """Return `plan` as JSON, the same bytes for the same plan on every machine."""
    return msgspec.json.format(msgspec.json.encode(plan, order="sorted"), indent=1) + b"\n"


def decode_plan(data: bytes) -> LaunchPlan:
    """Read a plan.

    Raises:
        msgspec.ValidationError: a field is missing, unknown, or of another type.
        msgspec.DecodeError: not JSON.
    """
    return msgspec.json.decode(data, type=LaunchPlan)
