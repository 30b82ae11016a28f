"""What the driver's errors mean, and which of them are the kernel's fault.

Names are those of `CUresult` (CUDA driver API). An error that is in no table here is nobody's
proven fault: nothing was learnt about the kernel, and its name is shown.
"""

from rungwatch.backends.job import Failure, Stage

# Raised by a kernel while it runs, or for a launch that no GPU of its target takes.
_KERNEL_FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "it read or wrote an address that is not its own",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "an address is no multiple of what its access needs",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "an address is not in the memory that its access is for",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "an instruction was not valid as it was used",
    "CUDA_ERROR_INVALID_PC": "it jumped to an address that holds no code",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "its call stack is corrupt or too deep",
    "CUDA_ERROR_LAUNCH_FAILED": "it ended by a fault, often of shared memory, a barrier or a trap",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "it ran for longer than this GPU lets a kernel run",
    "CUDA_ERROR_ASSERT": "an assertion in it failed",
    "CUDA_ERROR_TENSOR_MEMORY_LEAK": "it ended without freeing its TMEM",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "a CTA needs more registers or threads than an SM has",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": "the GPU can't hold a cluster of this size",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": "more CTAs must run at once than fit",
}
_CODE_FAULTS = {
    "CUDA_ERROR_INVALID_IMAGE": "the driver can't read the machine code",
    "CUDA_ERROR_INVALID_SOURCE": "the driver can't read the machine code",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the machine code is not for this GPU",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the machine code is newer than the driver",
    "CUDA_ERROR_NOT_FOUND": "the machine code has no entry of the plan's name",
    "CUDA_ERROR_INVALID_VALUE": "the driver takes no such launch, attribute or tensor map",
}
# Calls that take what the plan says, whatever the stage.
_PLAN_CALLS = ("cuTensorMapEncodeTiled",)
_MEMORY_FAULTS = {"CUDA_ERROR_OUT_OF_MEMORY": "the GPU's memory is too small or in use"}


class CudaError(RuntimeError):
    """A call of the driver that failed: `call` and `name` as the driver API spells them."""

    def __init__(self, call: str, name: str, words: str) -> None:
        super().__init__(f"{name}: {meaning_of(name) or words} (from {call})")
        self.call = call
        self.name = name


def meaning_of(name: str) -> str | None:
    """Return what an error says of a kernel in plain words, or None where that is not known."""
    for table in (_KERNEL_FAULTS, _CODE_FAULTS, _MEMORY_FAULTS):
        if name in table:
            return table[name]
    return None


def failure_of(error: CudaError, stage: Stage) -> Failure:
    """Return whose fault `error` is: the kernel's, the artifact's, or this machine's.

    `stage` is LOAD while code is loaded, COPY around a launch, RUN from launch to end. What a
    kernel did to the device shows at the first call after it, so a kernel's fault counts there.
    """
    if error.name in _KERNEL_FAULTS and stage in (Stage.RUN, Stage.COPY):
        return Failure.EXECUTION
    from_plan = stage in (Stage.LOAD, Stage.RUN) or error.call in _PLAN_CALLS
    if error.name in _CODE_FAULTS and from_plan:
        return Failure.ARTIFACT_REFUSED
    if error.name in _MEMORY_FAULTS:
        return Failure.MEMORY_LIMIT
    return Failure.BACKEND_UNAVAILABLE
