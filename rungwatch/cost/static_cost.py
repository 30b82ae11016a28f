"""All that is known of a kernel and a shape before anything runs, and the table of its metrics.

`METRICS` is the one place that says what a number is called, counted in and worth: asv, the gate
and the documents read it.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from rungwatch.artifact.plan import LaunchPlan
from rungwatch.cost.instruction_classes import InstructionCounts
from rungwatch.cost.machine_code import MachineCode, machine_code
from rungwatch.cost.occupancy import Occupancy, occupancy
from rungwatch.cost.shape_cost import ShapeCost, shape_cost
from rungwatch.cost.work import Work
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Declaration, Target


class StaticCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The static cost of one kernel, shape and target.

    `threads` and `dynamic_smem_bytes` are those of one CTA at launch; `work` is what the program
    executes.
    """

    threads: int
    dynamic_smem_bytes: int
    code: MachineCode
    occupancy: Occupancy
    shape: ShapeCost
    work: Work

    @property
    def smem_bytes(self) -> int:
        """All SMEM that a CTA asks for: static and dynamic, without what the system reserves."""
        return self.code.static_smem_bytes + self.dynamic_smem_bytes


class Better(StrEnum):
    """Which way a metric is better. NEITHER: it describes, and no change of it is judged."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Metric(msgspec.Struct, frozen=True):
    """One number of a `StaticCost`: unit, which way is better, meaning, how it is read."""

    unit: str
    better: Better
    meaning: str
    read: Callable[[StaticCost], float]


def static_cost(
    cubin: bytes,
    plan: LaunchPlan,
    work: Work,
    shape: Shape,
    declaration: Declaration,
    target: Target,
) -> StaticCost:
    """Return the static cost of a built kernel.

    Raises:
        ElfError, DisassemblyError: see `machine_code`.
        OccupancyError: see `occupancy`.
        ShapeCostError: see `shape_cost`.
    """
    code = machine_code(cubin, plan.entry)
    held = occupancy(code, plan, target)
    return StaticCost(
        threads=plan.threads,
        dynamic_smem_bytes=plan.dynamic_smem_bytes,
        code=code,
        occupancy=held,
        shape=shape_cost(shape, declaration, plan, held),
        work=work,
    )


def metrics(cost: StaticCost) -> dict[str, float]:
    """Return every metric of `METRICS` by name, in its order."""
    return {name: metric.read(cost) for name, metric in METRICS.items()}


def _instructions(name: str, better: Better, meaning: str) -> Metric:
    def read(cost: StaticCost) -> float:
        counts: InstructionCounts = cost.code.instructions
        return int(getattr(counts, name))

    return Metric("instructions", better, meaning, read)


_LOWER, _HIGHER, _NEITHER = Better.LOWER, Better.HIGHER, Better.NEITHER

METRICS: dict[str, Metric] = {
    "registers": Metric(
        "registers", _LOWER, "registers of a thread at launch", lambda c: c.code.registers
    ),
    "stack_bytes": Metric(
        "B", _LOWER, "stack of a thread, calls included", lambda c: c.code.stack_bytes
    ),
    "local_store_bytes": Metric(
        "B",
        _LOWER,
        "bytes that a thread's stores to local memory write, each counted once: spilled"
        " registers, and arrays that found no registers",
        lambda c: c.code.local_store_bytes,
    ),
    "local_load_bytes": Metric(
        "B", _LOWER, "the same for loads from local memory", lambda c: c.code.local_load_bytes
    ),
    "local_stores": Metric(
        "instructions", _LOWER, "stores to local memory", lambda c: c.code.local_stores
    ),
    "local_loads": Metric(
        "instructions", _LOWER, "loads from local memory", lambda c: c.code.local_loads
    ),
    "static_smem_bytes": Metric(
        "B",
        _LOWER,
        "SMEM of a CTA fixed at compile time, without the 1,024 B that the system reserves",
        lambda c: c.code.static_smem_bytes,
    ),
    "dynamic_smem_bytes": Metric(
        "B", _LOWER, "SMEM of a CTA asked for at launch", lambda c: c.dynamic_smem_bytes
    ),
    "smem_bytes": Metric("B", _LOWER, "static and dynamic SMEM together", lambda c: c.smem_bytes),
    "barriers": Metric(
        "barriers",
        _LOWER,
        "named barriers of a CTA, of 16; all 16 where the code computes a number",
        lambda c: c.code.barriers,
    ),
    "threads": Metric("threads", _NEITHER, "threads of a CTA", lambda c: c.threads),
    "code_bytes": Metric(
        "B", _LOWER, "machine code, padding included", lambda c: c.code.code_bytes
    ),
    "instructions": _instructions("total", _LOWER, "instructions in the code, NOPs left out"),
    "tensor_core_instructions": _instructions(
        "tensor_core", _NEITHER, "tensor core MMAs of every kind"
    ),
    "tma_instructions": _instructions(
        "tma", _NEITHER, "tensor and bulk copies, their prefetch and control"
    ),
    "tensor_memory_instructions": _instructions(
        "tensor_memory", _NEITHER, "loads, stores, copies and allocation of TMEM"
    ),
    "shared_instructions": _instructions("shared", _NEITHER, "accesses to SMEM by threads"),
    "global_instructions": _instructions(
        "global_", _NEITHER, "accesses to global memory by threads, generic ones included"
    ),
    "local_instructions": _instructions("local", _LOWER, "accesses to local memory"),
    "constant_instructions": _instructions("constant", _NEITHER, "loads of constants"),
    "synchronisation_instructions": _instructions(
        "synchronisation", _LOWER, "barriers, waits, arrivals and fences"
    ),
    "arithmetic_instructions": _instructions(
        "arithmetic", _NEITHER, "arithmetic, conversion and predicates of threads"
    ),
    "uniform_instructions": _instructions(
        "uniform", _NEITHER, "arithmetic and moves done once a warp"
    ),
    "move_instructions": _instructions(
        "move", _NEITHER, "register moves, shuffles, votes, special registers"
    ),
    "control_instructions": _instructions("control", _NEITHER, "branches, calls and convergence"),
    "padding_instructions": _instructions("padding", _NEITHER, "NOPs"),
    "resident_ctas": Metric(
        "CTAs",
        _HIGHER,
        "CTAs that fit on an SM at once; TMEM is not known and not counted",
        lambda c: c.occupancy.resident_ctas,
    ),
    "flops": Metric("FLOP", _NEITHER, "2 M N K", lambda c: c.shape.flops),
    "compulsory_bytes": Metric(
        "B",
        _NEITHER,
        "A, B and D once each: what no kernel avoids",
        lambda c: c.shape.compulsory_bytes,
    ),
    "flops_per_byte": Metric(
        "FLOP/B", _NEITHER, "operations for each compulsory byte", lambda c: c.shape.flops_per_byte
    ),
    "tiles": Metric("tiles", _NEITHER, "tiles of D", lambda c: c.shape.tiles),
    "units": Metric(
        "units",
        _NEITHER,
        "CTAs, or groups that share a tile, at work at a time",
        lambda c: c.shape.units,
    ),
    "waves": Metric("waves", _LOWER, "tiles that the busiest unit does", lambda c: c.shape.waves),
    "last_wave_fill": Metric(
        "ratio",
        _NEITHER,
        "share of units that have a tile in the last wave",
        lambda c: c.shape.last_wave_fill,
    ),
    "bytes_in": Metric(
        "B", _LOWER, "bytes that TMA and threads ask of global memory", lambda c: c.work.bytes_in
    ),
    "bytes_delivered": Metric(
        "B",
        _NEITHER,
        "bytes that TMA writes into SMEM, a multicast once a receiving CTA",
        lambda c: c.work.tma_delivered_bytes,
    ),
    "bytes_out": Metric(
        "B", _LOWER, "bytes that TMA and threads write to global memory", lambda c: c.work.bytes_out
    ),
    "mmas": Metric(
        "MMAs", _NEITHER, "tensor core MMAs executed", lambda c: c.work.mma_instructions
    ),
    "most_flops_a_cta": Metric(
        "FLOP",
        _LOWER,
        "FLOPs that the busiest CTA's tensor core does: its share of the tiles",
        lambda c: c.work.flops_per_cta_max,
    ),
    "most_tiles_a_cta": Metric(
        "tiles",
        _NEITHER,
        "accumulators that the busiest CTA begins",
        lambda c: c.work.accumulators_per_cta_max,
    ),
    "barrier_waits": Metric(
        "waits", _LOWER, "waits of threads for an mbarrier", lambda c: c.work.barrier_waits
    ),
    "barrier_arrivals": Metric(
        "arrivals", _LOWER, "arrivals at mbarriers", lambda c: c.work.barrier_arrivals
    ),
    "cta_barriers": Metric(
        "arrivals", _LOWER, "warps that come to a CTA's barrier", lambda c: c.work.cta_barriers
    ),
    "cluster_barriers": Metric(
        "arrivals",
        _LOWER,
        "warps that come to a cluster's barrier",
        lambda c: c.work.cluster_barriers,
    ),
    "named_barriers": Metric(
        "arrivals", _LOWER, "warps that come to a named barrier", lambda c: c.work.named_barriers
    ),
}

# asv takes every rise for the worse, so what is better high has no place on its page.
TRACKED_BY_ASV = tuple(name for name, metric in METRICS.items() if metric.better is Better.LOWER)
