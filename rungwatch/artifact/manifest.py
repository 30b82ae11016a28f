"""What a build put into a folder: one line a case, so that a runner finds its artifacts."""

from typing import Literal

import msgspec

from rungwatch.decide.verdict import Reason
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Target

MANIFEST_FILE = "manifest.json"


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case: the artifact it gave, or None and why.

    `source_sha256` is the hash of the kernel's file: an artifact stands for no other version of it.
    """

    kernel: str
    source_sha256: str | None
    shape: Shape
    target: Target
    artifact: str | None
    code_sha256: str | None
    reason: Reason
    message: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One build of one revision. `revision` is a commit, with "+dirty" for a work tree."""

    revision: str | None
    toolchain: dict[str, str]
    items: tuple[Item, ...]
    schema_version: Literal[2] = 2


def encode_manifest(manifest: Manifest) -> bytes:
    """Return `manifest` as indented JSON, the same bytes for the same content."""
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1) + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        msgspec.ValidationError: not a manifest of this version.
        msgspec.DecodeError: not JSON.
    """
    return msgspec.json.decode(data, type=Manifest)
