"""ELF object files: sections, symbols and relocations.

Source: "System V Application Binary Interface", chapters "Sections", "Symbol Table" and "Relocation" (ELF, 64 bits,
little endian).
"""

import struct
from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple, TypeAlias

MAGIC = b"\x7fELF\x02\x01"
"""The first bytes of a 64-bit little-endian file."""

X86_64, AARCH64, RISCV64 = 62, 183, 243
"""The machine numbers."""

WRITABLE, ALLOCATED, EXECUTABLE = 1, 2, 4
"""The section flags."""

ABSOLUTE = 0xFFF1
"""The section number of symbols whose values are absolute, not places."""

_SYMBOLS, _RELOCATIONS, _EMPTY = 2, 4, 8  # section types; the last has no bytes in the file
_COMMON = 0xFFF2


Buffer: TypeAlias = bytes | mmap
"""A file's content."""


class SectionHeader(NamedTuple):
    """A section's entry in the section table: `place` is the entry's place in the file, `offset` the section's.

    `name` is the place of its name in the section of names; `link` and `info` are the numbers of related sections.
    """

    place: int
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class Section(NamedTuple):
    """A section; `content` is empty if the section consists of `size` zeros."""

    flags: int
    size: int
    alignment: int
    content: bytes


class ElfSymbol(NamedTuple):
    """A name for byte `value` of a section; external symbols have section 0."""

    name: str
    section: int
    value: int


class Relocation(NamedTuple):
    """An address to write at byte `offset` of a section; `kind` is a number with a meaning for each machine."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


class ObjectFile(NamedTuple):
    """The parts of an object file that a linker needs; sections and symbols are numbered."""

    machine: int
    sections: tuple[Section, ...]
    symbols: tuple[ElfSymbol, ...]
    relocations: tuple[Relocation, ...]


def parse(code: bytes) -> ObjectFile:
    """Take an object file apart.

    Raises:
        ValueError: the format is not supported, the file is damaged, or it has a kind of symbol that compilers no
            longer write.
    """
    if not code.startswith(MAGIC):
        raise ValueError("it is not a 64-bit little-endian ELF file")
    try:
        return _parse(code)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"it is damaged: {error}") from error


def section_headers(code: Buffer) -> Iterator[SectionHeader]:
    """Yield the headers of all sections.

    Raises:
        struct.error: the file is damaged.
    """
    (start,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    for place in range(start, start + count * size, size or 1):
        name, kind, flags, _, offset, length, link, info, alignment, _ = struct.unpack_from("<IIQQQQIIQQ", code, place)
        yield SectionHeader(place, name, kind, flags, offset, length, link, info, alignment)


def undefined(code: bytes) -> tuple[str, ...]:
    """List the names of external symbols; the list is empty for a file that `parse` refuses."""
    try:
        found = parse(code)
    except ValueError:
        return ()
    return tuple(symbol.name for symbol in found.symbols if symbol.section == 0 and symbol.name)


def _parse(code: bytes) -> ObjectFile:
    (machine,) = struct.unpack_from("<H", code, 18)
    headers = list(section_headers(code))
    sections: list[Section] = []
    symbols: list[ElfSymbol] = []
    relocations: list[Relocation] = []
    for _, _, kind, flags, offset, length, link, info, alignment in headers:
        if kind != _EMPTY and offset + length > len(code):
            raise IndexError("a section reaches beyond the end of the file")
        content = b"" if kind == _EMPTY else code[offset : offset + length]
        sections.append(Section(flags, length, alignment, content))
        if kind == _SYMBOLS:
            symbols += _symbols(content, code[headers[link].offset :])
        elif kind == _RELOCATIONS:
            entries = struct.iter_unpack("<QQq", content)
            relocations += [Relocation(info, at, kind & 0xFFFFFFFF, kind >> 32, addend) for at, kind, addend in entries]
    for relocation in relocations:
        if relocation.symbol >= len(symbols) or relocation.offset >= sections[relocation.section].size:
            raise IndexError("a relocation refers to a missing symbol, or lies beyond its section")
    return ObjectFile(machine, tuple(sections), tuple(symbols), tuple(relocations))


def _symbols(table: bytes, names: bytes) -> Iterator[ElfSymbol]:
    for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", table):
        if section == _COMMON:
            raise IndexError("a symbol is in no section")
        end = names.find(b"\0", name)
        if end < 0:
            raise IndexError("the name of a symbol has no end")
        yield ElfSymbol(names[name:end].decode(), section, value)
