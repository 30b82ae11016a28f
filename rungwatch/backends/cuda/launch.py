"""Launch a kernel on guarded buffers by its plan, in the worker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rungwatch.artifact.plan import LaunchPlan, Pointer, Scalar
from rungwatch.backends.cuda.driver import Driver
from rungwatch.backends.exchange import Arrays
from rungwatch.backends.job import Stage
from rungwatch.trusted.buffers import GUARD_ELEMENTS

_ELEMENT_BYTES = 2
_GAP_BYTES = 8192
_SCALAR_BYTES = {"int32": 4, "int64": 8, "uint32": 4, "uint64": 8}


@dataclass(frozen=True)
class Loaded:
    """Machine code in the driver, with the plan to launch it by."""

    driver: Driver
    function: Any
    plan: LaunchPlan


def load(driver: Driver, cubin: bytes, plan: LaunchPlan) -> Loaded:
    """Load `cubin`.

    Raises:
        CudaError: the driver does not take it.
    """
    return Loaded(driver, driver.load(cubin, plan.entry, plan.dynamic_smem_bytes), plan)


def run(
    kernel: Loaded, given: Arrays, enter: Callable[[Stage], None], *, guarded: bool = True
) -> dict[str, NDArray[np.uint16]]:
    """Return the flat arrays A, B and D, guard bands included, as one launch leaves them.

    `given` is copied to memory of the device that is new for this launch, without the guard
    bands where it is not `guarded`. `enter` is told of each stage: COPY, RUN (the launch, and
    waiting for its end), COPY.

    Raises:
        CudaError: a call failed, or the kernel did.
    """
    driver = kernel.driver
    enter(Stage.COPY)
    margin = 0 if guarded else GUARD_ELEMENTS
    left = {name: array.copy() for name, array in given.items()}
    held = {name: array[margin : array.size - margin] for name, array in left.items()}
    before_matrix_bytes = (GUARD_ELEMENTS - margin) * _ELEMENT_BYTES
    with _held(driver, held) as addresses:
        for name, array in held.items():
            driver.copy_in(addresses[name], array)
        start = {name: address + before_matrix_bytes for name, address in addresses.items()}
        parameters = parameters_of(kernel, start)
        enter(Stage.RUN)
        driver.launch(kernel.function, kernel.plan, parameters)
        driver.synchronize()
        enter(Stage.COPY)
        for name, array in held.items():
            driver.copy_out(array, addresses[name])
    return left


def parameters_of(kernel: Loaded, start: dict[str, int]) -> list[bytes]:
    """Return the bytes of each parameter; `start` holds the address of each matrix."""
    values = []
    for parameter in kernel.plan.parameters:
        if isinstance(parameter, Pointer):
            values.append(start[parameter.buffer].to_bytes(8, "little"))
        elif isinstance(parameter, Scalar):
            size = _SCALAR_BYTES[parameter.dtype]
            values.append(parameter.value.to_bytes(size, "little", signed=parameter.value < 0))
        else:
            values.append(kernel.driver.encode(parameter, start[parameter.buffer]))
    return values


def difference(first: Arrays, second: Arrays) -> str | None:
    """Say where two runs on the same inputs left other bits, or return None."""
    for name, array in first.items():
        differs = array != second[name]
        count = np.count_nonzero(differs)
        if count:
            index = int(differs.argmax())
            return (
                f"a second run on the same inputs left other bits in {count} elements of {name};"
                f" the first, element {index - GUARD_ELEMENTS}, was {array[index]:#06x} and then"
                f" {second[name][index]:#06x}"
            )
    return None


@contextmanager
def _held(driver: Driver, arrays: Arrays) -> Iterator[dict[str, int]]:
    """Hold memory of the device for each array; after an error the process ends, and that frees.

    Between two of them is memory that was given back: what reads past one end is then in nobody's.
    """
    addresses, gaps = {}, []
    for name, array in arrays.items():
        addresses[name] = driver.allocate(array.nbytes)
        gaps.append(driver.allocate(_GAP_BYTES))
    for gap in gaps:
        driver.free(gap)
    yield addresses
    for address in addresses.values():
        driver.free(address)
