"""Work and waves, by hand for the ladder's launches on a B200 (148 SMs)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwatch.artifact.plan import LaunchPlan
from rungwatch.cost.occupancy import Occupancy, Resource
from rungwatch.cost.shape_cost import ShapeCostError, shape_cost
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Declaration
from tests.fakes import make_subject


def declaration(tile: tuple[int, int, int] = (128, 128, 64), cta_group: int = 1) -> Declaration:
    declared = make_subject("some", tile=tile, cta_group=cta_group).declaration
    assert declared is not None
    return declared


def launch(ctas: int, cluster: int = 1) -> LaunchPlan:
    return LaunchPlan("kernel", (ctas, 1, 1), (128, 1, 1), (cluster, 1, 1), 0, ())


def held(ctas: int) -> Occupancy:
    return Occupancy(ctas, (Resource.SMEM,))


def test_work_and_traffic() -> None:
    found = shape_cost(Shape(256, 512, 1024, 148), declaration(), launch(8), held(1))
    assert found.flops == 2 * 256 * 512 * 1024
    assert found.compulsory_bytes == 2 * (256 * 1024 + 512 * 1024 + 256 * 512)
    assert found.flops_per_byte == found.flops / found.compulsory_bytes


def test_a_persistent_kernel_of_clusters() -> None:
    """Step 9 at 4096^3: 8 x 16 tiles of 512 x 256 on 74 clusters of two."""
    tall = declaration((512, 256, 64), cta_group=2)
    found = shape_cost(Shape(4096, 4096, 4096, 148), tall, launch(148, 2), held(1))
    assert (found.tiles, found.units, found.waves) == (128, 74, 2)
    assert found.last_wave_fill == pytest.approx(54 / 74)


def test_one_cta_a_tile_runs_as_many_as_fit() -> None:
    """Step 4 at 4096^3: 1,024 CTAs, 2 of them on each of 148 SMs at a time."""
    found = shape_cost(Shape(4096, 4096, 4096, 148), declaration(), launch(1024), held(2))
    assert (found.tiles, found.units, found.waves) == (1024, 296, 4)
    assert found.last_wave_fill == pytest.approx(136 / 296)


def test_one_cta_for_all_tiles() -> None:
    """Step 1 over a whole matrix: one tile after the other."""
    found = shape_cost(Shape(1024, 1024, 64, 148), declaration(), launch(1), held(3))
    assert (found.tiles, found.units, found.waves, found.last_wave_fill) == (64, 1, 64, 1.0)


def test_a_part_of_a_tile_is_a_tile() -> None:
    assert shape_cost(Shape(129, 128, 64, 148), declaration(), launch(2), held(1)).tiles == 2


@given(
    m=st.integers(1, 9000),
    n=st.integers(1, 9000),
    ctas=st.integers(1, 400),
    resident=st.integers(1, 32),
    sms=st.integers(1, 200),
)
def test_the_waves_hold_every_tile_once(m: int, n: int, ctas: int, resident: int, sms: int) -> None:
    found = shape_cost(Shape(m, n, 64, sms), declaration(), launch(ctas), held(resident))
    assert 0 < found.last_wave_fill <= 1
    inside = (found.waves - 1) * found.units + found.last_wave_fill * found.units
    assert inside == pytest.approx(found.tiles)


@pytest.mark.parametrize(("ctas", "cluster"), [(147, 1), (148, 1), (146, 146 // 2)])
def test_a_launch_that_is_not_whole_groups(ctas: int, cluster: int) -> None:
    pairs = declaration((256, 256, 64), cta_group=2)
    with pytest.raises(ShapeCostError, match=f"2 CTAs a tile; its launch has {ctas} CTAs"):
        shape_cost(Shape(1024, 1024, 64, 148), pairs, launch(ctas, cluster), held(1))


def test_a_group_larger_than_the_device() -> None:
    pairs = declaration((256, 256, 64), cta_group=2)
    with pytest.raises(ShapeCostError, match="2 CTAs do not fit on 1 SMs"):
        shape_cost(Shape(256, 256, 64, 1), pairs, launch(2, 2), held(1))
