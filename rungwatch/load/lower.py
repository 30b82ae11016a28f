"""In a worker: lower a kernel's PrimFunc to what is launched and what is compiled.

The passes are those of `tvm.compile` for TIRx. The module after `tirx.SplitHostDevice` tells how
the kernel is launched and what it executes; the last one is what code is generated from.
"""

import re
from dataclasses import dataclass
from typing import Any

SPLIT_PASS = "tirx.SplitHostDevice"
_KERNEL_LAUNCH = 2  # calling convention of a device function that is launched


class LoweringError(RuntimeError):
    """The kernel cannot be lowered, or is not one kernel; in the compiler's words."""


@dataclass(frozen=True)
class Lowered:
    """A kernel as TVM lowered it: the host's part, the device's, and the module to compile."""

    host: Any
    device: Any
    module: Any


def lower(function: Any, target: Any) -> Lowered:
    """Lower a `PrimFunc` for a TVM target that has a host.

    Raises:
        LoweringError: TVM refuses it, or it becomes more or less than one kernel.
    """
    try:
        split, module = _run_passes(function, target)
    except LoweringError:
        raise
    except Exception as error:
        raise LoweringError(f"TVM: {_without_frames(str(error))}") from error
    functions = list(split.functions.values())
    devices = [f for f in functions if _convention(f) == _KERNEL_LAUNCH]
    hosts = [f for f in functions if _convention(f) != _KERNEL_LAUNCH]
    if len(devices) != 1 or len(hosts) != 1:
        raise LoweringError(f"becomes {len(devices)} kernels and {len(hosts)} host functions")
    return Lowered(hosts[0], devices[0], module)


def cuda_target(arch: str) -> Any:
    """Return the TVM target for a GPU architecture (sm_100a)."""
    import tvm

    return tvm.target.Target({"kind": "cuda", "arch": arch}, host="llvm")


def _run_passes(function: Any, target: Any) -> tuple[Any, Any]:
    import tvm
    from tvm.ir.instrument import pass_instrument
    from tvm.tirx.build import split_host_device_mods

    split: list[Any] = []

    @pass_instrument
    class KeepSplit:
        def run_after_pass(self, module: Any, info: Any) -> None:
            if info.name == SPLIT_PASS:
                split.append(module)

    pipeline, _, finalize_device = tvm.tirx.get_tir_pipeline("tirx")
    with tvm.transform.PassContext(instruments=[KeepSplit()]), target:
        module = tvm.tirx.transform.BindTarget(target)(tvm.IRModule({"main": function}))
        _, by_target = split_host_device_mods(pipeline(module))
    if len(by_target) != 1 or len(split) != 1:
        raise LoweringError(f"becomes code for {len(by_target)} targets")
    [lowered] = by_target.values()
    return split[0], finalize_device()(lowered)


def _convention(function: Any) -> int:
    return int((function.attrs or {}).get("calling_conv", 0))


def _without_frames(text: str) -> str:
    """Return a message of TVM without the frames that it draws around tables."""
    lines = [re.sub(r"\s*[|]\s*|\s{2,}", "  ", line).strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line.strip("+-= "))
