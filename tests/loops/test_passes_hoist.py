"""Tests stand directly inside the innermost loop that they speak of."""

from __future__ import annotations

from pegbox.expr.build import as_expr, index
from pegbox.expr.nodes import Buffer, Call, Load, Var
from pegbox.loops.nodes import Alloc, Evaluate, For, Function, If, Seq, Stmt, Store, seq
from pegbox.loops.passes.hoist import hoist_tests
from pegbox.loops.visit import walk

OUT, ROW, COL = Buffer("out", (8, 8)), Var("i"), Var("j")
STORE = Store(OUT, (ROW, COL), as_expr(1.0))


def hoisted(body: Stmt) -> str:
    return str(hoist_tests(Function("f", (OUT,), (OUT,), body))).partition("\n")[2]


def test_a_test_leaves_the_loops_that_it_does_not_speak_of() -> None:
    body = For(ROW, 8, For(COL, 8, If(ROW < 5, STORE)))
    assert hoisted(body) == (
        "    for i in range(8):\n"
        "        if i < 5:\n"
        "            for j in range(8):\n"
        "                out[i, j] = 1.0\n"
    )  # fmt: skip


def test_a_conjunction_is_taken_apart() -> None:
    body = For(ROW, 8, For(COL, 8, If((ROW < 5) & (COL < 3), STORE)))
    assert hoisted(body) == (
        "    for i in range(8):\n"
        "        if i < 5:\n"
        "            for j in range(8):\n"
        "                if j < 3:\n"
        "                    out[i, j] = 1.0\n"
    )  # fmt: skip


def test_neighbours_under_one_condition_share_the_test() -> None:
    again = Store(OUT, (ROW, index(0)), as_expr(2.0))
    body = For(ROW, 8, seq(For(COL, 8, If(ROW < 5, STORE)), If(ROW < 5, again)))
    assert hoisted(body).count("if ") == 1


def test_neighbours_under_other_conditions_keep_theirs() -> None:
    again = Store(OUT, (ROW, index(0)), as_expr(2.0))
    body = For(ROW, 8, seq(If(ROW < 5, STORE), If(ROW < 4, again), again))
    text = hoisted(For(COL, 2, body))
    assert text.count("if i < 5") == text.count("if i < 4") == 1
    assert "        out[i, 0] = 2.0" in text


def test_a_test_of_data_stays_between_the_stores_that_may_change_it() -> None:
    inside = If(Load(OUT, (index(0), index(0))) > 0, STORE)
    body = For(ROW, 8, For(COL, 8, inside))
    assert hoisted(body) == str(Function("f", (OUT,), (OUT,), body)).partition("\n")[2]


def test_a_test_leaves_an_allocation() -> None:
    buffer = Buffer("T", (1,))
    inner = Seq((Store(buffer, (index(0),), as_expr(1.0)), Store(OUT, (ROW, COL), Load(buffer, (index(0),)))))
    body = For(ROW, 8, Alloc(buffer, For(COL, 8, If(ROW < 5, inner))))
    text = hoisted(body)
    assert text.index("if i < 5") < text.index("T = alloc") < text.index("for j")


def test_what_only_tested_statements_read_is_computed_under_their_test() -> None:
    buffer = Buffer("T", (1,))
    element = Load(buffer, (index(0),))
    init, step = Store(buffer, (index(0),), as_expr(0.0)), Store(buffer, (index(0),), element + Load(OUT, (ROW, COL)))
    stored = If(ROW < 5, Store(OUT, (ROW, index(0)), element))
    text = hoisted(For(ROW, 8, Alloc(buffer, seq(init, For(COL, 8, step), stored))))
    assert text.count("if ") == 1
    assert text.index("if i < 5") < text.index("T = alloc")


def test_what_an_untested_statement_reads_is_computed_always() -> None:
    buffer = Buffer("T", (1,))
    element = Load(buffer, (index(0),))
    parts = Store(buffer, (index(0),), as_expr(0.0)), If(ROW < 5, Store(OUT, (ROW, index(0)), element))
    text = hoisted(For(ROW, 8, Alloc(buffer, seq(*parts, Store(OUT, (ROW, index(1)), element)))))
    assert text.index("T = alloc") < text.index("T[0] = 0.0") < text.index("if i < 5")


def test_statements_with_other_effects_run_always() -> None:
    buffer = Buffer("T", (1,))
    made = seq(Evaluate(Call("extern:note", (), "int32")), Store(buffer, (index(0),), as_expr(0.0)))
    stored = If(ROW < 5, Store(OUT, (ROW, index(0)), Load(buffer, (index(0),))))
    text = hoisted(For(ROW, 8, Alloc(buffer, Seq((For(COL, 2, made), stored)))))
    assert text.index("note") < text.index("if i < 5")


def test_guards_stay_guards_and_directly_around() -> None:
    func = Function("f", (OUT,), (OUT,), For(ROW, 8, For(COL, 8, If(COL < 3, If(COL < 6, STORE, guard=True)))))
    tests = [node for node in walk(hoist_tests(func).body) if isinstance(node, If)]
    assert [(str(test.condition), test.guard) for test in tests] == [("j < 3", False), ("j < 6", True)]


def test_a_guard_that_is_also_a_test_is_a_test() -> None:
    func = Function("f", (OUT,), (OUT,), For(ROW, 8, For(COL, 8, If(COL < 3, If(COL < 3, STORE), guard=True))))
    assert [node.guard for node in walk(hoist_tests(func).body) if isinstance(node, If)] == [False]
