"""The fork server: imports what is slow to import, then forks one worker after the other.

    python -P -m rungwatch.measure.server FOLDER

It never uses the GPU itself, which a process can't share with those that it forks. A worker that
hangs or dies is ended, and no other process; what it was at is named and left out, and a fresh
process goes on with the rest. All that is learnt is appended to a file as it comes.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from rungwatch.backends.job import BackendUnavailableError, Failure, JobFailure, Stage
from rungwatch.backends.supervise import WorkerFiles
from rungwatch.measure import budget
from rungwatch.measure.child import Child
from rungwatch.measure.device import MakeDevice, Running
from rungwatch.measure.gpu import GpuDevice, preload
from rungwatch.measure.messages import Entered, Lost, Refused, Timed, encode
from rungwatch.measure.order import MeasureFolder, Order
from rungwatch.measure.worker import Task, work


def main(path: Path) -> None:
    """Do what the order in the folder `path` says, on the GPU."""
    try:
        preload()
    except BackendUnavailableError as error:
        failure = JobFailure(Failure.BACKEND_UNAVAILABLE, Stage.START, str(error))
        MeasureFolder(path).results.write_bytes(encode(Lost(0, None, failure)))
    else:
        serve(path, GpuDevice)


def serve(path: Path, make_device: MakeDevice) -> None:
    """Run all workers of the order in the folder `path`; `make_device` is called in each."""
    folder = MeasureFolder(path)
    order = msgspec.json.decode(folder.order.read_bytes(), type=Order)
    with folder.results.open("ab", buffering=0) as results:
        server = _Server(order, folder, make_device, results.write)
        for worker in range(order.settings.workers):
            server.run(worker)


class _Server:
    """What all workers so far have shown: which kernels and groups are not to be tried again."""

    def __init__(
        self,
        order: Order,
        folder: MeasureFolder,
        make_device: MakeDevice,
        write: Callable[[bytes], object],
    ) -> None:
        self._order, self._folder, self._make_device = order, folder, make_device
        self._write = write
        self._running = Running()
        self._left_out: set[tuple[int, int]] = set()
        self._lost: Counter[int] = Counter()
        self._stopped = False

    def run(self, worker: int) -> None:
        """Have a worker time every group, in as many processes as it takes.

        That ends: a process that ends early takes a group or a kernel off what is left.
        """
        left = list(range(len(self._order.groups)))
        random.Random(f"{self._order.settings.seed}, {worker}").shuffle(left)
        while left := [group for group in left if self._is_open(group)]:
            done = self._run_process(Task(worker, tuple(left), frozenset(self._left_out)))
            left = [group for group in left if group not in done]

    def _is_open(self, group: int) -> bool:
        """Say whether a group has kernels left, and workers come back from it."""
        kernels = {(group, slot) for slot in self._order.groups[group].slots}
        return (
            not self._stopped
            and self._lost[group] < budget.MOST_LOST
            and not kernels <= self._left_out
        )

    def _run_process(self, task: Task) -> set[int | None]:
        """Fork a process, hear it out, and return the groups that this worker is done with."""
        self._running.rest()
        child = Child(
            lambda tell: work(
                self._order, self._folder, task, self._make_device, self._running, tell
            )
        )
        step = Entered("its start", budget.START_S)
        told: list[Refused | Lost | Timed] = []
        for message in child.messages(budget.START_S):
            if isinstance(message, Entered):
                if message.group != step.group:
                    self._show(message, task)
                step = message
            else:
                self._take(message)
                told.append(message)
        if child.hung or child.exit_code != 0 or not told:
            told.append(self._blame(child, step, task))
            self._take(told[-1])
        return {message.group for message in told if not isinstance(message, Refused)}

    def _take(self, message: Refused | Lost | Timed) -> None:
        self._write(encode(message))
        if isinstance(message, Refused):
            self._left_out.add((message.group, message.slot))
        elif isinstance(message, Lost) and message.group is not None:
            self._lost[message.group] += 1
        elif isinstance(message, Lost):
            self._stopped = True  # no worker can begin: none of the next ones could either

    def _blame(self, child: Child, step: Entered, task: Task) -> Refused | Lost:
        """Say what a process ended of that can't say so itself."""
        where = step.what if step.group is None else f"{self._shape(step.group)}, {step.what}"
        slot = self._running.slot
        kernel = step.group is not None and slot in self._order.groups[step.group].slots
        if not child.hung:
            message = f"the worker died at {where}, {child.describe()}"
            failure = JobFailure(Failure.WORKER_DIED, Stage.RUN, message)
        elif kernel:
            message = (
                f"the kernel did not end in {step.within_s:.0f} s on the GPU ({step.what}): a"
                " deadlock, or far too much work"
            )
            failure = JobFailure(Failure.EXECUTION, Stage.RUN, message)
        else:
            message = f"the worker was ended after {step.within_s:.0f} s at {where}"
            failure = JobFailure(Failure.DEADLINE, Stage.RUN, message)
        if kernel:
            assert step.group is not None
            return Refused(task.worker, step.group, slot, failure)
        return Lost(task.worker, step.group, failure)

    def _show(self, step: Entered, task: Task) -> None:
        """Note what is worked at, for whoever watches this server."""
        if step.group is not None:
            what = f"worker {task.worker}, {self._shape(step.group)}"
            WorkerFiles(self._folder.path).enter(Stage.RUN, what)

    def _shape(self, group: int) -> str:
        return str(self._order.groups[group].shape)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
