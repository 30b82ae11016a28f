"""What one execution of each known PTX instruction counts.

Sources: PTX ISA, chapters on `mbarrier`, `cp.async.bulk.tensor`, `wgmma` and `tcgen05` (the
instruction descriptor of `.kind::f16`: N / 8 in bits 17 to 22, M / 16 in bits 24 to 28).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rungwatch.artifact.plan import TensorMap
from rungwatch.cost.walk.program import Branch, Hit, Site, Statement, Unit, Value
from rungwatch.cost.walk.ptx import Instruction
from rungwatch.cost.work import UnwalkableError

# Instructions that move nothing to or from global memory, multiply nothing and signal no mbarrier.
NOT_COUNTED = frozenset(
    {
        "bar_warp_sync",
        "cp_async_bulk_commit_group",
        "cp_async_bulk_wait_group",
        "cvt",
        "cvt_bf16x2_f32",
        "cvt_f16x2_f32",
        "fence",
        "fence_mbarrier_init",
        "fence_proxy",
        "griddepcontrol",
        "ldmatrix",
        "mapa",
        "mapa_u32",
        "mbarrier_expect_tx",
        "mbarrier_init",
        "mbarrier_inval",
        "prefetch",
        "setmaxnreg",
        "stmatrix",
        "tcgen05_alloc",
        "tcgen05_dealloc",
        "tcgen05_fence",
        "tcgen05_ld",
        "tcgen05_relinquish_alloc_permit",
        "tcgen05_st",
        "tcgen05_wait",
        "wgmma_commit_group",
        "wgmma_fence",
        "wgmma_wait_group",
        # The second half of a cluster barrier: its first half is counted.
        "barrier_cluster_wait",
    }
)
TCGEN05_K = {"kind::f16": 16}
WGMMA_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


class Reading(Protocol):
    """What the counting of an instruction needs of the kernel around it."""

    def hit(self, site: Site) -> Hit:
        """Add a site."""

    def condition(self, node: Any) -> Value:
        """Return the value of a condition, to branch on."""

    def constant(self, node: Any, what: str) -> int:
        """Return the value of a constant, or refuse the kernel and name `what`."""

    def tensor_map(self, node: Any) -> TensorMap:
        """Return the tensor map that an operand is the address of."""


Counting = Callable[[Instruction, Reading], list[Statement]]


def _mma(
    name: str, mnk: tuple[int, int, int], unit: Unit, ctas: int, adds: Value, reading: Reading
) -> list[Statement]:
    m, n, k = mnk
    pair = ctas == 2
    whole = {"mma_instructions": 1, "flops": 2 * m * n * k, "accumulated_k": ctas * k}
    begins = reading.hit(Site(name, unit, {"accumulators": ctas}, pair))
    return [reading.hit(Site(name, unit, whole, pair)), Branch(adds, [], [begins])]


def _tcgen05_mma(instruction: Instruction, reading: Reading) -> list[Statement]:
    kind = instruction.modifiers["kind"]
    if kind not in TCGEN05_K:
        raise UnwalkableError(f"tcgen05.mma of {kind} is not known")
    descriptor = reading.constant(instruction.operand("idesc"), "an instruction descriptor")
    shape = ((descriptor >> 24 & 0x1F) * 16, (descriptor >> 17 & 0x3F) * 8, TCGEN05_K[kind])
    ctas = 2 if instruction.modifiers["cta_group"] == "cta_group::2" else 1
    adds = reading.condition(instruction.operand("enable_input_d"))
    return _mma("tcgen05.mma", shape, Unit.THREAD, ctas, adds, reading)


def _wgmma(instruction: Instruction, reading: Reading) -> list[Statement]:
    found = WGMMA_SHAPE.fullmatch(instruction.modifiers["shape"])
    if found is None:
        raise UnwalkableError(f"wgmma of shape {instruction.modifiers['shape']} is not known")
    m, n, k = map(int, found.groups())
    adds = reading.condition(instruction.operand("scale_d"))
    return _mma("wgmma", (m, n, k), Unit.WARPGROUP, 1, adds, reading)


def _receivers(instruction: Instruction, operand: str, reading: Reading) -> int:
    """Return how many CTAs a multicast mask names."""
    if not instruction.operands.get(operand):
        return 1
    return reading.constant(instruction.operand(operand), "a multicast mask").bit_count()


def _commit(instruction: Instruction, reading: Reading) -> list[Statement]:
    arrivals = _receivers(instruction, "mask", reading)
    site = Site("tcgen05.commit", Unit.THREAD, {"barrier_arrivals": arrivals})
    return [reading.hit(site)]


def _arrive(instruction: Instruction, reading: Reading) -> list[Statement]:
    count = 1
    if "count" in instruction.operands:
        count = reading.constant(instruction.operand("count"), "an arrival count")
    return [reading.hit(Site("mbarrier.arrive", Unit.THREAD, {"barrier_arrivals": count}))]


def _tma(instruction: Instruction, reading: Reading) -> TensorMap:
    mode = instruction.modifiers["load_mode"]
    if mode not in ("", "tile"):
        raise UnwalkableError(f"TMA copies in {mode} mode are not known")
    return reading.tensor_map(instruction.operand("tmap"))


def _tma_in(instruction: Instruction, reading: Reading) -> list[Statement]:
    box = _tma(instruction, reading).box_bytes
    delivered = box * _receivers(instruction, "cta_mask", reading)
    adds = {"tma_in_bytes": box, "tma_delivered_bytes": delivered}
    return [reading.hit(Site("cp.async.bulk.tensor", Unit.THREAD, adds))]


def _tma_out(instruction: Instruction, reading: Reading) -> list[Statement]:
    tensor_map = _tma(instruction, reading)
    if any(extent % box for extent, box in zip(tensor_map.dims, tensor_map.box, strict=True)):
        raise UnwalkableError(
            f"boxes {tensor_map.box} of {tensor_map.buffer} do not divide {tensor_map.dims}:"
            " a store at the edge writes less than its box"
        )
    adds = {"tma_out_bytes": tensor_map.box_bytes}
    return [reading.hit(Site("cp.async.bulk.tensor", Unit.THREAD, adds))]


def _access(field: str) -> Counting:
    def count(instruction: Instruction, reading: Reading) -> list[Statement]:
        space = instruction.modifiers["space"].partition("::")[0]
        if space in ("shared", "local"):
            return []
        if space != "global":
            raise UnwalkableError(f"{instruction.name} of a generic address: which memory is it?")
        bits = int(instruction.modifiers["type"].lstrip("busf"))
        vector = int(instruction.modifiers.get("vec", "").lstrip("v") or 1)
        return [reading.hit(Site(instruction.name, Unit.THREAD, {field: bits * vector // 8}))]

    return count


def _barrier(field: str) -> Counting:
    def count(instruction: Instruction, reading: Reading) -> list[Statement]:
        return [reading.hit(Site(instruction.name, Unit.WARP, {field: 1}))]

    return count


COUNTED: Mapping[str, Counting] = {
    "tcgen05_mma_ss": _tcgen05_mma,
    "tcgen05_mma_ts": _tcgen05_mma,
    "wgmma_f16_ss": _wgmma,
    "wgmma_f16_rs": _wgmma,
    "tcgen05_commit": _commit,
    "tcgen05_commit_multicast": _commit,
    "mbarrier_arrive": _arrive,
    "mbarrier_arrive_nocount": _arrive,
    "mbarrier_arrive_expect_tx": _arrive,
    "cp_async_bulk_tensor_g2s_cluster": _tma_in,
    "cp_async_bulk_tensor_g2s_cta": _tma_in,
    "cp_async_bulk_tensor_s2g": _tma_out,
    "ld": _access("loaded_bytes"),
    "ld_vec": _access("loaded_bytes"),
    "ld_vec256": _access("loaded_bytes"),
    "st": _access("stored_bytes"),
    "st_vec": _access("stored_bytes"),
    "st_vec256": _access("stored_bytes"),
    "bar_sync": _barrier("cta_barriers"),
    "bar_sync_count": _barrier("named_barriers"),
    "barrier_sync": _barrier("cta_barriers"),
    "barrier_sync_count": _barrier("named_barriers"),
    "barrier_cluster_arrive": _barrier("cluster_barriers"),
}


def count(instruction: Instruction, reading: Reading) -> list[Statement]:
    """Return the statements that count one execution of `instruction`.

    Raises:
        UnwalkableError: the instruction, or a form of it, is not known.
    """
    if instruction.name in NOT_COUNTED:
        return []
    counting = COUNTED.get(instruction.name)
    if counting is None:
        raise UnwalkableError(f"the instruction '{instruction.name}' is not known")
    return counting(instruction, reading)
