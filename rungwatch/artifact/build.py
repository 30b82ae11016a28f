"""Build artifacts: from kernels and shapes to what is in the store, or why it is not.

Kernels are compiled in workers, a few at a time, one worker a kernel. What was built before from
the same file by the same compilers is taken from the store.
"""

import contextlib
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rungwatch.artifact.artifact import (
    ARTIFACT_VERSION,
    LARGEST_CUBIN_BYTES,
    LARGEST_PLAN_BYTES,
    Artifact,
    Metadata,
)
from rungwatch.artifact.identity import code_sha256
from rungwatch.artifact.loader import ArtifactError, require_loadable
from rungwatch.artifact.order import Answer, BuildFolder, Order
from rungwatch.artifact.plan import decode_plan, encode_plan
from rungwatch.artifact.store import Entry, Store
from rungwatch.artifact.toolchain import Toolchain, worker_environment
from rungwatch.backends.supervise import Ending, Limits, supervise
from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import PROTOCOL_VERSION, Target
from rungwatch.declare.subject import Subject
from rungwatch.record.files import read_regular
from rungwatch.record.surroundings import code_digest

_WORKER = "rungwatch.artifact.worker"
_START_S = 60.0
_SHAPE_S = 40.0  # a rung takes 2 s on a free core
_MEMORY_BYTES = 6 * 2**30
_ENDED = {Ending.DEADLINE: Reason.DEADLINE, Ending.MEMORY: Reason.MEMORY_LIMIT}


@dataclass(frozen=True)
class Case:
    """One kernel, for one problem and one GPU architecture."""

    subject: Subject
    shape: Shape
    target: Target

    @property
    def id(self) -> str:
        """The case in one word: hgemm/blackwell/step7-4096x4096x4096-sm148-sm_100a."""
        return f"{self.subject.key}-{self.shape}-{self.target}"


@dataclass(frozen=True)
class Built:
    """What became of a case: `entry` where there is an artifact, else `reason` and `message`."""

    case: Case
    entry: Entry | None = None
    reason: Reason = Reason.OK
    message: str = ""
    cached: bool = False


@dataclass(frozen=True)
class Progress:
    """What a progress display is told: the cases of one kernel began, or ended."""

    started: Callable[[Sequence[Case]], None] = lambda _cases: None
    finished: Callable[[Sequence[Built]], None] = lambda _results: None


def by_kernel(cases: Iterable[Case]) -> list[list[Case]]:
    """Return the cases in groups of one kernel and target: what one worker builds."""
    groups: dict[tuple[Subject, Target], list[Case]] = {}
    for case in dict.fromkeys(cases):
        groups.setdefault((case.subject, case.target), []).append(case)
    return list(groups.values())


def build(
    cases: Sequence[Case],
    toolchain: Toolchain,
    store: Store,
    progress: Progress,
    worker_count: int | None = None,
) -> list[Built]:
    """Return what became of each case, in their order.

    `worker_count` workers run at once (one a core by default). On an interrupt they are ended
    before it is passed on.
    """
    builder = _Builder(toolchain, store, progress)
    done: dict[Case, Built] = {}
    waiting: list[list[Case]] = []
    for group in by_kernel(cases):
        known = [Built(case, builder.recall(case), cached=True) for case in group]
        missing = [built.case for built in known if built.entry is None]
        done |= {built.case: built for built in known if built.entry is not None}
        if missing:
            waiting.append(missing)
        else:
            progress.finished(known)
    with contextlib.closing(builder.run_all(waiting, worker_count)) as results:
        for given in results:
            done |= {built.case: built for built in given}
            progress.finished(given)
    return [done[case] for case in cases]


