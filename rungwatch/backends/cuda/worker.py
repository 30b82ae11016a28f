"""The worker: runs one artifact on the GPU in a process of its own, and answers in files.

    python -P -m rungwatch.backends.cuda.worker FOLDER

Ends with exit code 0 whatever became of the kernel; anything else is a fault of the tool. It
runs no host code of the artifact: there is none.
"""

import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rungwatch.artifact.plan import decode_plan
from rungwatch.backends.cuda import launch
from rungwatch.backends.cuda.driver import Driver
from rungwatch.backends.cuda.errors import CudaError, failure_of
from rungwatch.backends.cuda.exchange import CUBIN_FILE, PLAN_FILE, Answer, Order
from rungwatch.backends.exchange import JobFolder, read_arrays, write_arrays, write_whole
from rungwatch.backends.job import BackendUnavailableError, Failure, JobFailure, Stage
from rungwatch.backends.supervise import WorkerFiles


def main(path: Path) -> None:
    """Do what the order in the folder `path` says."""
    folder, files = JobFolder(path), WorkerFiles(path)
    files.enter(Stage.START)
    order = msgspec.json.decode(folder.order.read_bytes(), type=Order)
    try:
        kernel = _load(path, files)
    except BackendUnavailableError as error:
        failure = JobFailure(Failure.BACKEND_UNAVAILABLE, Stage.LOAD, str(error))
        _say(folder, Answer(failure=failure))
    except CudaError as error:
        failure = JobFailure(failure_of(error, Stage.LOAD), Stage.LOAD, str(error))
        _say(folder, Answer(failure=failure))
    else:
        _run_all(order, kernel, folder, files)


def _load(path: Path, files: WorkerFiles) -> launch.Loaded:
    files.enter(Stage.LOAD)
    driver = Driver()
    driver.start()
    driver.open(driver.device())
    plan = decode_plan((path / PLAN_FILE).read_bytes())
    return launch.load(driver, (path / CUBIN_FILE).read_bytes(), plan)


def _run_all(order: Order, kernel: launch.Loaded, folder: JobFolder, files: WorkerFiles) -> None:
    answer = Answer()
    for name in order.inputs:
        stage = Stage.COPY

        def enter(new: Stage, name: str = name) -> None:
            nonlocal stage
            stage = new
            files.enter(new, name)

        given = read_arrays(folder.input(name))
        try:
            left = launch.run(kernel, given, enter, guarded=not order.watched)
            again = left if order.watched else launch.run(kernel, given, enter)
        except CudaError as error:
            failure = JobFailure(failure_of(error, stage), stage, str(error))
            _say(folder, replace(answer, failed=answer.failed | {name: failure}))
            return  # such an error stays with the process
        write_arrays(folder.output(name), left)
        answer = replace(answer, outputs=(*answer.outputs, name))
        if (change := launch.difference(left, again)) is not None:
            answer = replace(answer, unstable=answer.unstable | {name: change})
        _say(folder, answer)


def _say(folder: JobFolder, answer: Answer) -> None:
    write_whole(folder.answer, msgspec.json.encode(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
