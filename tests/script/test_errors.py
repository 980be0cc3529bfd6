"""Errors of scripts point at line and column, and say what to do. In the texts here, @ stands before the place."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

from pegbox.errors import ScriptError
from pegbox.tir import script
from pegbox.tir.script import ir as I
from pegbox.tir.script import tir as T

HEAD = "@T.prim_func\ndef f(A: T.Buffer((8, 8)), B: T.Buffer((8,), 'int32')):\n"
BLOCK = """\
for i, j in T.grid(8, 8):
    with T.block("X"):
        vi, vj = T.axis.remap("SS", [i, j])
"""


def of_body(text: str) -> str:
    return HEAD + textwrap.indent(text, "    ")


def in_block(text: str) -> str:
    return of_body(BLOCK + textwrap.indent(text, " " * 8))


CASES = {
    "unknown T name": (
        of_body("for i in ¦T.gird(8):\n    pass"),
        "unknown name T.gird; did you mean T.grid or T.guard?",
    ),
    "unknown axis": (of_body("with T.block('X'):\n    v = ¦T.axis.spacial(8, 1)"), "did you mean T.axis.spatial?"),
    "unbound variable": (in_block("A[vi, vj] = A[vi, ¦vk]"), "unknown name 'vk'"),
    "unknown buffer": (in_block("A[vi, vj] = ¦C[vi, vj]"), "unknown name 'C'"),
    "stored in an unknown buffer": (in_block("¦C[vi, vj] = 1"), "unknown name 'C'"),
    "wrong rank": (in_block("A[vi, vj] = ¦A[vi]"), "A has 2 dimension(s), [8, 8], and is given 1 index"),
    "wrong rank of a store": (in_block("¦A[vi] = 1"), "A has 2 dimension(s)"),
    "wrong dtype": ("@T.prim_func\ndef f(A: T.Buffer((8,), ¦'float31')): pass", "unknown dtype 'float31'"),
    "no dtype": ("@T.prim_func\ndef f(A: T.Buffer((8,), ¦3)): pass", "3 is not a dtype"),
    "block variable twice": (in_block("¦vi = T.axis.spatial(8, i)"), "the block variable vi is bound twice"),
    "remap too short": (
        of_body("for i, j in T.grid(8, 8):\n    with T.block('X'):\n        vi, vj = ¦T.axis.remap('S', [i, j])"),
        "'S' has 1 letter(s) for 2 loop(s)",
    ),
    "remap of no loop": (
        of_body("for i in range(8):\n    with T.block('X'):\n        v = T.axis.remap('S', [¦i + 1])"),
        "remap: i + 1 is not a loop",
    ),
    "remap letters": (
        of_body("for i in range(8):\n    with T.block('X'):\n        v = T.axis.remap(¦'X', [i])"),
        "S (spatial) and R (reduce)",
    ),
    "names for a remap": (
        of_body("for i in range(8):\n    with T.block('X'):\n        ¦v, w = T.axis.remap('S', [i])"),
        "2 name(s) for 1 block variable(s)",
    ),
    "missing axis": (
        of_body("for i in range(8):\n    with T.block('X'):\n        B[¦i] = 1"),
        "the body of a block uses the loop variable i",
    ),
    "loop variable in a let": (
        of_body("for i in range(8):\n    x = i + 1\n    with T.block('X'):\n        B[¦x] = 1"),
        "uses x, made of the loop variable i",
    ),
    "axis outside of a block": (of_body("v = ¦T.axis.spatial(8, 0)"), "T.axis.spatial is outside a block"),
    "where outside of a block": (of_body("¦T.where(True)"), "T.where is outside a block"),
    "axis below a loop": (
        of_body("with T.block('X'):\n    for i in range(8):\n        v = ¦T.axis.spatial(8, i)"),
        "is inside another statement",
    ),
    "dynamic shape": ("@T.prim_func\ndef f(A: T.Buffer((¦n, 8))): pass", "unknown name 'n'"),
    "dynamic extent": (
        of_body("for i in range(8):\n    for j in range(¦i):\n        B[j] = 1"),
        "the extent i is not known while the script is read",
    ),
    "scalar parameter": ("@T.prim_func\ndef f(n: ¦T.int32): pass", "T.int32 is not a type of a parameter"),
    "no type": ("@T.prim_func\ndef f(¦A): pass", "the parameter A has no type"),
    "init at a reduce variable": (
        of_body(
            "for i, k in T.grid(8, 8):\n    with T.block('X'):\n        vi, vk = T.axis.remap('SR', [i, k])\n"
            "        with ¦T.init():\n            A[vi, vk] = T.float32(0)\n        A[vi, vk] = A[vi, vk] + 1.0"
        ),
        "the init of block 'X' writes A at the reduce variable vk",
    ),
    "unmatched handle": ("@T.prim_func\ndef f(¦a: T.handle): pass", "the handle a is matched with no buffer"),
    "matched twice": (
        "@T.prim_func\ndef f(a: T.handle):\n    A = T.match_buffer(a, (8,))\n    B = ¦T.match_buffer(a, (8,))",
        "a has a buffer already",
    ),
    "no parameter": ("@T.prim_func\ndef ¦f(): pass", "the function has no parameter"),
    "default": ("@T.prim_func\ndef f(A: T.Buffer((8,)) = ¦None): pass", "parameters are plain names with a type"),
    "while": (of_body("¦while True:\n    pass"), "while: loops have a number of iterations that is known before"),
    "return": (of_body("¦return 3"), "Return: this Python statement is not part of the script"),
    "lambda": (in_block("A[vi, vj] = (¦lambda: 1)"), "Lambda: this Python is not part of the script"),
    "unknown decorator": ("¦@njit\ndef f(A: T.Buffer((8,))): pass".replace("¦@", "@¦"), "unknown name 'njit'"),
    "other decorator": ("@¦T.block\ndef f(A: T.Buffer((8,))): pass", "unknown decorator T.block"),
    "no decorator": ("¦def f(A: T.Buffer((8,))): pass", "no decorator"),
    "plain class": ("¦class M: pass", "no decorator"),
    "empty module": ("@I.ir_module\n¦class M: pass", "the module has no function"),
    "function twice": (
        "@T.prim_func\ndef f(A: T.Buffer(8)): pass\n@T.prim_func\n¦def f(A: T.Buffer(8)): pass",
        "a second function is called 'f'",
    ),
    "statement between": ("¦print(1)", "between functions"),
    "nothing": ("¦", "the text holds no program"),
    "no python": (of_body("for i in range(8)¦\n    pass"), "not Python: expected ':'"),
    "beyond the domain": (
        of_body("for i in range(9):\n    with T.block('X'):\n        v = T.axis.spatial(8, ¦i)\n        B[v] = 1"),
        "v goes from 0 to 8, beyond its domain from 0 to 7",
    ),
    "empty domain": (of_body("with T.block('X'):\n    v = T.axis.spatial(¦(3, 3), 0)"), "domain from 3 to 3 is empty"),
    "own variable in a binding": (
        of_body("for i in range(8):\n    with T.block('X'):\n        v = T.axis.S(8, i)\n        w = T.axis.S(8, ¦v)"),
        "the block's own v is not known here",
    ),
    "init without reduce": (in_block("with ¦T.init():\n    A[vi, vj] = 0"), "which has no reduce variable"),
    "init as a statement": (in_block("¦T.init()"), "T.init() opens a suite"),
    "init of what comes later": (
        of_body(
            "for k in range(8):\n    with T.block('X'):\n        v = T.axis.spatial(8, k)\n        A[0, v] = 1\n"
            "    with T.block('Y'):\n        v = T.axis.reduce(8, k)\n        with ¦T.init():\n"
            "            B[0] = T.cast(A[0, 0], 'int32')\n        B[0] += v"
        ),
        "the init of block 'Y' reads A, which is written in the loops around it",
    ),
    "two inits": (
        of_body(
            "for k in range(8):\n    with T.block('X'):\n        v = T.axis.reduce(8, k)\n        with T.init():\n"
            "            B[0] = 0\n        with ¦T.init():\n            B[0] = 0\n        B[0] += v"
        ),
        "a second T.init in block 'X'",
    ),
    "block twice": (
        of_body("with T.block('X'):\n    B[0] = 1\nwith ¦T.block('X'):\n    B[1] = 1"),
        "a second block is called 'X'",
    ),
    "reads too little": (
        in_block("¦T.reads(A[vi, 0])\nB[vi] = T.cast(A[vi, vj], 'int32')"),
        "reads A[vi, vj], which T.reads",
    ),
    "writes too little": (in_block("¦T.writes()\nA[vi, vj] = 1"), "writes A[vi, vj], which T.writes does not show"),
    "reads twice": (in_block("T.reads()\n¦T.reads()\nA[vi, vj] = 1"), "a second T.reads in block 'X'"),
    "region of no buffer": (in_block("T.reads(¦vi)\nA[vi, vj] = 1"), "vi is not a part of a buffer"),
    "slice of no constant length": (in_block("T.reads(A[vi, ¦vj:8])"), "has no constant number of elements"),
    "slice with a step": (in_block("T.reads(A[vi, 0:8:¦2])"), "slices have no step"),
    "attributes": (in_block("T.block_attr(¦3)"), "T.block_attr takes a dictionary"),
    "attribute of a value": (in_block("T.block_attr(¦{'a': vi})"), "cannot be kept"),
    "names for loops": (of_body("for ¦i in T.grid(8, 8):\n    pass"), "1 name(s) for 2 loop(s)"),
    "loop name twice": (of_body("for i, ¦i in T.grid(8, 8):\n    pass"), "two loops are called i"),
    "loop over a list": (of_body("for i in ¦[1, 2]:\n    pass"), "[1, 2] is not a domain of a loop"),
    "step": (of_body("for i in range(0, 8, ¦2):\n    pass"), "loops have the step 1"),
    "empty loop": (of_body("for i in range(¦0):\n    pass"), "the loop from 0 to 0 has no iteration"),
    "thread": (of_body("for i in ¦T.thread_binding(8):\n    pass"), "needs a thread axis"),
    "list for a thread": (of_body("for i in T.thread_binding(8, thread=¦[1]):\n    pass"), "[1] is not a thread axis"),
    "thread by place": (of_body("for i in T.thread_binding(8, ¦{}):\n    pass"), "{} is not a thread axis"),
    "unknown thread": (of_body('for i in T.thread_binding(8, thread=¦"warp"):\n    pass'), "is not a thread axis"),
    "starred number": (of_body("for i in T.grid(¦*3):\n    pass"), "*3 is not a row of extents"),
    "loop option": (of_body("for i in ¦T.serial(8, color=1):\n    pass"), "T.serial has no argument 'color'"),
    "store of another type": (in_block("A[vi, vj] = ¦B[vi]"), "int32 is stored in A, which holds float32"),
    "fraction in an integer": (in_block("B[vi] = ¦0.5"), "0.5 is not a value of int32"),
    "index of a float": (in_block("A[vi, ¦A[vi, vj]] = 1"), "is float32, not a whole number"),
    "condition of a number": (in_block("if ¦vi:\n    A[vi, vj] = 1"), "is int64 where a condition is needed"),
    "condition that changes": (
        in_block("if ¦B[vi] > 0:\n    B[vi] = 0\nelse:\n    B[vi] = 1"),
        "the condition reads elements that the first branch writes",
    ),
    "arithmetic of truth": (in_block("A[vi, vj] = ¦(vi < 1) + (vj < 1)"), "arithmetic on bool"),
    "division of integers": (in_block("A[vi, vj] = ¦vi / 2"), "division of int64 is ambiguous"),
    "buffer as a value": (in_block("A[vi, vj] = ¦A + 1"), "the buffer A is not a value"),
    "name for memory": (of_body("x = ¦A[0, 0]\nA[0, 1] = x"), "x would mean a present value of memory"),
    "name twice": (in_block("x = 1\n¦x = 2"), "x is bound already"),
    "second name of a buffer": (of_body("C = ¦A"), "a second name for the buffer A"),
    "buffer twice": (of_body("C = T.alloc_buffer((8,))\n¦C = T.alloc_buffer((8,))"), "C is bound already"),
    "no shape": (of_body("C = ¦T.alloc_buffer()"), "the buffer has no shape"),
    "empty buffer": (of_body("C = T.alloc_buffer((8, ¦0))"), "extents are whole numbers, one or more"),
    "buffer option": (of_body("C = T.alloc_buffer((8,), strides=¦[1])"), "a buffer has no 'strides' here"),
    "no effect": (in_block("¦vi + 1"), "vi + 1 has no effect"),
    "effect of a value": (in_block("T.evaluate(¦vi)"), "vi has no effect"),
    "word as a value": (in_block("A[vi, vj] = ¦T.max + 1"), "T.max is a name of the script, not a value"),
    "statement as a value": (in_block("A[vi, vj] = ¦T.block('Y')"), "T.block is not an expression"),
    "arguments": (in_block("A[vi, vj] = ¦T.exp()"), "T.exp takes x, and was given 0 argument(s)"),
    "argument": (in_block("A[vi, vj] = T.exp(¦y=1)"), "T.exp has no further argument 'y'"),
    "exp of an integer": (in_block("A[vi, vj] = ¦T.exp(vi)"), "needs a float, got int64"),
    "unknown attribute": (in_block("A[vi, vj] = ¦A.rank"), "the buffer A has no attribute 'rank'"),
    "private": (in_block("A[vi, vj] = ¦T.max.__class__"), "names that start with an underscore are private"),
    "index out of the shape": (
        "@T.prim_func\ndef ¦f(A: T.Buffer(8)):\n    A[8] = 1",
        "index 0 of A, 8, goes from 8 to 8",
    ),
    "values of the iteration before": (
        of_body(
            "¦last = T.alloc_buffer((1,))\nfor i in range(8):\n    with T.block('X'):\n        v = T.axis.S(8, i)\n"
            "        A[v, 0] = last[0]\n        last[0] = A[v, 1]"
        ),
        "an iteration of i reads what it cannot be shown to have written to last",
    ),
    "values of the iteration before, in turns": (
        of_body(
            "¦last = T.alloc_buffer((2,))\nfor i in range(8):\n    with T.block('X'):\n        v = T.axis.S(8, i)\n"
            "        last[v % 2] = A[v, 1]\n        A[v, 0] = last[(v + 1) % 2]"
        ),
        "an iteration of i reads what it cannot be shown to have written to last",
    ),
    **{
        f"values of the iteration before, where {test} fails": (
            of_body(
                f"¦S = T.alloc_buffer((8,))\nfor j in range(8):\n    for t in range(8):\n"
                f"        with T.block('X'):\n            v = T.axis.S(8, t)\n            T.where({test})\n"
                f"            S[v] = A[v, 0]\n    for t in range(8):\n        with T.block('Y'):\n"
                f"            w, v = T.axis.remap('SS', [j, t])\n            A[w, v] = S[v]\n"
                f"    for t in range(8):\n        with T.block('Z'):\n            v = T.axis.S(8, t)\n"
                f"            S[v] = 1.0"
            ),
            "an iteration of j reads what it cannot be shown to have written to S",
        )
        for test in (
            "t < 3",
            "t == 0",
            "j < 1",
            "t % 2 == 0",
            "A[t, 1] < 0",
            "t >= 2",
            "t != 3",
            "t < j",
            "t <= 5",
            "2 * t < 7",
        )
    },
    "other with": (
        of_body("with ¦T.grid(8):\n    pass"),
        "`with` opens T.block(...), T.init(), T.decl_buffer(...) or T.allocate(...)",
    ),
    "a view of nothing": (of_body('V = ¦T.Buffer((8,), "float32")'), "T.Buffer(...) here has no memory"),
    "a view of a number": (of_body("V = T.Buffer((8,), data=¦3)"), "3 is not a memory"),
    "a view of another type": (of_body("V = ¦T.Buffer((8,), 'int32', data=A.data)"), "a view of float32 as int32"),
    "a view that is too large": (
        of_body("V = ¦T.Buffer((65,), data=A.data)"),
        "V has 65 elements, of which A holds 64",
    ),
    "a view from within": (
        of_body("V = T.Buffer((8,), data=A.data, elem_offset=¦8)"),
        "views begin where the memory does",
    ),
    "a view across rows": (
        of_body(
            "V = T.Buffer((64,), data=A.data)\n"
            "for i in range(8):\n    ¦V[i * 7:i * 7 + 4] = T.Broadcast(T.float32(0), 4)"
        ),
        "these elements of V do not form a box of A",
    ),
    "memory as a value": (of_body("x = ¦A.data + 1"), "the memory of A is not a value"),
    "memory under a condition": (
        of_body("V = T.allocate([8], 'float32', condition=¦False)"),
        "memory that is allocated under a condition",
    ),
    "a word of TVM's alone": (
        of_body("with ¦T.attr(A, 'x', 1):\n    pass"),
        "T.attr is not read: leave out the attribute",
    ),
    "a load by a pointer": (
        of_body("x = ¦T.load('float32', A.data, 0)"),
        "T.load is not read: write A[i], or by a",
    ),
    "a store by a pointer": (of_body("¦T.store(A.data, 0, 1.0)"), "T.store is not read: write A[i] = x, or by a flat"),
    "vectors that are shuffled": (
        of_body("A[0, 0:2] = ¦T.Shuffle([A[0, 0], A[0, 1]], [1, 0])"),
        "T.Shuffle is not read: the lengths of its vectors are not in the text; store the elements one by one",
    ),
    "umlaut": (in_block("T.block_attr({'ä': 1}); A[vi, vj] = ¦ü"), "unknown name 'ü'"),
}


def test_the_remedy_for_a_missing_thread_axis_is_an_argument_to_copy() -> None:
    with pytest.raises(ScriptError, match=r'remedy: write thread="blockIdx\.x", or another of blockIdx\.x, '):
        script.from_source(of_body("for i in T.thread_binding(8):\n    pass"))


@pytest.mark.parametrize("case", CASES)
def test_an_error_points_at_its_place(case: str) -> None:
    marked, message = CASES[case]
    before = marked[: marked.index("¦")]
    with pytest.raises(ScriptError) as caught:
        script.from_source(marked.replace("¦", ""), "model.py")
    error = caught.value
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    assert (error.line, error.column) == (line, column), str(error)
    assert message in error.reason, str(error)
    first, shown, caret = str(error).splitlines()[:3]
    assert first.startswith(f"model.py:{line}:{column}: ")
    assert shown[4:] == (marked.replace("¦", "").splitlines() or [""])[line - 1]
    assert caret.index("^") == 4 + column - 1


def test_most_errors_have_a_remedy() -> None:
    texts = [marked.replace("¦", "") for marked, _ in CASES.values()]
    errors = []
    for text in texts:
        with pytest.raises(ScriptError) as caught:
            script.from_source(text)
        errors.append(caught.value)
    assert sum(bool(error.remedy) for error in errors) > len(errors) * 0.6
    assert all(error.file == "<script>" for error in errors)


def place_of(name: str) -> tuple[int, int]:
    """Line and column of a name that stands once in this file."""
    tree = ast.parse(Path(__file__).read_text())
    (node,) = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name)
    return node.lineno, node.col_offset + 1


def test_an_error_in_a_decorated_function_points_into_its_file() -> None:
    with pytest.raises(ScriptError) as caught:

        @T.prim_func
        def f(A: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("A"):
                    v = T.axis.spatial(8, i)
                    A[v] = unknown_in_a_function  # noqa: F821

    assert caught.value.file == __file__
    assert (caught.value.line, caught.value.column) == place_of("unknown_in_a_function")


def test_an_error_in_a_decorated_class_points_into_its_file() -> None:
    with pytest.raises(ScriptError) as caught:

        @I.ir_module
        class Module:
            text = """
