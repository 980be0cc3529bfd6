"""Errors in a user's template or workload name the file and the line."""

from __future__ import annotations

import os
import pickle
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import ComputeError, PegboxError, ScheduleError, SpaceError, TemplateError
from pegbox.task.config_view import ApplyingConfig

HEAD = """
import pegbox as pb
from pegbox import te

def tensors(n):
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    return A, B, C

"""
TEMPLATE = """
    A, B, C = tensors(n)
    cfg.define_split("tile_y", C.op.axis[0], num_outputs=2)
    s = te.create_schedule(C.op)
    {line}
    return s, [A, B, C]
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`written(text)` is the way to the function `ops` of a file in the current folder that ends in this text."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        Path("ops.py").write_text(HEAD + text)
        return f"{Path('ops.py').resolve()}:ops"

    return write


def line_of(mark: str) -> int:
    return next(n for n, line in enumerate(Path("ops.py").read_text().splitlines(), start=1) if mark in line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cfg['tily_y']", "no knob 'tily_y'.*did you mean 'tile_y'"),
        ("undefined_name", r"template ops with \{'n': 8\} raised NameError: name 'undefined_name' is not defined"),
        ("len(5)", "raised TypeError: object of type 'int' has no len"),
        ("s[C].split(C.op.axis[0], factor=0)", "factor"),
        ("te.placeholder((0,))", "extent 0"),
        ("te.compute((n,), lambda i: A[i, i])", "A"),
    ],
)
def test_an_error_in_a_template_names_its_line(written: Any, line: str, said: str) -> None:
    ref = written("def ops(cfg, n):" + TEMPLATE.format(line=line))
    with pytest.raises(PegboxError, match=f"(?s)^ops.py:{line_of(line)}: .*{said}") as caught:
        pb.create_task(ref, args=(8,))
    assert caught.value.source == f"ops.py:{line_of(line)}"
    assert not caught.value.message.startswith("ops.py")


REPLAYED = [  # a call that is refused only when the schedule is replayed, what else the schedule says, and why
    ("s[B].compute_at(s[C], i)", "s[C].vectorize(i)", "i is vectorized"),
    ("s.create_group(B, A).compute_at(s[C], i)", "s[C].vectorize(i)", "i is vectorized"),
    ("s[C].pragma(j, 'parallel')", "s[C].vectorize(i)  # first", "i, which is vectorized"),
    ("s[S].parallel(k)", "s[S].reorder(k, *S.op.axis)", "k cannot be parallel"),
    ("s[S].parallel(ko)", "s.rfactor(S, ki)", "k.outer cannot be parallel"),
    ("s[C].bind(j, te.thread_axis((0, 7), 'threadIdx.x'))", "s[C].unroll(i)", "threadIdx.x has 7 threads"),
    ("s[C].env_threads(te.thread_axis('threadIdx.y'))", "s[C].parallel(i)", "threadIdx.y has no extent"),
    ("s[C].tensorize(j, 'float32_tile_4x16x1')", "s[B].compute_inline()", "block C does not reduce"),
    ("s[B].double_buffer()", "s[C].unroll(i)", "B is made once, whole"),
    ("s[C].prefetch(B, i, 2)", "s[B].compute_inline()", "C does not read B any more"),
]
STAGES = """
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((n, n), lambda i, j: B[i, j] + A[i, j], name="C")
    r = te.reduce_axis((0, n), name="k")
    S = te.compute((n,), lambda i: te.sum(A[i, r], axis=r), name="S")
    s = te.create_schedule([C.op, S.op])
    (i, j), (k,) = C.op.axis, S.op.reduce_axis
    {split}
    {refused}
    {other}
    return s, [A, C, S]
