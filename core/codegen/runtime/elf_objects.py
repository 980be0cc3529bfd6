"""Object files to link: with renamed symbols, and made from plain bytes.

Source: as for `elf.py`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pegbox.codegen.compiled import ALIGNMENT
from pegbox.codegen.runtime import elf

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONSTANTS_SECTION = ".lrodata"
"""The section of constants.

Linkers know the name as a large section of the x86-64 ABI, and put it after all others, so that code and data stay
within reach of each other.
"""

_HEADER, _SECTION, _SYMBOL = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ"
_BYTES, _SYMBOLS, _STRINGS = 1, 2, 3  # section types
_GLOBAL, _HIDDEN, _OBJECT = 1, 2, 1
_LARGE = {elf.X86_64: 0x10000000}
"""The flag of large sections, by machine."""


def with_prefix(code: bytes, prefix: str) -> bytes:
    """Put a prefix before the names of the symbols that an object file exports.

    The symbols become hidden, so that a library made from it does not export them.

    Raises:
        ValueError: see `elf.parse`.
    """
    elf.parse(code)
    changed = bytearray(code)
    headers = list(elf.section_headers(code))
    symbols = next(header for header in headers if header.kind == _SYMBOLS)
    names = headers[symbols.link]
    table = bytearray(code[names.offset : names.offset + names.size])
    for at in range(symbols.offset, symbols.offset + symbols.size, struct.calcsize(_SYMBOL)):
        name, info, _, section, value, size = struct.unpack_from(_SYMBOL, code, at)
        if info >> 4 and section:
            end = table.index(0, name)
            struct.pack_into(_SYMBOL, changed, at, len(table), info, _HIDDEN, section, value, size)
            table += prefix.encode() + table[name : end + 1]
    # The longer table goes to the end of the file.
    struct.pack_into("<QQ", changed, names.place + 24, len(changed), len(table))
    return bytes(changed + table)


class _Part(NamedTuple):
    """A section to write."""

    name: str
    kind: int
    content: bytes | memoryview
    flags: int = 0
    alignment: int = 1
    link: int = 0
    info: int = 0
    entry: int = 0


def write_bytes_object(path: Path, content: NDArray[Any], symbol: str, *, like: bytes) -> None:
    """Write an object file with these bytes as read-only data, under the name of a hidden symbol.

    Args:
        like: an object file for the same machine.
    """
    ident, _, machine, version, _, _, _, machine_flags, *_ = struct.unpack_from(_HEADER, like)
    flags = elf.ALLOCATED | _LARGE.get(machine, 0)
    entry = struct.calcsize(_SYMBOL)
    symbols = bytes(entry) + struct.pack(_SYMBOL, 1, _GLOBAL << 4 | _OBJECT, _HIDDEN, 1, 0, content.nbytes)
    parts = [
        _Part("", 0, b""),
        _Part(CONSTANTS_SECTION, _BYTES, content.data.cast("B"), flags, ALIGNMENT),
        _Part(".note.GNU-stack", _BYTES, b""),  # without it, linkers make the stack executable
        _Part(".symtab", _SYMBOLS, symbols, alignment=8, link=4, info=1, entry=entry),
        _Part(".strtab", _STRINGS, b"\0" + symbol.encode() + b"\0"),
        _Part(".shstrtab", _STRINGS, b""),
    ]
    titles = b"".join(part.name.encode() + b"\0" for part in parts)
    parts[-1] = parts[-1]._replace(content=titles)
    headers = b""
    with path.open("wb") as file:
        file.write(bytes(ALIGNMENT))  # room for the header
        for part in parts:
            file.write(bytes(-file.tell() % part.alignment))
            title, size = titles.index(part.name.encode() + b"\0"), len(part.content)
            place = file.tell(), size, part.link, part.info, part.alignment, part.entry
            headers += struct.pack(_SECTION, title, part.kind, part.flags, 0, *place)
            file.write(part.content)
        file.write(bytes(-file.tell() % 8))
        table = file.tell()
        file.write(headers)
        file.seek(0)
        sizes = struct.calcsize(_HEADER), 0, 0, struct.calcsize(_SECTION), len(parts), len(parts) - 1
        file.write(struct.pack(_HEADER, ident, 1, machine, version, 0, 0, table, machine_flags, *sizes))


def constants_ranges(code: elf.Buffer) -> list[tuple[int, int]]:
    """List the ranges of `CONSTANTS_SECTION` in a file; none if the file's sections cannot be read."""
    try:
        headers = list(elf.section_headers(code))
        (names,) = struct.unpack_from("<H", code, struct.calcsize(_HEADER) - 2)
        wanted = CONSTANTS_SECTION.encode() + b"\0"
        start = headers[names].offset
        return [
            (each.offset, each.offset + each.size)
            for each in headers
            if code[start + each.name : start + each.name + len(wanted)] == wanted
        ]
    except (struct.error, IndexError):
        return []
