"""The build worker: compiles one kernel for several shapes. This runs foreign code.

    python -P -m rungwatch.artifact.worker FOLDER

Ends with exit code 0 whatever became of the kernel; anything else is a fault of the tool.
"""

import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rungwatch.artifact.order import Answer, BuildFolder, Order
from rungwatch.artifact.plan import encode_plan
from rungwatch.backends.exchange import write_whole
from rungwatch.backends.job import Failure, Stage
from rungwatch.backends.supervise import WorkerFiles
from rungwatch.cost.work import UnwalkableError
from rungwatch.load.failures import JobError, shorten, without_folders


def main(path: Path) -> None:
    """Carry out the order in the folder `path`."""
    folder = BuildFolder(path)
    order = msgspec.json.decode(folder.order.read_bytes(), type=Order)
    files = WorkerFiles(path)
    files.enter(Stage.START)
    alone = True
    for position in range(len(order.shapes)):
        try:
            answer = _build(order, position, folder, files)
        except JobError as error:
            answer = Answer(failure=error.failure)
        # What an earlier shape imported is not opened again: it counts for the later ones too.
        alone = alone and answer.self_contained
        answer = replace(answer, self_contained=alone)
        write_whole(folder.answer(position), msgspec.json.encode(answer))


def _build(order: Order, position: int, folder: BuildFolder, files: WorkerFiles) -> Answer:
    # Imported here: it takes a second, which belongs to a stage of its own.
    from rungwatch.artifact.compiler import CompileError, compile_function
    from rungwatch.artifact.host_plan import HostCodeError
    from rungwatch.cost.walk import walk
    from rungwatch.load.kernel import build_kernel
    from rungwatch.load.lower import LoweringError

    shape = order.shapes[position]
    kernel = build_kernel(order.source, shape, lambda stage: files.enter(stage, str(position)))
    files.enter(Stage.COMPILE, str(position))
    try:
        compiled = compile_function(kernel.func, order.target, Path(order.cuda_home))
    except (LoweringError, HostCodeError, CompileError) as error:
        message = shorten(without_folders(str(error)), 2000)
        raise JobError(Failure.KERNEL_BUILD, Stage.COMPILE, message) from error
    folder.cubin(position).write_bytes(compiled.cubin)
    folder.plan(position).write_bytes(encode_plan(compiled.plan))
    answer = Answer(self_contained=kernel.self_contained)
    files.enter(Stage.COUNT, str(position))
    try:
        return replace(answer, work=walk(compiled.device_function, compiled.plan))
    except UnwalkableError as error:
        return replace(answer, uncounted=shorten(without_folders(str(error))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
