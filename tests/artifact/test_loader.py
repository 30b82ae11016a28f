"""Hostile artifacts are refused, each for the reason that it should be."""

import msgspec
import pytest
from msgspec.structs import replace

from rungwatch.artifact.artifact import LARGEST_CUBIN_BYTES
from rungwatch.artifact.loader import ArtifactError, require_loadable
from rungwatch.artifact.plan import Scalar, TensorMap, decode_plan, encode_plan

from ..cost.nvrtc import compiled
from .samples import MAP, PLAN, SHAPE, artifact, cubin, with_parameter


def test_a_sound_artifact_is_taken() -> None:
    require_loadable(artifact(), SHAPE, "sm_100a")


@pytest.mark.parametrize("keep", [0, 1, 63, 64, 500, -1])
def test_truncated_code_is_refused(keep: int) -> None:
    with pytest.raises(ArtifactError, match="no cubin"):
        require_loadable(artifact(code=cubin()[:keep]), SHAPE, "sm_100a")


def test_code_for_another_gpu_is_refused() -> None:
    with pytest.raises(ArtifactError, match="for sm_90a, not for sm_100a"):
        require_loadable(artifact(code=cubin("sm_90a")), SHAPE, "sm_100a")
    with pytest.raises(ArtifactError, match="for sm_100, not for sm_100a"):
        require_loadable(artifact(code=cubin("sm_100")), SHAPE, "sm_100a")


@pytest.mark.parametrize(
    "code",
    [
        b".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry gemm() { ret; }",
        b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(200),  # a fat binary's magic number
        b"\x7fELF" + bytes(100),
        b"MZ" + bytes(100),
    ],
)
def test_what_a_driver_would_compile_or_run_is_no_cubin(code: bytes) -> None:
    with pytest.raises(ArtifactError, match="no cubin"):
        require_loadable(artifact(code=code), SHAPE, "sm_100a")


def test_a_host_program_is_refused() -> None:
    code = bytearray(cubin())
    code[18:20] = (62).to_bytes(2, "little")  # x86-64
    with pytest.raises(ArtifactError, match="no cubin"):
        require_loadable(artifact(code=bytes(code)), SHAPE, "sm_100a")


def test_a_section_that_is_not_known_is_refused_by_name() -> None:
    code = cubin().replace(b".nv.compat\0", b".nv_rodata\0")
    with pytest.raises(ArtifactError):
        require_loadable(artifact(code=code), SHAPE, "sm_100a")
    debug = compiled('extern "C" __global__ void gemm(int *d) { *d = 0; }', "sm_100a", "-G")[0]
    with pytest.raises(ArtifactError, match=r"unknown sections: .*debug"):
        require_loadable(artifact(code=debug), SHAPE, "sm_100a")


def test_more_than_one_kernel_or_another_is_refused() -> None:
    with pytest.raises(ArtifactError, match="enters at gemm; the code holds other"):
        require_loadable(artifact(code=cubin(entry="other")), SHAPE, "sm_100a")
    two = 'extern "C" __global__ void gemm() {} extern "C" __global__ void more() {}'
    with pytest.raises(ArtifactError, match=r"holds .*more"):
        require_loadable(artifact(code=compiled(two, "sm_100a")[0]), SHAPE, "sm_100a")


def test_code_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(ArtifactError, match="bytes of code"):
        require_loadable(artifact(code=bytes(LARGEST_CUBIN_BYTES + 1)), SHAPE, "sm_100a")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grid": (10**9, 1, 1)}, "1000000000 CTAs"),
        ({"grid": (2**20, 2, 1)}, "CTAs, at most"),
        ({"block": (1056, 1, 1)}, "1056 threads"),
        ({"block": (100, 1, 1)}, "whole warps"),
        ({"grid": (64, 1, 1), "cluster": (16, 1, 1)}, "16 CTAs a cluster"),
        ({"grid": (3, 1, 1), "cluster": (2, 1, 1)}, "not whole clusters"),
        ({"dynamic_smem_bytes": 232_449}, "232449 bytes of dynamic SMEM"),
        ({"parameters": PLAN.parameters * 6}, "18 parameters"),
    ],
)
def test_a_launch_that_is_too_large_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ArtifactError, match=said):
        require_loadable(artifact(replace(PLAN, **changes)), SHAPE, "sm_100a")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dims": (64, 257)}, "reaches byte 32896 of a buffer of 32768"),
        ({"offset_bytes": 16}, "reaches byte 32784"),
        ({"strides_bytes": (144,)}, "reaches byte"),
        ({"buffer": "B"}, "reaches byte 32768 of a buffer of 16384"),
        ({"dims": (2**33, 1)}, "a dimension of"),
        ({"strides_bytes": (2**40,)}, "a stride of"),
        ({"strides_bytes": (130,)}, "no multiple of 16"),
        ({"offset_bytes": 2, "dims": (64, 255)}, "no multiple of 16"),
        ({"box": (64, 512)}, "at most 256"),
        ({"box": (128, 128)}, "box rows of 256 bytes"),
        ({"box": (4, 128)}, "box rows of 8 bytes"),
        ({"element_strides": (1, 9)}, "element stride of 9"),
        ({"box": (64,)}, "other numbers"),
        ({"strides_bytes": ()}, "other numbers"),
        ({"element_strides": (1,)}, "other numbers"),
        (
            {
                "dims": (1,) * 6,
                "strides_bytes": (16,) * 5,
                "box": (1,) * 6,
                "element_strides": (1,) * 6,
            },
            "rank 6",
        ),
        ({"dims": (), "strides_bytes": (), "box": (), "element_strides": ()}, "rank 0"),
    ],
)
def test_a_tensor_map_must_lie_in_its_buffer(changes: dict[str, object], said: str) -> None:
    hostile: TensorMap = replace(MAP, **changes)
    with pytest.raises(ArtifactError, match=said):
        require_loadable(with_parameter(hostile), SHAPE, "sm_100a")


def test_a_scalar_must_fit_its_type() -> None:
    require_loadable(with_parameter(Scalar(dtype="uint64", value=2**64 - 1)), SHAPE, "sm_100a")
    with pytest.raises(ArtifactError, match="no int32"):
        require_loadable(with_parameter(Scalar(dtype="int32", value=2**31)), SHAPE, "sm_100a")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"gemm"', b'"../../etc/passwd"'),
        (b'"gemm"', b'"gemm\\u0000"'),
        (b'"gemm"', b'""'),
        (b'"buffer": "A"', b'"buffer": "C"'),
        (b'"swizzle": "128B"', b'"swizzle": "atomic"'),
        (b'"grid": [', b'"host_code": "x", "grid": ['),
        (b'"grid": [\n  4', b'"grid": [\n  -4'),
        (b'"grid": [\n  4', b'"grid": [\n  4.5'),
        (b'"kind": "pointer"', b'"kind": "callback"'),
        (b'"dynamic_smem_bytes": 1024', b'"dynamic_smem_bytes": 1e400'),
    ],
)
def test_a_plan_with_anything_unknown_is_no_plan(old: bytes, new: bytes) -> None:
    data = encode_plan(PLAN)
    assert old in data
    with pytest.raises((msgspec.ValidationError, msgspec.DecodeError)):
        decode_plan(data.replace(old, new, 1))


def test_a_plan_survives_its_encoding() -> None:
    assert decode_plan(encode_plan(PLAN)) == PLAN
