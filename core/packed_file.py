"""Files that may be packed by gzip, xz or zip. Reading has a limit, because a megabyte may unpack to gigabytes."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pegbox.errors import RecordError

MOST_BYTES = 1 << 29
"""The largest size of an unpacked file: that of a recorded space of half a million configurations."""

_CHUNK = 1 << 20
_SHOWN = 3
"""The number of an archive's names that an error shows."""


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes:
        """Read at most `size` bytes."""


_Opener = Callable[[bytes], _Stream]


def read_unpacked(path: Path, what: str) -> bytes:
    """Read the content of a file, and unpack it if it begins as a packed one.

    A zip file must hold one file of JSON, whose name does not matter: nothing is written to disk.

    Args:
        what: the content, for messages: "cannot read the <what> in ...".

    Raises:
        RecordError: the file cannot be read, is damaged, is not what its name says, or is too large when unpacked.
    """
    try:
        return _unpacked(_content(path), path.suffix)
    except OSError as error:
        why = error.strerror or str(error)
    except _Refused as error:
        why = str(error)
    raise RecordError(f"cannot read the {what} in {str(path)!r}: {why}")


def is_packed(path: Path) -> bool:
    """Decide if a file is packed, by its name or by its first bytes."""
    if path.suffix in _NAMES or not path.is_file():
        return path.suffix in _NAMES
    with path.open("rb") as file:
        return file.read(max(map(len, _OPENERS))).startswith(tuple(_OPENERS))


def check_archive(path: Path) -> None:
    """Raise `RecordError` for a zip file, such as one of `numpy.savez_compressed`, that is too large when unpacked.

    Raises `OSError`, `zipfile.BadZipFile` and others if it cannot be read.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist() if member.compress_type != zipfile.ZIP_STORED)
    if size > MOST_BYTES:
        raise RecordError(f"it holds {size >> 20} MiB; pack no more than {MOST_BYTES >> 20} MiB")


class _Refused(Exception):
    """The reason why a file is not unpacked."""


def _content(path: Path) -> bytes:
    if path.is_file():
        return path.read_bytes()
    with path.open("rb") as stream:  # a pipe, or an endless device
        return _read_limited(stream)


def _unpacked(content: bytes, suffix: str) -> bytes:
    opened = next((opener for begins, opener in _OPENERS.items() if content.startswith(begins)), None)
    if opened is None:
        if suffix in _NAMES:
            raise _Refused(f"it is not a {suffix} file")
        return content
    try:
        return _read_limited(opened(content))
    except _Refused:
        raise
    except NotImplementedError as error:  # an unknown method or version of zip
        raise _Refused(f"{error}: unpack it with another program") from error
    except MemoryError as error:
        raise _Refused("it does not fit into memory when it is unpacked") from error
    except Exception as error:  # zipfile alone raises eight kinds of errors, and documents one
        raise _Refused(f"it is damaged ({str(error) or type(error).__name__})") from error


def _read_limited(stream: _Stream) -> bytes:
    parts, size = [], 0
    while chunk := stream.read(_CHUNK):
        parts.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            raise _Refused(
                f"it holds more than {MOST_BYTES >> 20} MiB, as packed files do that are made to fill up a machine; "
                "if you trust it, unpack it and give the unpacked file"
            )
    return b"".join(parts)


def _member(content: bytes) -> _Stream:
    archive = zipfile.ZipFile(io.BytesIO(content))
    files = [name for name in archive.namelist() if not name.endswith("/")]
    found = [name for name in files if name.endswith((".json", ".jsonl")) and not name.startswith("__MACOSX")]
    if len(found) != 1:
        held = ", ".join((found or files)[:_SHOWN]) or "nothing"
        more = len(found or files) - _SHOWN
        held += f" and {more} more" if more > 0 else ""
        raise _Refused(f"it must hold one .json file, but holds {held}: unpack it and choose one")
    if archive.getinfo(found[0]).flag_bits & 1:
        raise _Refused("it is encrypted: unpack it and give the unpacked file")
    return archive.open(found[0])


_OPENERS: dict[bytes, _Opener] = {
    b"\x1f\x8b": lambda content: gzip.GzipFile(fileobj=io.BytesIO(content)),
    b"\xfd7zXZ\0": lambda content: lzma.LZMAFile(io.BytesIO(content)),  # noqa: SIM115 - not a file of the system
    b"PK\x03\x04": _member,
    b"PK\x05\x06": _member,
}
"""The first bytes of each kind of packed file (an empty zip file has its own), and the function that unpacks it."""

_NAMES = (".gz", ".xz", ".zip")
