"""The computation of a reduction block is read off its update, or kept with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pegbox import te
from pegbox.expr.build import const, maximum, select, variables
from pegbox.expr.nodes import Const, Expr, Load
from pegbox.expr.unify import unify
from pegbox.loops.nodes import Block, If, Store
from pegbox.loops.reductions.combiner import combination_of, combiner_of
from pegbox.loops.reductions.combiner_text import decode, encode
from pegbox.schedule import Schedule


def block(how: Any, dtype: str = "float32", **options: Any) -> Block:
    x = te.placeholder((3, 4), dtype, "X")
    k = te.reduce_axis((0, 4), "k")
    y = te.compute((3,), lambda i: how(x[i, k], axis=k, **options), "Y")
    return Schedule([x, y]).tree.blocks["Y"].block


def bare(given: Block) -> Block:
    """The block as a person would write it: nothing but init and update."""
    return replace(given, annotations=())


def with_value(given: Block, change: Any) -> Block:
    """The block with another stored value: `change` of the old value of the element and the new one."""
    body = given.body
    assert isinstance(body, Store)
    return replace(bare(given), body=Store(body.buffer, body.indices, change(body.value.a, body.value.b)))  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_plain_reducers_are_recognised(how: str, dtype: str) -> None:
    found = combination_of(bare(block(getattr(te, how), dtype)))
    assert found is not None
    assert found.name == how == combiner_of(bare(block(getattr(te, how), dtype)))
    assert [str(s) for s in found.sources] == ["X[vi, vk]"]


def test_operands_may_stand_the_other_way_around() -> None:
    assert combiner_of(with_value(block(te.sum), lambda old, new: new + old)) == "sum"
    assert combiner_of(with_value(block(te.max), lambda old, new: maximum(new, old))) == "max"


def test_a_condition_is_told_apart() -> None:
    x = te.placeholder((3, 4), name="X")
    k = te.reduce_axis((0, 4), "k")
    y = te.compute((3,), lambda i: te.sum(x[i, k], axis=k, where=k > 1), "Y")
    found = combination_of(Schedule([x, y]).tree.blocks["Y"].block)
    assert found is not None
    assert str(found.condition) == "vk > 1"


@pytest.mark.parametrize(
    "change",
    [
        lambda old, new: old - new,
        lambda old, new: old * 2.0 + new,
        lambda old, new: old + new * old,
        lambda old, new: old + old,
        lambda old, new: select(new > 0.0, old + 1.0, old),
    ],
)
def test_other_updates_are_not_known(change: Any) -> None:
    assert combination_of(with_value(block(te.sum), change)) is None
    assert combiner_of(with_value(block(te.sum), change)) is None


def test_a_sum_that_starts_elsewhere_cannot_be_taken_apart_but_a_maximum_can() -> None:
    for how, known in ((te.sum, False), (te.prod, False), (te.max, True), (te.min, True)):
        given = bare(block(how))
        assert isinstance(given.init, Store)
        start = Store(given.init.buffer, given.init.indices, const(5.0, "float32"))
        assert (combination_of(replace(given, init=start)) is not None) is known


def test_a_start_that_is_read_from_memory_is_none() -> None:
    given = bare(block(te.max))
    assert isinstance(given.init, Store)
    read = given.reads[0]
    start = Store(given.init.buffer, given.init.indices, Load(read.buffer, (given.iters[0].var, const(0))))
    assert combination_of(replace(given, init=start)) is None


def test_blocks_without_init_and_without_reduce_variables_have_none() -> None:
    assert combination_of(replace(block(te.sum), init=None)) is None
    x = te.placeholder((3,), name="X")
    y = te.compute((3,), lambda i: x[i] + 1, "Y")
    assert combiner_of(Schedule([x, y]).tree.blocks["Y"].block) is None


def pair(combine: Any, name: str = "pairs") -> Block:
    x = te.placeholder((3, 4), name="X")
    k = te.reduce_axis((0, 4), "k")
    reducer = te.comm_reducer(combine, lambda i, v: (te.const(-1, i), te.const(0, v)), name=name)
    at, best = te.compute((3,), lambda i: reducer((k, x[i, k]), axis=k), "best")
    return Schedule([x, at, best]).tree.blocks["best"].block


def test_argmax_and_argmin_are_recognised_in_the_forms_that_people_write() -> None:
    def first(a: Any, b: Any) -> Any:
        ahead = te.any(a[1] < b[1], te.all(a[1] == b[1], a[0] < b[0]))
        return te.select(ahead, a[0], b[0]), te.select(ahead, a[1], b[1])

    forms = [
        ("argmax", lambda a, b: (te.select(a[1] >= b[1], a[0], b[0]), te.select(a[1] >= b[1], a[1], b[1]))),
        ("argmax", lambda a, b: (te.select(a[1] > b[1], a[0], b[0]), te.maximum(a[1], b[1]))),
        ("argmax", lambda a, b: (te.select(b[1] <= a[1], a[0], b[0]), te.maximum(b[1], a[1]))),
        ("argmin", lambda a, b: (te.select(a[1] <= b[1], a[0], b[0]), te.minimum(a[1], b[1]))),
        ("argmin", first),
    ]
    for name, combine in forms:
        found = combination_of(bare(pair(combine)))
        assert found is not None
        assert found.name == name
        assert [str(s) for s in found.sources] == ["vk", "X[vi, vk]"]


def test_a_users_reducer_is_kept_with_the_block() -> None:
    def combine(a: Any, b: Any) -> Any:
        return te.cast("int64", a[0] + b[0] + 1), te.select(te.exp(a[1]) < te.exp(b[1]), a[1], b[1])

    kept = pair(combine, "odd")
    assert combiner_of(kept) == "odd"
    assert combination_of(bare(kept)) is None
    found = combination_of(kept)
    assert found is not None
    x, y = te.const(3, "int64"), te.const(2.0, "float32")
    again = found.combine((x, y), (x, y))
    assert str(again[0]) == "7"
    # What is kept is plain: it can be hashed, compared, printed and read.
    notes = dict(kept.annotations)
    assert notes["reducer"] == dict(pair(combine, "odd").annotations)["reducer"]
    assert eval(repr(notes["reducer"])) == notes["reducer"]
    assert isinstance(hash(notes["reducer"]), int)


def test_what_is_kept_has_to_fit_the_block() -> None:
    kept = pair(lambda a, b: (a[0] + b[0], a[1] * b[1]))
    for note in (("odd", ("a0",)), ("odd", (("add", "a0", "c0"), "a1")), ("odd", (("boo", "a0", "b0"), "b1")),
                 ("odd", (("mul", "a0", "b0"), ("mul", "a1", "b1")))):  # fmt: skip
        assert combination_of(replace(kept, annotations=(("combiner", "odd"), ("reducer", note)))) is None


def test_text_of_expressions() -> None:
    i, j = variables("i j")
    names = {"i": i, "j": j}
    exprs: list[Expr] = [
        select(i < j, i // 2, -j % 3), te.cast("float32", i) * te.const(float("inf"), "float32"),
        te.cast("int64", te.pow(te.cast("float64", i), te.cast("float64", j))), te.max_value("int8"),
        te.const(float("-inf"), "float64"), te.cast("int64", te.logical_not(i <= j)), Const(True, "bool"),
    ]  # fmt: skip
    coded = encode(exprs, {i: "i", j: "j"})
    again = decode(coded, names)
    assert again is not None
    assert [str(e) for e in again] == [str(e) for e in exprs]
    assert [e.dtype for e in again] == [e.dtype for e in exprs]
    x = te.placeholder((4,), name="X")
    assert encode([x[i]], {i: "i"}) is None


def test_unification_goes_back_where_a_choice_was_wrong() -> None:
    i, j, p, q = variables("i j p q")
    ways = list(unify([p * q, p + 1], [i * j, j + 1], {}, {p, q}))
    assert len(ways) == 1
    assert ways[0][p] is j
    assert not list(unify([p + q], [i * j], {}, {p, q}))
    assert not list(unify([p + p], [i + j], {}, {p}))


def test_an_if_around_the_update_is_all_that_may_stand_there() -> None:
    given = block(te.sum)
    twice = replace(given, body=If(given.iters[0].var < 1, If(given.iters[1].var < 1, given.body)))
    assert combination_of(twice) is None
