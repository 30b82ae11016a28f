"""Turn a kernel's machine code into instructions and into text that people can compare.

NVIDIA's nvdisasm is given the bytes of one code section and nothing else, so that it never parses
a file that code under test wrote. It runs in a process with a deadline and a memory limit.

Source: NVIDIA, "CUDA Binary Utilities": nvdisasm, option --binary, and the JSON format.
"""

import re
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from rungwatch.artifact.elf import Elf, read_elf
from rungwatch.backends.supervise import Ending, Limits, WorkerFiles, supervise

PACKAGE = "nvidia-cuda-nvdisasm"
LIMITS = Limits(deadline_s=60.0, memory_bytes=2 * 2**30)
INSTRUCTION_BYTES = 16  # on every GPU since Volta
MAX_CODE_BYTES = 2**20
MAX_OUTPUT_BYTES = 64 * 2**20
# Instructions whose last operand is a place in the code.
_JUMPS = ("BRA", "BSSY", "CALL", "JMP", "WARPSYNC")
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class DisassemblyError(ValueError):
    """Machine code that could not be taken apart, and why."""


class Instruction(msgspec.Struct, frozen=True):
    """One machine instruction: "@P0", "BRA.U", ("UP0", "0x2a0").

    `opcode` has its modifiers; `predicate` is empty where the instruction has none.
    """

    opcode: str
    operands: tuple[str, ...] = ()
    predicate: str = ""

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def target(self) -> int | None:
        """The instruction that this one may jump to, as an index into the code."""
        last = self.operands[-1] if self.operands else ""
        if self.name not in _JUMPS or not _ADDRESS.fullmatch(last):
            return None
        return int(last, 16) // INSTRUCTION_BYTES


class _Raw(msgspec.Struct):
    opcode: str
    operands: str = ""
    predicate: str = ""


class _Function(msgspec.Struct, rename="kebab"):
    start: int
    length: int
    sass_instructions: list[_Raw]


def disassemble(cubin: bytes, entry: str) -> tuple[Instruction, ...]:
    """Return the instructions of kernel `entry`, those of its helper functions after them.

    Raises:
        ElfError: the cubin is malformed.
        DisassemblyError: it holds no such kernel, or nvdisasm is missing, failed, or printed
            something else than one instruction for each 16 bytes.
    """
    elf = read_elf(cubin)
    return instructions_of(code_of(elf, entry), elf.arch)


def code_of(elf: Elf, entry: str) -> bytes:
    """Return the machine code of kernel `entry`, helper functions included.

    Raises:
        ElfError: the symbol table is malformed.
        DisassemblyError: there is no such kernel, it is empty, or code of the file belongs to
            no kernel: what calls it could not be told.
    """
    kernels = elf.entries()
    section = elf.find(f".text.{entry}")
    if entry not in kernels or section is None:
        raise DisassemblyError(
            f"no kernel {entry!r}; the cubin holds {', '.join(kernels) or 'none'}"
        )
    for other in elf.sections:
        prefix, dot, name = other.name.partition(".text.")
        if dot and not prefix and name not in kernels:
            raise DisassemblyError(f"function {name} is in a section of its own: it is not counted")
    if not section.data:
        raise DisassemblyError(f"kernel {entry} holds no code")
    return section.data


def instructions_of(code: bytes, arch: str, limits: Limits = LIMITS) -> tuple[Instruction, ...]:
    """Return the instructions in `code`, raw machine code for `arch` ("sm_90a").

    Raises:
        DisassemblyError: as for `disassemble`.
    """
    if not 0 < len(code) <= MAX_CODE_BYTES or len(code) % INSTRUCTION_BYTES:
        raise DisassemblyError(
            f"{len(code)} bytes of code: none, too many, or no whole instructions"
        )
    with tempfile.TemporaryDirectory(prefix="rungwatch-sass-") as name:
        folder = Path(name)
        (folder / "code.bin").write_bytes(code)
        # No data-flow analysis: it adds no instruction, and fails on code it cannot follow.
        command = [nvdisasm(), "-ndf", "-json", "-b", arch.replace("sm_", "SM"), "code.bin"]
        ended = supervise([str(part) for part in command], folder, {"LC_ALL": "C"}, limits)
        if ended.ending is not Ending.EXITED:
            raise DisassemblyError(f"nvdisasm ended at its {ended.ending} limit")
        if not ended.ok:
            raise DisassemblyError(f"nvdisasm: {ended.describe()}")
        output = WorkerFiles(folder).stdout
        if output.stat().st_size > MAX_OUTPUT_BYTES:
            raise DisassemblyError(f"nvdisasm printed {output.stat().st_size} bytes")
        return _parse(output.read_bytes(), len(code))


def nvdisasm() -> Path:
    """Return the path of nvdisasm, as its package installed it.

    Raises:
        DisassemblyError: the package is not installed, or its program is gone.
    """
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.stem == "nvdisasm" and (path := Path(str(file.locate()))).is_file():
            return path
    raise DisassemblyError(f"no nvdisasm: install the Python package {PACKAGE}")


def sass_text(instructions: tuple[Instruction, ...]) -> tuple[str, ...]:
    """Return the code as lines to compare: no addresses, and none of the padding at the end.

    A place that is jumped to has a line "label:" before it. A jump names its place by how many of
    these lines away it is, "label+2" for the second one below and "label-1" for the one above:
    code that is added elsewhere changes neither line, which numbered labels would.
    """
    code = list(instructions)
    while code and code[-1].name == "NOP":
        code.pop()
    # A jump to no instruction of the code keeps its address.
    targets = {each.target for each in code if each.target is not None}
    places = [index for index in range(len(code)) if index in targets]
    numbers = {place: number for number, place in enumerate(places)}
    lines: list[str] = []
    passed = 0
    for index, each in enumerate(code):
        if index in numbers:
            lines.append("label:")
            passed += 1
        operands = each.operands
        if each.target is not None and each.target in numbers:
            away = numbers[each.target] - passed  # 0 is the next one below, -1 the one above
            operands = (*operands[:-1], f"label{away + (away >= 0):+d}")
        words = (each.predicate, each.opcode, ", ".join(operands))
        lines.append("    " + " ".join(word for word in words if word))
    return tuple(lines)


def _parse(output: bytes, code_bytes: int) -> tuple[Instruction, ...]:
    try:
        _, functions = msgspec.json.decode(output, type=tuple[Any, tuple[_Function]])
    except msgspec.MsgspecError as error:
        raise DisassemblyError(f"nvdisasm printed something else than code: {error}") from None
    found = tuple(
        Instruction(
            raw.opcode, tuple(raw.operands.split(",")) if raw.operands else (), raw.predicate
        )
        for raw in functions[0].sass_instructions
    )
    if len(found) * INSTRUCTION_BYTES != code_bytes:
        raise DisassemblyError(f"nvdisasm printed {len(found)} instructions of {code_bytes} bytes")
    return found
