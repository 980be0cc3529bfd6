"""`pb.lower` and `pb.build` on what users hand them; tuning and tasks have rooms of their own."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te, tir
from pegbox.errors import ArgumentError
from pegbox.expr.intrinsics import ARITY


def doubled() -> list[Any]:
    a = te.placeholder((4,), name="A")
    return [a, te.compute((4,), lambda i: a[i] * 2, "B")]


def made(language: str) -> tuple[Any, list[Any]]:
    a, b = doubled()
    return (te.create_schedule(b), [a, b]) if language == "te" else (tir.Schedule([a, b]), [])


@pytest.mark.parametrize("language", ["te", "tir"])
def test_both_schedule_languages_and_their_programs_are_built(language: str) -> None:
    s, args = made(language)
    program = pb.lower(s, args)
    for kernel in (pb.build(s, args), pb.build(program)):
        x, y = np.arange(4, dtype="float32"), np.empty(4, "float32")
        kernel(x, y)
        np.testing.assert_array_equal(y, 2 * x)


def test_names_of_te_are_those_that_it_gives_users_not_those_that_it_uses() -> None:
    defined = {name for name, value in vars(te).items() if getattr(value, "__module__", "") == te.__name__}
    renamed = set(re.findall(r"import \w+ as ([a-zA-Z]\w*)", inspect.getsource(te)))
    assert {name for name in defined | renamed if name[0] != "_"} <= set(te.__all__) == set(dir(te))
    assert all(callable(getattr(te, name)) for name in te.__all__)
    from pegbox.plugins.tvm import te as names

    assert not {"as_expr", "check_text", "dtypes", "replace", "Callable"} & {*dir(te), *dir(names)}


def test_names_of_tir_are_those_that_it_gives_users_not_those_that_it_uses() -> None:
    renamed = set(re.findall(r"import \w+ as ([a-zA-Z]\w*)", inspect.getsource(tir) + inspect.getsource(tir.op)))
    assert renamed | {"PrimFunc", "Select", "indexdiv", "indexmod"} == set(tir.__all__) == set(dir(tir))
    assert all(hasattr(tir, name) for name in tir.__all__)
    assert {*ARITY} & {*te.__all__} <= {*tir.__all__}, "functions of numbers are in both"


@pytest.mark.parametrize("language", ["te", "tir"])
def test_the_function_has_the_name_that_was_asked_for(language: str) -> None:
    s, args = made(language)
    assert pb.lower(s, args).name == "main"
    assert pb.lower(s, args, "twice").name == "twice"
    assert "@twice" in pb.build(s, args, name="twice").source("ll")


def test_the_arguments_of_a_tir_schedule_are_its_own() -> None:
    a, b = doubled()
    sch = tir.Schedule([a, b])
    assert pb.lower(sch, [a, b]).params == (a.buffer, b.buffer)
    with pytest.raises(ArgumentError, match=r"arguments \['B', 'A'\]: the schedule's are \['A', 'B'\], in this order"):
        pb.build(sch, [b, a])


def test_only_tasks_have_configurations() -> None:
    s, args = made("te")
    with pytest.raises(ArgumentError, match="only a task has configurations, not TESchedule"):
        pb.build(s, args, config=0)
