"""The speed of a call: arithmetic where there is some, else bytes."""

import pytest

from pegbox import te
from pegbox.compute.flop import count_flop
from pegbox.errors import ComputeError
from pegbox.task.speed_text import bytes_of, format_speed
from pegbox.task.task import create_task


def copy(cfg, n):
    x = te.placeholder((n, 4), "float16", name="X")
    y = te.compute((n, 4), lambda i, j: x[i, j], name="Y")
    cfg.define_knob("a", [0, 1])
    return te.create_schedule(y.op), [x, y]


def test_a_copy_moves_what_it_reads_and_what_it_writes():
    task = create_task(copy, args=(10,))
    assert (task.flop, task.bytes_moved) == (0, 2 * 10 * 4 * 2)


def test_intermediates_need_not_be_moved_and_booleans_are_bytes():
    x = te.placeholder((6,), "int64", name="X")
    t = te.compute((6,), lambda i: x[i] + 1, name="T")
    y = te.compute((6,), lambda i: t[i] > 2, name="Y")
    assert bytes_of([x, y]) == 6 * 8 + 6


def test_of_inputs_counts_what_is_read():
    x = te.placeholder((100, 50), "float32", name="X")
    rows = te.placeholder((10,), "int32", name="rows")
    k = te.reduce_axis((0, 3), name="k")
    part = te.compute((100, 8), lambda i, j: x[i, j + 2], name="slice")
    assert bytes_of([x, part]) == 2 * 100 * 8 * 4
    gather = te.compute((10, 50), lambda i, j: x[rows[i], j], name="gather")
    assert bytes_of([x, rows, gather]) == 50 * 4 + 10 * 4 + 10 * 50 * 4
    pairs = te.compute((50, 50), lambda i, j: x[2 * i, 49 - j] + x[2 * i + 1, 49 - j], name="pairs")
    assert bytes_of([x, pairs]) == 100 * 50 * 4 + 50 * 50 * 4
    window = te.compute((60, 48), lambda i, j: te.sum(x[i, j + k], axis=k), name="window")
    assert bytes_of([x, window]) == 60 * 50 * 4 + 60 * 48 * 4
    padded = te.compute((102, 50), lambda i, j: te.if_then_else(te.all(i > 0, i < 101), x[i - 1, j], 0.0), name="pad")
    assert bytes_of([x, padded]) == 100 * 50 * 4 + 102 * 50 * 4
    flat = te.compute((5000,), lambda i: x[i // 50, i % 50], name="flat")
    assert bytes_of([x, flat]) == 2 * 5000 * 4
    assert bytes_of([x, rows, te.compute((4,), lambda i: rows[i], name="other")]) == 4 * 4 * 2


@pytest.mark.parametrize(
    ("work", "text"),
    [
        ({"flop": 3e9, "bytes_moved": 1e9}, "1.5 GFLOP/s"),
        ({"bytes_moved": 1e9}, "0.5 GB/s"),
        ({"bytes_moved": 8e5}, "0.0004 GB/s"),
        ({}, ""),
    ],
)
def test_speeds_in_words(work, text):
    assert format_speed(2.0, **work) == text


def test_what_never_ran_has_no_speed():
    assert format_speed(float("inf"), flop=1.0, bytes_moved=1.0) == ""


def declared(flop):
    x = te.placeholder((8,), name="X")
    t = te.compute((8,), lambda i: x[i] * 2, name="T", attrs={"FLOP": flop, "other": "kept"})
    return te.compute((8,), lambda i: t[i] + 1, name="Y")


@pytest.mark.parametrize("flop", [0, 1000, 12.5])
def test_an_operation_has_the_arithmetic_that_it_says(flop):
    assert count_flop([declared(flop)]) == flop + 8


@pytest.mark.parametrize("flop", [-1, float("nan"), float("inf"), "100", None, True, [3]])
def test_nonsense_for_arithmetic_is_refused(flop):
    with pytest.raises(ComputeError, match=r"compute 'T': attrs\['FLOP'\]=.*give a number >= 0"):
        declared(flop)


def test_attributes_are_a_mapping():
    with pytest.raises(ComputeError, match="attrs=5 is not a mapping"):
        te.compute((8,), lambda i: i, name="T", attrs=5)
