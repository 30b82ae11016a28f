"""NVIDIA's driver, as far as it is used here: each call gives its result or raises `CudaError`.

Thin over `cuda.bindings.driver`, which is imported on first use: it needs the driver's library.
Source: CUDA driver API.
"""

import ctypes
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rungwatch.artifact.plan import LaunchPlan, TensorMap
from rungwatch.backends.cuda.errors import CudaError
from rungwatch.backends.job import BackendUnavailableError

MAP_BYTES = 128
_MAP_ALIGNMENT_BYTES = 64  # of a tensor map that the driver writes
_NEEDED_VERSION = 12000  # the first with cuTensorMapEncodeTiled: the ABI that is asked for
_NAMES = {
    "float16": "FLOAT16",
    "none": "NONE",
    "zero": "NONE",
    "nan": "NAN_REQUEST_ZERO_FMA",
}
_L2_PROMOTION = {"none": "NONE", "64B": "L2_64B", "128B": "L2_128B", "256B": "L2_256B"}
type Flat = NDArray[np.uint16]


class Driver:
    """The driver on the first GPU that this process sees; every call after `open` needs it."""

    def __init__(self) -> None:
        """Import NVIDIA's bindings.

        Raises:
            BackendUnavailableError: they are not installed.
        """
        self._api = _bindings()
        self._encoder: Any = None

    def start(self) -> None:
        """Initialise the driver.

        Raises:
            BackendUnavailableError: there is no driver, or it sees no GPU.
        """
        try:
            self._call("cuInit", 0)
        except CudaError as error:
            seen = os.environ.get("CUDA_VISIBLE_DEVICES")
            hint = "" if seen is None else f" (CUDA_VISIBLE_DEVICES is '{seen}')"
            raise BackendUnavailableError(f"no GPU can be used: {error}{hint}") from None
        except Exception as error:  # the bindings' own kinds, which differ by version
            raise BackendUnavailableError(
                f"NVIDIA's driver is not here: libcuda.so.1 can't be loaded ({error})"
            ) from None

    def version(self) -> tuple[int, int]:
        """Return the newest CUDA version that the driver supports: (13, 0)."""
        number = self._call("cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    def device(self) -> Any:
        """Return the first GPU."""
        return self._call("cuDeviceGet", 0)

    def name(self, device: Any) -> str:
        """Return the model of a GPU: NVIDIA H200."""
        name: bytes = self._call("cuDeviceGetName", 100, device)
        return name.split(b"\0")[0].decode(errors="replace")

    def attribute(self, device: Any, name: str) -> int:
        """Return CU_DEVICE_ATTRIBUTE_<name>."""
        key = self._constant("CUdevice_attribute", f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", key, device))

    def open(self, device: Any) -> None:
        """Make the primary context of a GPU current."""
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", device))

    def memory_bytes(self) -> tuple[int, int]:
        """Return the free and the total memory of the GPU."""
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def load(self, cubin: bytes, entry: str, dynamic_smem_bytes: int) -> Any:
        """Load machine code and return its entry, allowed that much dynamic SMEM."""
        module = self._call("cuModuleLoadData", cubin)
        function = self._call("cuModuleGetFunction", module, entry.encode())
        attribute = self._constant(
            "CUfunction_attribute", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
        )
        self._call("cuFuncSetAttribute", function, attribute, dynamic_smem_bytes)
        return function

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes at least."""
        return int(self._call("cuMemAlloc", size_bytes))

    def free(self, address: int) -> None:
        """Give memory back."""
        self._call("cuMemFree", address)

    def copy_in(self, address: int, array: Flat) -> None:
        """Copy `array` to the device."""
        self._call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)

    def copy_out(self, array: Flat, address: int) -> None:
        """Fill `array` from the device."""
        self._call("cuMemcpyDtoH", array.ctypes.data, address, array.nbytes)

    def encode(self, tensor_map: TensorMap, address: int) -> bytes:
        """Return the 128 bytes of a tensor map over the buffer at `address`.

        The driver's function is called by its address: the bindings' own object for a tensor map
        is not aligned to 64 bytes, which the driver asks for.
        """
        if self._encoder is None:
            self._encoder = self._find_encoder()
        spare = ctypes.create_string_buffer(MAP_BYTES + _MAP_ALIGNMENT_BYTES)
        start = -ctypes.addressof(spare) % _MAP_ALIGNMENT_BYTES
        rank = len(tensor_map.dims)
        result = self._encoder(
            ctypes.addressof(spare) + start,
            self._map_constant("DataType", "DATA_TYPE", _NAMES[tensor_map.dtype]),
            rank,
            address + tensor_map.offset_bytes,
            (ctypes.c_uint64 * rank)(*tensor_map.dims),
            (ctypes.c_uint64 * max(1, rank - 1))(*tensor_map.strides_bytes),
            (ctypes.c_uint32 * rank)(*tensor_map.box),
            (ctypes.c_uint32 * rank)(*tensor_map.element_strides),
            self._map_constant("Interleave", "INTERLEAVE", _NAMES[tensor_map.interleave]),
            self._map_constant(
                "Swizzle", "SWIZZLE", _NAMES.get(tensor_map.swizzle, tensor_map.swizzle)
            ),
            self._map_constant(
                "L2promotion", "L2_PROMOTION", _L2_PROMOTION[tensor_map.l2_promotion]
            ),
            self._map_constant("FloatOOBfill", "FLOAT_OOB_FILL", _NAMES[tensor_map.out_of_bounds]),
        )
        self._require("cuTensorMapEncodeTiled", self._api.CUresult(result))
        return spare.raw[start : start + MAP_BYTES]

    def launch(
        self, function: Any, plan: LaunchPlan, parameters: list[bytes], stream: int = 0
    ) -> None:
        """Launch `function`; `parameters` holds the bytes of each, in the kernel's order."""
        config = self._api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = plan.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = plan.block
        config.sharedMemBytes = plan.dynamic_smem_bytes
        config.hStream = stream
        attributes = [self._cluster(plan)] if plan.cluster_ctas > 1 else []
        config.attrs, config.numAttrs = attributes, len(attributes)
        # Both must outlive the call: the driver reads through the pointers.
        values = [ctypes.create_string_buffer(value, len(value)) for value in parameters]
        pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        self._call("cuLaunchKernelEx", config, function, ctypes.addressof(pointers), 0)

    def synchronize(self) -> None:
        """Wait until all that was launched has ended; a kernel's fault is raised here."""
        self._call("cuCtxSynchronize")

    def share(self, address: int, size_bytes: int) -> int:
        """Let the GPU write to memory of this process; return its address on the device."""
        flags = self._api.CU_MEMHOSTREGISTER_DEVICEMAP
        self._call("cuMemHostRegister", address, size_bytes, flags)
        return int(self._call("cuMemHostGetDevicePointer", address, 0))

    def write_word(self, address: int, value: int, stream: int) -> None:
        """Write 32 bits at an address of the device, in the order of `stream`."""
        self._call("cuStreamWriteValue32", stream, address, value, 0)

    def fill(self, address: int, size_bytes: int, stream: int) -> None:
        """Set memory to zero, in the order of `stream`; `size_bytes` is a multiple of 4."""
        self._call("cuMemsetD32Async", address, 0, size_bytes // 4, stream)

    def event(self) -> Any:
        """Return a new event that takes the time when it is recorded."""
        return self._call("cuEventCreate", int(self._constant("CUevent_flags", "CU_EVENT_DEFAULT")))

    def record(self, event: Any, stream: int) -> None:
        """Record an event in the order of `stream`; captured, it is recorded at every launch."""
        external = self._constant("CUevent_record_flags", "CU_EVENT_RECORD_EXTERNAL")
        self._call("cuEventRecordWithFlags", event, stream, int(external))

    def elapsed_ns(self, begin: Any, end: Any) -> float:
        """Return the time between two events, both of which have been recorded."""
        return float(self._call("cuEventElapsedTime", begin, end)) * 1e6

    def begin_capture(self, stream: int) -> None:
        """From now on note what is put into `stream` instead of doing it."""
        # Relaxed: what torch does beside it on its own (asking for memory) is no part of it.
        mode = self._constant("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_RELAXED")
        self._call("cuStreamBeginCapture", stream, mode)

    def end_capture(self, stream: int) -> Any:
        """Return what was noted as a graph that can be launched."""
        graph = self._call("cuStreamEndCapture", stream)
        try:
            return self._call("cuGraphInstantiate", graph, 0)
        finally:
            self._call("cuGraphDestroy", graph)

    def launch_graph(self, graph: Any, stream: int) -> None:
        """Do all that a graph holds."""
        self._call("cuGraphLaunch", graph, stream)

    def drop_graph(self, graph: Any) -> None:
        """Give a graph back."""
        self._call("cuGraphExecDestroy", graph)

    def wait(self, stream: int) -> None:
        """Wait until all in `stream` has ended; a kernel's fault is raised here."""
        self._call("cuStreamSynchronize", stream)

    def _cluster(self, plan: LaunchPlan) -> Any:
        attribute = self._api.CUlaunchAttribute()
        attribute.id = self._constant(
            "CUlaunchAttributeID", "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"
        )
        size = attribute.value.clusterDim
        size.x, size.y, size.z = plan.cluster
        return attribute

    def _find_encoder(self) -> Any:
        found = self._call("cuGetProcAddress", b"cuTensorMapEncodeTiled", _NEEDED_VERSION, 0)
        number, pointer = ctypes.c_int, ctypes.c_void_p
        kind = ctypes.CFUNCTYPE(
            number, pointer, number, ctypes.c_uint32, pointer,
            pointer, pointer, pointer, pointer, number, number, number, number,
        )  # fmt: skip
        return kind(int(found[0]))

    def _map_constant(self, kind: str, prefix: str, name: str) -> int:
        return int(self._constant(f"CUtensorMap{kind}", f"CU_TENSOR_MAP_{prefix}_{name}"))

    def _constant(self, enum: str, name: str) -> Any:
        return getattr(getattr(self._api, enum), name)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Return what a call gives beside its error code: nothing, one value, or several."""
        result, *values = getattr(self._api, name)(*arguments)
        self._require(name, result)
        return values[0] if len(values) == 1 else values

    def _require(self, call: str, result: Any) -> None:
        if int(result) == 0:
            return
        _, words = self._api.cuGetErrorString(result)
        name = getattr(result, "name", f"CUDA error {int(result)}")
        raise CudaError(call, name, (words or b"unknown error").decode(errors="replace"))


def _bindings() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise BackendUnavailableError(
            f"cuda-bindings is not installed: pip install 'rungwatch[gpu]' ({error})"
        ) from None
    return driver
