"""The fingerprint of a template's code changes with what the code does, and with nothing else."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.hooks.refs import import_file
from pegbox.task.code_fingerprint import code_fingerprint, differ

SOURCE = '''
import enum
import functools

import neighbour
import numpy as np

TILES = [4, 8]
calls = []
count = 0

class Shape:
    def __init__(self, n):
        self.n = n

    @property
    def half(self):
        return self.n // 2

class Rounding:
    def up(self, n):
        return -(-n // 16)

ROUNDING = Rounding()

class Order(enum.Enum):
    ROWS = 29
    COLUMNS = 31

    def swapped(self):
        return self is Order.ROWS and 37

ORDER = Order.ROWS

class Cache:
    """What a machine has."""

    __slots__ = ("owner", "hits", "line", "room")

    def __init__(self, line):
        self.line, self.room = line, (line * 2, Order.COLUMNS)
        self.hits, self.owner = 0, 41

    def hit(self):
        self.hits += 1
        return self.line

class Machine:
    cache = None

    def __init__(self, lanes):
        self.lanes, self.seen, self.cache = lanes, [], Cache(64)

    @functools.cached_property
    def bits(self):
        return self.lanes * 32

def machine_of(lanes):
    machine = Machine(lanes)
    matrix = np.array([[1.0, 0.5], [0.25, 1.0]])
    scale = np.float32(1.5)
    def cost(n):
        machine.seen.append(n)
        machine.cache.owner = n
        return machine.bits + machine.cache.hit() + float(matrix.sum() * scale)
    return cost

cost = machine_of(16)

def plus(n, more):
    return n + more + 17

KINDS = {"wide": lambda n: n * 19, "narrow": lambda n: n}
padded = functools.partial(plus, more=23)

def helper(n):
    return n * 3

def unrelated(n):
    return n * 5

def ops(cfg, n, step=2):
    """What it does."""
    global count
    count += 1
    calls.append(n)
    width = helper(n) + Shape(n).half + neighbour.width(n)  # a comment
    place = width in {"left", "right", "middle"}
    width += KINDS["wide"](n) + ROUNDING.up(n) + padded(n) + (ORDER.swapped() or 0)
    width += cost(n)
    return [lambda i: i * 7 + width for tile in TILES if tile > step], place
'''
NEIGHBOUR = "def width(n):\n    return n + 11\n\ndef other(n):\n    return n + 13\n"


@pytest.fixture
def fingerprint(tmp_path: Path) -> Any:
    """`fingerprint("old", "new")`: of `ops` in a folder of its own where one text stands for another."""
    count = 0

    def of(old: str = "", new: str = "") -> str:
        nonlocal count
        count += 1
        folder = tmp_path / f"folder{count}"
        folder.mkdir()
        assert not old or old in SOURCE + NEIGHBOUR
        (folder / "neighbour.py").write_text(NEIGHBOUR.replace(old, new) if old else NEIGHBOUR)
        (folder / "ops.py").write_text(SOURCE.replace(old, new) if old else SOURCE)
        sys.modules.pop("neighbour", None)
        return code_fingerprint(import_file(folder / "ops.py").ops)

    yield of
    sys.modules.pop("neighbour", None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("helper(n) +", "helper(n) -"),
        ("n * 3", "n * 4"),  # a function that it calls
        ("n + 11", "n + 12"),  # one of a file beside it
        ("self.n // 2", "self.n // 4"),  # a method
        ("i * 7", "i * 8"),  # a function inside
        ("[4, 8]", "[4, 16]"),  # a constant
        ("step=2", "step=4"),  # a default
        ("n * 19", "n * 20"),  # a function in a table
        ("// 16", "// 32"),  # a method of an instance
        ("more + 17", "more + 18"),  # a function some of whose arguments are given
        ("more=23", "more=24"),  # what is given
        ("ORDER = Order.ROWS", "ORDER = Order.COLUMNS"),  # a member of an enumeration
        ("ROWS = 29", "ROWS = 30"),  # its value
        ("ROWS and 37", "ROWS and 38"),  # its method
        ("machine_of(16)", "machine_of(8)"),  # what an instance has
        ("Cache(64)", "Cache(128)"),  # what an instance inside has
        ("(line * 2, Order.COLUMNS)", "(line * 2, Order.ROWS)"),
        ("[0.25, 1.0]", "[0.25, 2.0]"),  # an array
        ("[[1.0, 0.5], [0.25, 1.0]]", "[1.0, 0.5, 0.25, 1.0]"),  # its shape
        ("np.float32(1.5)", "np.float32(1.25)"),
    ],
)
def test_an_edit_of_what_is_reached_is_seen(fingerprint: Any, old: str, new: str) -> None:
    assert differ(fingerprint(), fingerprint(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # a comment", ""),
        ("What it does.", "What it really does."),
        ("helper(n) + Shape", "helper(n)  +  Shape"),
        ("place", "room"),
        ("TILES = ", "\n\nTILES = "),
        ("calls = []", "calls = [1, 2]"),  # what it notes, not what it does
        ("count = 0", "count = 1"),  # what it counts
        ("n * 5", "n * 6"),  # a function that it does not reach
        ("n + 13", "n + 14"),
    ],
)
def test_an_edit_of_anything_else_is_not(fingerprint: Any, old: str, new: str) -> None:
    assert fingerprint() == fingerprint(old, new)


def test_to_run_a_template_is_no_edit_of_it(fingerprint: Any, tmp_path: Path) -> None:
    before = fingerprint()
    ops = sys.modules.get("ops") or import_file(tmp_path / "folder1" / "ops.py")
    ops.cost(3)
    assert code_fingerprint(ops.ops) == before


def test_another_version_of_python_says_nothing() -> None:
    assert not differ("cpython-311:aa", "cpython-312:bb")
    assert not differ("", "cpython-312:bb")
    assert not differ("cpython-312-O1:aa", "cpython-312:bb")  # without its assertions
    assert differ("cpython-312:aa", "cpython-312:bb")


def test_the_fingerprint_is_the_same_in_a_process_that_orders_sets_otherwise(fingerprint: Any, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from pegbox.hooks.refs import import_file; "
        "from pegbox.task.code_fingerprint import code_fingerprint; "
        "print(code_fingerprint(import_file(Path('ops.py')).ops))"
    )
    here = fingerprint()
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "folder1",
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == here


def test_the_fingerprint_is_the_same_however_the_file_is_named(
    fingerprint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = fingerprint()
    folder = tmp_path / "folder1"
    monkeypatch.syspath_prepend(folder)
    (tmp_path / "link").symlink_to(folder)
    for path in (f"{folder}/./ops.py", f"{tmp_path}/link/ops.py"):
        assert code_fingerprint(runpy.run_path(path)["ops"]) == here


def test_a_generated_template_has_no_code_of_its_own() -> None:
    assert pb.create_task("row_sum", args=(8, 8), space="sketch").code == ""
