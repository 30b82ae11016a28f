"""Machine code becomes instructions, or an error that says what is wrong."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwatch.artifact.elf import ElfError, read_elf
from rungwatch.backends.supervise import Limits
from rungwatch.cost import disassembly
from rungwatch.cost.disassembly import (
    DisassemblyError,
    Instruction,
    disassemble,
    instructions_of,
    sass_text,
)
from tests.cost.nvrtc import compiled

DATA = Path(__file__).parents[1] / "artifact" / "data"
HELD = (DATA / "held-sm_90a-nvrtc13.2.cubin").read_bytes()
TWO = """
extern "C" __global__ void copy(float *y, const float *x) { y[0] = x[0]; }
extern "C" __global__ void square(float *y, const float *x) { y[0] = x[0] * x[0]; }
"""
LIMITS = Limits(deadline_s=0.5, memory_bytes=2**30)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a path where a test writes what runs in nvdisasm's place."""
    path = tmp_path / "nvdisasm"
    monkeypatch.setattr(disassembly, "nvdisasm", lambda: path)
    return path


def become(tool: Path, script: str) -> None:
    tool.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    tool.chmod(0o755)


def code(*lines: str) -> tuple[Instruction, ...]:
    """Return instructions from lines such as "@P0 BRA 0x20"."""
    found = []
    for line in lines:
        words = line.split()
        predicate = words.pop(0) if words[0].startswith("@") else ""
        found.append(Instruction(words[0], tuple(words[1:]), predicate))
    return tuple(found)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_one_kernel_of_two(target: str) -> None:
    cubin = compiled(TWO, target)[0]
    copy, square = disassemble(cubin, "copy"), disassemble(cubin, "square")
    assert [each.name for each in copy].count("STG") == 1
    assert "FMUL" not in [each.name for each in copy]
    assert "FMUL" in [each.name for each in square]
    section = read_elf(cubin).find(".text.copy")
    assert section is not None
    assert len(copy) * 16 == section.size


def test_predicates_operands_and_modifiers_are_kept() -> None:
    source = 'extern "C" __global__ void f(int *y) { if (threadIdx.x < 7) y[threadIdx.x] = 1; }'
    found = disassemble(compiled(source, "sm_90a")[0], "f")
    (leave,) = [each for each in found if each.opcode == "EXIT" and each.predicate]
    assert leave.predicate == "@P0"
    (compare,) = [each for each in found if each.name == "ISETP"]
    assert compare.opcode == "ISETP.GT.U32.AND"
    assert "0x6" in compare.operands


def test_helper_functions_belong_to_the_kernel() -> None:
    source = """
    __device__ __noinline__ float twice(float x) { return x * x; }
    extern "C" __global__ void f(float *y) { y[0] = twice(y[1]) + twice(y[2]); }
    """
    found = disassemble(compiled(source, "sm_100a")[0], "f")
    calls = [each for each in found if each.name == "CALL"]
    assert len(calls) == 2
    assert len({call.target for call in calls}) == 1
    helper = [each.name for each in found[calls[0].target or 0 :]]
    assert "FMUL" in helper[: helper.index("RET")]


@pytest.mark.parametrize("entry", ["axpy", "", "held.", ".text.held"])
def test_another_entry_is_named_with_those_there_are(entry: str) -> None:
    with pytest.raises(DisassemblyError, match="the cubin holds held"):
        disassemble(HELD, entry)


def test_a_file_that_is_no_cubin() -> None:
    with pytest.raises(ElfError):
        disassemble(b"not a cubin", "held")


def test_code_of_no_kernel_is_refused_by_name() -> None:
    source = """
    __device__ __noinline__ float twice(float x) { return x * x; }
    extern "C" __global__ void f(float *y) { y[0] = twice(y[1]); }
    """
    cubin = compiled(source, "sm_90a", "--relocatable-device-code=true")[0]
    with pytest.raises(DisassemblyError, match="function _Z5twicef is in a section of its own"):
        disassemble(cubin, "f")


