"""The worker: does one job in a process of its own, and answers in files.

    python -P -m rungwatch.backends.simulator.worker FOLDER

Ends with exit code 0 whatever became of the kernel; anything else is a fault of the tool.
"""

import contextlib
import sys
from pathlib import Path

import msgspec

from rungwatch.backends.exchange import JobFolder, read_arrays, write_arrays, write_whole
from rungwatch.backends.job import Job, Stage, Tool
from rungwatch.backends.simulator.cache import in_use
from rungwatch.backends.simulator.exchange import Answer, Order
from rungwatch.backends.supervise import WorkerFiles
from rungwatch.cost.work import UnwalkableError
from rungwatch.load.failures import JobError


def main(path: Path) -> None:
    """Do the job in the folder `path`."""
    folder = JobFolder(path)
    order = msgspec.json.decode(folder.order.read_bytes(), type=Order)
    files = WorkerFiles(path)
    files.enter(Stage.START)
    with in_use(Path(order.lock)):
        try:
            _do(order.job, order.threads, folder, files)
        except JobError as error:
            _say(folder, Answer(failure=error.failure))


def _do(job: Job, threads: int, folder: JobFolder, files: WorkerFiles) -> None:
    # Imported here: it takes a second, which belongs to a stage of its own.
    from rungwatch.backends.simulator import tools
    from rungwatch.cost.count import work_of
    from rungwatch.load.kernel import build_kernel

    kernel = build_kernel(job.source, job.shape, files.enter)
    files.enter(Stage.TRANSPILE)
    module = tools.compile_kernel(job.tool, kernel)
    answer = Answer(self_contained=kernel.self_contained, engine=tools.engine_of(module))
    for name in job.inputs:
        files.enter(Stage.RUN, name)
        arrays = read_arrays(folder.input(name))
        if job.tool is Tool.NUMERICS:
            failure = tools.run_numerics(module, kernel, arrays, job.shape, threads)
            if failure is None:
                write_arrays(folder.output(name), arrays)
                answer = msgspec.structs.replace(answer, outputs=(*answer.outputs, name))
            else:
                failed = answer.failed | {name: failure}
                answer = msgspec.structs.replace(answer, failed=failed)
        else:
            report = tools.run_checker(job.tool, kernel, arrays, job.shape, threads)
            answer = msgspec.structs.replace(answer, report=report)
        _say(folder, answer)
    if job.tool is Tool.NUMERICS:
        files.enter(Stage.COUNT)
        # What can't be counted is still compared: a kernel from outside may use other means.
        with contextlib.suppress(UnwalkableError):
            work = work_of(kernel.func, tools.TARGET)
            _say(folder, msgspec.structs.replace(answer, work=work))


def _say(folder: JobFolder, answer: Answer) -> None:
    write_whole(folder.answer, msgspec.json.encode(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
