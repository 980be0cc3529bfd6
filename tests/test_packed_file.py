"""Packed files of unknown origin: read with a limit, and refused by errors that name them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pegbox import packed_file
from pegbox.errors import RecordError
from pegbox.packed_file import read_unpacked
from pegbox.plugins.cli import main
from pegbox.records import Journal

CONTENT = b'{"results": []}\n' * 50


def zipped(*names: str, content: bytes = CONTENT, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for name in names:
            archive.writestr(name, content)
    return held.getvalue()


def changed(places: dict[str, int]) -> bytes:
    """A zip file with other bytes in the header of its member, and in that of the directory."""
    data = bytearray(zipped("a.json"))
    starts = {"local": 0, "central": data.find(b"PK\x01\x02"), "end": data.find(b"PK\x05\x06")}
    for place, value in places.items():
        start, offset = place.split()
        data[starts[start] + int(offset)] = value
    return bytes(data)


PACKED: dict[str, tuple[str, bytes]] = {
    "plain": ("a.json", CONTENT),
    "gzip": ("a.json.gz", gzip.compress(CONTENT)),
    "gzip of two": ("a.json.gz", gzip.compress(CONTENT[:64]) + gzip.compress(CONTENT[64:])),
    "gzip by another name": ("a.json", gzip.compress(CONTENT)),
    "xz": ("a.json.xz", lzma.compress(CONTENT)),
    "xz of two": ("a.json.xz", lzma.compress(CONTENT[:64]) + lzma.compress(CONTENT[64:])),
    "zip": ("a.zip", zipped("a.json")),
    "zip, stored": ("a.zip", zipped("a.json", method=zipfile.ZIP_STORED)),
    "zip, bzip2": ("a.zip", zipped("a.json", method=zipfile.ZIP_BZIP2)),
    "zip, lzma": ("a.zip", zipped("a.json", method=zipfile.ZIP_LZMA)),
    "zip of a folder": ("a.json.zip", zipped("folder/", "folder/a.json", "__MACOSX/a.json")),
    "zip with a path that leads out": ("a.zip", zipped("../../a.json")),
}

REFUSED: dict[str, tuple[str, bytes, str]] = {
    "gzip cut short": ("a.json.gz", gzip.compress(CONTENT)[:-9], "it is damaged"),
    "xz cut short": ("a.json.xz", lzma.compress(CONTENT)[:-9], "it is damaged"),
    "zip cut short": ("a.zip", zipped("a.json")[:-9], "it is damaged"),
    "empty gzip": ("a.json.gz", b"", r"it is not a \.gz file"),
    "text as gzip": ("a.json.gz", CONTENT, r"it is not a \.gz file"),
    "text as xz": ("a.json.xz", CONTENT, r"it is not a \.xz file"),
    "text as zip": ("a.zip", CONTENT, r"it is not a \.zip file"),
    "encrypted": ("a.zip", changed({"local 6": 1, "central 8": 1}), "it is encrypted: unpack it"),
    "unknown method": ("a.zip", changed({"local 8": 97, "central 10": 97}), "method .* unpack it with another program"),
    "unknown version": ("a.zip", changed({"central 6": 99}), "version 9.9: unpack it with another program"),
    "wrong sum": ("a.zip", changed({"central 16": 1}), "it is damaged"),
    "directory elsewhere": ("a.zip", changed({"end 16": 250}), "it is damaged"),
    "member elsewhere": ("a.zip", changed({"central 42": 250}), "it is damaged"),
    "two": ("a.zip", zipped("a.json", "b.json"), r"one \.json file, but holds a\.json, b\.json: unpack it"),
    "many": ("a.zip", zipped(*(f"{n}.json" for n in range(9))), r"holds 0\.json, 1\.json, 2\.json and 6 more"),
    "none": ("a.zip", zipped("a.txt"), r"one \.json file, but holds a\.txt"),
    "nothing": ("a.zip", zipped(), "holds nothing"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", PACKED)
def test_files_are_unpacked_by_what_they_are(folder: Path, kind: str) -> None:
    name, content = PACKED[kind]
    (folder / name).write_bytes(content)
    assert read_unpacked(folder / name, "results") == CONTENT
    assert [path.name for path in folder.iterdir()] == [name]


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_unpacked_is_named(folder: Path, kind: str) -> None:
    name, content, why = REFUSED[kind]
    (folder / name).write_bytes(content)
    with pytest.raises(RecordError, match=rf"cannot read the results in '.*/{re.escape(name)}': .*{why}"):
        read_unpacked(folder / name, "results")


@pytest.mark.parametrize("kind", [kind for kind in PACKED if kind != "plain"])
def test_a_packed_file_is_read_to_a_limit(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, content = PACKED[kind]
    (folder / name).write_bytes(content)
    monkeypatch.setattr(packed_file, "MOST_BYTES", len(CONTENT))
    assert read_unpacked(folder / name, "results") == CONTENT
    monkeypatch.setattr(packed_file, "MOST_BYTES", len(CONTENT) - 1)
    with pytest.raises(RecordError, match=r"holds more than 0 MiB, .*unpack it and give the unpacked file"):
        read_unpacked(folder / name, "results")


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.gz", gzip.compress),
        ("a.xz", partial(lzma.compress, preset=0)),
        ("a.zip", lambda content: zipped("a.json", content=content)),
    ],
)
def test_the_limit_is_met_before_the_rest_is_unpacked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(packed_file, "MOST_BYTES", 1 << 21)
    (folder / name).write_bytes(pack(bytes(1 << 25)))
    tracemalloc.start()
    try:
        with pytest.raises(RecordError, match="holds more than 2 MiB"):
            read_unpacked(folder / name, "results")
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(sorted(PACKED)),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6),
    cut=st.one_of(st.none(), st.integers(0, 300)),
)
def test_damaged_bytes_are_read_or_refused(
    folder: Path, kind: str, changes: list[tuple[int, int]], cut: int | None
) -> None:
    name, content = PACKED[kind]
    data = bytearray(content)
    for place, value in changes:
        data[place % len(data)] = value
    (folder / name).write_bytes(data[:cut])
    said = f"{name}': "
    try:
        read_unpacked(folder / name, "results")
    except RecordError as error:
        said = str(error)
    assert f"{name}': " in said


def test_devices_that_never_end_are_read_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_file, "MOST_BYTES", 1 << 21)
    with pytest.raises(RecordError, match="'/dev/zero': it holds more than 2 MiB"):
        read_unpacked(Path("/dev/zero"), "records")


def test_no_memory_is_an_error_that_names_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object, **_more: object) -> None:
        raise MemoryError

    monkeypatch.setattr(packed_file.lzma, "LZMAFile", too_large)
    (folder / "a.xz").write_bytes(lzma.compress(b""))
    with pytest.raises(RecordError, match=r"a\.xz': it does not fit into memory"):
        read_unpacked(folder / "a.xz", "records")


@pytest.mark.parametrize("name", ["packed.jsonl", "packed.jsonl.gz", "packed.zip"])
def test_nothing_is_appended_to_a_packed_file_whatever_its_name(folder: Path, name: str) -> None:
    (folder / name).write_bytes(held := gzip.compress(b"# nothing\n"))
    with pytest.raises(RecordError, match="which is compressed: unpack it"):
        Journal(name).check_writable()
    assert (folder / name).read_bytes() == held


COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "best": lambda name: ["best", name],
    "spaces": lambda name: ["spaces", name],
    "tune": lambda name: ["tune", "--simulate", name, "--trials", "2", "--no-records"],
    "compare": lambda name: ["compare", "--simulate", name, "--trials", "2", "--tuners", "random"],
    "plot": lambda name: ["plot", name, "--html", "page.html"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["encrypted", "unknown method", "unknown version", "gzip cut short", "xz cut short"])
def test_commands_name_the_file(command: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, content, why = REFUSED[kind]
    Path(name).write_bytes(content)
    assert main(COMMANDS[command](name)) == 2
    assert re.search(rf"^pegbox {command}: error: .*{re.escape(name)}'.*{why}", capsys.readouterr().err, re.MULTILINE)


def _npz(*, packed: bool = True) -> bytes:
    held = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(held, A=np.zeros((64, 64), np.float32))
    return held.getvalue()


INPUTS: dict[str, tuple[bytes, str]] = {
    "text": (b"A = 1", r"is not a file of arrays by name .*numpy\.savez"),
    "one array": (np.lib.format.magic(1, 0) + b"\x00" * 90, r"is not a file of arrays by name .*numpy\.savez"),
    "cut short": (_npz()[:-30], r"is not a file of arrays by name .*numpy\.savez"),
    "encrypted": (changed({"local 6": 1, "central 8": 1}), "is not a file of arrays"),
    "damaged": (_npz(packed=False).replace(b"NUMPY", b"NUMPX"), "is not a file of arrays"),
    "too large": (_npz(), r"cannot be read: it holds 0 MiB; pack no more than 0 MiB"),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_that_cannot_be_read_are_named(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content, why = INPUTS[kind]
    Path("a.npz").write_bytes(content)
    monkeypatch.setattr(packed_file, "MOST_BYTES", 1000 if kind == "too large" else 1 << 20)
    assert main(["tune", "matmul", "64", "64", "64", "--trials", "1", "--no-records", "--inputs", "a.npz"]) == 2
    assert re.search(f"error: --inputs: 'a.npz' {why}", capsys.readouterr().err)


def test_inputs_that_are_not_there_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "matmul", "64", "64", "64", "--trials", "1", "--no-records", "--inputs", "a.npz"]) == 2
    assert f"--inputs: 'a.npz' cannot be read: {os.strerror(2)}" in capsys.readouterr().err


def test_bzip2_is_no_packing_of_a_whole_file(folder: Path) -> None:
    (folder / "a.jsonl").write_bytes(bz2.compress(CONTENT))
    with pytest.raises(RecordError, match=r"'a\.jsonl' is not text: a file of records has"):
        Journal("a.jsonl").read()
