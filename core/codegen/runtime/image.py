"""Images of object code in memory, linked without LLVM, because machines that only run kernels may lack it.

Code, constants and data follow each other, each on separate pages. External functions are called through a jump in the
code's pages, as they may lie beyond the reach of a call instruction.
"""

import ctypes
import errno
import itertools
import mmap
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pegbox.codegen.runtime import elf
from pegbox.codegen.runtime.relocation import ARCHITECTURES, Architecture

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
        ValueError: the file is damaged, a part of it is not supported, or a function is missing.
        OSError: there is no memory, or memory cannot be made executable.
    """

    def __init__(self, object_code: bytes, imports: Mapping[str, int]) -> None:
        layout = ImageLayout.of(elf.parse(object_code))
        try:
            self._memory = mmap.mmap(-1, layout.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise _refused(error.errno or 0, "there is no memory") from error
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._memory[:] = bytes(layout.linked(base, imports))
        process = ctypes.CDLL(None, use_errno=True)
        # When the pages become executable, the system makes the new instructions visible to the processor.
        for group, (start, end) in enumerate(itertools.pairwise((0, *layout.ends))):
            place, size = ctypes.c_void_p(base + start), ctypes.c_size_t(end - start)
            if end > start and process.mprotect(place, size, _PROTECTION[group]):
                raise _refused(ctypes.get_errno(), "memory cannot be made executable")
        self._base, self._layout = base, layout

    def has(self, name: str) -> bool:
        """Tell whether the object defines a symbol."""
        return any(symbol.name == name and symbol.section for symbol in self._layout.object.symbols)

    def address(self, name: str) -> int:
        """Find the address of a symbol of the object.

        Raises:
            ValueError: the object has no symbol of that name.
        """
        for number, symbol in enumerate(self._layout.object.symbols):
            if symbol.name == name and symbol.section:
                return self._base + self._layout.place(number)
        raise ValueError(f"it has no symbol {name}")


class ImageLayout(NamedTuple):
    """The places of the parts of an object in its image, in bytes from the image's start.

    `sections` has the places of the loaded sections, by number; `stubs` those of the jumps, by symbol; `ends` the ends
    of code, constants and data.
    """

    object: elf.ObjectFile
    architecture: Architecture
    sections: Mapping[int, int]
    stubs: Mapping[int, int]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, code: elf.ObjectFile) -> "ImageLayout":
        """Lay out an object.

        Raises:
            ValueError: it is for another kind of processor, or has unsupported relocations.
        """
        architecture = ARCHITECTURES.get(code.machine)
        if architecture is None:
            raise ValueError(f"relocations of machine {code.machine} are not supported")
        sections: dict[int, int] = {}
        stubs: dict[int, int] = {}
        ends = []
        end = 0
        for group in _PROTECTION:
            for number in _members(code, group):
                alignment = code.sections[number].alignment or 1
                if alignment > mmap.PAGESIZE:
                    raise ValueError(f"a section needs an alignment of {alignment:,} bytes, more than a page")
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
        """The size of the image in bytes, a multiple of the page size."""
        return max(self.ends[-1], mmap.PAGESIZE)

    def place(self, symbol: int) -> int:
        """Find the place of a symbol of the object.

        Raises:
            ValueError: its section is not loaded.
        """
        _, section, value = self.object.symbols[symbol]
        if section not in self.sections:
            raise ValueError(f"the section of symbol {self.object.symbols[symbol].name!r} is not loaded")
        return self.sections[section] + value

    def linked(self, base: int, imports: Mapping[str, int]) -> bytearray:
        """Link the image for the address `base`.

        Raises:
            ValueError: a function is missing, or a relocation is impossible.
        """
        rules, pcrel_low = self.architecture.rules, self.architecture.pcrel_low
        image = bytearray(self.size)
        for number, start in self.sections.items():
            content = self.object.sections[number].content
            image[start : start + len(content)] = content
        relocations = [
            each
            for each in self.object.relocations
            if each.section in self.sections and each.kind not in self.architecture.hints
        ]
        addresses = {number: self._address(number, base, imports) for number in {each.symbol for each in relocations}}
        for symbol, start in self.stubs.items():
            stub = self.architecture.stub[:-8] + struct.pack("<Q", addresses[symbol])
            image[start : start + len(stub)] = stub
        values: dict[int, int] = {}
        # The symbol of a lower half names the place of the upper half, whose value it needs: lower halves come last.
        for each in sorted(relocations, key=lambda each: each.kind in pcrel_low):
            rule, at = rules[each.kind], self.sections[each.section] + each.offset
            if each.kind in pcrel_low:
                if addresses[each.symbol] not in values:
                    raise ValueError("the upper half of an address is missing")
                value = values[addresses[each.symbol]]
            else:
                value = rule.value(self._used(each.symbol, rule.via, base, addresses), each.addend, base + at)
                values.setdefault(base + at, value)
            rule.write(image, at, value)
        return image

    def _used(self, symbol: int, via: str, base: int, addresses: Mapping[int, int]) -> int:
        """Choose the symbol's address, the jump to it, or the word in the jump that holds its address."""
        if via == "S" or symbol not in self.stubs:
            return addresses[symbol]
        stub = base + self.stubs[symbol]
        return stub if via == "L" else stub + len(self.architecture.stub) - 8

    def _address(self, number: int, base: int, imports: Mapping[str, int]) -> int:
        symbol = self.object.symbols[number]
        if symbol.section == elf.ABSOLUTE:
            return symbol.value
        if symbol.section:
            return base + self.place(number)
        if symbol.name not in imports:
            raise ValueError(f"it calls {symbol.name}, which was not found")
        return imports[symbol.name]


def _members(code: elf.ObjectFile, group: int) -> Iterator[int]:
    """Yield the numbers of the sections that are code, constants or data."""
    for number, section in enumerate(code.sections):
        if section.flags & elf.ALLOCATED:
            writable, executable = section.flags & elf.WRITABLE, section.flags & elf.EXECUTABLE
            if group == (_CODE if executable else _DATA if writable else _CONSTANTS):
                yield number


def _called(code: elf.ObjectFile, architecture: Architecture) -> list[int]:
    """List the symbols that need a jump: external ones, and those accessed through a word that holds their address."""
    found: dict[int, None] = {}
    for section, _, kind, symbol, _ in code.relocations:
        if kind in architecture.hints or not code.sections[section].flags & elf.ALLOCATED:
            continue
        rule = architecture.rules.get(kind)
        if rule is None:
            raise ValueError(f"it has a relocation of kind {kind}, which is not supported")
        if rule.via == "G" or (rule.via == "L" and code.symbols[symbol].section == 0):
            found[symbol] = None
    return list(found)


def _refused(number: int, reason: str) -> OSError:
    """Make an error. Linux has one number for a lack of memory and of memory maps, of which each kernel takes some."""
    maps = "; where there is memory, this process has too many memory maps: sysctl -w vm.max_map_count=1048576"
    return OSError(number, f"{reason}{maps if number == errno.ENOMEM else ''}")