a text less indented than the class
"""

            @T.prim_func
            def f(A: T.Buffer((8,), "float32")):
                for i in range(8):
                    A[i] = unknown_in_a_class  # noqa: F821

    assert (caught.value.line, caught.value.column) == place_of("unknown_in_a_class")


def test_functions_without_text_are_told_how_to_be_read() -> None:
    scope = {"T": T}
    with pytest.raises(ScriptError, match=r"is not to be found.*script\.from_source"):
        exec("@T.prim_func\ndef f(A: T.Buffer((8,))): pass", scope)


def test_words_mean_nothing_outside_of_scripts() -> None:
    with pytest.raises(ScriptError, match=r"T\.grid was called while Python runs"):
        T.grid(8, 8)
    with pytest.raises(AttributeError, match=re.escape("unknown name T.gird; did you mean T.grid or T.guard?")):
        T.gird  # noqa: B018


def test_a_class_needs_decorated_functions() -> None:
    with pytest.raises(ScriptError, match=r"Module\.f is a plain Python function"):

        @I.ir_module
        class Module:
            def f(self) -> None:
                pass


@pytest.mark.parametrize("value", ["()", "0", "False", "''"])
def test_annotations_that_are_empty_but_no_dictionary_are_refused(value: str) -> None:
    text = of_body(f"for i in T.serial(8, annotations={value}):\n    B[i] = 0\n")
    with pytest.raises(ScriptError, match="annotations are a dictionary"):
        script.from_source(text)