"""


def scheduled(refused: str, other: str) -> str:
    if "# first" in other:
        refused, other = other, refused
    return STAGES.format(split="ko, ki = s[S].split(k, 4)" if "ko" in refused else "", refused=refused, other=other)


@pytest.mark.parametrize(("refused", "other", "said"), REPLAYED)
def test_what_only_the_replay_refuses_names_the_line_that_asked_for_it(
    written: Any, refused: str, other: str, said: str
) -> None:
    ref = written("def ops(cfg, n):" + scheduled(refused, other))
    task = pb.create_task(ref, args=(8,))
    with pytest.raises(ScheduleError, match=f"(?s)^ops.py:{line_of(refused)}: .*{said}"):
        task.schedule(task.space.get(0))


@pytest.mark.parametrize(("refused", "other", "said"), REPLAYED)
def test_it_is_so_in_a_plain_script_too(written: Any, refused: str, other: str, said: str) -> None:
    made = runpy.run_path(written("def ops(n):" + scheduled(refused, other)).removesuffix(":ops"))["ops"](8)
    with pytest.raises(ScheduleError, match=f"(?s)^ops.py:{line_of(refused)}: .*{said}"):
        pb.lower(*made)


def test_a_call_inside_of_a_helper_names_the_helpers_line(written: Any) -> None:
    helper = "def at(stage, *place):\n    return stage.compute_at(*place)\n\n"
    ref = written(helper + "def ops(n):" + scheduled("at(s[B], s[C], i)", "s[C].vectorize(i)"))
    made = runpy.run_path(ref.removesuffix(":ops"))["ops"](8)
    with pytest.raises(ScheduleError, match=f"^ops.py:{line_of('return stage.compute_at')}: "):
        pb.lower(*made)


def test_a_tile_names_the_line_of_the_user_not_that_of_a_step_inside_of_it() -> None:
    s = te.create_schedule(te.compute((8, 8), lambda i, j: i + j, name="C").op)
    stage = s.stages[0]
    stage.tile(*stage.op.axis, 2, 4)
    assert [step.primitive for step in stage.steps.values()] == ["split", "split", "reorder"]
    lines = {step.line for step in stage.steps.values()}
    assert len(lines) == 1
    assert Path(__file__).name in lines.pop()


def test_a_refused_call_leaves_no_line_and_a_copy_has_those_of_its_schedule() -> None:
    s = te.create_schedule(te.compute((8, 8), lambda i, j: i + j, name="C").op)
    with pytest.raises(ScheduleError):
        s.stages[0].split(s.stages[0].op.axis[0], factor=0)
    copy = s.copy()
    copy.stages[0].unroll(copy.stages[0].op.axis[0])
    assert (len(s.stages[0].steps), len(copy.stages[0].steps)) == (0, 1)


def test_the_calls_of_a_template_of_pegboxs_own_have_no_line() -> None:
    task = pb.create_task("matmul", args=(8, 8, 8))
    made, _ = task._run(ApplyingConfig(task.space.get(0), task.target))
    lines = [step.line for stage in made.stages for step in stage.steps.values()]
    assert lines
    assert set(lines) == {""}


def test_a_read_outside_of_a_tensor_names_the_line_that_computes_it(written: Any) -> None:
    ref = written(
        "def ops(cfg, n):\n    A = te.placeholder((n,), name='A')\n    B = te.compute((n,), lambda i: A[i * 5 % 113])\n"
        "    cfg.define_knob('k', [0])\n    return te.create_schedule(B.op), [A, B]\n"
    )
    with pytest.raises(ComputeError, match=rf"^ops.py:{line_of('i * 5')}: compute: A.* reads index 10"):
        pb.create_task(ref, args=(8,))
    task = pb.create_task(ref, args=(100,))  # whose corners are inside
    with pytest.raises(ComputeError, match=rf"^ops.py:{line_of('i * 5')}: A.* reads index 100"):
        task.reference([np.ones(100, "float32")])


def test_an_error_in_a_helper_of_the_user_names_the_helpers_line(written: Any) -> None:
    ref = written("def helper(cfg):\n    return 1 // 0\n\ndef ops(cfg, n):" + TEMPLATE.format(line="helper(cfg)"))
    with pytest.raises(TemplateError, match=rf"^ops.py:{line_of('1 // 0')}: template ops .*ZeroDivisionError"):
        pb.create_task(ref, args=(8,))


def test_an_error_without_a_text_is_named_by_its_kind(written: Any) -> None:
    ref = written("def ops(cfg, n):\n    assert False\n")
    with pytest.raises(TemplateError, match=r"^ops.py:\d+: .* raised AssertionError$"):
        pb.create_task(ref, args=(8,))


def test_an_error_in_a_later_run_names_its_line_too(written: Any) -> None:
    ref = written("def ops(cfg, n):" + TEMPLATE.format(line="cfg.raise_error('never')"))
    task = pb.create_task(ref, args=(8,))
    with pytest.raises(pb.errors.InvalidConfig, match=rf"^ops.py:{line_of('never')}: the template refuses .*: never"):
        task.schedule(task.space.get(0))


def test_a_constraint_that_breaks_names_its_line(written: Any) -> None:
    line = "cfg.add_constraint(lambda c: c['tile_y'].no_such > 1, reads=('tile_y',), message='m')"
    task = pb.create_task(written("def ops(cfg, n):" + TEMPLATE.format(line=line)), args=(8,))
    with pytest.raises(SpaceError, match=rf"^ops.py:{line_of('.no_such')}: constraint 'm' raised AttributeError"):
        task.space.sample(1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return s, [A, C]", r"the input B is missing from the arguments \['A', 'C'\]; add it to the list"),
        ("return s, [A, B]", r"the output C is missing from the arguments \['A', 'B'\]; add it to the list"),
        ("return s, [A, B, C, C]", "an argument is given twice"),
        ("return [A, B, C]", "returned .*return .s, .A, B, C"),
        ("return s, [A, B, n]", "argument 8 is not a tensor"),
    ],
)
def test_what_a_template_returns_is_checked_when_the_task_is_made(written: Any, body: str, said: str) -> None:
    ref = written(f"def ops(cfg, n):\n    A, B, C = tensors(n)\n    s = te.create_schedule(C.op)\n    {body}\n")
    with pytest.raises(TemplateError, match=f"^ops.py:{line_of('def ops')}: template ops.*{said}"):
        pb.create_task(ref, args=(8,))


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ("A, B, C = tensors(n)\n    return [A, C]", "def ops", r"returned \['A', 'C'\] without the input B"),
        ("A, B, C = tensors(n)\n    return [A, B]", "def ops", "returned .*at least one of them computed"),
        ("return missing", "return missing", "workload ops raised NameError"),
        ("return te.placeholder((-n,))", "(-n,)", "extent -8"),
    ],
)
def test_errors_of_a_workload_name_its_line(written: Any, body: str, line: str, said: str) -> None:
    ref = written(f"def ops(n):\n    {body}\n")
    with pytest.raises(PegboxError, match=f"^ops.py:{line_of(line)}: .*{said}"):
        pb.create_task(ref, args=(8,), space="sketch")


def test_a_file_that_breaks_while_it_is_imported_names_the_line(written: Any) -> None:
    ref = written("boards = 3 // 0\n\ndef ops(cfg, n):\n    pass\n")
    with pytest.raises(PegboxError, match=rf"^ops.py:{line_of('3 // 0')}: .*cannot be imported: ZeroDivisionError"):
        pb.create_task(ref, args=(8,))


@pytest.mark.parametrize(
    "call",
    [
        {"args": (8, 4)},  # as many as the function has
        {"args": (8,)},
        {"args": (8, 4, "float32")},
        {"kwargs": {"n": 8, "m": 4}},
    ],
)
def test_a_template_without_cfg_is_reported_with_the_right_form(written: Any, call: dict[str, Any]) -> None:
    ref = written(
        "def ops(n, m=4, dtype='float32'):\n    A = te.placeholder((n, m), dtype)\n"
        "    C = te.compute((n, m), lambda *i: A[i])\n    return te.create_schedule(C.op), [A, C]\n"
    )
    with pytest.raises(TemplateError) as caught:
        pb.create_task(ref, **call)
    said = str(caught.value)
    assert said.startswith(f"ops.py:{line_of('def ops')}: template ops: its first parameter 'n' gets the configuration")
    assert "write def ops(cfg, n, m, dtype)" in said
    assert "TemplateConfig" not in said


def test_errors_of_built_in_templates_name_no_line() -> None:
    with pytest.raises(PegboxError) as caught:
        pb.create_task("matmul", args=(0, 4, 4))
    assert caught.value.source == ""
    assert not re.match(r"\S+\.py:\d+", str(caught.value))


def test_a_file_elsewhere_is_named_by_its_whole_path(written: Any, tmp_path: Path) -> None:
    ref = written("def ops(cfg, n):\n    return n.nothing\n")
    (tmp_path / "other").mkdir()
    os.chdir(tmp_path / "other")
    with pytest.raises(TemplateError, match=f"^{re.escape(str((tmp_path / 'ops.py').resolve()))}:"):
        pb.create_task(ref, args=(8,))


def test_code_that_was_typed_in_has_no_line() -> None:
    scope: dict[str, Any] = {"__name__": "__main__", "te": te}
    exec("C = te.compute((8,), lambda i: i, name='C')\ns = te.create_schedule(C.op)", scope)
    exec("X = te.compute((8,), lambda i: C[i], name='X')\ns = te.create_schedule(X.op)\ns[C].double_buffer()", scope)
    with pytest.raises(ScheduleError, match=r"^double_buffer: C is made once"):
        pb.lower(scope["s"], [scope["X"]])


@pytest.mark.parametrize("moved", [False, True])
def test_lines_are_kept_at_other_sizes_and_in_other_processes(written: Any, moved: bool) -> None:
    text = "from pegbox import te\n\ndef ops():\n    n = te.var('n')" + scheduled(
        "s[B].compute_at(s[C], i)", "s[C].vectorize(i)"
    )
    made = runpy.run_path(written(text).removesuffix(":ops"))["ops"]()
    if moved:
        made = pickle.loads(pickle.dumps(made))
    with pytest.raises(ScheduleError, match=f"^ops.py:{line_of('s[B].compute_at')}: "):
        pb.lower(*made, sizes={"n": 8})
