"""Values that no argument is meant for, or few: each is made anew for a call, because some can be used only once."""

from __future__ import annotations

import decimal
import fractions
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pegbox as pb
from pegbox import te

_DEPTH = 1000
"""The depth of nested lists; Python's own limit is as many calls."""


def _nested(kind: type) -> Any:
    value: Any = kind()
    for _ in range(_DEPTH):
        value = {"a": value} if kind is dict else kind([value])
    return value


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


def _round_dict() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["a"] = made
    return made


def _space() -> pb.ConfigSpace:
    space = pb.ConfigSpace()
    space.define_knob("other", [1, 2])
    return space


def _tensor() -> te.Tensor:
    return te.placeholder((3,), name="odd")


ODD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "False": lambda: False,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "10**30": lambda: 10**30,
    "10**5000": lambda: 10**5000,  # has more digits than Python prints
    "0.5": lambda: 0.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "1j": lambda: 1j,
    "Decimal('NaN')": lambda: decimal.Decimal("NaN"),
    "Fraction(1, 3)": lambda: fractions.Fraction(1, 3),
    "''": lambda: "",
    "'x'": lambda: "x",
    "' {}%s '": lambda: " {}%s ",
    "'a\\0b'": lambda: "a\0b",
    "'\\ud800'": lambda: "\ud800",  # cannot be written as UTF-8
    "long text": lambda: "x" * 5000,
    "b''": lambda: b"",
    "b'\\xff'": lambda: b"\xff",
    "bytearray": lambda: bytearray(b"x"),
    "[]": lambda: [],
    "()": lambda: (),
    "{}": lambda: {},
    "set()": lambda: set(),
    "[None]": lambda: [None],
    "[[]]": lambda: [[]],
    "['x']": lambda: ["x"],
    "[-1]": lambda: [-1],
    "(10**30,)": lambda: (10**30,),
    "[nan, 'x']": lambda: [math.nan, "x"],
    "range(3)": lambda: range(3),
    "deep list": lambda: _nested(list),
    "deep tuple": lambda: _nested(tuple),
    "deep dict": lambda: _nested(dict),
    "circle": _circle,
    "round dict": _round_dict,
    "{1: 2}": lambda: {1: 2},
    "{None: [], (): 'x'}": lambda: {None: [], (): "x"},
    "{'x': None}": lambda: {"x": None},
    "np.array(5)": lambda: np.array(5),
    "np.array([])": lambda: np.array([]),
    "np.zeros((2, 2))": lambda: np.zeros((2, 2)),
    "np.array(['x'])": lambda: np.array(["x"]),
    "np.array(None)": lambda: np.array(None),
    "np.float32(nan)": lambda: np.float32("nan"),
    "np.int8(-1)": lambda: np.int8(-1),
    "np.dtype": lambda: np.dtype("float32"),
    "object()": object,
    "PegboxError": lambda: pb.errors.PegboxError,
    "an error": lambda: ValueError("x"),
    "lambda: None": lambda: lambda: None,
    "lambda *a: None": lambda: lambda *a, **k: None,
    "generator": lambda: (number for number in (1, 2)),
    "iterator": lambda: iter(()),
    "Path('no/such')": lambda: Path("no/such"),
    "Path()": Path,
    "module": lambda: math,
    "...": lambda: ...,
    "slice": lambda: slice(None),
    "tensor": _tensor,
    "element": lambda: _tensor()[0],
    "te.var": lambda: te.var("n"),
    "schedule": lambda: te.create_schedule(te.compute((3,), lambda i: i, name="odd").op),
    "space": _space,
    "config": lambda: _space().get(0),
    "entity": lambda: _space().get(0)["other"],
    "generator of numbers": lambda: np.random.default_rng(0),
}