class _Builder:
    def __init__(self, toolchain: Toolchain, store: Store, progress: Progress) -> None:
        self._toolchain = toolchain
        self._store = store
        self._progress = progress
        self._cancel = threading.Event()
        self._common = (
            ARTIFACT_VERSION,
            sorted(toolchain.versions.items()),
            sys.version_info[:2],
            code_digest("artifact", "load", "cost"),
        )

    def _key(self, case: Case) -> str:
        """Return a hash over everything that can change what is built of a case."""
        parts = (
            case.subject.key,
            case.subject.sha256,
            case.subject.source.factory,
            case.shape,
            case.target,
            self._common,
        )
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    def recall(self, case: Case) -> Entry | None:
        """Return what was built of a case before."""
        return self._store.recall(self._key(case))

    def run_all(self, groups: Sequence[list[Case]], count: int | None) -> Generator[list[Built]]:
        """Yield what became of each group, those with many shapes first."""
        with ThreadPoolExecutor(count or os.cpu_count() or 1) as pool:
            order = sorted(groups, key=len, reverse=True)
            pending = {pool.submit(self._run, group) for group in order}
            try:
                while pending:
                    # Short waits, so that Ctrl-C is heard at once.
                    ended, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                    for future in ended:
                        yield future.result()
            except BaseException:
                self._cancel.set()
                for future in pending:
                    future.cancel()
                raise

    def _run(self, group: list[Case]) -> list[Built]:
        """Build the cases of one kernel; one that ends its worker does not take the rest along."""
        self._progress.started(group)
        results: list[Built] = []
        while (rest := group[len(results) :]) and not self._cancel.is_set():
            try:
                with tempfile.TemporaryDirectory(prefix="rungwatch-build-") as folder:
                    results += self._run_worker(rest, Path(folder))
            except OSError as error:
                message = f"could not be built here: {error}"
                results += [Built(case, None, Reason.BACKEND_UNAVAILABLE, message) for case in rest]
        return results

    def _run_worker(self, cases: list[Case], path: Path) -> list[Built]:
        """Return the results of the first cases, up to the one that ended the worker."""
        subject, target = cases[0].subject, cases[0].target
        folder = BuildFolder(path)
        folder.temporary.mkdir()
        cuda_home = self._toolchain.cuda_home
        order = Order(subject.source, tuple(case.shape for case in cases), target, str(cuda_home))
        folder.order.write_bytes(msgspec.json.encode(order))
        ended = supervise(
            [str(self._toolchain.python), "-P", "-m", _WORKER, str(path)],
            path,
            worker_environment(self._toolchain, folder.temporary),
            Limits(_START_S + _SHAPE_S * len(cases), _MEMORY_BYTES),
            self._cancel,
        )
        results = []
        for position, case in enumerate(cases):
            answer = _read_answer(folder.answer(position))
            if answer is None:
                break
            results.append(self._take(case, position, answer, folder))
        if len(results) < len(cases):
            results.append(_ended(cases[len(results)], ended.ending, ended.describe()))
        return results

    def _take(self, case: Case, position: int, answer: Answer, folder: BuildFolder) -> Built:
        """Check what the worker left for a case, and store it."""
        if answer.failure is not None:
            reason = Reason(answer.failure.failure.value)
            return Built(case, None, reason, answer.failure.message)
        try:
            cubin = read_regular(folder.cubin(position), LARGEST_CUBIN_BYTES)
            plan = decode_plan(read_regular(folder.plan(position), LARGEST_PLAN_BYTES))
        except (OSError, msgspec.MsgspecError) as error:
            return Built(case, None, Reason.BAD_OUTPUT, f"the worker's files: {error}")
        artifact = Artifact(cubin, plan)
        try:
            require_loadable(artifact, case.shape, case.target)
        except ArtifactError as error:
            return Built(case, None, Reason.ARTIFACT_REFUSED, str(error))
        entry = Entry(
            artifact=self._store.put(artifact),
            code_sha256=code_sha256(cubin),
            plan_sha256=hashlib.sha256(encode_plan(plan)).hexdigest(),
            metadata=Metadata(
                kernel=case.subject.key,
                source_sha256=case.subject.sha256 or "",
                protocol=PROTOCOL_VERSION,
                shape=case.shape,
                target=case.target,
                toolchain=dict(self._toolchain.versions),
            ),
            work=answer.work,
            uncounted=answer.uncounted,
        )
        if answer.self_contained and case.subject.sha256 is not None:
            self._store.remember(self._key(case), entry)
        return Built(case, entry)


def _ended(case: Case, ending: Ending, how: str) -> Built:
    reason = _ENDED.get(ending, Reason.WORKER_DIED)
    return Built(case, None, reason, f"the build ended early: {how}")


def _read_answer(path: Path) -> Answer | None:
    try:
        return msgspec.json.decode(read_regular(path, LARGEST_PLAN_BYTES), type=Answer)
    except (OSError, msgspec.MsgspecError):
        return None
