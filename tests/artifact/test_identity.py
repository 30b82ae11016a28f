"""The hash of machine code: blind to how a file was made, not to what a GPU executes."""

import struct
from pathlib import Path

import pytest

from rungwatch.artifact.elf import ElfError, read_elf
from rungwatch.artifact.identity import code_sha256
from tests.cost.nvrtc import compiled

DATA = Path(__file__).parent / "data"
TARGETS = ("sm_90a", "sm_100a")
SCALE = """
namespace { __device__ float factors[2] = {1.0f, 2.0f}; }
extern "C" __global__ void scale(float *y, int i) { y[0] = factors[i] * 3.0f; }
"""


def held(target: str, version: str) -> bytes:
    return (DATA / f"held-{target}-nvrtc{version}.cubin").read_bytes()


@pytest.mark.parametrize("target", TARGETS)
def test_two_versions_of_the_compiler_that_emit_the_same_code(target: str) -> None:
    old, new = held(target, "13.2"), held(target, "13.3")
    assert old != new
    assert code_sha256(old) == code_sha256(new)


def test_the_targets_differ() -> None:
    assert code_sha256(held("sm_90a", "13.2")) != code_sha256(held("sm_100a", "13.2"))
    plain, accelerated = compiled(SCALE, "sm_90")[0], compiled(SCALE, "sm_90a")[0]
    assert code_sha256(plain) != code_sha256(accelerated)


@pytest.mark.parametrize("target", TARGETS)
def test_the_name_of_the_source_file_does_not_count(target: str) -> None:
    one, two = (compiled(SCALE, target, name=name)[0] for name in ("one.cu", "another.cu"))
    assert b"one_cu" in one
    assert one != two
    assert code_sha256(one) == code_sha256(two)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* 3.0f", "* 4.0f"),  # an instruction's immediate
        ("1.0f, 2.0f", "1.0f, 2.5f"),  # initialised data only
        ("__global__ void", "__global__ void __launch_bounds__(64)"),  # an attribute only
        ("int i)", "int i, int unused)"),  # a parameter only
        ("{ y[0]", "{ __shared__ float s[9]; s[i] = 1; __syncthreads(); y[1] = s[0]; y[0]"),
    ],
)
def test_what_the_gpu_executes_counts(target: str, old: str, new: str) -> None:
    assert old in SCALE
    changed = SCALE.replace(old, new)
    assert code_sha256(compiled(SCALE, target)[0]) != code_sha256(compiled(changed, target)[0])


def seen_in(cubin: bytes, start: int, size: int) -> set[bool]:
    """Change every third byte of a range, one at a time; say whether hash or reader saw it."""
    before, seen = code_sha256(cubin), set()
    for at in range(start, start + size, 3):
        changed = bytearray(cubin)
        changed[at] ^= 0x11
        try:
            seen.add(code_sha256(bytes(changed)) != before)
        except ElfError:
            seen.add(True)
    return seen


@pytest.mark.parametrize("target", TARGETS)
def test_every_byte_of_code_and_constants_counts_and_none_of_notes_and_debug_tables(
    target: str,
) -> None:
    cubin = held(target, "13.2")
    parts = {s.name: seen_in(cubin, s.offset, s.size) for s in read_elf(cubin).sections if s.data}
    forms = ("", ".nv.merc") if target == "sm_100a" else ("",)
    for name in (".text.held", ".nv.constant0.held", ".nv.constant3"):
        assert parts.pop(name) == {True}
    assert parts.pop(".note.nv.tkinfo") | parts.pop(".note.nv.cuinfo") == {False}
    for form in forms:
        tables = (".debug_frame", ".rela.debug_frame")
        assert {seen for table in tables for seen in parts.pop(form + table)} == {False}
    parts.pop(".strtab")  # only where a local symbol is named may it change
    # What is left has bytes that count, unless the table is empty.
    assert [name for name, seen in parts.items() if True not in seen] == []


def test_a_size_in_memory_counts() -> None:
    cubin = held("sm_90a", "13.2")
    (table,) = struct.unpack_from("<Q", cubin, 40)
    names = [section.name for section in read_elf(cubin).sections]
    at = table + 64 * names.index(".nv.shared.held") + 32
    assert seen_in(cubin, at, 1) == {True}


def test_where_the_section_headers_are_does_not_count() -> None:
    cubin = held("sm_100a", "13.2")
    (table,) = struct.unpack_from("<Q", cubin, 40)
    (number,) = struct.unpack_from("<H", cubin, 60)
    moved = bytearray(cubin + bytes(-len(cubin) % 8) + cubin[table : table + 64 * number])
    struct.pack_into("<Q", moved, 40, len(moved) - 64 * number)
    assert code_sha256(bytes(moved)) == code_sha256(cubin)


def test_a_reference_to_no_symbol_is_refused() -> None:
    cubin = bytearray(held("sm_90a", "13.2"))
    section = read_elf(bytes(cubin)).find(".nv.info")
    assert section is not None
    struct.pack_into("<I", cubin, section.offset + 4, 5000)
    with pytest.raises(ElfError, match="refers to symbol 5000"):
        code_sha256(bytes(cubin))
