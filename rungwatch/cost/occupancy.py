"""How many CTAs of a kernel one SM can hold at once, and what keeps it from holding more.

Computed as `cuda_occupancy.h` of CUDA 13 does, for a device whose SMEM carve-out is the largest.
Two limits are not in a cubin and so not in here: TMEM, which a kernel allocates while it runs
(two CTAs that each take all 512 columns run one after the other), and where the CTAs of a cluster
may go. The true number is then lower than this one.
"""

from enum import StrEnum

import msgspec

from rungwatch.artifact.plan import LaunchPlan
from rungwatch.cost.machine_code import MachineCode
from rungwatch.cost.targets import SM_FACTS, WARP_THREADS, SmFacts
from rungwatch.declare.protocol import Target


class Resource(StrEnum):
    """What CTAs of one SM share."""

    THREADS = "threads"
    REGISTERS = "registers"
    SMEM = "smem"
    BARRIERS = "barriers"
    CTAS = "ctas"


class OccupancyError(ValueError):
    """A launch that no SM of the target can hold, and why."""


class Occupancy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`resident_ctas` of one SM, and the resources that allow no more."""

    resident_ctas: int
    limited_by: tuple[Resource, ...]


def occupancy(code: MachineCode, plan: LaunchPlan, target: Target) -> Occupancy:
    """Return how many CTAs of a launch are resident on one SM of `target`.

    Raises:
        OccupancyError: the code is for another target, or one CTA alone is too large.
    """
    if code.arch != target:
        raise OccupancyError(f"the code is for {code.arch}, not for {target}")
    facts = SM_FACTS[target]
    limits = {
        Resource.THREADS: facts.threads // (_warps(plan) * WARP_THREADS),
        Resource.REGISTERS: _by_registers(code.registers, _warps(plan), facts),
        Resource.SMEM: _by_smem(code.static_smem_bytes + plan.dynamic_smem_bytes, facts),
        Resource.BARRIERS: facts.barriers // max(code.barriers, 1),
        Resource.CTAS: facts.ctas,
    }
    if plan.threads > facts.cta_threads:
        limits[Resource.THREADS] = 0
    fewest = min(limits.values())
    limited_by = tuple(resource for resource, ctas in limits.items() if ctas == fewest)
    if fewest == 0:
        raise OccupancyError(
            f"a CTA of {plan.threads} threads, {code.registers} registers each, and"
            f" {code.static_smem_bytes + plan.dynamic_smem_bytes} bytes of SMEM does not fit on"
            f" {target}: too much of {', '.join(limited_by)}"
        )
    return Occupancy(fewest, limited_by)


def _warps(plan: LaunchPlan) -> int:
    return -(-plan.threads // WARP_THREADS)


def _by_registers(registers: int, warps: int, facts: SmFacts) -> int:
    a_warp = _round_up(registers * WARP_THREADS, facts.register_unit)
    # A launch is checked as if its warps filled all partitions evenly.
    if a_warp * _round_up(warps, facts.partitions) > facts.registers:
        return 0
    if registers > facts.thread_registers:
        return 0
    warps_a_partition = facts.registers // facts.partitions // a_warp
    return warps_a_partition * facts.partitions // warps


def _by_smem(asked_bytes: int, facts: SmFacts) -> int:
    if asked_bytes > facts.smem_cta_bytes:
        return 0
    return facts.smem_bytes // _round_up(
        asked_bytes + facts.smem_reserved_bytes, facts.smem_unit_bytes
    )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
