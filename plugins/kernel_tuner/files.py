"""Opening of other tools' results files: packed formats, and metadata files."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import zipfile
import zlib
from pathlib import Path

from pegbox.errors import RecordError
from pegbox.plugins.kernel_tuner.forms import device_in
from pegbox.records.document import read_document

_PACKED = (".gz", ".xz", ".zip")
_RECORD = re.compile(rb'\{\s*"input"\s*:')


def is_json_document(path: Path) -> bool:
    """Whether a file holds one JSON document rather than records line by line."""
    content = read_unpacked(path).lstrip()
    return content[:1] in (b"{", b"[") and _RECORD.match(content) is None


def read_unpacked(path: Path) -> bytes:
    """What the file holds, unpacked by what it is rather than by what it is called.

    Raises:
        RecordError: it cannot be read or is damaged, or an archive of several files.
    """
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            return gzip.decompress(content)
        if content[:6] == b"\xfd7zXZ\x00":
            return lzma.decompress(content)
        return _member(content, path) if content[:4] == b"PK\x03\x04" else content
    except OSError as error:
        raise RecordError(f"cannot read the results in {str(path)!r}: {error.strerror or error}") from error
    except (EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile) as error:
        raise RecordError(f"cannot read the results in {str(path)!r}: it is damaged ({error})") from error


def stem_of(path: Path) -> str:
    """The name without what tells of the form: `A100_T4.json.gz` is `A100`."""
    name = path.name
    while name.endswith(_PACKED):
        name = name.rpartition(".")[0]
    return name.removesuffix(".json").removesuffix("-results").removesuffix("_T4")


def device_beside(path: Path) -> str:
    """The device in the metadata file that Kernel Tuner writes beside its results, "" without one."""
    for packing in ("", *_PACKED):
        beside = path.with_name(f"{stem_of(path)}-metadata.json{packing}")
        if beside.is_file():
            try:
                return device_in(read_document(read_unpacked(beside).decode(errors="replace")))
            except RecordError:
                return ""
    return ""


def _member(content: bytes, path: Path) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name.endswith(".json") and not name.startswith("__MACOSX")]
        if len(names) != 1:
            held = ", ".join(names or archive.namelist()) or "nothing"
            raise RecordError(f"{str(path)!r} has to hold one .json file, but holds {held}: unpack it and choose one")
        return archive.read(names[0])
