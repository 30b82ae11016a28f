"""The record schema, version 1. `record-v1.schema.json` beside it is generated from here.

Extend it by raising `SCHEMA_VERSION`. Correctness rows have no arms; timing rows (later) hold
one arm a side and one sample list a worker.
"""

from typing import Literal, get_args

import msgspec

from rungwatch.backends.job import CheckerReport
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.declare.problem import Problem

SCHEMA_VERSION: Literal[1] = 1


CheckName = Literal["load", "source", "numerics", "synccheck", "racecheck"]
CHECKS: tuple[CheckName, ...] = get_args(CheckName)


class Gpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU by model and driver: no UUID, so that committed records name no machine."""

    model: str
    driver: str


class Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a run took place. `machine_id` is salted: no hostname, no path."""

    machine_id: str
    system: str
    cpu_count: int
    python: str
    gpu: Gpu | None = None


class Toolchain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Versions that can change a verdict; None where the package or tool is absent."""

    rungwatch: str
    tvm: str | None
    simulator: str | None
    numpy: str
    rustc: str | None


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was asked for. `revision` is a git commit, with "+dirty" where files differ."""

    command: str
    started_utc: str
    seconds: float
    backend: Literal["sim", "cuda", "none"]
    revision: str | None


class Element(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The worst element of D: where it is, what it is, and the interval it had to lie in."""

    row: int
    column: int
    actual: str
    reference: str
    lowest: str
    highest: str


class Comparison(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How D differs from the reference.

    `wrong_tiles` is the wrong elements a tile, tile rows outermost; `tile` the rows and columns
    of one tile. `worst_ulp` is the distance to the interval in fp16 steps (None for a NaN).
    """

    elements: int
    wrong_elements: int
    worst: Element | None
    worst_ulp: int | None
    tile: tuple[int, int]
    wrong_tiles: tuple[tuple[int, ...], ...]


class WorkerSamples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The timings of one worker process, the unit of inference."""

    worker: int
    samples_ns: tuple[float, ...]


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One side of a timed comparison, or a control."""

    name: Literal["base", "head", "identical", "slow"]
    artifact: str
    workers: tuple[WorkerSamples, ...]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One check of one case.

    `kernel` is the key in the registry (hgemm/blackwell/step7); `problem` is None where no
    problem was reached (a file that cannot be loaded). `seconds` is the wall time spent on the
    row, for showing where time goes; it is no measurement of the kernel. `rerun` is the command
    that runs this row alone.
    """

    id: str
    kernel: str
    target: str | None
    problem: Problem | None
    check: CheckName
    verdict: Verdict
    reason: Reason
    message: str
    rerun: str
    seconds: float = 0.0
    cached: bool = False
    comparison: Comparison | None = None
    report: CheckerReport | None = None
    arms: tuple[Arm, ...] = ()


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of one command."""

    run: Run
    environment: Environment
    toolchain: Toolchain
    rows: tuple[Row, ...]
    verdict: Verdict
    reason: Reason
    schema_version: Literal[1] = SCHEMA_VERSION


def encode(record: Record) -> bytes:
    """Return `record` as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def decode(data: bytes) -> Record:
    """Read a record.

    Raises:
        msgspec.ValidationError: not a record of this schema version.
        msgspec.DecodeError: not JSON.
    """
    return msgspec.json.decode(data, type=Record)


def json_schema() -> bytes:
    """Return the JSON Schema of a record, as committed in `record-v1.schema.json`."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Record)), indent=1) + b"\n"
