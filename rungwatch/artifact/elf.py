"""Read a cubin: the ELF file that holds a kernel's machine code.

The bytes may come from code under test, so nothing in them is believed: every offset, size and
index is checked before it is used, and whatever is wrong is an `ElfError`, never another
exception and never a guess. Sizes that a compiler never reaches are refused as well.

Sources: the ELF-64 object file format (System V ABI); what is NVIDIA's own (machine number, ABI
version, section types, `.nv.info` attributes) is what `cuobjdump --dump-elf` 13.3 names in the
output of NVRTC 13.0 to 13.3.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec

from rungwatch.artifact.cubin_sections import (
    MERCURY,
    SHT_NOBITS,
    SHT_STRTAB,
    SYMBOL_TABLES,
    is_known,
)

EM_CUDA = 190
ABI = (65, 8)  # EI_OSABI and EI_ABIVERSION of NVRTC 13; CUDA 12 wrote (51, 7)
MAX_FILE_BYTES = 16 * 2**20
MAX_SECTIONS = 4096
MAX_SEGMENTS = 64
MAX_SYMBOL_TABLES = 2  # of the program, and of its second form
MAX_SYMBOLS = 16384  # of a table
MAX_NAME_BYTES = 4096

SHF_INFO_LINK = 0x40
PT_LOAD, PT_PHDR = 1, 6
STT_FUNC = 2
STB_LOCAL = 0
STO_CUDA_ENTRY = 0x10

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ATTRIBUTE = struct.Struct("<BBH")
_INLINE_FORMATS = (1, 2, 3)  # no value, a byte, a half word: all within the 4 bytes of the head
_SIZED_FORMAT = 4
_ACCELERATED = 0x09  # EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET
_SHN_UNDEF, _SHN_LORESERVE = 0, 0xFF00


class ElfError(ValueError):
    """A file that is no well-formed cubin, and what is wrong with it."""


class Section(msgspec.Struct, frozen=True):
    """One section. `data` is empty for one that only reserves `size` bytes (NOBITS)."""

    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int
    data: bytes


class Symbol(msgspec.Struct, frozen=True):
    """One symbol. `section` is None where it is defined in no section of this file."""

    name: str
    section: str | None
    value: int
    size: int
    binding: int
    kind: int
    other: int


class Segment(msgspec.Struct, frozen=True):
    """What the driver maps: the names of the sections whose bytes it holds, in file order."""

    type: int
    flags: int
    sections: tuple[str, ...]


class Attribute(NamedTuple):
    """One entry of an information section: `key` is its number, `value` its raw bytes."""

    key: int
    value: bytes


class Elf(msgspec.Struct, frozen=True):
    """A cubin. `flags` are the ELF header's; sections keep their order, the null one first.

    `tables` holds the symbols of each symbol table, by the name of its section.
    """

    type: int
    flags: int
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]
    tables: dict[str, tuple[Symbol, ...]]

    def find(self, name: str) -> Section | None:
        """Return the section called `name`, or None."""
        return next((section for section in self.sections if section.name == name), None)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of `.symtab`, the null symbol first.

        Raises:
            ElfError: the file has none.
        """
        if ".symtab" not in self.tables:
            raise ElfError("no symbol table")
        return self.tables[".symtab"]

    @property
    def arch(self) -> str:
        """The architecture that the code was compiled for: "sm_90a".

        The number is bits 8 to 15 of the header's flags, the "a" an attribute of `.nv.compat`.
        A family target (sm_100f) is marked nowhere but in a note, and reads as sm_100.
        """
        compat = self.find(".nv.compat")
        accelerated = compat is not None and any(
            key == _ACCELERATED and value[:1] == b"\x01" for key, value in attributes(compat)
        )
        return f"sm_{self.flags >> 8 & 0xFF}{'a' if accelerated else ''}"

    def entries(self) -> tuple[str, ...]:
        """Return the names of the kernels that can be launched, in the symbol table's order.

        Raises:
            ElfError: there is no symbol table, or a kernel has no code section of its own.
        """
        kernels = [
            symbol
            for symbol in self.symbols
            if symbol.kind == STT_FUNC and symbol.other & STO_CUDA_ENTRY
        ]
        for symbol in kernels:
            if symbol.section != f".text.{symbol.name}":
                raise ElfError(f"kernel {symbol.name} is not in a section of its own")
        return tuple(symbol.name for symbol in kernels)

    def unknown_sections(self) -> tuple[str, ...]:
        """Return the names of the sections that `cubin_sections` does not allow, such as PTX.

        Raises:
            ElfError: as for `entries`.
        """
        kernels = frozenset(self.entries())
        return tuple(s.name for s in self.sections if not is_known(s.name, s.type, kernels))


