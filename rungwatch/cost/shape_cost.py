"""What a problem asks of any kernel, and how a launch divides it: arithmetic on the declaration."""

import msgspec

from rungwatch.artifact.plan import ELEMENT_BYTES, LaunchPlan
from rungwatch.cost.occupancy import Occupancy
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Declaration

_OPERATIONS = 2  # a multiplication and an addition


class ShapeCostError(ValueError):
    """A launch that does not match the kernel's declaration, and how."""


class ShapeCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Work and waves of one launch.

    `flops` is 2 M N K. `compulsory_bytes` is A, B and D once each: what no kernel can avoid.
    `tiles` of D are worked off by `units` at a time, a unit being the CTAs that share a tile;
    `waves` is how many tiles the busiest unit does, `last_wave_fill` the share of units that
    have a tile in the last wave: above 0, at most 1.
    """

    flops: int
    compulsory_bytes: int
    tiles: int
    units: int
    waves: int
    last_wave_fill: float

    @property
    def flops_per_byte(self) -> float:
        """Arithmetic intensity: operations for each compulsory byte."""
        return self.flops / self.compulsory_bytes


def shape_cost(
    shape: Shape, declaration: Declaration, plan: LaunchPlan, held: Occupancy
) -> ShapeCost:
    """Return the cost of `shape` launched by `plan`.

    Units at a time are those of the grid, or as many as fit on the device's SMs if that is
    fewer; so persistent kernels, one CTA a tile and one CTA for all tiles need no case of
    their own.

    Raises:
        ShapeCostError: the grid is not made of whole units, a cluster is smaller than a unit,
            or not one unit fits on the device.
    """
    group = declaration.cta_group
    if plan.ctas % group or plan.cluster_ctas % group:
        raise ShapeCostError(
            f"{declaration.name} declares {group} CTAs a tile; its launch has {plan.ctas} CTAs,"
            f" {plan.cluster_ctas} a cluster"
        )
    units = min(plan.ctas, shape.sm_count * held.resident_ctas) // group
    if units == 0:
        raise ShapeCostError(f"{group} CTAs do not fit on {shape.sm_count} SMs at a time")
    rows, columns, _ = declaration.tile
    tiles = -(-shape.m // rows) * -(-shape.n // columns)
    waves = -(-tiles // units)
    dtypes = declaration.dtypes
    return ShapeCost(
        flops=_OPERATIONS * shape.m * shape.n * shape.k,
        compulsory_bytes=shape.m * shape.k * ELEMENT_BYTES[dtypes.A]
        + shape.n * shape.k * ELEMENT_BYTES[dtypes.B]
        + shape.m * shape.n * ELEMENT_BYTES[dtypes.D],
        tiles=tiles,
        units=units,
        waves=waves,
        last_wave_fill=(tiles - (waves - 1) * units) / units,
    )
