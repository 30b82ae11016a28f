"""One hash over what a GPU executes: equal hashes mean that there is nothing to measure.

It covers the code, constants, data, sizes of memory, launch attributes, relocations, segments and
visible symbols of a cubin. It leaves out what only says how the file was made or how it is laid
out: notes (tool, version, options), the version attributes, debug tables, names of local symbols
(they hold the source file's name), numbers of symbols and sections, offsets in the file.
In doubt a thing is in: a needless "changed" costs a measurement, a wrong "same" a regression.

The second form of the program that the compiler adds for other GPUs of a family (sections
`.nv.capmerc.*` and `.nv.merc.*`) is covered as well, since which form a driver takes is not
documented.
"""

import hashlib
import struct
from collections.abc import Iterator

import msgspec

from rungwatch.artifact.cubin_sections import (
    MERCURY,
    SHT_CUDA_CALLGRAPH,
    SHT_CUDA_COMPAT,
    SHT_CUDA_INFO,
    SHT_MERCURY_INFO,
    SHT_MERCURY_RELA,
    SHT_NOTE,
    SHT_RELA,
    SHT_STRTAB,
    SYMBOL_TABLES,
)
from rungwatch.artifact.elf import (
    SHF_INFO_LINK,
    STB_LOCAL,
    Elf,
    ElfError,
    Section,
    Symbol,
    attributes,
    read_elf,
)

_VERSION = "1"  # of what is hashed and how: raise it with any change here
_INFO = (SHT_CUDA_INFO, SHT_MERCURY_INFO)
_RELOCATIONS = (SHT_RELA, SHT_MERCURY_RELA)
_LEFT_OUT_TYPES = (0, SHT_NOTE, SHT_STRTAB)
_DEBUG = (".debug_", ".rela.debug_", f"{MERCURY}debug_", f"{MERCURY}rela.debug_")

# Attributes that name the toolkit: CUDA_API_VERSION and, since 13.2, LANGUAGE.
_TOOL_ATTRIBUTES = (0x37, 0x66)
# Attributes that begin with the number of a symbol: PARAM_CBANK, FRAME_SIZE, MIN_STACK_SIZE,
# MAX_STACK_SIZE, REGCOUNT.
_SYMBOL_ATTRIBUTES = (0x0A, 0x11, 0x12, 0x23, 0x2F)
# Of `.nv.compat` only the accelerated target; the rest says which tools may recompile the file.
_COMPAT_ATTRIBUTES = (0x09,)

_NUMBER = struct.Struct("<I")
_RELOCATION = struct.Struct("<QIIq")

_Place = tuple[str | None, int | str]


def code_sha256(cubin: bytes) -> str:
    """Return the hash of a cubin's machine code, 64 hexadecimal digits.

    Raises:
        ElfError: the file is malformed (see `read_elf`), or a reference in it leads nowhere.
    """
    elf = read_elf(cubin)
    segments = [(s.type, s.flags, s.sections) for s in elf.segments]
    sections = sorted(_section(elf, section) for section in elf.sections if _counts(section))
    executed = (_VERSION, elf.type, elf.flags, segments, sections)
    return hashlib.sha256(msgspec.msgpack.encode(executed)).hexdigest()


def _counts(section: Section) -> bool:
    return section.type not in _LEFT_OUT_TYPES and not section.name.startswith(_DEBUG)


def _section(elf: Elf, section: Section) -> tuple[object, ...]:
    """Return a section as nested tuples that don't depend on the file's layout; name first."""
    applies_to = elf.sections[section.info].name if section.flags & SHF_INFO_LINK else ""
    return (
        section.name,
        section.type,
        section.flags,
        section.align,
        applies_to,
        _content(elf, section),
    )


def _content(elf: Elf, section: Section) -> object:
    if section.type in _INFO:
        return list(_info(section, _table_of(elf, section)))
    if section.type == SHT_CUDA_COMPAT:
        return [entry for entry in attributes(section) if entry.key in _COMPAT_ATTRIBUTES]
    if section.type in _RELOCATIONS:
        return list(_relocations(section, _table_of(elf, section)))
    if section.type == SHT_CUDA_CALLGRAPH:
        return list(_calls(section, _table_of(elf, section)))
    if section.type in SYMBOL_TABLES:
        return sorted(
            (
                symbol.name,
                symbol.section or "",
                symbol.value,
                symbol.size,
                symbol.kind,
                symbol.other,
            )
            for symbol in elf.tables[section.name]
            if symbol.binding != STB_LOCAL
        )
    return section.size, section.data


def _info(section: Section, symbols: tuple[Symbol, ...]) -> Iterator[object]:
    for key, value in attributes(section):
        if key in _TOOL_ATTRIBUTES:
            continue
        if key in _SYMBOL_ATTRIBUTES:
            number = int.from_bytes(value[:4], "little")
            yield key, _place(section, symbols, number), value[4:]
        else:
            yield key, value


def _relocations(section: Section, symbols: tuple[Symbol, ...]) -> Iterator[object]:
    if len(section.data) % _RELOCATION.size:
        raise ElfError(f"{section.name}: {len(section.data)} bytes are no whole relocations")
    for offset, kind, number, addend in _RELOCATION.iter_unpack(section.data):
        yield offset, kind, _place(section, symbols, number), addend


def _calls(section: Section, symbols: tuple[Symbol, ...]) -> Iterator[object]:
    """Return who calls whom; numbers from the top stand for callers and callees unknown."""
    if len(section.data) % _NUMBER.size:
        raise ElfError(f"{section.name}: {len(section.data)} bytes are no whole numbers")
    for (number,) in _NUMBER.iter_unpack(section.data):
        yield _place(section, symbols, number) if number < len(symbols) else number


def _place(section: Section, symbols: tuple[Symbol, ...], number: int) -> _Place:
    """Return what a symbol stands for: a place in a section, or a name defined elsewhere."""
    if number >= len(symbols):
        raise ElfError(f"{section.name}: refers to symbol {number} of {len(symbols)}")
    symbol = symbols[number]
    return symbol.section, symbol.value if symbol.section is not None else symbol.name


def _table_of(elf: Elf, section: Section) -> tuple[Symbol, ...]:
    name = elf.sections[section.link].name
    if name not in elf.tables:
        raise ElfError(f"{section.name}: '{name}' is no symbol table")
    return elf.tables[name]
