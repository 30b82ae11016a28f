"""Compile CUDA C for the tests, without headers and without a GPU."""

from functools import lru_cache

from cuda.bindings import nvrtc


@lru_cache
def compiled(source: str, arch: str, *options: str, name: str = "kernel.cu") -> tuple[bytes, str]:
    """Return the cubin of `source` for `arch`, and what the compiler said."""
    result, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, None, None)
    assert result == nvrtc.nvrtcResult.NVRTC_SUCCESS
    given = [f"--gpu-architecture={arch}".encode(), *(option.encode() for option in options)]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    text = log.rstrip(b"\0").decode()
    assert result == nvrtc.nvrtcResult.NVRTC_SUCCESS, text
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin = bytearray(size)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(program)
    return bytes(cubin), text
