"""The numbers of machine code are those that NVIDIA's own tools print."""

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwatch.artifact.elf import ElfError, read_elf
from rungwatch.cost import machine_code as module
from rungwatch.cost.disassembly import DisassemblyError, Instruction
from rungwatch.cost.instruction_classes import UnknownOpcodeError
from rungwatch.cost.machine_code import MachineCode, machine_code
from tests.cost.nvrtc import compiled

CUBINS = Path(__file__).parents[1] / "artifact" / "data"
RESOURCES = Path(__file__).parent / "data"
TARGETS = ("sm_90a", "sm_100a")
RESERVED_BYTES = 1024

SPILLS = """
extern "C" __global__ void spill(float *y, const float *x) {
  float a[28];
  #pragma unroll
  for (int i = 0; i < 28; i++) a[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int j = 0; j < 28; j++) {
    float s = 0;
    #pragma unroll
    for (int i = 0; i < 28; i++) s += a[i] * a[(i * 5 + j) % 28];
    y[j * 1024 + threadIdx.x] = s;
  }
}
"""
BARRIERS = """
__shared__ float s[64];
extern "C" __global__ void none(float *y) { y[1] = 1; }
extern "C" __global__ void one(float *y) { s[threadIdx.x] = y[0]; __syncthreads(); y[1] = s[1]; }
extern "C" __global__ void six(float *y) { asm volatile("bar.sync 5, 64;"); y[1] = 1; }
extern "C" __global__ void computed(float *y, int b) {
  asm volatile("bar.sync %0, 64;" :: "r"(b)); y[1] = 1;
}
"""


def of_assembler(log: str, kernel: str) -> dict[str, int]:
    """Return what `ptxas -v` printed of one kernel."""
    text = log.split(f"Compiling entry function '{kernel}'")[1].split("Compiling entry")[0]
    return {
        name: int(found[1]) if (found := re.search(pattern, text)) else 0
        for name, pattern in {
            "registers": r"Used (\d+) registers",
            "barriers": r"used (\d+) barriers",
            "stack_bytes": r"(\d+) bytes cumulative stack size",
            "static_smem_bytes": r"(\d+) bytes smem",
            "local_store_bytes": r"(\d+) bytes spill stores",
            "local_load_bytes": r"(\d+) bytes spill loads",
        }.items()
    }


def same_facts(code: MachineCode, said: dict[str, int]) -> None:
    assert {name: getattr(code, name) for name in said} == said


@pytest.mark.parametrize("target", TARGETS)
def test_spills_are_those_that_the_assembler_reports(target: str) -> None:
    cubin, log = compiled(SPILLS, target, "--maxrregcount=24", "--ptxas-options=-v")
    said = of_assembler(log, "spill")
    assert min(said["local_store_bytes"], said["local_load_bytes"]) > 0
    code = machine_code(cubin, "spill")
    same_facts(code, said)
    assert code.local_stores + code.local_loads == code.instructions.local


@pytest.mark.parametrize("target", TARGETS)
def test_an_array_in_local_memory_counts_though_nothing_is_spilled(target: str) -> None:
    """Where the numbers and the assembler's part: it reports spills only."""
    source = (CUBINS / "held.cu").read_text(encoding="ascii")
    cubin, log = compiled(source, target, "--ptxas-options=-v")
    said = of_assembler(log, "held")
    assert (said.pop("local_store_bytes"), said.pop("local_load_bytes")) == (0, 0)
    code = machine_code(cubin, "held")
    same_facts(code, said)
    assert code.local_store_bytes == 8 * 4  # an array of 8 floats, set once
    assert code.local_load_bytes == 4


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("kernel", "barriers"), [("none", 0), ("one", 1), ("six", 6), ("computed", 16)]
)
def test_named_barriers(
    target: str, kernel: str, barriers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "instructions_of", lambda code, arch: ())  # not looked at here
    cubin, log = compiled(BARRIERS, target, "--ptxas-options=-v")
    code = machine_code(cubin, kernel)
    assert code.barriers == barriers
    same_facts(code, of_assembler(log, kernel))


