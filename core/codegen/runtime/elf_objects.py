"""Object files to link: with other names for their symbols, and of plain bytes.

Source: that of `elf.py`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.codegen.compiled import ALIGNMENT
from pegbox.codegen.runtime import elf

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONSTANTS_SECTION = ".pegbox.constants"
"""The section of bytes that are no code, and hold no descriptions of kernels."""

_HEADER, _SECTION, _SYMBOL = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ"
_BYTES, _SYMBOLS, _STRINGS = 1, 2, 3  # types of sections
_GLOBAL, _HIDDEN, _OBJECT = 1, 2, 1


def with_prefix(code: bytes, prefix: str) -> bytes:
    """Put a prefix before the names of the symbols that an object file defines for others.

    They are hidden, so that a library made of it does not offer them.

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
    # The longer table is behind everything else.
    struct.pack_into("<QQ", changed, names.place + 24, len(changed), len(table))
    return bytes(changed + table)


def write_bytes_object(path: Path, content: NDArray[Any], symbol: str, *, like: bytes) -> None:
    """Write an object file with these bytes, which cannot be written to, under the name of a hidden symbol.

    Args:
        like: an object file of the same machine.
    """
    names = b"\0" + symbol.encode() + b"\0"
    sections: list[tuple[str, int, int, bytes | memoryview, int, int, int, int]] = [
        # name, type, flags, content, link, info, alignment, size of an entry
        ("", 0, 0, b"", 0, 0, 0, 0),
        (CONSTANTS_SECTION, _BYTES, elf.ALLOCATED, content.data.cast("B"), 0, 0, ALIGNMENT, 0),
        (".note.GNU-stack", _BYTES, 0, b"", 0, 0, 1, 0),  # linkers make the stack executable without it
        (".symtab", _SYMBOLS, 0, _symbol_table(content.nbytes), 4, 1, 8, struct.calcsize(_SYMBOL)),
        (".strtab", _STRINGS, 0, names, 0, 0, 1, 0),
        (".shstrtab", _STRINGS, 0, b"", 0, 0, 1, 0),
    ]
    titles = b"".join(name.encode() + b"\0" for name, *_ in sections)
    sections[-1] = (".shstrtab", _STRINGS, 0, titles, 0, 0, 1, 0)
    with path.open("wb") as file:
        file.write(bytes(ALIGNMENT))  # the header's place
        headers = b""
        for name, kind, flags, part, link, info, alignment, entry in sections:
            file.write(bytes(-file.tell() % max(alignment, 1)))
            title = titles.index(name.encode() + b"\0")
            headers += struct.pack(
                _SECTION, title, kind, flags, 0, file.tell(), len(part), link, info, alignment, entry
            )
            file.write(part)
        file.write(bytes(-file.tell() % 8))
        table = file.tell()
        file.write(headers)
        file.seek(0)
        ident, _, machine, version, _, _, _, flags, *_ = struct.unpack_from(_HEADER, like)
        sizes = struct.calcsize(_HEADER), 0, 0, struct.calcsize(_SECTION), len(sections), len(sections) - 1
        file.write(struct.pack(_HEADER, ident, 1, machine, version, 0, 0, table, flags, *sizes))


def _symbol_table(size: int) -> bytes:
    """Make the table of one symbol, which is all of section 1."""
    return bytes(struct.calcsize(_SYMBOL)) + struct.pack(_SYMBOL, 1, _GLOBAL << 4 | _OBJECT, _HIDDEN, 1, 0, size)


def constants_ranges(code: elf.Buffer) -> list[tuple[int, int]]:
    """List the places of `CONSTANTS_SECTION` in a file; none of a file whose sections are unknown."""
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