def read_elf(data: bytes) -> Elf:
    """Read a cubin of NVRTC 13.

    Raises:
        ElfError: not a 64-bit little-endian CUDA ELF file, truncated, overlapping, or larger
            than a compiler makes them.
    """
    if len(data) > MAX_FILE_BYTES:
        raise ElfError(f"{len(data)} bytes; a cubin has at most {MAX_FILE_BYTES}")
    if len(data) < _HEADER.size:
        raise ElfError(f"{len(data)} bytes are no ELF file")
    (ident, kind, machine, version, start, phoff, shoff, flags, ehsize, phentsize, phnum, shentsize,
     shnum, shstrndx) = _HEADER.unpack_from(data)  # fmt: skip
    if ident[:7] != b"\x7fELF\x02\x01\x01":
        raise ElfError("no 64-bit little-endian ELF file")
    if machine != EM_CUDA:
        raise ElfError(f"machine {machine}, not {EM_CUDA} (CUDA)")
    if (ident[7], ident[8]) != ABI:
        raise ElfError(f"ABI {ident[7]}, version {ident[8]}; this version reads {ABI} (CUDA 13)")
    if version != 1 or start or ehsize != _HEADER.size or any(ident[9:]):
        raise ElfError("a malformed ELF header")
    if shentsize != _SECTION.size or (phnum and phentsize != _SEGMENT.size):
        raise ElfError("section or segment headers of an unknown size")
    if not 1 <= shnum <= MAX_SECTIONS or not 0 < shstrndx < shnum:
        raise ElfError(f"{shnum} sections, names in number {shstrndx}")
    if phnum > MAX_SEGMENTS:
        raise ElfError(f"{phnum} segments")
    heads = [
        (0, _HEADER.size, "the ELF header"),
        (shoff, shnum * _SECTION.size, "the section headers"),
        (phoff, phnum * _SEGMENT.size, "the segment headers"),
    ]
    for offset, size, what in heads:
        _bytes(data, offset, size, what)
    sections = _sections(data, shoff, shnum, shstrndx)
    _refuse_overlaps(sections, heads)
    tables = [section for section in sections if section.type in SYMBOL_TABLES]
    if len(tables) > MAX_SYMBOL_TABLES:
        raise ElfError(f"{len(tables)} symbol tables")
    return Elf(
        type=kind,
        flags=flags,
        sections=sections,
        segments=tuple(_segments(data, phoff, phnum, sections)),
        tables={table.name: tuple(_symbols(sections, table)) for table in tables},
    )


def attributes(section: Section) -> tuple[Attribute, ...]:
    """Return the entries of an information section (`.nv.info*`, `.nv.compat`).

    Raises:
        ElfError: an entry is cut off or of an unknown format.
    """
    found, at, data = [], 0, section.data
    while at < len(data):
        if len(data) - at < _ATTRIBUTE.size:
            raise ElfError(f"{section.name}: an entry is cut off")
        form, key, size = _ATTRIBUTE.unpack_from(data, at)
        at += _ATTRIBUTE.size
        if form in _INLINE_FORMATS:
            found.append(Attribute(key, size.to_bytes(2, "little")))
        elif form == _SIZED_FORMAT:
            found.append(Attribute(key, _bytes(data, at, size, f"{section.name}: an entry")))
            at += size
        else:
            raise ElfError(f"{section.name}: an entry of unknown format {form}")
    return tuple(found)


