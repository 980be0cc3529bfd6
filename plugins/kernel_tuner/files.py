"""The files of other tools: results, and the metadata beside them."""

from __future__ import annotations

import re
from pathlib import Path

from pegbox.errors import RecordError
from pegbox.plugins.kernel_tuner.forms import device_in
from pegbox.records import read_document, read_unpacked

_PACKED = (".gz", ".xz", ".zip")
_RECORD = re.compile(rb'\{\s*"input"\s*:')


def is_json_document(path: Path) -> bool:
    """Decide whether a file holds one JSON document rather than records line by line."""
    content = read_unpacked(path, "results").lstrip()
    return content[:1] in (b"{", b"[") and _RECORD.match(content) is None


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
                return device_in(read_document(read_unpacked(beside, "metadata").decode(errors="replace")))
            except RecordError:
                return ""
    return ""
