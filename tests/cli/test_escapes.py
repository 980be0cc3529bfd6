"""Control characters of a file reach no terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.plugins.cli import exits

TARGET = "llvm -num-cores 1"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\x00\x08\x7f\x9b31m\u202eb\u2066\u200f\u2028\nforged: line"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|^forged", re.MULTILINE)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The records of a search."""
    file = tmp_path_factory.mktemp("escapes") / "a.jsonl"
    task = pb.create_task("matmul", args=(8, 8, 8), target=TARGET)
    pb.tune(task, tuner="random", trials=3, progress=False, records=file)
    return [json.loads(line) for line in file.read_text().splitlines()]


def texts(form: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all texts in a document; a key's path ends with None and the key."""
    match form:
        case str():
            yield path
        case dict():
            for key, value in form.items():
                yield (*path, None, key)
                yield from texts(value, (*path, key))
        case list():
            for place, value in enumerate(form):
                yield from texts(value, (*path, place))


def spoiled(form: Any, path: tuple[Any, ...]) -> Any:
    """A copy of the document whose text at the path has hostile characters."""
    copy = json.loads(json.dumps(form))
    *way, last = path
    holder = copy
    for step in way:
        holder = holder if step is None else holder[step]
    if way and way[-1] is None:
        holder[last + HOSTILE] = holder.pop(last, 0.0)
    else:
        holder[last] += HOSTILE
    return copy


def commands(file: str) -> list[list[str]]:
    task = ["matmul", "8", "8", "8", "--target", TARGET]
    return [
        ["best", file],
        ["best", file, "--json"],
        ["plot", file],
        ["plot", file, *task],
        ["show", *task, "--records", file],
        ["spaces", file],
        ["build", *task, "--records", file, "--out", "x.so"],
    ]


def test_commands_print_no_control_character_of_any_text_of_a_record(
    pegbox: Any, lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    extra = {"message": "m", "ref": "a.py:b", "run": "r", "code": "c", "unit": "s"}
    full = [{**extra, **line} for line in lines]
    paths = list(texts(full[0]))
    assert len(paths) > 40
    printed = 0
    for path in paths:
        forms = [spoiled(line, path) for line in full]
        (tmp_path / "b.jsonl").write_text("".join(json.dumps(form) + "\n" for form in forms))
        for words in commands("b.jsonl")[:6]:
            ran = pegbox(*words)
            found = CONTROLS.search(ran.out + ran.err)
            assert found is None, (path, words, ran.out, ran.err)
            assert ran.code != exits.BUG, (path, words, ran.err)
            printed += "\\u001b" in ran.out + ran.err
    assert printed > 20


def test_messages_of_failures_have_no_control_characters(
    pegbox: Any, lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    failed = [{**line, "result": [[1e9], 4, 0.1, 1.0], "message": HOSTILE} for line in lines]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(form) + "\n" for form in failed))
    ran = pegbox("spaces", "b.jsonl")
    assert "\\u001b" in ran.err
    assert "\x1b" not in ran.err


def test_the_names_of_files_are_shown_without_control_characters(pegbox: Any, tmp_path: Path) -> None:
    for words in commands("no\x1b[2J\u202e.jsonl"):
        ran = pegbox(*words)
        assert CONTROLS.search(ran.out + ran.err) is None
        assert ran.code != 0
