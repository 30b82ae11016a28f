"""Each finding by itself: what makes it good, and that it can be trouble, a note or unknown."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.backends.cuda.nvml import GpuProcess
from rungwatch.decide.verdict import Reason
from rungwatch.doctor.examine import default_activities, judge
from rungwatch.doctor.facts import ArtifactFacts, Facts, GpuLook, SimulatorFacts, TorchLook
from rungwatch.doctor.finding import (
    EVERYTHING,
    ON_CPU,
    ON_GPU,
    Activity,
    Finding,
    Status,
    readiness,
)

from .machines import ARTIFACTS, CPU, DEVICE, GB, GPU, STATUS

CHECK, BUILD, CUDA, MEASURE = Activity


def finding(facts: Facts, name: str) -> Finding:
    (found,) = [finding for finding in judge(facts) if finding.name == name]
    return found


def unfit(facts: Facts) -> set[Activity]:
    found = judge(facts)
    return {one for one in Activity if readiness(found, one)[0] is not Reason.OK}


def disk(**changes: Any) -> Facts:
    return replace(CPU, disk=replace(CPU.disk, **changes))


def without(*packages: str) -> Facts:
    return replace(GPU, packages={k: v for k, v in GPU.packages.items() if k not in packages})


def device(**changes: Any) -> Facts:
    changed: DeviceFacts = msgspec.structs.replace(DEVICE, **changes)
    return replace(GPU, gpu=GpuLook(changed, "", STATUS))


def status(**changes: Any) -> Facts:
    return replace(GPU, gpu=GpuLook(DEVICE, "", msgspec.structs.replace(STATUS, **changes)))


def variables(facts: Facts, **changes: Any) -> Facts:
    return replace(facts, variables=replace(facts.variables, **changes))


def test_a_good_machine_without_a_gpu_is_ready_for_what_needs_none() -> None:
    assert unfit(CPU) == {CUDA, MEASURE}
    assert [found.name for found in judge(CPU) if found.status is not Status.OK] == ["gpu"]


def test_a_good_machine_with_a_gpu_is_ready_for_everything() -> None:
    assert {found.status for found in judge(GPU)} == {Status.OK}
    assert unfit(GPU) == set()


def test_each_activity_depends_on_something() -> None:
    touched = {activity for found in judge(GPU) for activity in found.affects}
    assert touched == set(Activity)


TROUBLES = [
    ("system", replace(CPU, system="Darwin arm64"), EVERYTHING, "Linux"),
    ("memory", replace(CPU, memory_free_bytes=GB), EVERYTHING, "free memory"),
    ("cache", disk(cache_writable=False), ON_CPU, "RUNGWATCH_CACHE_DIR"),
    ("cache", disk(cache_free_bytes=GB), ON_CPU, "free 2.0 GB"),
    ("cache", disk(limit_problem="LIMIT is 'x': give a number"), (CHECK,), "give a number"),
    ("temporary", disk(temporary_free_bytes=GB // 2), EVERYTHING, "TMPDIR"),
    (
        "simulator",
        replace(CPU, simulator=SimulatorFacts(problems=("cargo was not found: install Rust",))),
        (CHECK,),
        "install Rust",
    ),
    ("build", without("uv"), (BUILD,), "rungwatch[build]"),
    ("gpu", CPU, ON_GPU, "no driver"),
    ("gpu", replace(GPU, gpu=GpuLook(None, "broken", STATUS)), ON_GPU, "nvidia-smi"),
    ("gpu", device(compute_capability=(8, 0)), ON_GPU, "sm_90a (9.0)"),
    ("driver", device(cuda_version=(12, 9)), ON_GPU, "580"),
    ("gpu-memory", device(free_bytes=GB), ON_GPU, "nvidia-smi"),
    ("gpu-memory", device(free_bytes=3 * GB), (MEASURE,), "nvidia-smi"),
    ("torch", replace(GPU, torch=TorchLook(problem="no torch")), (MEASURE,), "rungwatch[gpu]"),
    ("torch", replace(GPU, torch=None), (MEASURE,), "rungwatch[gpu]"),
    ("torch", replace(GPU, torch=TorchLook("2.11", "NVIDIA A2")), (MEASURE,), "VISIBLE"),
    ("sanitizer", replace(GPU, sanitizer=False), (CUDA,), "toolkit"),
    ("nvml", replace(GPU, gpu=GpuLook(DEVICE, "", None, "no NVML")), (MEASURE,), "slowed down"),
    ("gpu-use", status(processes=(GpuProcess(2 * GB),)), (MEASURE,), "nvidia-smi"),
    ("gpu-use", status(used_bytes=2 * GB), (MEASURE,), "nvidia-smi"),
    ("gpu-use", status(busy_percent=90), (MEASURE,), "nvidia-smi"),
    ("mig", status(mig=True), (MEASURE,), "-mig 0"),
    ("slowed-by", status(slowed_by=("hw_thermal_slowdown",)), (MEASURE,), "cooling"),
    ("slowed-by", status(slowed_by=("unknown_bit_11",)), (MEASURE,), "cooling"),
    ("power", status(power_limit_w=500.0), (MEASURE,), "-pl 700"),
    ("temperature", status(temperature_c=83), (MEASURE,), "cool"),
    ("ecc", status(uncorrected_errors=1), ON_GPU, "reset"),
    ("compute-mode", status(compute_mode="prohibited"), ON_GPU, "-c 0"),
    ("artifacts", replace(GPU, artifacts=ArtifactFacts({}, problem="none")), ON_GPU, "build"),
    ("artifacts", replace(GPU, artifacts=ArtifactFacts({"sm_90a": 9}, 0, 1)), ON_GPU, "build"),
    (
        "artifacts",
        replace(GPU, artifacts=ArtifactFacts({"sm_100a": 9})),
        ON_GPU,
        "--target sm_90a",
    ),
]


@pytest.mark.parametrize(("name", "facts", "affects", "advice"), TROUBLES)
def test_trouble_stops_what_it_affects(
    name: str, facts: Facts, affects: tuple[Activity, ...], advice: str
) -> None:
    found = finding(facts, name)
    assert (found.status, found.affects) == (Status.TROUBLE, affects)
    assert advice in found.next_step
    assert found.seen
    for activity in affects:
        reason, words = readiness(judge(facts), activity)
        assert reason is Reason.MACHINE_UNFIT
        assert words.startswith("not fit: ")


UNKNOWNS = [
    ("gpu-use", "processes"),
    ("gpu-use", "busy_percent"),
    ("gpu-use", "used_bytes"),
    ("mig", "mig"),
    ("clocks", "sm_mhz"),
    ("clocks", "memory_mhz"),
    ("clocks", "highest_sm_mhz"),
    ("slowed-by", "slowed_by"),
    ("power", "power_w"),
    ("power", "power_limit_w"),
    ("power", "default_power_limit_w"),
    ("temperature", "temperature_c"),
]


@pytest.mark.parametrize(("name", "field"), UNKNOWNS)
def test_what_nvml_does_not_know_is_never_taken_for_good(name: str, field: str) -> None:
    facts = status(**{field: None})
    found = finding(facts, name)
    assert (found.status, found.affects) == (Status.UNKNOWN, (MEASURE,))
    assert "0" not in found.seen
    assert readiness(judge(facts), MEASURE)[0] is Reason.MACHINE_UNKNOWN
    assert readiness(judge(facts), CUDA)[0] is Reason.OK


NOTES = [
    ("temporary", disk(temporary_free_bytes=2 * GB), "16384"),
    ("engines", replace(CPU, simulator=SimulatorFacts((), (), ("numerics",))), "rungwatch check"),
    ("report", without("matplotlib"), "rungwatch[report]"),
    ("git", replace(CPU, git=None), "install git"),
    ("gpus", replace(GPU, gpu_nodes=8), "CUDA_VISIBLE_DEVICES"),
    ("gpu-packages", without("torch"), "rungwatch[gpu]"),
    ("sanitizer", variables(replace(GPU, sanitizer=False), gpu_required=False), "toolkit"),
    ("CUDA_VISIBLE_DEVICES", variables(GPU, visible_devices="1"), ""),
    ("LD_LIBRARY_PATH", variables(GPU, library_path=True), ""),
    ("clocks", status(application_sm_mhz=1200), "-rac"),
    ("slowed-by", status(slowed_by=("sw_power_cap",)), ""),
    ("power", status(power_limit_w=710.0), ""),
    ("temperature", status(slowdown_c=None), ""),
    ("ecc", status(ecc=False), "-e 1"),
    ("ecc", status(ecc=None, uncorrected_errors=None), ""),
    ("ecc", status(uncorrected_errors=None), ""),
    ("compute-mode", status(compute_mode=None), ""),
    ("persistence", status(persistence=False), "-pm 1"),
    ("persistence", status(persistence=None), ""),
    ("artifacts", replace(GPU, artifacts=ArtifactFacts({"sm_90a": 9}, 2)), "rungwatch build"),
]


@pytest.mark.parametrize(("name", "facts", "advice"), NOTES)
def test_a_note_stops_nothing(name: str, facts: Facts, advice: str) -> None:
    found = finding(facts, name)
    assert found.status is Status.NOTE
    assert advice in found.next_step
    assert unfit(facts) == unfit(GPU if facts.has_gpu else CPU)


def test_every_finding_of_a_good_machine_can_be_something_else() -> None:
    bad = {name for name, *_ in (*TROUBLES, *UNKNOWNS, *NOTES)}
    assert {found.name for found in judge(GPU)} <= bad


def test_every_fact_that_measuring_rests_on_is_tried_as_unknown() -> None:
    """A field that is added to what NVML says is judged, or listed here as only shown."""
    noted = {"slowdown_c", "ecc", "uncorrected_errors", "compute_mode", "persistence"}
    shown = {"driver", "total_bytes", "application_sm_mhz", "default_application_sm_mhz"}
    assert {field for _, field in UNKNOWNS} | noted | shown == set(STATUS.__struct_fields__)


def test_who_uses_the_gpu_is_counted_and_weighed() -> None:
    one = finding(status(processes=(GpuProcess(2 * GB),)), "gpu-use").seen
    assert one == "another process uses the GPU (2.0 GB)"
    two = finding(status(processes=(GpuProcess(None), GpuProcess(GB))), "gpu-use").seen
    assert two == "2 other processes use the GPU (1.0 GB)"
    unweighed = finding(status(processes=(GpuProcess(None),)), "gpu-use").seen
    assert unweighed == "another process uses the GPU"


def test_each_problem_of_the_simulator_is_a_finding() -> None:
    facts = replace(CPU, simulator=SimulatorFacts(problems=("a: b", "c (d: e): f")))
    found = [one for one in judge(facts) if one.name.startswith("simulator")]
    assert [(one.seen, one.next_step) for one in found] == [("a", "b"), ("c (d: e)", "f")]
    assert len({one.name for one in found}) == 2
    assert readiness(judge(facts), CHECK) == (Reason.MACHINE_UNFIT, "not fit: a; and 1 more")


def test_trouble_outranks_what_is_unknown() -> None:
    assert readiness(judge(status(mig=True, power_w=None)), MEASURE) == (
        Reason.MACHINE_UNFIT,
        "not fit: MIG is on: a part of the GPU can't be measured as the whole",
    )


def test_artifacts_without_a_gpu_are_only_counted() -> None:
    assert finding(replace(CPU, artifacts=ARTIFACTS), "artifacts").seen == "219 for sm_90a"
    nothing = replace(GPU, artifacts=ArtifactFacts({}))
    assert "there are: none" in finding(nothing, "artifacts").seen


def test_a_gpu_that_can_not_be_used_is_no_missing_gpu() -> None:
    broken = replace(CPU, gpu_nodes=1, gpu=GpuLook(problem="the driver hangs"))
    assert default_activities(broken) == EVERYTHING
    assert finding(broken, "gpu").seen == "the driver hangs"


def test_a_gpu_is_asked_for_where_there_is_one_or_must_be_one() -> None:
    assert default_activities(CPU) == ON_CPU
    assert default_activities(GPU) == EVERYTHING
    assert default_activities(variables(CPU, gpu_required=True)) == EVERYTHING
