"""Epilogues of TE schedules: what follows an output goes into the stage that stores it, or into one after it."""

from __future__ import annotations

from collections.abc import Callable

from epilogues import bias_residual

import pegbox as pb
from pegbox import te
from pegbox.compute.epilogue import epilogue_of


def product() -> tuple[te.TESchedule, te.Tensor, te.Tensor]:
    """A product in tiles of one row, whose rows threads share."""
    a = te.placeholder((4, 16), name="A")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((4, 20), lambda i, j: te.sum(a[i, k] * (k + j), axis=k), name="C")
    s = te.create_schedule(c.op)
    return s, a, c


def followed(s: te.TESchedule, a: te.Tensor, c: te.Tensor) -> pb.Function:
    epilogue = epilogue_of(source := te.placeholder(c.shape, name="C"), [bias_residual("relu6", 1)(source)])
    return pb.lower(s, [a, *epilogue.inputs, s.append_epilogue(c, epilogue, 8)])


def test_a_stage_that_stores_keeps_its_loops(golden: Callable[[object], None]) -> None:
    s, a, c = product()
    tile = s.cache_write(c, "local")
    outer, lanes = s[c].split(c.op.axis[1], factor=8)
    s[c].vectorize(lanes)
    s[c].parallel(c.op.axis[0])
    s[tile].compute_at(s[c], outer)
    golden(followed(s, a, c))


def test_a_reduction_is_followed_by_a_stage(golden: Callable[[object], None]) -> None:
    s, a, c = product()
    s[c].vectorize(c.op.axis[1])
    golden(followed(s, a, c))


def test_an_output_that_others_read_is_followed_by_a_stage() -> None:
    a = te.placeholder((8,), name="A")
    c = te.compute((8,), lambda i: a[i] * 2.0, name="C")
    d = te.compute((8,), lambda i: c[i] + 1.0, name="D")
    s = te.create_schedule([c.op, d.op])
    epilogue = epilogue_of(source := te.placeholder((8,), name="C"), [te.compute((8,), lambda i: -source[i], "E")])
    e = s.append_epilogue(c, epilogue, 8)
    assert [stage.op.name for stage in s.stages if stage.is_output] == ["D", "E"]
    assert "E[" in str(pb.lower(s, [a, d, e]))


def test_a_prefetch_of_the_output_is_one_of_the_epilogues() -> None:
    a = te.placeholder((4, 16), name="A")
    c = te.compute((4, 16), lambda i, j: a[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[c].prefetch(c, c.op.axis[0], 2)
    source = te.placeholder((4, 16), name="C")
    epilogue = epilogue_of(source, [te.compute((4, 16), lambda *i: -source(*i), "E")])
    e = s.append_epilogue(c, epilogue, 8)
    assert "prefetch(address(E[min(i + 2, 3), 0]," in str(pb.lower(s, [a, e]))
