"""In the worker: compile a kernel's PrimFunc to a cubin and read its launch plan.

NVRTC makes the cubin, with the options that TVM gives it. Nothing here needs a GPU, a CUDA
installation or a linker.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rungwatch.artifact.host_plan import read_plan
from rungwatch.artifact.plan import LaunchPlan
from rungwatch.load.lower import cuda_target, lower

_ERROR = re.compile(r"\b(error|fatal)\b *:", re.IGNORECASE)


class CompileError(RuntimeError):
    """The generated code cannot be compiled; in the compiler's words."""


@dataclass(frozen=True)
class Compiled:
    """Machine code for one GPU architecture, how to launch it, and the TIR it was made from."""

    cubin: bytes
    plan: LaunchPlan
    device_function: Any


def compile_function(function: Any, target: str, cuda_home: Path) -> Compiled:
    """Compile a `PrimFunc` for `target` (sm_100a), with the CUDA headers below `cuda_home`.

    Raises:
        LoweringError: TVM refuses it, or it becomes more or less than one kernel.
        HostCodeError: its host side does more than a launch plan can hold.
        CompileError: NVRTC refuses it.
    """
    import tvm
    from tvm.support import nvcc

    device = cuda_target(target)
    lowered = lower(function, device)
    plan = read_plan(lowered.host)
    try:
        with device:
            build = tvm.get_global_func("target.build.cuda")
            cubin = nvcc.compile_cuda(
                build(lowered.module, device).inspect_source(),
                target_format="cubin",
                arch=target,
                options=[f"-I{cuda_home / 'include' / 'cccl'}"],
                compiler="nvrtc",
            )
    except Exception as error:
        raise CompileError(errors_in(str(error))) from error
    return Compiled(bytes(cubin), plan, lowered.device)


def errors_in(log: str) -> str:
    """Return the errors of a compiler's log, each with the lines that show it, before the rest.

    Headers alone give some thousand characters of warnings, which come first.
    """
    lines = log.replace("\0", "").splitlines()
    places = [place for place, line in enumerate(lines) if _ERROR.search(line)]
    shown = [line.strip() for place in places for line in lines[place : place + 3] if line.strip()]
    return "\n".join(dict.fromkeys(shown)) if shown else log.replace("\0", "")
