"""A folder that `rungwatch build` filled: which artifact stands for a kernel and a shape."""

from pathlib import Path

import msgspec

from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.loader import ArtifactError, require_loadable
from rungwatch.artifact.manifest import MANIFEST_FILE, Manifest, decode_manifest
from rungwatch.artifact.store import Store, StoreError
from rungwatch.backends.job import BackendUnavailableError, Failure, Job, JobFailure, Stage
from rungwatch.declare.protocol import Target
from rungwatch.record.files import read_regular

_LARGEST_MANIFEST_BYTES = 64 * 2**20


class UnusableArtifactError(ValueError):
    """There is no artifact that a job may run; `failure` says why."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = JobFailure(failure, Stage.START, message)


class ArtifactFolder:
    """What was built, found by kernel, shape and target. Nothing in it is believed."""

    def __init__(self, folder: Path) -> None:
        """Read the manifest.

        Raises:
            BackendUnavailableError: there is none, or not of this version.
        """
        self.name = folder.resolve().name
        self._store = Store(folder)
        self.manifest = _read(folder / MANIFEST_FILE)
        self._items = {(item.kernel, item.shape, item.target): item for item in self.manifest.items}

    @property
    def targets(self) -> frozenset[Target]:
        """What there are artifacts for."""
        return frozenset(item.target for item in self.manifest.items if item.artifact is not None)

    def find(self, job: Job) -> Artifact:
        """Return the artifact of a job, checked: it may be launched.

        Raises:
            UnusableArtifactError: it was not built, from another source, or may not be launched.
        """
        assert job.kernel is not None
        assert job.target is not None
        what = f"{job.kernel} at {job.shape} for {job.target}"
        item = self._items.get((job.kernel, job.shape, job.target))
        if item is None:
            raise UnusableArtifactError(
                Failure.NO_ARTIFACT, f"{self.name} holds no artifact of {what}"
            )
        if item.artifact is None:
            raise UnusableArtifactError(
                Failure.NO_ARTIFACT, f"{what} was not built: {item.reason}: {item.message}"
            )
        if item.source_sha256 != job.source.sha256:
            raise UnusableArtifactError(
                Failure.NO_ARTIFACT,
                f"the artifact of {what} was built from another version of the kernel's file",
            )
        return self._load(job, job.target, item.artifact)

    def _load(self, job: Job, target: Target, identity: str) -> Artifact:
        try:
            artifact = self._store.get(identity)
        except StoreError as error:
            raise UnusableArtifactError(Failure.NO_ARTIFACT, str(error)) from None
        try:
            require_loadable(artifact, job.shape, target)
        except ArtifactError as error:
            raise UnusableArtifactError(Failure.ARTIFACT_REFUSED, str(error)) from None
        return artifact


def _read(path: Path) -> Manifest:
    try:
        return decode_manifest(read_regular(path, _LARGEST_MANIFEST_BYTES))
    except (OSError, msgspec.MsgspecError) as error:
        raise BackendUnavailableError(
            f"no artifacts can be read from {path.parent.name}/{path.name}, make them with"
            f" `rungwatch build --for full --out DIR`: {error}"
        ) from None