def _sections(data: bytes, shoff: int, shnum: int, shstrndx: int) -> tuple[Section, ...]:
    heads = list(_SECTION.iter_unpack(data[shoff : shoff + shnum * _SECTION.size]))
    _, kind, _, _, offset, size, *_ = heads[shstrndx]
    if kind != SHT_STRTAB:
        raise ElfError("section names are not in a string table")
    strings = _bytes(data, offset, size, "the section names")
    sections: list[Section] = []
    names: set[str] = set()
    for number, head in enumerate(heads):
        name_at, kind, flags, address, offset, size, link, info, align, entry_size = head
        name = _string(strings, name_at, f"section {number}")
        if address or (number > 0) != bool(name) or name in names:
            raise ElfError(f"section {number} ({name}): an address, no name, or a name used twice")
        if link >= shnum or (flags & SHF_INFO_LINK and info >= shnum):
            raise ElfError(f"{name}: refers to a section that is not there")
        names.add(name)
        # A NOBITS section has a size and no bytes.
        holds = b"" if kind in (0, SHT_NOBITS) else _bytes(data, offset, size, name)
        sections.append(
            Section(name, kind, flags, offset, size, link, info, align, entry_size, holds)
        )
    return tuple(sections)


def _refuse_overlaps(sections: tuple[Section, ...], tables: list[tuple[int, int, str]]) -> None:
    """Check that no byte of the file belongs to two parts.

    One exception: a section of the compiler's second form of the program (`.nv.merc.*`) may be
    the very bytes of one other section.
    """
    parts = sorted(
        [(s.offset, len(s.data), s.name) for s in sections if s.data]
        + [part for part in tables if part[1]]
    )
    alias = False
    for (offset, size, name), (next_offset, next_size, next_name) in pairwise(parts):
        overlaps = next_offset < offset + size
        same = (offset, size) == (next_offset, next_size)
        mercury = name.startswith(MERCURY) != next_name.startswith(MERCURY)
        if overlaps and (alias or not (same and mercury)):
            raise ElfError(f"{name} and {next_name} overlap")
        alias = overlaps


def _segments(
    data: bytes, phoff: int, phnum: int, sections: tuple[Section, ...]
) -> Iterator[Segment]:
    heads = _SEGMENT.iter_unpack(data[phoff : phoff + phnum * _SEGMENT.size])
    for kind, flags, offset, virtual, physical, size, memory_size, _ in heads:
        if kind not in (PT_LOAD, PT_PHDR):
            raise ElfError(f"a segment of unknown type {kind:#x}")
        if virtual or physical or memory_size < size:
            raise ElfError("a segment with an address, or larger in the file than in memory")
        _bytes(data, offset, size, "a segment")
        inside = sorted(
            (section.offset, section.name)
            for section in sections
            if section.data and offset <= section.offset
            if section.offset + section.size <= offset + size
        )
        yield Segment(kind, flags, tuple(name for _, name in inside))


def _symbols(sections: tuple[Section, ...], table: Section) -> Iterator[Symbol]:
    if len(table.data) % _SYMBOL.size or len(table.data) > MAX_SYMBOLS * _SYMBOL.size:
        raise ElfError(f"{table.name}: {len(table.data)} bytes of symbols")
    strings = sections[table.link].data
    for name_at, info, other, number, value, size in _SYMBOL.iter_unpack(table.data):
        section = None
        if _SHN_UNDEF < number < _SHN_LORESERVE:
            if number >= len(sections):
                raise ElfError(f"{table.name}: a symbol in a section that is not there")
            section = sections[number].name
        name = _string(strings, name_at, table.name)
        yield Symbol(name, section, value, size, info >> 4, info & 15, other)


def _string(strings: bytes, at: int, what: str) -> str:
    end = strings.find(b"\0", at, at + MAX_NAME_BYTES + 1)
    if end < 0:
        raise ElfError(f"{what}: a name that does not end")
    name = strings[at:end]
    if not name.isascii() or any(byte < 0x21 or byte == 0x7F for byte in name):
        raise ElfError(f"{what}: a name that is not printable ASCII")
    return name.decode("ascii")


def _bytes(data: bytes, offset: int, size: int, what: str) -> bytes:
    if offset + size > len(data):
        raise ElfError(f"{what}: {size} bytes at {offset} of {len(data)}")
    return data[offset : offset + size]
