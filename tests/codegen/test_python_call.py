"""Kernels as functions of Python in machine code: the calls that they know, and those that they leave to Python."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextvars import Context, ContextVar
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from guarded_calls import own
from hypothesis import given
from hypothesis import strategies as st
from lowered_programs import ONE_CORE, PARALLEL, TWO_CORES, alloc, function, get, loop, put
from processors import for_target, on_this_machine

import pegbox as pb
from pegbox import te, tir
from pegbox.codegen import Kernel, Program, build, compile_program, emit, load
from pegbox.codegen.runtime import elf, interpreter, python_abi, team
from pegbox.codegen.runtime.array_call import MOST_LOCKED
from pegbox.codegen.runtime.image import ImageLayout
from pegbox.codegen.runtime.python_abi import symbol_of
from pegbox.codegen.runtime.python_call import with_python_call
from pegbox.errors import ArgumentError
from pegbox.expr import dtypes
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import seq
from pegbox.workers.affinity import affinity_mask, confined

pytestmark = [
    on_this_machine,
    pytest.mark.skipif(not interpreter.is_known(), reason="machine code does not know this Python"),
]


def added(shape: tuple[int, ...] = (2, 3), dtype: str = "float32", *, sums: int = 1) -> Program:
    """Outputs that are each the sum of the two inputs."""
    a, b = (Buffer(name, shape, dtype) for name in "ab")
    outputs = [Buffer(f"c{number}", shape, dtype) for number in range(sums)]

    def stores(*at: Any) -> Any:
        value = get(a, *at) if dtype == "bool" else get(a, *at) + get(b, *at)
        return seq(*(put(output, *at, value) for output in outputs))

    def nest(at: tuple[Any, ...]) -> Any:
        if len(at) == len(shape):
            return stores(*at)
        return loop(f"i{len(at)}", shape[len(at)], lambda i: nest((*at, i)))

    return emit(function([a, b, *outputs], outputs, nest(()), name="added"), ONE_CORE)


@pytest.fixture(scope="module")
def add() -> Kernel:
    return build(added())


def arrays(shape: tuple[int, ...] = (2, 3), dtype: str = "float32", *, sums: int = 1) -> list[np.ndarray[Any, Any]]:
    given = [np.arange(np.prod(shape)).reshape(shape).astype(dtype), np.ones(shape, dtype)]
    return [*given, *(np.zeros(shape, dtype) for _ in range(sums))]


def refuse(*arguments: Any, **named: Any) -> Any:
    raise AssertionError("machine code did not know the call")


@pytest.mark.parametrize("dtype", dtypes.BITS)
def test_machine_code_takes_arrays_of_every_dtype(dtype: str) -> None:
    call = build(added(dtype=dtype)).function(refuse)
    a, b, c = arrays(dtype=dtype)
    assert call(a, b, c) is None
    np.testing.assert_array_equal(c, a if dtype == "bool" else a + b)


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 1, 3, 2), (1, 1)])
def test_machine_code_takes_arrays_of_any_rank(shape: tuple[int, ...]) -> None:
    a, b, c = arrays(shape)
    build(added(shape)).function(refuse)(a, b, c)
    np.testing.assert_array_equal(c, a + b)


def test_an_output_may_be_given_by_name_and_is_returned(add: Kernel) -> None:
    for call in (add.function(refuse), add._checked, add):
        a, b, c = arrays()
        assert call(a, b, out=c) is c
        np.testing.assert_array_equal(c, a + b)
        assert call(a, b, c, **{}) is None
        assert call(a, b, c, out=None) is None


def test_several_outputs_are_given_as_a_tuple() -> None:
    kernel = build(added(sums=2))
    for call in (kernel.function(refuse), kernel._checked):
        a, b, c, d = arrays(sums=2)
        both = c, d
        assert call(a, b, out=both) is both
        np.testing.assert_array_equal(c, a + b)
        np.testing.assert_array_equal(d, a + b)


def test_a_single_output_may_be_in_a_tuple(add: Kernel) -> None:
    for call in (add.function(refuse), add._checked):
        a, b, c = arrays()
        alone = (c,)
        assert call(a, b, out=alone) is alone
        np.testing.assert_array_equal(c, a + b)
    (made,) = add.function(refuse, make_outputs=lambda: (np.empty((2, 3), np.float32),))(a, b)
    np.testing.assert_array_equal(made, a + b)
    assert sys.getrefcount(made) == 2
    empty: tuple[Any, ...] = ()
    with pytest.raises(ArgumentError, match="got 2, and 0 in out"):
        own(add)(a, b, out=empty)


def test_outputs_come_between_inputs_where_the_kernel_has_them_there() -> None:
    a, b, c = (Buffer(name, (3,)) for name in "abc")
    body = loop("i", 3, lambda i: put(b, i, get(a, i) - get(c, i)))
    kernel = build(emit(function([a, b, c], [b], body), ONE_CORE))
    for call in (kernel.function(refuse), kernel._checked):
        x, y, z = np.full(3, 5, np.float32), np.ones(3, np.float32), np.zeros(3, np.float32)
        call(x, y, out=z)
        assert (z == 4).all()


@pytest.mark.parametrize(
    ("places", "named", "message"),
    [
        (3, {"out": 1}, r"takes 2 arrays \(a: .*\), and 1 in out \(c0: float32\[2, 3\]\); got 3, and 1 in out"),
        (2, {"out": 2}, "got 2, and 2 in out"),
        (1, {"out": 1}, "got 1, and 1 in out"),
        (2, {"where": 1}, r"added\(where=\): pass arrays by position: added\(a, b, c0\)"),
        (2, {"out": 1, "where": 1}, r"added\(where=\)"),
        (2, {}, "takes 3 arrays .* got 2"),
    ],
)
def test_wrong_names_and_counts_are_refused(add: Kernel, places: int, named: dict[str, int], message: str) -> None:
    outputs = {name: arrays()[0] if count == 1 else tuple(arrays()[:count]) for name, count in named.items()}
    with pytest.raises(ArgumentError, match=message):
        own(add)(*arrays()[:places], **outputs)


def test_outputs_are_made_for_a_call_with_inputs_alone(add: Kernel) -> None:
    a, b, _ = arrays()
    call = add.function(refuse, make_outputs=lambda: np.empty((2, 3), np.float32))
    result = call(a, b)
    np.testing.assert_array_equal(result, a + b)
    assert sys.getrefcount(result) == 2
    with pytest.raises(ArgumentError, match=r"argument 0 \(a\) is a int"):
        add.function(lambda *given: add._checked(*given, *arrays()[2:]), make_outputs=lambda: result)(1, b)
    assert sys.getrefcount(result) == 2


def test_no_outputs_are_made_for_inputs_that_do_not_fit(add: Kernel) -> None:
    call = add.function(lambda *_: "left", make_outputs=lambda: pytest.fail("made"))  # type: ignore[arg-type]
    assert call(np.zeros((2, 4), np.float32), arrays()[1]) == "left"
    assert call(*arrays()) == "left"


def test_a_variable_leaves_all_calls_to_python_while_it_has_a_value(add: Kernel) -> None:
    variable: ContextVar[str | None] = ContextVar("variable", default=None)
    call = add.function(lambda *_, **__: variable.get(), make_outputs=lambda: arrays()[2], unless=variable)
    a, b, c = arrays()
    assert call(a, b, out=c) is c
    token = variable.set("left")
    counts = [sys.getrefcount(each) for each in ("left", variable)]
    assert [call(a, b, out=c), call(a, b)] == ["left"] * 2
    assert Context().run(call, a, b, out=c) is c
    assert [sys.getrefcount(each) for each in ("left", variable)] == counts
    variable.reset(token)
    assert call(a, b, out=c) is c
    with pytest.raises(ArgumentError, match="unless"):
        add.function(refuse, unless="variable")  # type: ignore[arg-type]


def test_functions_of_several_kernels_follow_each_other(add: Kernel) -> None:
    other = build(added((4,), "int32"))
    call = add.function(other.function(lambda *_: "left"))
    a, b, c = arrays((4,), "int32")
    assert call(a, b, out=c) is c
    np.testing.assert_array_equal(c, a + b)
    assert call(a, b) == "left"


def test_an_error_of_the_function_that_makes_outputs_is_raised(add: Kernel) -> None:
    def full() -> Any:
        raise MemoryError("full")

    with pytest.raises(MemoryError, match="full"):
        add.function(refuse, make_outputs=full)(*arrays()[:2])


def test_another_call_goes_on_with_all_of_its_arguments(add: Kernel) -> None:
    call = add.function(lambda *given, **named: (given, named))
    assert call() == ((), {})
    assert call(1, 2, 3, 4, x=5) == ((1, 2, 3, 4), {"x": 5})
    assert call(1, out=2) == ((1,), {"out": 2})


def test_a_derived_class_may_have_a_call_of_its_own(add: Kernel) -> None:
    class Counted(Kernel):
        calls = 0

        def __call__(self, *arrays: Any, out: Any = None) -> Any:
            self.calls += 1
            return super().__call__(*arrays, out=out)

    counted = Counted(add.compiled, None)
    a, b, c = arrays()
    counted(a, b, c)
    np.testing.assert_array_equal(c, a + b)
    assert (counted.calls, isinstance(counted, Kernel), str(inspect.signature(add))) == (1, True, "(*arrays, out=None)")


# -- the same answers as the checks in Python --------------------------------------------------------------------------

MEMORY = 160


@dataclass(frozen=True)
class Recipe:
    """An array over a piece of memory, or something else in its place."""

    kind: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    order: str
    writable: bool

    def make(self, memory: np.ndarray[Any, Any]) -> Any:
        if self.kind == "list":
            return [[1.0]]
        if self.kind == "none":
            return None
        needed = int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        offset = min(self.offset, MEMORY - needed)
        flat = memory[offset : offset + needed].view(self.dtype)
        array = flat.reshape(self.shape, order="F" if self.order == "F" else "C")
        if self.order == "reversed" and self.shape:
            array = array[::-1]
        array.flags.writeable = self.writable
        if self.kind == "masked":
            return np.ma.masked_array(array)
        return array.view(np.matrix) if self.kind == "matrix" and array.ndim == 2 else array


RIGHT = [Recipe("array", "float32", offset, (2, 3), "C", True) for offset in (0, 48, 96, 24)]
CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "kind": st.sampled_from(["list", "none", "masked", "matrix"]),
    "dtype": st.sampled_from(["float64", ">f4", "int32", "bool", "float16", "f4,f4", "S4"]),
    "offset": st.integers(0, MEMORY),
    "shape": st.sampled_from([(3, 2), (6,), (2, 3, 1), (0, 3), (), (1, 3)]),
    "order": st.sampled_from(["F", "reversed"]),
    "writable": st.just(False),
}
changes = st.one_of(*(st.tuples(st.integers(0, 3), st.just(name), values) for name, values in CHANGES.items()))


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[Recipe], str]:
    """A right call with up to three changes, and the form in which the output is given."""
    found = list(RIGHT)
    for place, name, value in draw(st.lists(changes, max_size=3)):
        found[place] = replace(found[place], **{name: value})
    return found[: draw(st.sampled_from([3, 3, 3, 3, 2, 4]))], draw(st.sampled_from(["place", "out", "tuple"]))


def outcome(call: Callable[..., Any], made: tuple[list[Recipe], str]) -> tuple[Any, ...]:
    """Return the value or the error of a call, and the memory after it."""
    found, form = made
    memory = np.arange(MEMORY, dtype=np.uint8)
    given = [recipe.make(memory) for recipe in found]
    named = {} if form == "place" else {"out": given.pop() if form == "out" else (given.pop(),)}
    try:
        result = call(*given, **named)
    except ArgumentError as error:
        return "raised", str(error), memory.tobytes()
    return "returned", result is named.get("out"), memory.tobytes()


@given(made=calls())
def test_machine_code_and_python_agree_on_any_call(add: Kernel, made: tuple[list[Recipe], str]) -> None:
    assert outcome(own(add), made) == outcome(add._checked, made)


@given(made=calls())
def test_machine_code_runs_the_plain_calls_that_python_runs(add: Kernel, made: tuple[list[Recipe], str]) -> None:
    found, _ = made
    left: list[bool] = []

    def other(*arguments: Any, **named: Any) -> Any:
        left.append(True)
        return add._checked(*arguments, **named)

    accepted = outcome(add.function(other), made)[0] == "returned"
    plain = all(
        recipe.kind == "array" or (recipe.kind, recipe.shape == (2, 3)) == ("matrix", False) for recipe in found
    )
    assert bool(left) is not (accepted and plain)


# -- references, memory, threads ---------------------------------------------------------------------------------------


def test_a_million_calls_leave_every_count_as_it_was(add: Kernel) -> None:
    a, b, c = arrays()
    call, out, wrong = own(add), {"out": c}, np.zeros(5)
    made = add.function(refuse, make_outputs=lambda: np.empty((2, 3), np.float32))
    objects = [a, b, c, out, wrong, call, None, "out", np.ndarray, a.dtype, add._checked]

    def run(count: int) -> None:
        for _ in range(count):
            call(a, b, c)
            call(a, b, out=c)
            made(a, b)
        for _ in range(count // 1000):
            with pytest.raises(ArgumentError):
                call(a, b, out=wrong)

    run(2000)
    gc.collect()
    before, blocks = [sys.getrefcount(each) for each in objects], sys.getallocatedblocks()
    run(333_334)
    gc.collect()
    assert [sys.getrefcount(each) for each in objects] == before
    assert abs(sys.getallocatedblocks() - blocks) < 500


def test_code_is_freed_with_the_last_function(add: Kernel) -> None:
    kernel = build(added())
    code, call = weakref.ref(kernel._code), kernel.function(refuse)
    del kernel
    a, b, c = arrays()
    call(a, b, c)
    np.testing.assert_array_equal(c, a + b)
    assert code() is not None
    del call
    assert code() is None


def copied_twice(size: int = 6000) -> Program:
    """A copy by way of a workspace."""
    a, c, t = Buffer("a", (size,)), Buffer("c", (size,)), Buffer("t", (size,))
    body = alloc(t, loop("i", size, lambda i: put(t, i, get(a, i))), loop("i", size, lambda i: put(c, i, get(t, i))))
    program = emit(function([a, c], [c], body, name="copied"), ONE_CORE)
    assert program.workspace_bytes
    return program


@pytest.mark.parametrize("stores", [0, 1])
def test_threads_share_a_kernel_with_a_workspace(stores: int) -> None:
    """The code has one workspace, which one thread at a time uses; Python has others."""
    kernel = build(replace(copied_twice(), stores=stores))
    call, wrong = own(kernel), []

    def body(value: float) -> None:
        a, c = np.full(6000, value, np.float32), np.zeros(6000, np.float32)
        for _ in range(300):
            c[:] = 0
            call(a, c)
            if not (c == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=body, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_call_in_its_own_workspace_is_left_to_python() -> None:
    kernel = build(copied_twice())
    a, c = np.ones(6000, np.float32), np.zeros(6000, np.float32)
    call = kernel.function(lambda *_: "left")
    assert call(a, c) is None
    kernel._code.python.lend(0)  # as during a call
    assert call(a, c) == "left"
    own(kernel)(a, c)
    assert (c == 1).all()


WAITING = tir.c_source(
    """
    #include <time.h>
    int wait_for(volatile float *flag, volatile float *seen) {
        time_t start = time(0);
        seen[0] = 1;
        while (flag[0] == 0 && time(0) - start < 20) {}
        seen[0] = flag[0];
        return 0;
    }
    """
)


def test_other_threads_run_during_a_call_and_may_drop_its_arrays() -> None:
    flag = te.placeholder((1,), name="flag")

    def wait(ins: Any, outs: Any) -> Any:
        return te.call_extern("int32", "wait_for", ins[0].data, outs[0].data)

    seen = te.extern((1,), [flag], wait, name="seen", code=WAITING)
    kernel = pb.build(te.create_schedule(seen.op), [flag, seen], target=ONE_CORE)
    given = [np.zeros(1, np.float32), np.zeros(1, np.float32)]
    dropped, result, address = weakref.ref(given[0]), given[1], given[0].ctypes.data
    thread = threading.Thread(target=lambda: own(kernel)(*given))
    thread.start()
    while thread.is_alive() and not result[0]:
        pass
    given.clear()
    gc.collect()
    assert dropped() is not None
    ctypes.c_float.from_address(address).value = 2
    thread.join()
    assert result[0] == 2
    assert dropped() is None


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_calls_the_kernels_of_its_parent(add: Kernel) -> None:
    copied = build(copied_twice())
    a, b, c = arrays()
    x, y = np.ones(6000, np.float32), np.zeros(6000, np.float32)
    if not (pid := os.fork()):
        own(add)(a, b, c)
        own(copied)(x, y)
        os._exit(0 if (c == a + b).all() and (y == x).all() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert not c.any()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="teams are left to the system")
def test_machine_code_runs_teams_that_python_has_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "_LOOK_SECONDS", 600.0)
    a, c = Buffer("a", (64,)), Buffer("c", (64,))
    program = emit(function([a, c], [c], loop("i", 64, lambda i: put(c, i, get(a, i) * 2.0), PARALLEL)), TWO_CORES)
    kernel, left = build(program), []

    def other(*arguments: Any) -> Any:
        left.append(True)
        return kernel._checked(*arguments)

    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    team.latest.clear()
    with confined(affinity_mask()[:1]):
        call = kernel.function(other)
        call(x, y)
        assert left == [True]
        y[:] = 0
        call(x, y)
        assert left == [True]
    assert (y == 2).all()


# -- where the code is, and where it is not ----------------------------------------------------------------------------


def test_kernels_have_the_function_and_candidates_do_not(add: Kernel) -> None:
    symbol = symbol_of("added")
    assert symbol.encode() in add.compiled.object_code
    candidate = compile_program(added())
    assert symbol.encode() not in candidate.object_code
    assert add.programs == [added()]
    a, b, c = arrays()
    bare = load(candidate)
    assert bare.function(refuse) is refuse
    own(bare)(a, b, out=c)
    np.testing.assert_array_equal(c, a + b)


def test_object_code_refers_to_nothing_of_python(add: Kernel) -> None:
    assert set(elf.undefined(add.compiled.object_code)) == set(elf.undefined(compile_program(added()).object_code))


@pytest.mark.parametrize(("flag", "value"), [("implementation", SimpleNamespace(name="another")), ("abiflags", "t")])
def test_a_python_that_the_code_does_not_know_loads_it_and_checks_by_itself(
    add: Kernel, flag: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter.is_known.cache_clear()
    monkeypatch.setattr(sys, flag, value)
    try:
        kernel = load(add.compiled)
    finally:
        interpreter.is_known.cache_clear()
    assert kernel.function(refuse) is refuse
    a, b, c = arrays()
    own(kernel)(a, b, c)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("field", ["TYPE", "DATA", "DIMENSIONS", "SHAPE", "DTYPE", "FLAGS"])
def test_arrays_of_another_layout_are_noticed(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(map(interpreter._has_layout, interpreter._samples()))
    other = {"SHAPE": python_abi.SHAPE + 8}.get(field, getattr(python_abi, field) - 8)
    monkeypatch.setattr(python_abi, field, other)
    assert not all(map(interpreter._has_layout, interpreter._samples()))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("architecture", ["x86-64", "aarch64", "riscv64"])
def test_the_code_is_compiled_and_linked_for_any_processor(architecture: str, threads: int) -> None:
    program = replace(added(), target=for_target(architecture), num_threads=threads)
    code = compile_program(with_python_call(program)).object_code
    layout = ImageLayout.of(elf.parse(code))
    layout.linked(1 << 30, dict.fromkeys(elf.undefined(code), (1 << 30) + 64))
    names = [symbol.name for symbol in layout.object.symbols if symbol.section]
    assert {symbol_of("added"), f"{symbol_of('added')}_table"} <= set(names)


def test_the_lock_is_let_go_by_programs_that_last() -> None:
    lets_go = "call ptr %v"  # a call whose value is a thread's state
    short, long = added((2, 3)), added((MOST_LOCKED // 8, 16))
    assert (short.stores, long.stores) == (6, 2 * MOST_LOCKED)
    text = with_python_call(short).ll
    assert with_python_call(replace(short, stores=MOST_LOCKED)).ll == text
    for lasting in (replace(short, stores=MOST_LOCKED + 1), replace(short, stores=0), replace(short, externs=("f",))):
        assert with_python_call(lasting).ll.count(lets_go) == text.count(lets_go) + 1
