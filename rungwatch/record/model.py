"""The record schema, version 3. `record-v3.schema.json` beside it is generated from here.

Extend it by raising `SCHEMA_VERSION`. Correctness rows have no sides and no timing; rows that
compare base and head have a side each; timing rows hold one arm for each thing that was timed,
and in each arm one list of samples a worker.
"""

from typing import Literal, get_args

import msgspec

from rungwatch.backends.job import CheckerReport
from rungwatch.decide.settings import Settings
from rungwatch.decide.verdict import Reason, Verdict
from rungwatch.declare.problem import Problem, Shape

SCHEMA_VERSION: Literal[3] = 3


CheckName = Literal[
    "load",
    "settings",
    "coverage",
    "build",
    "identity",
    "source",
    "numerics",
    "synccheck",
    "racecheck",
    "sanitizer-memcheck",
    "sanitizer-racecheck",
    "sanitizer-synccheck",
    "static",
    "timing",
    "doctor",
]
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
    """What was asked for. A revision is a git commit, with "+dirty" where files differ.

    `revision` is that of the kernels that were run, or head's where two were compared; `base`
    the other one; `accepts_unmeasured` that rows which nothing timed were asked not to count.
    `compilers` holds the versions of what compiled each side, by "base" and "head".
    """

    command: str
    started_utc: str
    seconds: float
    backend: Literal["sim", "cuda", "none"]
    revision: str | None
    base: str | None = None
    accepts_unmeasured: bool = False
    compilers: dict[str, dict[str, str]] = {}


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


class Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One revision's part in a comparison: what was built of the case, and what it costs.

    `artifact` is its id, `code_sha256` the hash of what the GPU executes. `cost` holds metrics by
    name (`rungwatch.cost.static_cost.METRICS`); `limited_by` what the closed form names as
    slowest, with what is second: "latency; tensor core 0.76 of it".
    """

    artifact: str
    code_sha256: str
    cost: dict[str, float]
    limited_by: str


class Conditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What NVML says of the GPU at one moment.

    `slowed_by` names the reasons that hold its clocks down (`sw_power_cap`, `hw_thermal_slowdown`,
    ...), without `gpu_idle`, which is none.
    """

    sm_mhz: int
    memory_mhz: int
    power_w: float
    temperature_c: int
    slowed_by: tuple[str, ...]


class WorkerSamples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The timings of one worker process, the unit of inference, in the order they were taken."""

    worker: int
    samples_ns: tuple[float, ...]


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the things that were timed in turn: an artifact, or cuBLAS (`artifact` None)."""

    name: Literal["kernel", "cublas"]
    artifact: str | None
    workers: tuple[WorkerSamples, ...]


class WorkerConditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the GPU was while a worker timed this case: before the first sample, after the last.

    `settled` says whether the durations had stopped drifting when the warm-up ended.
    """

    worker: int
    before: Conditions
    after: Conditions
    settled: bool


class Timing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case, timed beside a reference in the same workers.

    `launched` is the shape that the kernel ran, larger than the row's where M had to be padded to
    what its rules allow; the reference ran the row's own. `cache` is what L2 held: nothing of the
    operands (cold), or what the run before left (warm). `floor_ns` is what the method reads for
    an interval with nothing in it: a duration near it says little. `peak_flops` is the most that
    the GPU's tensor cores can do in a second, at its highest clock. `workers_asked` is how many
    workers were to time it, None where that was not noted.
    """

    method: Literal["graph-events"]
    cache: Literal["cold", "warm"]
    launched: Shape
    floor_ns: float
    peak_flops: float
    arms: tuple[Arm, ...]
    conditions: tuple[WorkerConditions, ...]
    workers_asked: int | None = None


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
    base: Side | None = None
    head: Side | None = None
    timing: Timing | None = None


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of one command. `settings` are those of base, where revisions were compared."""

    run: Run
    environment: Environment
    toolchain: Toolchain
    rows: tuple[Row, ...]
    verdict: Verdict
    reason: Reason
    settings: Settings | None = None
    schema_version: Literal[3] = SCHEMA_VERSION


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
    """Return the JSON Schema of a record, as committed in `record-v3.schema.json`."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Record)), indent=1) + b"\n"