@pytest.mark.parametrize("size", [0, 8, 24, 2**20 + 16])
def test_code_of_an_impossible_size(size: int) -> None:
    with pytest.raises(DisassemblyError, match=f"{size} bytes of code"):
        instructions_of(bytes(size), "sm_90a")


def test_bytes_that_are_no_instructions() -> None:
    with pytest.raises(DisassemblyError, match="Illegal instruction"):
        instructions_of(b"\xff" * 32, "sm_100a")


def test_an_architecture_that_the_tool_does_not_know() -> None:
    with pytest.raises(DisassemblyError, match="SM200"):
        instructions_of(bytes(16), "sm_200")


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly.metadata, "files", lambda name: None)
    with pytest.raises(DisassemblyError, match="install the Python package nvidia-cuda-nvdisasm"):
        disassemble(HELD, "held")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 0", "printed something else than code"),
        ("echo '[]'", "printed something else than code"),
        ("echo '[{}, []]'", "printed something else than code"),
        ("""echo '[{},[{"start":0,"length":16}]]'""", "sass-instructions"),
        ("""echo '[{},[{"start":0,"length":16,"sass-instructions":[{}]}]]'""", "opcode"),
        ("""echo '[{},[{"start":0,"length":16,"sass-instructions":[]}]]'""", "printed 0 instr"),
        ("head -c 4096 /dev/urandom", "printed something else than code"),
        ("echo 'no licence' >&2; exit 3", "exit code 3: no licence"),
        ("kill -SEGV $$", "signal SIGSEGV"),
        ("sleep 60", "ended at its deadline limit"),
    ],
)
def test_a_tool_that_misbehaves(tool: Path, script: str, why: str) -> None:
    become(tool, script)
    with pytest.raises(DisassemblyError, match=why):
        instructions_of(bytes(16), "sm_90a", LIMITS)


def test_output_without_end_is_not_read(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly, "MAX_OUTPUT_BYTES", 1000)
    become(tool, "head -c 1001 /dev/zero")
    with pytest.raises(DisassemblyError, match="printed 1001 bytes"):
        instructions_of(bytes(16), "sm_90a", LIMITS)


def test_text_has_no_addresses() -> None:
    text = sass_text(code("MOV R1 R2", "@P0 BRA 0x30", "STG.E R3", "BRA 0x10", "NOP", "NOP"))
    assert text == (
        "    MOV R1, R2",
        "label:",
        "    @P0 BRA label+1",
        "    STG.E R3",
        "label:",
        "    BRA label-2",
    )


def test_code_that_is_added_changes_no_other_line() -> None:
    short = sass_text(code("BRA 0x20", "MOV", "EXIT", "BRA 0x30"))
    long = sass_text(code("SHF", "LEA", "BRA 0x50", "MOV", "LDS", "EXIT", "BRA 0x60"))
    assert [line for line in long if line.split()[0] not in ("SHF", "LEA", "LDS")] == list(short)


def test_a_jump_out_of_the_code_keeps_its_address() -> None:
    assert sass_text(code("BRA 0x400", "NANOSLEEP 0x0")) == ("    BRA 0x400", "    NANOSLEEP 0x0")


def test_the_text_of_a_real_kernel_names_every_place_it_jumps_to() -> None:
    text = sass_text(disassemble(HELD, "held"))
    assert not any("NOP" in line for line in text[-1:])
    labels = text.count("label:")
    jumps = [line for line in text if "label+" in line or "label-" in line]
    assert 0 < labels <= len(jumps)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, len(HELD) - 1), st.integers(0, 255)), max_size=6))
def test_a_damaged_cubin_is_taken_apart_or_refused(flips: list[tuple[int, int]]) -> None:
    data = bytearray(HELD)
    for at, value in flips:
        data[at] = value
    with contextlib.suppress(ElfError, DisassemblyError):
        assert disassembly.code_of(read_elf(bytes(data)), "held")
