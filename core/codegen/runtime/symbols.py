"""Undefined symbols of an object file, read from its symbol table.

Source: "System V Application Binary Interface", chapters "Sections" and "Symbol Table" (ELF, 64 bits, little endian).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
_SYMBOLS = 2  # type of the section with the symbol table


def undefined(object_code: bytes) -> tuple[str, ...]:
    """The names, in the table's order. Empty for another format or a damaged file, which the linker will refuse."""
    if not object_code.startswith(_MAGIC):
        return ()
    try:
        return tuple(_undefined(object_code))
    except (struct.error, IndexError, UnicodeDecodeError):
        return ()


def _undefined(code: bytes) -> Iterator[str]:
    (start,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, start + number * size) for number in range(count)]
    for _, kind, _, _, offset, length, names, _, _, entry in sections:
        if kind != _SYMBOLS:
            continue
        for place in range(offset + entry, offset + length, entry):  # the first one is nobody's
            name, _, _, section = struct.unpack_from("<IBBH", code, place)
            if section == 0:
                first = sections[names][4] + name
                yield code[first : code.index(b"\0", first)].decode()
