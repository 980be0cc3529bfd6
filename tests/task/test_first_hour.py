"""Mistakes of beginners in templates, workloads and functions to minimize: messages with line and remedy."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute.subscripts import check_subscripts
from pegbox.errors import ComputeError, MeasureError, PegboxError, SpaceError, TemplateError
from pegbox.measure.pipeline.local import LocalMeasurer
from pegbox.measure.result import Failed, FailureKind
from pegbox.origin import explained
from pegbox.search import Subject
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.trial import Trial

HERE = r"^\S*test_first_hour\.py:\d+: "


def task(body: Callable[[Any, Any, te.Tensor], object]) -> pb.Task:
    """A task whose template runs `body(cfg, s, B)`."""

    def template(cfg: Any, n: int) -> Any:
        A = te.placeholder((n, n), name="A")
        B = te.compute((n, n), lambda i, j: A[i, j] + 1, name="B")
        s = te.create_schedule(B.op)
        cfg.define_knob("u", [7, 9])
        cfg.define_split("tile", s[B].op.axis[0], num_outputs=2)
        cfg.define_reorder("order", [*s[B].op.axis], "all")
        cfg.define_annotate("ann", [*s[B].op.axis], "try_vec")
        body(cfg, s, B)
        return s, [A, B]

    return pb.create_task(template, args=[8])


VAL = r"the entity of a knob \(7\) .* read its value with \.val, as in cfg\['unroll'\]\.val"
SIZE = r"the entity of a knob \(\[-1, 1\]\) .*\.size, as in cfg\['tile'\]\.size\[-1\], or .*\.apply\(s, C, axis\)"


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        pytest.param(lambda c, s, B: s[B].split(B.op.axis[1], factor=c["u"]), SpaceError, VAL, id="as a factor"),
        pytest.param(
            lambda c, s, B: s[B].split(B.op.axis[1], nparts=c["tile"]), SpaceError, SIZE, id="split as factor"
        ),
        pytest.param(lambda c, s, B: c["u"] * 2, SpaceError, VAL, id="times"),
        pytest.param(lambda c, s, B: range(c["u"]), SpaceError, VAL, id="range"),
        pytest.param(lambda c, s, B: 5 if c["u"] else 6, SpaceError, VAL, id="if, which was always true"),
        pytest.param(lambda c, s, B: c["u"] == 7, SpaceError, VAL, id="==, which was never true"),
        pytest.param(lambda c, s, B: c["u"] in (1, 7), SpaceError, VAL, id="in"),
        pytest.param(lambda c, s, B: c["u"] > 4, SpaceError, VAL, id="compared"),
        pytest.param(lambda c, s, B: c["tile"][1], SpaceError, SIZE, id="index"),
        pytest.param(lambda c, s, B: list(c["order"]), SpaceError, r"\[0, 1\].*\.perm", id="order"),
        pytest.param(lambda c, s, B: c["ann"][0], SpaceError, r"none.*\.anns", id="annotations"),
        pytest.param(lambda c, s, B: c["u"].size, TemplateError, "has no attribute 'size'; read .*\\.val", id="size"),
        pytest.param(lambda c, s, B: c["tile"].val, TemplateError, r"no attribute 'val'; read .*\.size", id="val"),
        pytest.param(
            lambda c, s, B: s[B].vectorise(), TemplateError, "'vectorise'; did you mean 'vectorize'", id="stage"
        ),
        pytest.param(lambda c, s, B: te.sume, TemplateError, "'sume'; did you mean 'sum'", id="te"),
        pytest.param(lambda c, s, B: c["U"], SpaceError, "no knob 'U' .*known: u, tile", id="knob"),
    ],
)
def test_a_slip_in_a_template_is_reported_with_its_line(body: Any, kind: type[PegboxError], message: str) -> None:
    with pytest.raises(kind, match=f"(?s){HERE}.*{message}"):
        task(body)


def test_entities_are_still_values_of_their_kind() -> None:
    config = task(lambda *_: None).space.get(1)
    for entity in (config["u"], config["tile"], config["order"], config["ann"]):
        assert not hasattr(entity, "nothing")
        assert pickle.loads(pickle.dumps(entity)) == copy.deepcopy(entity) == copy.copy(entity) == entity
        assert entity in {entity}
        assert entity != config


SPACE = pb.ConfigSpace()
SPACE.define_knob("x", [1, 2])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda c: c["x"] * 2, r"entity of a knob \(\d\).*read its value with \.val.*\(\S*test_first_hour\.py:\d+\)$"),
        (lambda c: c["x"], r"returned OtherEntity.*raw=\d.*read its value with \.val"),
        (lambda c: c["y"].val, r"no knob 'y' .*known: x\) \(\S*test_first_hour\.py:\d+\)$"),
        (lambda c: c.spice, r"no attribute 'spice'; did you mean 'space'\? \(\S*test_first_hour\.py:\d+\)$"),
    ],
)
def test_a_slip_in_a_function_to_minimize_is_reported_with_its_line(function: Any, message: str) -> None:
    result = pb.minimize(function, SPACE, tuner="random", trials=2, progress=False)
    for trial in result.trials:
        assert isinstance(trial.result, Failed)
        assert re.search(message, trial.result.message), trial.result.message


def test_a_template_is_not_a_workload() -> None:
    def good(cfg: Any, n: int) -> Any:
        raise AssertionError("it is not called")

    for given in (good, pb.task.template.Template("good", good)):
        with pytest.raises(TemplateError, match=r"good\(.*n.*\) is a template.*not a workload.*leave space=.*out; or"):
            pb.create_task(given, args=[64], space="sketch")


def shifted(index: Callable[..., Any], where: bool = False) -> te.Tensor:
    A = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((1, 8), name="k")
    if where:
        return te.compute((8,), lambda i: te.sum(A[i, index(i, k)], axis=k, where=k < 7), name="B")
    return te.compute((8, 8), lambda i, j: index(A, i, j), name="B")


def test_an_index_beyond_its_tensor_is_reported_when_the_task_is_made() -> None:
    def template(cfg: Any) -> Any:
        B = shifted(lambda A, i, j: A[i, j + 1])
        return te.create_schedule(B.op), [*B.op.inputs, B]

    remedy = "guard it with te.if_then_else, or choose other extents"
    with pytest.raises(
        ComputeError, match=rf"{HERE}B: A\[i, j \+ 1\] reads index 8 in dimension 1 of A.*\[8, 8\]; {remedy}"
    ):
        pb.create_task(template)


@pytest.mark.parametrize(
    ("index", "wrong"),
    [
        (lambda A, i, j: A[i, j - 1], "-1"),
        (lambda A, i, j: A[i + j, j], "14"),
        (lambda A, i, j: te.if_then_else(A[i, 2 * j] > 0, 1.0, 0.0), "14"),
        (lambda A, i, j: A[i, te.cast("int64", A[i, j + 3])], "10"),
        (lambda A, i, j: A[i * i, j], "9"),
        (lambda A, i, j: A[i, j * i - 1], "-1"),
        (lambda A, i, j: A[i, (j + 9) // 2], "8"),
        (lambda A, i, j: A[i, (i * 8 + j) % 9], "8"),
        (lambda A, i, j: A[i, te.if_then_else(j > 3, j + 4, j)], "8"),
    ],
)
def test_indices_that_are_surely_wrong_are_found(index: Any, wrong: str) -> None:
    with pytest.raises(ComputeError, match=f"reads index {wrong} in dimension"):
        check_subscripts([shifted(index).op])


@pytest.mark.parametrize(
    "index",
    [
        lambda A, i, j: A[7 - i, j],
        lambda A, i, j: te.if_then_else(j > 0, A[i, j - 1], 0.0),
        lambda A, i, j: te.if_then_else(te.all(j > 0, A[i, j - 1] > 0), 1.0, 0.0),
        lambda A, i, j: A[i, (j + 3) % 8],
        lambda A, i, j: A[i, te.minimum(j + 3, 7)],
        lambda A, i, j: A[i, te.if_then_else(j > 3, j - 4, j + 4)],  # whose bounds are wider than it is
        lambda A, i, j: A[i * j // 7, j],
        lambda A, i, j: A[i, te.cast("int64", A[i, j]) % 9],
    ],
)
def test_indices_that_may_be_right_are_left_to_the_reference(index: Any) -> None:
    check_subscripts([shifted(index).op])
    check_subscripts([shifted(lambda i, k: k + 1, where=True).op])


def test_the_attributes_of_the_winner_are_not_those_of_the_result() -> None:
    result = pb.minimize(lambda c: c["x"].val, SPACE, tuner="random", trials=2, progress=False)
    with pytest.raises(AttributeError, match=r"no attribute 'config'; use result\.best\.config"):
        _ = result.config
    with pytest.raises(AttributeError, match=r"no attribute 'trails'$") as caught:
        _ = result.trails
    assert "'trails'; did you mean 'trials'" in explained(caught.value)
    assert not hasattr(result, "nothing")
    assert copy.copy(result).best.config == result.best.config
    assert pickle.loads(pickle.dumps(result.best.cost)) == result.best.cost


def test_failures_have_their_reason_beside_a_winner() -> None:
    def fussy(config: pb.Config) -> float:
        if config["x"].val == 1:
            raise ValueError("no ones\nin many words")
        return 2.0

    said = str(pb.minimize(fussy, SPACE, tuner="grid", trials=2, progress=False))
    assert "failed: 1 run error; the first: ValueError: no ones\n" in f"{said}\n"


def test_a_body_that_raises_in_some_configurations_names_the_first_and_how_to_see_it_again() -> None:
    def body(cfg: Any, s: Any, B: te.Tensor) -> None:
        if cfg["u"].val == 9:
            raise ValueError("no nines")

    made = task(body)
    bad = next(config for config in made.space.iterate() if config["u"].val == 9)
    failed = Failed(FailureKind.INVALID, "no nines")
    result = TuneResult(None, [Trial(0, bad, failed)], 1.0, {}, "trials", subject=Subject(task=made))
    again = f"its config: {bad}; again: pegbox.build(task, config={bad.index})"
    assert f"the first: no nines\n    {again}" in str(result)
    with pytest.raises(TemplateError, match=r"test_first_hour.py:\d+: .*no nines"):
        pb.build(made, config=bad.index)
    crashed = Trial(0, bad, Failed(FailureKind.CRASH, "signal 11"))
    assert str(dataclasses.replace(result, trials=[crashed])).endswith(f"signal 11\n    its config: {bad}")


def test_a_space_is_printed_where_only_ascii_is() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    space = pb.ConfigSpace()
    space.define_knob("many", list(range(40)))
    with contextlib.redirect_stdout(stream):
        print(space, repr(space), space.get(3))
    stream.flush()
    assert b"0, 1, 2, 3, 4, ..., 39" in stream.buffer.getvalue()  # type: ignore[attr-defined]


def test_arguments_that_fit_no_memory_are_reported_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Any:
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr("pegbox.measure.trial.bench.make_inputs", full)
    huge = pb.create_task("matmul", args=[10**6, 10**6, 16])
    with LocalMeasurer(huge) as measurer, pytest.raises(MeasureError, match=r"4,000.* GB.*smaller shapes"):
        measurer._open()


def gathered(cfg: Any) -> Any:
    A, B = te.placeholder((8,), name="A"), te.placeholder((8,), "int32", name="B")
    where = te.compute((8,), lambda i: B[i] * 2, name="where")
    C = te.compute(
        (8,),
        lambda i: A[where[i]],
        name="C",
    )
    s = te.create_schedule(C.op)
    return s, [A, B, C]


def test_an_index_from_memory_that_is_wrong_names_its_line_and_whose_values_these_are() -> None:
    task = pb.create_task(gathered)
    line = gathered.__code__.co_firstlineno + 5
    message = (
        rf'hour.py:{line}: A\[int64\(where\[i\]\)\] reads index .* values of B are random.*"inputs": \{{"B": array'
    )
    with pytest.raises(MeasureError, match=message) as caught:
        LocalMeasurer(task)
    assert "--inputs FILE.npz" in str(caught.value)
    with pytest.raises(MeasureError, match="reads index 8") as caught:
        LocalMeasurer(task, inputs={"B": np.full(8, 4, "int32")})
    assert "random" not in str(caught.value)


def test_indices_that_are_wrong_end_a_search_before_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MeasureError, match="values of B are random"):
        pb.tune(pb.create_task(gathered), trials=1)
    assert capsys.readouterr().err == ""
