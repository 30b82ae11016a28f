"""Measure cases on this machine's GPU: the parent, which never touches the GPU itself."""

import fcntl
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.plan import encode_plan
from rungwatch.backends.cuda.artifacts import ArtifactFolder, UnusableArtifactError
from rungwatch.backends.cuda.device_check import find_device, target_of, worker_environment
from rungwatch.backends.ending import failure_of
from rungwatch.backends.job import BackendUnavailableError, Failure, Job, KernelSource, Tool
from rungwatch.backends.supervise import Limits, supervise
from rungwatch.cache import cache_dir
from rungwatch.declare.protocol import Target
from rungwatch.measure import budget
from rungwatch.measure.collect import Measured, collect
from rungwatch.measure.messages import Lost, Timed, read_results
from rungwatch.measure.order import MeasureFolder, MeasureSettings, Order, TimedCase, grouped

__all__ = ["Measured", "Progress", "measure"]

# What runs as the fork server.
SERVER = "rungwatch.measure.server"
_LOCK_FILE = "measuring.lock"
_LOOK_S = 0.5

# Told how many groups all workers have timed together, and how many there are; from a thread.
type Progress = Callable[[int, int], None]


def measure(
    cases: Sequence[TimedCase],
    artifacts: ArtifactFolder,
    settings: MeasureSettings,
    progress: Progress,
) -> list[Measured]:
    """Time each of `cases` beside cuBLAS; return one answer a case, in their order.

    The kernels of one problem are timed in turn. An artifact is found by its id and the shape it
    was built for, so that one may be timed twice under two names.

    Raises:
        BackendUnavailableError: the GPU, torch or NVML can't be used, or another run measures
            here; one line.
    """
    with _alone():
        return _measure(cases, artifacts, settings, progress)


def _measure(
    cases: Sequence[TimedCase],
    artifacts: ArtifactFolder,
    settings: MeasureSettings,
    progress: Progress,
) -> list[Measured]:
    target = target_of(find_device())
    answers: dict[TimedCase, Measured] = {}
    found: dict[TimedCase, Artifact] = {}
    for case in cases:
        try:
            found[case] = _artifact_of(case, artifacts, target)
        except UnusableArtifactError as error:
            answers[case] = Measured(case, None, error.failure)
    if found:
        order = Order(grouped(found), target, settings)
        with tempfile.TemporaryDirectory(prefix="rungwatch-measure-") as name:
            folder = MeasureFolder(Path(name))
            _fill(folder, order, found.values())
            answers |= _run(order, folder, progress)
    return [answers[case] for case in cases]


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other measurements of this user away: each would slow the other down.

    Raises:
        BackendUnavailableError: there is one.
    """
    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BackendUnavailableError(
                "another rungwatch times kernels on this machine: run this again after it"
            ) from None
        yield


def _artifact_of(case: TimedCase, artifacts: ArtifactFolder, target: Target) -> Artifact:
    """Return what a case launches, checked.

    Raises:
        UnusableArtifactError: the folder does not hold it, or it may not be launched.
    """
    wanted = (case.artifact, case.launched, target)
    for item in artifacts.manifest.items:
        if (item.artifact, item.shape, item.target) == wanted:
            source = KernelSource("", sha256=item.source_sha256)
            return artifacts.find(Job(Tool.NUMERICS, source, item.shape, (), item.kernel, target))
    raise UnusableArtifactError(
        Failure.NO_ARTIFACT,
        f"{artifacts.name} holds no artifact {case.artifact[:12]} of {case.kernel} at"
        f" {case.launched} for {target}",
    )


def _fill(folder: MeasureFolder, order: Order, artifacts: Iterable[Artifact]) -> None:
    folder.temporary.mkdir()
    folder.order.write_bytes(msgspec.json.encode(order))
    for artifact in artifacts:
        folder.cubin(artifact.id).write_bytes(artifact.cubin)
        folder.plan(artifact.id).write_bytes(encode_plan(artifact.plan))


def _run(order: Order, folder: MeasureFolder, progress: Progress) -> dict[TimedCase, Measured]:
    """Run the fork server, and return what it found.

    Raises:
        BackendUnavailableError: no worker could use the GPU.
    """
    limits = Limits(budget.outer_deadline_s(order), budget.SERVER_MEMORY_BYTES)
    command = [sys.executable, "-P", "-m", SERVER, str(folder.path)]
    with _followed(order, folder, progress):
        ended = supervise(command, folder.path, worker_environment(folder.temporary), limits)
    messages = list(read_results(folder.results))
    if len(messages) == 1 and isinstance(messages[0], Lost) and messages[0].group is None:
        raise BackendUnavailableError(messages[0].failure.message)
    return collect(order, messages, failure_of(limits, ended))


@contextmanager
def _followed(order: Order, folder: MeasureFolder, progress: Progress) -> Iterator[None]:
    """Tell the progress while the fork server runs, and once when it has ended."""
    total = order.settings.workers * len(order.groups)
    over = threading.Event()

    def count() -> int:
        return sum(isinstance(message, Timed) for message in read_results(folder.results))

    def follow() -> None:
        while not over.wait(_LOOK_S):
            progress(count(), total)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        progress(count(), total)
