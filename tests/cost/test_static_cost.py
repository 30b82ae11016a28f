"""The joined cost, and the table of metrics that asv, the gate and the documents read."""

import math
import re
from pathlib import Path

import msgspec
import pytest

from rungwatch.artifact.plan import LaunchPlan
from rungwatch.cost.instruction_classes import CLASSES
from rungwatch.cost.machine_code import MachineCode
from rungwatch.cost.shape_cost import ShapeCost
from rungwatch.cost.static_cost import METRICS, Better, StaticCost, metrics, static_cost
from rungwatch.cost.work import Work
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Target
from tests.fakes import make_subject

ROOT = Path(__file__).parents[2]
CUBINS = ROOT / "tests" / "artifact" / "data"
PAGE = ROOT / "docs" / "static-cost.md"

WORK = Work(**{name: place for place, name in enumerate(Work.__struct_fields__, start=1000)})


def cost_of_held(target: Target = "sm_100a") -> StaticCost:
    plan = LaunchPlan("held", (8, 1, 1), (256, 1, 1), (1, 1, 1), 99328, ())
    declaration = make_subject("held").declaration
    assert declaration is not None
    cubin = (CUBINS / f"held-{target}-nvrtc13.2.cubin").read_bytes()
    return static_cost(cubin, plan, WORK, Shape(256, 512, 64, 148), declaration, target)


@pytest.fixture(scope="module")
def cost() -> StaticCost:
    return cost_of_held()


def test_the_cost_of_a_kernel(cost: StaticCost) -> None:
    found = metrics(cost)
    expected = {
        "registers": 22,
        "stack_bytes": 32,
        "static_smem_bytes": 256,
        "dynamic_smem_bytes": 99328,
        "smem_bytes": 99328 + 256,
        "barriers": 1,
        "threads": 256,
        "resident_ctas": 2,
        "tiles": 8,
        "units": 8,
        "waves": 1,
        "last_wave_fill": 1.0,
        "flops": 2 * 256 * 512 * 64,
    }
    assert {name: found[name] for name in expected} == expected
    assert found["shared_instructions"] == 2
    assert found["tensor_core_instructions"] == 0


def test_the_same_cost_every_time(cost: StaticCost) -> None:
    assert cost_of_held() == cost


def test_a_record_keeps_it(cost: StaticCost) -> None:
    assert msgspec.json.decode(msgspec.json.encode(cost), type=StaticCost) == cost


def test_every_metric_is_a_finite_number(cost: StaticCost) -> None:
    assert list(metrics(cost)) == list(METRICS)
    assert all(math.isfinite(value) for value in metrics(cost).values())


def test_every_number_of_a_cost_has_a_metric() -> None:
    numbers = {
        *MachineCode.__struct_fields__,
        *ShapeCost.__struct_fields__,
        *StaticCost.__struct_fields__,
        *(f"{name.rstrip('_')}_instructions" for name in CLASSES),
    }
    whole = {"arch", "code", "occupancy", "shape", "work"}  # text and parts, no numbers
    assert numbers - whole - set(METRICS) == set()


def test_a_metric_tells_its_unit_and_what_it_means() -> None:
    for name, metric in METRICS.items():
        assert re.fullmatch("[a-z_]+", name)
        assert metric.unit
        assert metric.meaning
        if name.endswith("_bytes"):
            assert metric.unit == "B"


def test_each_metric_reads_a_number_of_its_own(cost: StaticCost) -> None:
    """Change one field at a time: only metrics that are made from it may change."""
    for field in ("registers", "stack_bytes", "local_store_bytes", "barriers", "code_bytes"):
        code = msgspec.structs.replace(cost.code, **{field: 12345})
        changed = metrics(msgspec.structs.replace(cost, code=code))
        assert [name for name in METRICS if changed[name] != metrics(cost)[name]] == [field]
    for name in CLASSES:
        counts = msgspec.structs.replace(cost.code.instructions, **{name: 12345})
        code = msgspec.structs.replace(cost.code, instructions=counts)
        changed = metrics(msgspec.structs.replace(cost, code=code))
        own = {f"{name.rstrip('_')}_instructions"}
        own |= set() if name == "padding" else {"instructions"}
        assert {name for name in METRICS if changed[name] != metrics(cost)[name]} == own


def test_the_metrics_of_the_program_are_those_of_its_work(cost: StaticCost) -> None:
    found = metrics(cost)
    assert found["bytes_in"] == WORK.tma_in_bytes + WORK.loaded_bytes
    assert found["bytes_out"] == WORK.tma_out_bytes + WORK.stored_bytes
    for name in ("barrier_waits", "barrier_arrivals", "cta_barriers", "named_barriers"):
        assert found[name] == getattr(WORK, name)


def test_the_page_lists_every_metric_as_the_code_has_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    better = {Better.LOWER: "lower", Better.HIGHER: "higher", Better.NEITHER: ""}
    assert rows == [
        (f"`{name}`", metric.unit, better[metric.better], metric.meaning)
        for name, metric in METRICS.items()
    ]
