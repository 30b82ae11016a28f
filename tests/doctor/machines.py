"""Machines that are not there: a good one without a GPU, and a good one with one."""

from rungwatch.backends.cuda.facts import DeviceFacts
from rungwatch.backends.cuda.nvml import GpuStatus
from rungwatch.doctor.facts import (
    ArtifactFacts,
    DiskFacts,
    Facts,
    GpuLook,
    SimulatorFacts,
    TorchLook,
    Variables,
)
from rungwatch.doctor.packages import EXTRAS

GB = 10**9

CPU = Facts(
    system="Linux x86_64",
    cores=8,
    python="3.12.3",
    memory_free_bytes=24 * GB,
    memory_bytes=32 * GB,
    disk=DiskFacts(True, 3 * GB, 50 * GB, 50 * GB),
    packages={name: "1.0" for names in EXTRAS.values() for name in names},
    simulator=SimulatorFacts(("tirx-harness 0.1.2", "cargo 1.95.0")),
    git="git version 2.43.0",
    gpu_nodes=0,
    gpu=GpuLook(problem="no driver", status_problem="no driver"),
    torch=None,
    sanitizer=False,
    variables=Variables(),
)
DEVICE = DeviceFacts(
    name="NVIDIA H200",
    compute_capability=(9, 0),
    sm_count=132,
    free_bytes=149 * GB,
    total_bytes=150 * GB,
    cuda_version=(13, 0),
    driver_release="580.159.04",
)
STATUS = GpuStatus(
    driver="580.159.04",
    sm_mhz=345,
    memory_mhz=3201,
    highest_sm_mhz=1980,
    application_sm_mhz=1980,
    default_application_sm_mhz=1980,
    slowed_by=(),
    power_w=76.2,
    power_limit_w=700.0,
    default_power_limit_w=700.0,
    temperature_c=31,
    slowdown_c=87,
    used_bytes=4 * 2**20,
    total_bytes=150 * GB,
    busy_percent=0,
    processes=(),
    ecc=True,
    uncorrected_errors=0,
    mig=False,
    persistence=True,
    compute_mode="default",
)
ARTIFACTS = ArtifactFacts({"sm_90a": 219})
GPU = Facts(
    system="Linux x86_64",
    cores=16,
    python="3.12.3",
    memory_free_bytes=120 * GB,
    memory_bytes=128 * GB,
    disk=CPU.disk,
    packages=CPU.packages,
    simulator=CPU.simulator,
    git=CPU.git,
    gpu_nodes=1,
    gpu=GpuLook(DEVICE, "", STATUS),
    torch=TorchLook("2.11.0", "NVIDIA H200"),
    sanitizer=True,
    variables=Variables(gpu_required=True),
    artifacts=ARTIFACTS,
)