@pytest.mark.parametrize("target", TARGETS)
def test_the_numbers_of_cuobjdump(target: str) -> None:
    """`cuobjdump --dump-resource-usage` 13.3; its SHARED holds the system's kilobyte."""
    text = (RESOURCES / f"held-{target}.resources.txt").read_text(encoding="ascii")
    said = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", text.split("held:")[1])}
    code = machine_code((CUBINS / f"held-{target}-nvrtc13.2.cubin").read_bytes(), "held")
    assert code.arch == target
    assert code.registers == said["REG"]
    assert code.stack_bytes == said["STACK"]
    assert code.static_smem_bytes + RESERVED_BYTES == said["SHARED"]
    assert code.code_bytes % 128 == 0
    assert code.instructions.total + code.instructions.padding == code.code_bytes // 16


def test_the_width_of_an_access() -> None:
    widths = {"LDL": 4, "LDL.LU.64": 8, "LDL.128": 16, "STL.U8": 1, "STL.S16": 2}
    for opcode, moved in widths.items():
        assert module._moved_bytes([Instruction(opcode)]) == moved


@pytest.mark.parametrize("arch", ["sm_90", "sm_100", "sm_120"])
def test_another_target_is_refused(arch: str) -> None:
    with pytest.raises(DisassemblyError, match=f"code for {arch}; known are sm_90a, sm_100a"):
        machine_code(compiled(BARRIERS, arch)[0], "one")


def test_an_unknown_instruction_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "instructions_of", lambda code, arch: (Instruction("WARPDRIVE"),))
    with pytest.raises(UnknownOpcodeError, match="'WARPDRIVE'"):
        machine_code(compiled(BARRIERS, "sm_90a")[0], "one")


def of_section(cubin: bytes, name: str) -> int:
    section = read_elf(cubin).find(name)
    assert section is not None
    return section.offset


def test_a_missing_fact_is_an_error_and_never_a_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "instructions_of", lambda code, arch: ())
    cubin = compiled(BARRIERS, "sm_90a")[0]
    for attribute, what in ((0x2F, "register count"), (0x12, "stack size")):
        damaged = bytearray(cubin)
        start = of_section(cubin, ".nv.info")
        for at in range(start, start + 12 * 12, 12):  # each entry: format, key, size, two words
            if damaged[at : at + 2] == bytes((4, attribute)):
                damaged[at + 1] = 0x7E
        with pytest.raises(ElfError, match=f"kernel one has no {what}"):
            machine_code(bytes(damaged), "one")


def test_less_smem_than_the_system_reserves_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "instructions_of", lambda code, arch: ())
    cubin = bytearray(compiled(BARRIERS, "sm_90a")[0])
    (table,) = struct.unpack_from("<Q", cubin, 40)
    names = [section.name for section in read_elf(bytes(cubin)).sections]
    struct.pack_into("<Q", cubin, table + 64 * names.index(".nv.shared.one") + 32, 1000)
    with pytest.raises(ElfError, match="1000 bytes, less than the system reserves"):
        machine_code(bytes(cubin), "one")


HELD = (CUBINS / "held-sm_100a-nvrtc13.2.cubin").read_bytes()


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, len(HELD) - 1), st.integers(0, 255)), max_size=6))
def test_a_damaged_cubin_gives_numbers_or_a_named_error(flips: list[tuple[int, int]]) -> None:
    data = bytearray(HELD)
    for at, value in flips:
        data[at] = value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "instructions_of", lambda code, arch: ())
        try:
            code = machine_code(bytes(data), "held")
        except (ElfError, DisassemblyError):
            return
    assert min(code.registers, code.stack_bytes, code.static_smem_bytes, code.barriers) >= 0
