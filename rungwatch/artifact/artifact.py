"""An artifact: machine code and its launch plan, named by the hash of both."""

import hashlib
from dataclasses import dataclass

import msgspec

from rungwatch.artifact.plan import LaunchPlan, encode_plan
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Target

ARTIFACT_VERSION = 1
# Whatever else it is, a kernel this large is none: a rung takes 0.2 MB.
LARGEST_CUBIN_BYTES = 16 * 2**20
LARGEST_PLAN_BYTES = 2**16


@dataclass(frozen=True)
class Artifact:
    """What a runner is given of a kernel: no host code, nothing that must be compiled."""

    cubin: bytes
    plan: LaunchPlan

    @property
    def id(self) -> str:
        """64 hexadecimal digits, the same on every machine for the same content."""
        digest = hashlib.sha256(b"rungwatch artifact %d\0" % ARTIFACT_VERSION)
        digest.update(hashlib.sha256(self.cubin).digest())
        digest.update(encode_plan(self.plan))
        return digest.hexdigest()


class Metadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an artifact comes from: not part of its hash, since two sources may give the same.

    `kernel` is the key in the registry; `toolchain` the versions of all that compiled it.
    """

    kernel: str
    source_sha256: str
    protocol: int
    shape: Shape
    target: Target
    toolchain: dict[str, str]
    artifact_version: int = ARTIFACT_VERSION
