"""Object code in memory, linked without LLVM: what a machine that only runs kernels needs.

The sections lie behind each other as code, constants and data, each on pages of its own. Functions from elsewhere are
called through a jump in the code's pages, as they may lie too far away for an instruction.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pegbox.codegen.runtime import elf
from pegbox.codegen.runtime.relocation import ARCHITECTURES, Architecture, RelocationSite

_CODE, _CONSTANTS, _DATA = range(3)
_PROTECTION = {
    _CODE: mmap.PROT_READ | mmap.PROT_EXEC,
    _CONSTANTS: mmap.PROT_READ,
    _DATA: mmap.PROT_READ | mmap.PROT_WRITE,
}


class Image:
    """An object file in the memory of this process; the memory is freed with it.

    Args:
        object_code: an ELF file for this machine's processor.
        imports: addresses of the functions that it calls.

    Raises:
        ValueError: the file is damaged or has something that is not known here, or a function is missing.
        OSError: there is no memory, or none that may be executed.
    """

    def __init__(self, object_code: bytes, imports: Mapping[str, int]) -> None:
        layout = ImageLayout.of(elf.parse(object_code))
        self._memory = _new(layout.size)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._memory[:] = bytes(layout.linked(base, imports))
        # The system makes the processor see the new instructions when the pages become executable.
        for group, start, size in layout.pages():
            _protect(base + start, size, _PROTECTION[group])
        self._base, self._layout = base, layout

    def address(self, name: str) -> int:
        """Find the address of a symbol of the object.

        Raises:
            ValueError: it has none of that name.
        """
        for number, symbol in enumerate(self._layout.object.symbols):
            if symbol.name == name and symbol.section:
                return self._base + self._layout.place(number)
        raise ValueError(f"it has no {name}")


class ImageLayout(NamedTuple):
    """Where the parts of an object lie in its image, in bytes from the image's begin.

    `sections` are the places of the sections that are loaded, by number; `stubs` those of the jumps, by symbol;
    `ends` where code, constants and data end.
    """

    object: elf.ObjectFile
    architecture: Architecture
    sections: Mapping[int, int]
    stubs: Mapping[int, int]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, code: elf.ObjectFile) -> ImageLayout:
        """The layout of an object.

        Raises:
            ValueError: it is for another kind of processor, or has relocations that are not known here.
        """
        architecture = ARCHITECTURES.get(code.machine)
        if architecture is None:
            raise ValueError(f"nothing is known of the relocations of machine {code.machine}")
        sections: dict[int, int] = {}
        stubs: dict[int, int] = {}
        ends = []
        end = 0
        for group in _PROTECTION:
            for number in _members(code, group):
                alignment = code.sections[number].alignment or 1
                if alignment > mmap.PAGESIZE:
                    raise ValueError(f"a section must lie on a multiple of {alignment:,} bytes")
                sections[number] = -(-end // alignment) * alignment
                end = sections[number] + code.sections[number].size
            if group == _CODE:
                for symbol in _called(code, architecture):
                    stubs[symbol] = -(-end // 8) * 8
                    end = stubs[symbol] + len(architecture.stub)
            end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
            ends.append(end)
        return cls(code, architecture, sections, stubs, tuple(ends))

    @property
    def size(self) -> int:
        """Bytes of the image, whole pages."""
        return max(self.ends[-1], mmap.PAGESIZE)

    def pages(self) -> Iterator[tuple[int, int, int]]:
        """Code, constants and data: which of them, where it begins, and its bytes."""
        for group, (start, end) in enumerate(itertools.pairwise((0, *self.ends))):
            if end > start:
                yield group, start, end - start

    def place(self, symbol: int) -> int:
        """Find the address of a symbol of the object.

        Raises:
            ValueError: its section is not loaded.
        """
        _, section, value = self.object.symbols[symbol]
        if section not in self.sections:
            raise ValueError(f"the symbol {self.object.symbols[symbol].name!r} is in no section that is loaded")
        return self.sections[section] + value

    def linked(self, base: int, imports: Mapping[str, int]) -> bytearray:
        """The image for the address `base`.

        Raises:
            ValueError: a function is missing, or a relocation cannot be done.
        """
        image = bytearray(self.size)
        for number, start in self.sections.items():
            content = self.object.sections[number].content
            image[start : start + len(content)] = content
        addresses = {number: self._address(number, base, imports) for number in self._used()}
        for symbol, start in self.stubs.items():
            stub = self.architecture.stub[:-8] + struct.pack("<Q", addresses[symbol])
            image[start : start + len(stub)] = stub
        self._relocate(image, base, addresses)
        return image

    def _used(self) -> set[int]:
        return {relocation.symbol for relocation in self._relocations()}

    def _relocations(self) -> Iterator[elf.Relocation]:
        hints = self.architecture.hints
        return (each for each in self.object.relocations if each.section in self.sections and each.kind not in hints)

    def _address(self, number: int, base: int, imports: Mapping[str, int]) -> int:
        symbol = self.object.symbols[number]
        if symbol.section == elf.ABSOLUTE:
            return symbol.value
        if symbol.section:
            return base + self.place(number)
        if symbol.name not in imports:
            raise ValueError(f"it calls {symbol.name}, which is nowhere")
        return imports[symbol.name]

    def _relocate(self, image: bytearray, base: int, addresses: Mapping[int, int]) -> None:
        values: dict[int, int] = {}
        later = []
        for each in self._relocations():
            if each.kind in self.architecture.pcrel_low:
                later.append(each)
            else:
                values.setdefault(base + self._at(each), self._write(each, image, base, addresses))
        for each in later:  # their symbol is the place of the upper half, and so is their value
            if addresses[each.symbol] not in values:
                raise ValueError("the upper half of an address is missing")
            place = RelocationSite(image, self._at(each), base + self._at(each))
            self.architecture.rules[each.kind].write(place, values[addresses[each.symbol]])

    def _at(self, relocation: elf.Relocation) -> int:
        return self.sections[relocation.section] + relocation.offset

    def _write(self, each: elf.Relocation, image: bytearray, base: int, addresses: Mapping[int, int]) -> int:
        rule = self.architecture.rules[each.kind]
        at, address = self._at(each), addresses[each.symbol]
        if each.symbol in self.stubs and rule.via != "S":
            stub = base + self.stubs[each.symbol]
            address = stub if rule.via == "L" else stub + len(self.architecture.stub) - 8
        value = rule.value(address, each.addend, base + at)
        rule.write(RelocationSite(image, at, base + at), value)
        return value


def _members(code: elf.ObjectFile, group: int) -> Iterator[int]:
    """The numbers of the sections that are code, constants or data."""
    for number, section in enumerate(code.sections):
        if section.flags & elf.ALLOCATED:
            writable, executable = section.flags & elf.WRITABLE, section.flags & elf.EXECUTABLE
            if group == (_CODE if executable else _DATA if writable else _CONSTANTS):
                yield number


def _called(code: elf.ObjectFile, architecture: Architecture) -> list[int]:
    """The symbols that need a jump: from elsewhere, or wanted as a word that holds their address."""
    found: dict[int, None] = {}
    for section, _, kind, symbol, _ in code.relocations:
        if kind in architecture.hints or not code.sections[section].flags & elf.ALLOCATED:
            continue
        rule = architecture.rules.get(kind)
        if rule is None:
            raise ValueError(f"it has a relocation of kind {kind}, which is not known here")
        if rule.via == "G" or (rule.via == "L" and code.symbols[symbol].section == 0):
            found[symbol] = None
    return list(found)


def _new(size: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise _refused(error.errno or 0, "there is no memory") from error


def _protect(address: int, size: int, protection: int) -> None:
    process = ctypes.CDLL(None, use_errno=True)
    if process.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection):
        raise _refused(ctypes.get_errno(), "memory cannot be made executable")


def _refused(number: int, what: str) -> OSError:
    """Linux has one word for no memory and no more memory maps, of which each kernel takes some."""
    maps = "; where there is memory, this process has too many memory maps: sysctl -w vm.max_map_count=1048576"
    return OSError(number, f"{what}{maps if number == errno.ENOMEM else ''}")
