"""CTAs an SM can hold: the numbers of NVIDIA's own formula, and what limits them.

`data/occupancy-cuda13.csv` holds what `cudaOccMaxActiveBlocksPerMultiprocessor` of CUDA 13's
`cuda_occupancy.h` returns for devices with the limits of H200 and B200 (0: does not fit).
"""

import csv
from pathlib import Path

import pytest

from rungwatch.artifact.plan import LaunchPlan
from rungwatch.cost.instruction_classes import InstructionCounts
from rungwatch.cost.machine_code import MachineCode
from rungwatch.cost.occupancy import Occupancy, OccupancyError, Resource, occupancy
from rungwatch.declare.protocol import Target

DATA = Path(__file__).parent / "data" / "occupancy-cuda13.csv"
TARGETS: dict[str, Target] = {"9.0": "sm_90a", "10.0": "sm_100a"}
ROWS = list(csv.DictReader(DATA.read_text(encoding="ascii").splitlines()))


def resident(
    target: Target = "sm_100a",
    registers: int = 32,
    threads: int = 128,
    static_smem_bytes: int = 0,
    dynamic_smem_bytes: int = 0,
    barriers: int = 1,
) -> Occupancy:
    code = MachineCode(
        arch=target,
        registers=registers,
        stack_bytes=0,
        local_stores=0,
        local_store_bytes=0,
        local_loads=0,
        local_load_bytes=0,
        static_smem_bytes=static_smem_bytes,
        barriers=barriers,
        code_bytes=128,
        instructions=InstructionCounts(),
    )
    plan = LaunchPlan("kernel", (1, 1, 1), (threads, 1, 1), (1, 1, 1), dynamic_smem_bytes, ())
    return occupancy(code, plan, target)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row.values()))
def test_the_numbers_of_nvidias_formula(row: dict[str, str]) -> None:
    target = TARGETS[row.pop("capability")]
    arguments = {name: int(value) for name, value in row.items()}
    expected = arguments.pop("ctas")
    if expected == 0:
        with pytest.raises(OccupancyError, match=f"does not fit on {target}"):
            resident(target, **arguments)
    else:
        assert resident(target, **arguments).resident_ctas == expected


@pytest.mark.parametrize(
    ("arguments", "limited_by"),
    [
        ({"threads": 1024}, {Resource.THREADS, Resource.REGISTERS}),
        ({"threads": 1024, "registers": 16}, {Resource.THREADS}),
        ({"registers": 168}, {Resource.REGISTERS}),
        ({"dynamic_smem_bytes": 200 * 1024}, {Resource.SMEM}),
        ({"threads": 32, "registers": 16, "barriers": 16}, {Resource.BARRIERS}),
        ({"threads": 32, "registers": 16}, {Resource.CTAS}),
    ],
)
def test_what_limits_is_named(arguments: dict[str, int], limited_by: set[Resource]) -> None:
    assert set(resident(**arguments).limited_by) == limited_by


def test_the_system_takes_a_kilobyte_a_cta() -> None:
    assert resident(dynamic_smem_bytes=113 * 1024).resident_ctas == 2  # 2 x 114 KiB of 228
    assert resident(dynamic_smem_bytes=113 * 1024 + 1).resident_ctas == 1
    assert resident(dynamic_smem_bytes=227 * 1024).resident_ctas == 1
    with pytest.raises(OccupancyError, match="too much of smem"):
        resident(dynamic_smem_bytes=227 * 1024 + 1)


def test_more_threads_than_a_cta_may_have() -> None:
    with pytest.raises(OccupancyError, match="too much of threads"):
        resident(threads=1056, registers=16)


def test_code_for_another_target_is_refused() -> None:
    code = MachineCode("sm_90a", 32, 0, 0, 0, 0, 0, 0, 1, 128, InstructionCounts())
    plan = LaunchPlan("kernel", (1, 1, 1), (128, 1, 1), (1, 1, 1), 0, ())
    with pytest.raises(OccupancyError, match="for sm_90a, not for sm_100a"):
        occupancy(code, plan, "sm_100a")
