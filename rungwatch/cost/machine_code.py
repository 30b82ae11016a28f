"""What a kernel's machine code needs and holds, from its cubin alone: no GPU, no driver.

Sources: registers, stack and barriers are attributes that the assembler writes for the driver
(REGCOUNT, MIN_STACK_SIZE, NUM_BARRIERS); SMEM is the size of the kernel's own section.
"""

from collections.abc import Iterable

import msgspec

from rungwatch.artifact.elf import Elf, ElfError, attributes, read_elf
from rungwatch.cost.disassembly import DisassemblyError, Instruction, code_of, instructions_of
from rungwatch.cost.instruction_classes import InstructionCounts, count
from rungwatch.cost.targets import SM_FACTS

_REGCOUNT, _MIN_STACK_SIZE, _NUM_BARRIERS = 0x2F, 0x12, 0x4C
_UNKNOWN_STACK = 2**31  # and above: the code recurses, so there is no bound
_ACCESS_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_WORD_BYTES = 4


class MachineCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The static facts of one kernel's machine code.

    `registers` is what a thread has at launch; a kernel may move registers between its
    warpgroups later. `stack_bytes` a thread, calls included. `local_loads` and `local_stores`
    are the instructions that reach a thread's local memory and `local_*_bytes` what they move
    for one thread if each ran once: spilled registers, and arrays that could not be kept in
    registers. `static_smem_bytes` is without the 1,024 bytes a CTA that the system reserves.
    `barriers` is how many of the 16 named barriers of a CTA are taken: all 16 where the code
    computes a barrier's number. `code_bytes` has the padding in it.
    """

    arch: str
    registers: int
    stack_bytes: int
    local_stores: int
    local_store_bytes: int
    local_loads: int
    local_load_bytes: int
    static_smem_bytes: int
    barriers: int
    code_bytes: int
    instructions: InstructionCounts


def machine_code(cubin: bytes, entry: str) -> MachineCode:
    """Read kernel `entry` of a cubin for one of the targets.

    Raises:
        ElfError: the cubin is malformed, or says nothing of the kernel's registers or stack.
        DisassemblyError: another target, no such kernel, or no disassembly (see `disassemble`).
        UnknownOpcodeError: an instruction of no known class.
    """
    elf = read_elf(cubin)
    facts = next((facts for target, facts in SM_FACTS.items() if target == elf.arch), None)
    if facts is None:
        raise DisassemblyError(f"code for {elf.arch}; known are {', '.join(SM_FACTS)}")
    code = code_of(elf, entry)
    instructions = instructions_of(code, elf.arch)
    stack_bytes = _of_kernel(elf, entry, _MIN_STACK_SIZE, "stack size")
    if stack_bytes >= _UNKNOWN_STACK:
        raise ElfError(f"kernel {entry} has no bound on its stack")
    stores = [each for each in instructions if each.name == "STL"]
    loads = [each for each in instructions if each.name == "LDL"]
    return MachineCode(
        arch=elf.arch,
        registers=_of_kernel(elf, entry, _REGCOUNT, "register count"),
        stack_bytes=stack_bytes,
        local_stores=len(stores),
        local_store_bytes=_moved_bytes(stores),
        local_loads=len(loads),
        local_load_bytes=_moved_bytes(loads),
        static_smem_bytes=_static_smem(elf, entry, facts.smem_reserved_bytes),
        barriers=_barriers(elf, entry),
        code_bytes=len(code),
        instructions=count(instructions),
    )


def _of_kernel(elf: Elf, entry: str, key: int, what: str) -> int:
    """Return the value that `.nv.info` holds for a kernel under `key`: (symbol, value) pairs."""
    section = elf.find(".nv.info")
    found = set()
    for attribute in attributes(section) if section is not None else ():
        if attribute.key == key and len(attribute.value) == 8:
            number = int.from_bytes(attribute.value[:4], "little")
            if number < len(elf.symbols) and elf.symbols[number].name == entry:
                found.add(int.from_bytes(attribute.value[4:], "little"))
    if len(found) != 1:
        raise ElfError(f"kernel {entry} has {'no' if not found else 'more than one'} {what}")
    return found.pop()


def _barriers(elf: Elf, entry: str) -> int:
    """Return the named barriers of a kernel; the assembler leaves the entry out for none."""
    section = elf.find(f".nv.info.{entry}")
    if section is None:
        raise ElfError(f"kernel {entry} has no attributes")
    found = [value[0] for key, value in attributes(section) if key == _NUM_BARRIERS and value]
    return max(found, default=0)


def _static_smem(elf: Elf, entry: str, reserved_bytes: int) -> int:
    """Return the static SMEM of a kernel; its section holds what the system reserves as well."""
    section = elf.find(f".nv.shared.{entry}")
    if section is None:
        return 0
    if section.size < reserved_bytes:
        raise ElfError(f"{section.name} has {section.size} bytes, less than the system reserves")
    return section.size - reserved_bytes


def _moved_bytes(accesses: Iterable[Instruction]) -> int:
    return sum(
        next(
            (
                _ACCESS_BYTES[modifier]
                for modifier in each.opcode.split(".")[1:]
                if modifier in _ACCESS_BYTES
            ),
            _WORD_BYTES,
        )
        for each in accesses
    )
