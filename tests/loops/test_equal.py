"""Programs are compared by what they say: names of variables do not count, everything else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pegbox.loops.equal import structural_equal
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Block, BlockRealize, Function, Stmt
from pegbox.loops.visit import map_children, realizes, substitute_vars
from pegbox.tir import script

TEXT = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main"})
    t = T.alloc_buffer((8,), "float32", scope="local")
    for i, k in T.grid(8, 4):
        with T.block("t"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.block_attr({"one": 1, "two": 2})
            with T.init():
                t[vi] = T.float32(0)
            t[vi] = t[vi] + T.exp(A[vi, vk])
    for i in T.parallel(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.where(i < 8 - i)
            if vi > 3 and not vi == 5:
                B[vi] = T.if_then_else(vi < 6, t[vi], T.Cast("float32", A[vi, 0] > T.float32(0)))
    d = T.decl_buffer((16,), "float32")
    d[0:16] = T.Broadcast(T.float32(1), 16)
    T.evaluate(T.call_extern("int32", "f", T.address(d[0:4], "rw"), d.strides[0]))
"""


def read(text: str) -> Function:
    func = script.from_source(text)
    assert isinstance(func, Function)
    return func


def test_names_of_variables_do_not_count() -> None:
    other = TEXT.replace("vi", "x").replace("for i", "for zz").replace("[i", "[zz").replace(", i)", ", zz)")
    other = other.replace("i < 8 - i", "zz < 8 - zz").replace('"one": 1, "two": 2', '"two": 2, "one": 1')
    assert other != TEXT
    assert read(other) == read(TEXT)
    assert hash(read(other)) == hash(read(TEXT))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def main", "def other"),
        ('"global_symbol": "main"', '"global_symbol": "x"'),
        ("A: T.Buffer((8, 4)", "A: T.Buffer((8, 5)"),
        ('(8,), "float32", scope="local"', '(9,), "float32", scope="local"'),
        ('scope="local"', 'scope="shared"'),
        ('scope="local"', 'scope="local", name="u"'),
        ('T.block("t")', 'T.block("s")'),
        ('remap("SR", [i, k])', 'remap("SR", [i, k]); T.where(k < 3)'),
        ("T.reads(A[vi, vk])", "T.reads(A[vi, 0:4])"),
        ('"one": 1', '"one": 3'),
        ("t[vi] = T.float32(0)", "t[vi] = T.float32(-0.0)"),
        ("T.exp(", "T.log("),
        ("t[vi] + T.exp(A[vi, vk])", "T.exp(A[vi, vk]) + t[vi]"),
        ("T.parallel(8)", "T.serial(8)"),
        ("T.parallel(8)", "T.parallel(8, annotations={'a': 1})"),
        ("i < 8 - i", "i < 7 - i"),
        ("vi > 3 and", "vi >= 3 and"),
        ("and not", "or not"),
        ("vi < 6, t[vi]", "vi < 6, t[7 - vi]"),
        ('T.Cast("float32", A[vi, 0]', 'T.Cast("float32", A[vi, 1]'),
        ("d[0:16]", "d[0:8]"),
        ('"f", ', '"g", '),
        ("d[0:4]", "d[0:5]"),
        ('"rw"', '"w"'),
        ("d.strides[0]", "A.strides[0]"),
    ],
)
def test_everything_else_counts(old: str, new: str) -> None:
    assert old in TEXT
    other = TEXT.replace(old, new, 1)
    if old == "d[0:16]":
        other = other.replace("T.float32(1), 16", "T.float32(1), 8")
    assert read(other) != read(TEXT)


def test_swapped_variables_are_told_apart() -> None:
    text = "@T.prim_func\ndef f(A: T.Buffer((4, 4))):\n    for i, j in T.grid(4, 4):\n        A[i, j] = T.float32(1)\n"
    assert read(text) != read(text.replace("A[i, j]", "A[j, i]"))
    assert read(text) != read(text.replace("A[i, j]", "A[i, i]"))
    assert read(text.replace("A[i, j]", "A[i, i]")) != read(text)


def test_a_combiner_that_is_plain_to_see_need_not_be_noted() -> None:
    func = read(TEXT)
    bare = _without_notes(func)
    assert dict(_block(func).annotations)["combiner"] == "sum"
    assert "combiner" not in dict(_block(bare).annotations)
    assert bare == func


def _block(func: Function) -> Block:
    return next(realizes(func.body)).block


def _without_notes(func: Function) -> Function:
    def go(stmt: Stmt) -> Stmt:
        inner = map_children(stmt, go)
        if isinstance(inner, BlockRealize):
            kept = tuple((k, v) for k, v in inner.block.annotations if k != "combiner")
            return BlockRealize(inner.values, replace(inner.block, annotations=kept), inner.predicate)
        return inner

    return func.with_body(go(func.body))


def test_where_a_program_came_from_does_not_count() -> None:
    func = read(TEXT)
    assert replace(func, origins=(("X", ("Y",)),)) == func
    assert structural_equal(func.body, substitute_vars(func.body, {}))
    assert func != "a text"


def test_modules_are_equal_function_by_function() -> None:
    func = read(TEXT)
    assert IRModule(func) == IRModule({"main": read(TEXT)})
    assert hash(IRModule(func)) == hash(IRModule(read(TEXT)))
    assert IRModule(func) != IRModule({"main": func, "second": func})
    assert structural_equal(IRModule(func), IRModule(func))
    assert not structural_equal(IRModule(func), func)
