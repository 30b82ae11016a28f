"""Decide whether an artifact may be launched for a problem: the gate before a GPU.

An artifact comes from code under test, so nothing in it is believed. Its machine code must be a
bare ELF for the expected GPU, since a driver would compile anything else; its tensor maps must
lie inside the buffers of the problem, which the trusted side chose; and the launch is capped.
What this module does not know is refused by name.

Sources: `cuTensorMapEncodeTiled` and `cuLaunchKernelEx` (CUDA driver API) for the limits.
"""

from rungwatch.artifact.artifact import LARGEST_CUBIN_BYTES, Artifact
from rungwatch.artifact.elf import ElfError, read_elf
from rungwatch.artifact.plan import ELEMENT_BYTES, BufferName, LaunchPlan, Scalar, TensorMap
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Target

MOST_CTAS = 2**20  # 16384^3 in 128x128 tiles has 2^14
MOST_THREADS = 1024
MOST_CLUSTER_CTAS = 8  # portable on every GPU that has clusters
MOST_DYNAMIC_SMEM_BYTES = 232_448  # 227 KiB, sm_90a and sm_100a
MOST_PARAMETERS = 16
_WARP_THREADS = 32
_MOST_RANK = 5
_LARGEST_DIM = 2**32
_LARGEST_STRIDE_BYTES = 2**40
_LARGEST_BOX = 256
_LARGEST_ELEMENT_STRIDE = 8
_ALIGNMENT_BYTES = 16
_SWIZZLE_SPAN_BYTES = {"32B": 32, "64B": 64, "128B": 128}
_SCALAR_RANGES = {
    "int32": (-(2**31), 2**31),
    "int64": (-(2**63), 2**63),
    "uint32": (0, 2**32),
    "uint64": (0, 2**64),
}


class ArtifactError(ValueError):
    """An artifact that must not be launched, and why."""


def require_loadable(artifact: Artifact, shape: Shape, target: Target) -> None:
    """Return if `artifact` may be launched for `shape` on `target`.

    Raises:
        ArtifactError: it may not.
    """
    _require_code(artifact, target)
    _require_launch(artifact.plan)
    buffers = buffer_bytes(shape)
    for position, parameter in enumerate(artifact.plan.parameters):
        where = f"parameter {position}"
        if isinstance(parameter, TensorMap):
            _require_map(parameter, buffers[parameter.buffer], where)
        elif isinstance(parameter, Scalar):
            low, high = _SCALAR_RANGES[parameter.dtype]
            if not low <= parameter.value < high:
                raise ArtifactError(f"{where}: {parameter.value} is no {parameter.dtype}")


def buffer_bytes(shape: Shape) -> dict[BufferName, int]:
    """Return the bytes of A (m, k), B (n, k) and D (m, n) in fp16."""
    size = ELEMENT_BYTES["float16"]
    return {
        "A": shape.m * shape.k * size,
        "B": shape.n * shape.k * size,
        "D": shape.m * shape.n * size,
    }


def _require_code(artifact: Artifact, target: Target) -> None:
    if len(artifact.cubin) > LARGEST_CUBIN_BYTES:
        raise ArtifactError(f"{len(artifact.cubin)} bytes of code, at most {LARGEST_CUBIN_BYTES}")
    try:
        elf = read_elf(artifact.cubin)
        arch, held, unknown = elf.arch, elf.entries(), elf.unknown_sections()
    except ElfError as error:
        raise ArtifactError(f"the code is no cubin: {error}") from None
    if arch != target:
        raise ArtifactError(f"the code is for {arch}, not for {target}")
    if unknown:
        raise ArtifactError(f"the code holds unknown sections: {', '.join(unknown)}")
    if held != (artifact.plan.entry,):
        names = ", ".join(held) or "none"
        raise ArtifactError(f"the plan enters at {artifact.plan.entry}; the code holds {names}")


def _require_launch(plan: LaunchPlan) -> None:
    if plan.ctas > MOST_CTAS:
        raise ArtifactError(f"{plan.ctas} CTAs, at most {MOST_CTAS}")
    if plan.threads > MOST_THREADS or plan.threads % _WARP_THREADS:
        raise ArtifactError(
            f"{plan.threads} threads a CTA: must be whole warps, at most {MOST_THREADS}"
        )
    if plan.cluster_ctas > MOST_CLUSTER_CTAS:
        raise ArtifactError(f"{plan.cluster_ctas} CTAs a cluster, at most {MOST_CLUSTER_CTAS}")
    if any(ctas % cluster for ctas, cluster in zip(plan.grid, plan.cluster, strict=True)):
        raise ArtifactError(f"grid {plan.grid} is not whole clusters of {plan.cluster}")
    if plan.dynamic_smem_bytes > MOST_DYNAMIC_SMEM_BYTES:
        raise ArtifactError(
            f"{plan.dynamic_smem_bytes} bytes of dynamic SMEM, at most {MOST_DYNAMIC_SMEM_BYTES}"
        )
    if len(plan.parameters) > MOST_PARAMETERS:
        raise ArtifactError(f"{len(plan.parameters)} parameters, at most {MOST_PARAMETERS}")


def _require_map(tensor_map: TensorMap, buffer_size: int, where: str) -> None:
    name = f"{where}, the tensor map of {tensor_map.buffer}"
    rank = len(tensor_map.dims)
    if rank > _MOST_RANK or rank == 0:
        raise ArtifactError(f"{name}: rank {rank}, at most {_MOST_RANK}")
    lengths = (len(tensor_map.strides_bytes) + 1, len(tensor_map.box))
    if lengths != (rank, rank) or len(tensor_map.element_strides) != rank:
        raise ArtifactError(f"{name}: rank {rank}, but other numbers of strides or box extents")
    if max(tensor_map.dims) > _LARGEST_DIM:
        raise ArtifactError(f"{name}: a dimension of {max(tensor_map.dims)}")
    if max(tensor_map.box) > _LARGEST_BOX:
        raise ArtifactError(f"{name}: a box of {tensor_map.box}, at most {_LARGEST_BOX} a side")
    if max(tensor_map.element_strides) > _LARGEST_ELEMENT_STRIDE:
        raise ArtifactError(f"{name}: an element stride of {max(tensor_map.element_strides)}")
    distances = (tensor_map.offset_bytes, *tensor_map.strides_bytes)
    if any(distance % _ALIGNMENT_BYTES for distance in distances):
        raise ArtifactError(f"{name}: its offset or a stride is no multiple of 16 bytes")
    if max(distances) >= _LARGEST_STRIDE_BYTES:
        raise ArtifactError(f"{name}: a stride of {max(distances)} bytes")
    element = ELEMENT_BYTES[tensor_map.dtype]
    row_bytes = tensor_map.box[0] * element
    span = _SWIZZLE_SPAN_BYTES.get(tensor_map.swizzle)
    if row_bytes % _ALIGNMENT_BYTES or (span is not None and row_bytes > span):
        raise ArtifactError(f"{name}: box rows of {row_bytes} bytes, swizzled {tensor_map.swizzle}")
    steps = zip(tensor_map.dims[1:], tensor_map.strides_bytes, strict=True)
    end = tensor_map.offset_bytes + tensor_map.dims[0] * element
    end += sum((extent - 1) * stride for extent, stride in steps)
    if end > buffer_size:
        raise ArtifactError(f"{name}: reaches byte {end} of a buffer of {buffer_size}")
