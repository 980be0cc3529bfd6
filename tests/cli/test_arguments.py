"""The texts of arguments as they are read."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ArgumentError
from pegbox.plugins.cli.arguments import default_records, duration, natural, positive, read_args, read_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1024", 1024),
        ("-3", -3),
        ("0.5", 0.5),
        ("1,2,3", (1, 2, 3)),
        ("(4, 5)", (4, 5)),
        ("True", True),
        ("None", None),
        ("float32", "float32"),
        ("NCHW", "NCHW"),
        ("'64'", "64"),
        ("none", "none"),
        ("a b", "a b"),
        ("", ""),
        ("__import__('os')", "__import__('os')"),
    ],
)
def test_values_are_literals_where_they_read_as_one(text: str, value: Any) -> None:
    assert read_value(text) == value
    assert type(read_value(text)) is type(value)


def test_template_arguments_are_positional_or_named() -> None:
    assert read_args(["64", "dtype=float64", "1,2", "bias=True"]) == ((64, (1, 2)), {"dtype": "float64", "bias": True})


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"'dtype' is given twice: 'float32' and 'float64'"):
        read_args(["dtype=float32", "dtype=float64"])


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1m30s", 90), ("0.5", 0.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "0", "-5", "5 s", "5d", "1m-3s", "nan", "inf"])
def test_malformed_durations_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time: write 90"):
        duration(text)


def test_whole_numbers() -> None:
    assert (positive("1"), natural("0"), natural(str(2**70))) == (1, 0, 2**70)
    for read, text in ((positive, "0"), (positive, "-1"), (positive, "1.5"), (natural, "-1"), (natural, "x")):
        with pytest.raises(argparse.ArgumentTypeError, match="not a whole number"):
            read(text)


@pytest.mark.parametrize(
    ("template", "args", "space", "target", "name"),
    [
        ("matmul", ["64", "32", "16"], None, "llvm", "matmul-64x32x16.jsonl"),
        ("mine.py:norm", ["64", "32"], "sketch", "llvm", "norm-64x32-sketch.jsonl"),
        ("matmul", ["64", "dtype=float64", "32"], None, "llvm", "matmul-64x32-dtype=float64.jsonl"),
        ("dir/mine.py:my_matmul", ["8"], None, "llvm", "my_matmul-8.jsonl"),
        ("tutorial/matmul", [], None, "llvm", "tutorial_matmul.jsonl"),
        ("conv", ["1,2"], None, "llvm -mcpu=znver4", "conv-1,2-llvm_mcpu=znver4.jsonl"),
    ],
)
def test_records_are_named_after_the_task(
    template: str, args: list[str], space: str | None, target: str, name: str
) -> None:
    given = argparse.Namespace(template=template, args=args, space=space, target=target)
    assert str(default_records(given)) == name


def test_inputs_of_a_file_go_to_whatever_measures(pegbox: Any, api: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", B=np.arange(4), A=np.ones(3, "float32"))
    assert pegbox("tune", "matmul", "64", "--inputs", "in.npz").code == 0
    inputs = api.calls["tune"]["measure_options"]["inputs"]
    assert {name: str(array.dtype) for name, array in inputs.items()} == {"A": "float32", "B": "int64"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"A,B\n1,2\n", "numpy.savez"),
        (np.arange(3), "numpy.savez"),
        (np.array([{}], dtype=object), "numpy.savez"),
    ],
)
@pytest.mark.parametrize("command", ["tune", "sweep", "compare"])
def test_a_file_that_holds_no_inputs_is_one_line(pegbox: Any, command: str, content: Any, said: str) -> None:
    if isinstance(content, bytes):
        Path("in.npz").write_bytes(content)
    elif content is not None and content.dtype == object:
        np.savez("in.npz", A=content)
    elif content is not None:
        with Path("in.npz").open("wb") as file:
            np.save(file, content)
    ran = pegbox(command, "matmul", "8", "8", "8", "--inputs", "in.npz")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "in.npz" in ran.err
    assert said in ran.err


def test_a_simulation_takes_no_inputs(pegbox: Any) -> None:
    ran = pegbox("tune", "--simulate", "matmul-999x999x37", "--inputs", "in.npz")
    assert (ran.code, ran.out) == (2, "")
    assert "it excludes --inputs" in ran.err
