"""Features of many configurations at once are those of each alone, whatever was asked before or beside."""

from __future__ import annotations

import copy
import functools
import json
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stage import SECOND

import pegbox as pb
from pegbox import te
from pegbox.codegen.targets.target import Target
from pegbox.features import ProgramFeatures, groups, program
from pegbox.features.formulas import Machine
from pegbox.features.program import finished
from pegbox.search import make_tuner
from pegbox.search.asktell import AskTell
from pegbox.space.digits import Digits, Mask
from pegbox.task.task import Task, create_task
from pegbox.task.template import Template

TASKS: list[tuple[Any, ...]] = [
    ("matmul", 64, 96, 80), ("matmul", 300, 70, 100), ("matmul", 3, 64, 256), ("matmul", 40, 64, 5),
    ("batch_matmul", 9, 32, 48, 40), ("conv2d", 1, 8, 10, 10, 32, 3, 3),
    ("stubborn", 12, 20, 16), ("by_primitives", 12, 20, 16),
]  # fmt: skip


@pytest.fixture(autouse=True)
def few_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer classes to find before the first answer."""
    monkeypatch.setattr(program, "PRIMING", 12)


@pytest.mark.parametrize("which", TASKS, ids=str)
def test_features_equal_those_of_a_run_for_each_configuration_alone(task_of: Callable[..., Task], which: Any) -> None:
    task = task_of(*which)
    features = ProgramFeatures(task)
    rows = task.space.sample(20 if SECOND else 10, np.random.default_rng(7))
    found = features(rows)
    assert found.shape == (len(rows), len(features.names))
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    for row, values in list(zip(rows, found, strict=True))[:15]:
        np.testing.assert_array_equal(values, features.direct(task.space.config(row)), str(task.space.config(row)))


@pytest.mark.parametrize("which", [TASKS[0], TASKS[-2]], ids=str)
def test_a_row_has_its_features_whatever_else_is_asked(
    task_of: Callable[..., Task], which: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(*which)
    rows = task.space.sample(24, np.random.default_rng(1))
    together = ProgramFeatures(task)(rows)
    other = ProgramFeatures(task)
    other(rows[::-3])
    apart = np.concatenate([other(rows[i : i + 7]) for i in range(0, len(rows), 7)])
    assert together.tobytes() == apart.tobytes()
    alone = np.concatenate([other(row[None, :]) for row in rows])
    assert together.tobytes() == alone.tobytes()
    monkeypatch.setattr(groups, "FEW", len(rows) - 1)
    assert together.tobytes() == other(rows).tobytes()


def test_features_travel_to_other_processes(task_of: Callable[..., Task]) -> None:
    features = ProgramFeatures(task_of("matmul", 16, 32, 32))
    rows = features.task.space.sample(20, np.random.default_rng(1))
    found = features(rows)
    assert pickle.loads(pickle.dumps(features))(rows).tobytes() == found.tobytes()


def test_a_few_classes_stand_for_a_whole_space(task_of: Callable[..., Task]) -> None:
    task = task_of("matmul", 64, 96, 80)
    runs = 0
    inner = task.template.function

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal runs
        runs += 1
        return inner(*args, **kwargs)

    object.__setattr__(task, "template", Template("matmul", counted))
    features = ProgramFeatures(task)
    features(task.space.sample(2000, np.random.default_rng(0)))
    assert runs < 120
    before = runs
    features(task.space.sample(2000, np.random.default_rng(1)))
    assert runs - before < 20


def written_with(text: Callable[[int], str]) -> Task:
    """A template that hands a number of the configuration to `text`; the other one it only calculates with."""

    def template(cfg: Any, n: int) -> Any:
        cfg.define_knob("f", [1, 2, 4])
        cfg.define_knob("g", [1, 2, 4, 8])
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2, name="B")
        s = te.create_schedule(b.op)
        outer, inner = s[b].split(s[b].op.axis[0], factor=cfg["f"].val * cfg["g"].val)
        if len(text(cfg["f"].val)) % 2:
            s[b].vectorize(inner)
        if cfg["g"].val > 2:
            s[b].parallel(outer)
        return s, [a, b]

    return Task(Template("written", template), (64,), {}, Target("llvm -mcpu=znver4 -num-cores 2"))


def right_classes(task: Task) -> ProgramFeatures:
    """Features of all configurations, each as of a run alone."""
    features = ProgramFeatures(task)
    configs = list(task.space.iterate())
    for config, values in zip(configs, features.of(configs), strict=True):
        np.testing.assert_array_equal(values, features.direct(config), str(config))
    return features


@pytest.mark.parametrize(
    "text",
    [
        lambda n: "-" * n,
        lambda n: f"{2 * n}{n * n}",
        lambda n: "".join("-" for _ in range(n)),
        lambda n: ["", "-", "--", "---", "-"][n],
        lambda n: {1: "-", 2: "--", 4: "-"}[n],
        lambda n: "-" * int(np.log2(n)),
        lambda n: "-" * int(np.prod([n, 3])),
    ],
)
def test_a_number_that_leaves_arithmetic_is_pinned_where_it_does(text: Callable[[int], str]) -> None:
    features = right_classes(written_with(text))
    assert not features.pinned
    assert features.num_classes == 6  # three values of f, each with a g that is above 2 or not


def checks_of(task: Task, monkeypatch: pytest.MonkeyPatch) -> int:
    """Count the classes that are checked for the features of a few configurations."""
    checked = 0
    holds = ProgramFeatures._holds

    def counted(self: ProgramFeatures, *of: Any) -> bool:
        nonlocal checked
        checked += 1
        return holds(self, *of)

    with monkeypatch.context() as patched:
        patched.setattr(ProgramFeatures, "_holds", counted)
        ProgramFeatures(task)(task.space.sample(12, np.random.default_rng(0)))
    return checked


def test_a_template_that_was_described_rightly_is_checked_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_passed", Counter())
    monkeypatch.setattr(program, "TRUSTED", 4)
    task = written_with(lambda n: "-" * n)
    before, *_, after = [checks_of(task, monkeypatch) for _ in range(4)]
    assert 0 < after < before


def test_a_template_that_was_described_wrongly_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_passed", Counter())
    monkeypatch.setattr(program, "TRUSTED", 4)
    seen: list[int] = []

    def text(n: int) -> str:
        seen.append(int(n))
        return "-" * (len(seen) % 2)

    task = written_with(text)
    ProgramFeatures(task)(task.space.sample(12, np.random.default_rng(0)))
    assert not program._passed


def test_a_template_that_remembers_its_runs_costs_a_pinned_knob() -> None:
    @functools.cache
    def text(n: int) -> str:
        return "-" * n if n > 1 else "--"

    assert len(right_classes(written_with(text)).pinned) == 1


def test_what_takes_nothing_but_an_int_gets_one_of_the_knob_it_is_made_of() -> None:
    features = right_classes(written_with(json.dumps))
    assert features.pinned == {0}
    assert not features.of([features.task.space.get(0)])[0, 0]


def compared(question: Callable[[Any], bool]) -> Task:
    """A template that asks something of its configuration."""

    def template(cfg: Any, n: int) -> Any:
        cfg.define_knob("f", [1, 2, 4])
        cfg.define_knob("g", [1, 2, 4])
        cfg.define_knob("h", [1, 2, 4])
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2, name="B")
        s = te.create_schedule(b.op)
        _, inner = s[b].split(s[b].op.axis[0], factor=cfg["f"].val * cfg["g"].val * cfg["h"].val)
        if question(cfg):
            s[b].vectorize(inner)
        return s, [a, b]

    return Task(Template("compared", template), (64,), {}, Target("llvm -mcpu=znver4 -num-cores 2"))


@pytest.mark.parametrize("question", [lambda cfg: json.dumps([cfg["f"].val, cfg["g"].val]) == "[1, 2]"], ids=["text"])
def test_what_takes_nothing_but_ints_gets_those_of_several_knobs(question: Callable[[Any], bool]) -> None:
    assert right_classes(compared(question)).pinned == {0, 1}


def test_what_fails_only_together_pins_all() -> None:
    def either(cfg: Any) -> bool:
        if type(cfg["g"].val) is not int and type(cfg["h"].val) is not int:
            raise TypeError("one of them has to be an int")
        return bool(json.dumps(cfg["f"].val) == "1")

    assert right_classes(compared(either)).pinned == {0, 1, 2}


@pytest.mark.parametrize(
    "question",
    [
        lambda cfg: cfg["f"] == cfg["g"],
        lambda cfg: cfg["f"] != cfg["g"],
        lambda cfg: len({cfg["f"], cfg["g"]}) == 2,
        lambda cfg: cfg["f"].key == "2",
        lambda cfg: copy.deepcopy(cfg["f"]) == cfg["g"],
    ],
)
def test_comparing_the_values_of_two_knobs_is_a_question_about_them(question: Callable[[Any], bool]) -> None:
    features = ProgramFeatures(compared(question))
    right = [features.direct(config) for config in features.task.space.iterate()]
    found = features.of(list(features.task.space.iterate()))
    np.testing.assert_array_equal(found, right)
    assert not features.pinned
    assert features.num_classes <= 9


@pytest.mark.parametrize(
    "text",
    [
        lambda n: "-" * (n if type(n) is int else 1),
        lambda n: "-" * int((n * (2**61 - 1) + 1) % 7),
        lambda n: "-" * getattr(n, "value", n),
        lambda n: "-" * (n if issubclass(type(n), int) else 2),
    ],
)
def test_what_no_trace_can_follow_is_found_by_runs_without_one(text: Callable[[int], str]) -> None:
    right_classes(written_with(text))


def test_where_a_divisor_is_zero_is_asked_of_all_configurations() -> None:
    def template(cfg: Any, n: int) -> Any:
        cfg.define_knob("f", [1, 2, 4])
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2, name="B")
        s = te.create_schedule(b.op)
        s[b].split(s[b].op.axis[0], factor=abs(8 // (cfg["f"].val - 2)))
        return s, [a, b]

    features = right_classes(Task(Template("divided", template), (64,), {}, Target("llvm")))
    assert [features.of([features.task.space.get(i)])[0, 0] for i in range(3)] == [0, 1, 0]


def test_the_index_of_a_configuration_is_a_question_about_every_knob() -> None:
    def template(cfg: Any, n: int) -> Any:
        cfg.define_knob("f", [1, 2, 4])
        cfg.define_knob("g", [1, 2])
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2, name="B")
        s = te.create_schedule(b.op)
        if hasattr(cfg, "config"):
            s[b].split(s[b].op.axis[0], factor=cfg.config.index + 1)
        return s, [a, b]

    assert right_classes(Task(Template("indexed", template), (8,), {}, Target("llvm"))).num_classes == 6


def test_templates_as_hard_as_these_need_no_pinned_knob(task_of: Callable[..., Task]) -> None:
    task = task_of("stubborn", 12, 20, 16)
    features = ProgramFeatures(task)
    features(task.space.sample(60, np.random.default_rng(0)))
    assert not features.pinned


def test_what_the_template_refuses_is_flagged(task_of: Callable[..., Task]) -> None:
    task = task_of("stubborn", 12, 20, 16)
    features = ProgramFeatures(task)
    rows = task.space.sample(60, np.random.default_rng(2))
    configs = [task.space.config(row) for row in rows]
    refused = [c["mode"].val == "root" and c["w"].val == 16 and c["pair"].val[0] == 4 for c in configs]
    found = features(rows)
    assert 0 < sum(refused) < len(rows)
    np.testing.assert_array_equal(found[:, features.names.index("invalid")], refused)
    assert not found[refused, 1:].any()
    assert found[~np.array(refused), 1:].any(axis=1).all()


def test_more_classes_than_are_kept_are_found_again(
    task_of: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MAX_CLASSES": 8, "CHUNK": 4, "PRIMING": 2}.items():
        monkeypatch.setattr(program, name, value)
    task = task_of("by_primitives", 12, 20, 16)
    features = ProgramFeatures(task)
    rows = task.space.sample(24, np.random.default_rng(5))
    for row, values in zip(rows, features(rows), strict=True):
        np.testing.assert_array_equal(values, features.direct(task.space.config(row)))
    assert features.num_classes <= 8


def test_rows_of_few_classes_are_those_of_the_first_ones(task_of: Callable[..., Task]) -> None:
    features = ProgramFeatures(task_of("stubborn", 12, 20, 16))
    rows = features.task.space.sample(60, np.random.default_rng(3))
    few = features.within(rows, classes=5)
    assert 5 <= few.sum() < len(rows)
    assert few[:5].all()
    assert features.num_classes <= 5 + program.PRIMING
    assert features.within(rows, classes=len(rows)).all()
    np.testing.assert_array_equal(features.within(rows, classes=5), few)


def test_rows_of_known_classes_and_some_more(task_of: Callable[..., Task]) -> None:
    features = ProgramFeatures(task_of("stubborn", 12, 20, 16))
    rows = features.task.space.sample(60, np.random.default_rng(3))
    features(rows[:10])
    known = features.num_classes
    alone = features.within_known(rows, more=0)
    assert alone[:10].all()
    assert not alone.all()
    assert features.num_classes == known
    more = features.within_known(rows, more=3)
    assert (more >= alone).all()
    assert more.sum() > alone.sum()
    assert features.num_classes == known + 3
    np.testing.assert_array_equal(features.within_known(rows, more=0), more)


@pytest.mark.parametrize("which", [("conv2d", 1, 8, 10, 10, 32, 3, 3), ("stubborn", 12, 20, 16)], ids=str)
def test_a_sample_of_few_classes_has_valid_rows_of_these_alone(task_of: Callable[..., Task], which: Any) -> None:
    features = ProgramFeatures(task_of(*which))
    rows = features.sample(100, np.random.default_rng(3), classes=6)
    assert len(rows) == 100
    assert len(np.unique(rows, axis=0)) == 100
    assert features.task.space.is_valid(rows).all()
    features(rows)
    assert features.num_classes <= 6 + program.PRIMING
    again = ProgramFeatures(features.task).sample(100, np.random.default_rng(3), classes=6)
    np.testing.assert_array_equal(again, rows)


def test_a_sample_of_few_classes_has_those_of_wanted_rows(task_of: Callable[..., Task]) -> None:
    features = ProgramFeatures(task_of("conv2d", 1, 8, 10, 10, 32, 3, 3))
    digit = features.sample(100, np.random.default_rng(3), classes=1)[0, 1]

    def wanted(rows: Digits) -> Mask:
        return rows[:, 1] != digit

    rows = features.sample(100, np.random.default_rng(3), classes=1, wanted=wanted)
    assert wanted(rows[:1]).all()


def test_a_sample_of_a_space_with_few_classes_leaves_nothing_out(task_of: Callable[..., Task]) -> None:
    task = written_with(lambda n: "-" * n)
    rows = ProgramFeatures(task).sample(100, np.random.default_rng(0), classes=50)
    assert len(rows) == task.space.size


def test_a_sample_of_few_classes_survives_a_pinned_knob() -> None:
    features = ProgramFeatures(written_with(json.dumps))
    rows = features.sample(100, np.random.default_rng(0), classes=50)
    assert len(rows) == features.task.space.size
    assert features.pinned


def test_names_and_width_are_the_same_for_all_templates_and_shapes(task_of: Callable[..., Task]) -> None:
    every = {ProgramFeatures(task_of(*which)).names for which in TASKS}
    assert len(every) == 1
    (names,) = every
    assert len(set(names)) == len(names)


def test_a_broken_template_leaves_nothing_behind() -> None:
    asked: list[Any] = []

    def moody(cfg: Any, n: int) -> Any:
        cfg.define_knob("f", [1, 2, 4])
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2, name="B")
        s = te.create_schedule(b.op)
        asked.append(cfg["f"].val)
        if cfg["f"].val == 4:
            raise KeyError("a defect")
        s[b].split(s[b].op.axis[0], factor=cfg["f"].val)
        return s, [a, b]

    task = Task(Template("moody", moody), (8,), {}, Target("llvm"))
    found = ProgramFeatures(task)(np.array([[0], [1], [2]]))
    assert found[:, 0].tolist() == [0.0, 0.0, 1.0]
    # What the template kept of a traced run is a number like any other by now.
    assert all(type(value + 1) is int for value in asked)
    assert task.schedule(task.space.config([1])).func is not None


def test_the_numbers_of_a_tile_are_those_that_a_person_would_count(task_of: Callable[..., Task]) -> None:
    task = task_of("matmul", 64, 96, 128)
    space = task.space
    rows = space.sample(400, np.random.default_rng(0))
    configs = [space.config(row) for row in rows]
    wanted = [i for i, c in enumerate(configs) if c["layout"].val == "packed" and c["k_block"].val == 0]
    features = ProgramFeatures(task)
    column = {name: features(rows[wanted])[:, n] for n, name in enumerate(features.names)}
    mr = np.array([configs[i]["mr"].val for i in wanted])
    vectors = np.array([configs[i]["nr"].val // 16 for i in wanted])
    steps = np.array([configs[i]["unroll_k"].val for i in wanted])
    np.testing.assert_allclose(column["tile.accumulators"], mr * vectors)
    np.testing.assert_allclose(column["tile.loads_per_work"], (mr + vectors) / (mr * vectors), rtol=1e-6)
    np.testing.assert_allclose(column["tile.work"], np.log2(1 + mr * vectors * steps), rtol=1e-6)
    np.testing.assert_allclose(column["tile.trip"], np.log2(1 + 96 / steps), rtol=0.01)
    padded = -(-64 // mr) * mr * -(-8 // vectors) * vectors * 16
    np.testing.assert_allclose(column["main.waste"], np.log2(padded / (64 * 128)), atol=1e-5)
    assert set(column["vector.length"].tolist()) == {np.float32(np.log2(17 / 16))}


def test_text_for_people(task_of: Callable[..., Task]) -> None:
    task = create_task("matmul", (64, 64, 64))
    features = ProgramFeatures(task)
    text = features.show(task.space.get(0))
    assert len(text.splitlines()) == len(features.names)
    assert text.splitlines()[0].split() == ["invalid", "0.000"]
    assert features.of([]).shape == (0, len(features.names))


def doubled(cfg: Any, n: int, lanes: int) -> Any:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2, name="B")
    s = te.create_schedule(b.op)
    cfg.define_knob("block", [64])
    _, inside = s[b].split(s[b].op.axis[0], factor=cfg["block"].val * lanes)
    _, lane = s[b].split(inside, factor=lanes)
    s[b].vectorize(lane)
    return s, [a, b]


def test_what_a_machine_has_is_the_unit() -> None:
    """A program of twice the size, for vectors and caches twice as large, looks the same (registers are four times)."""
    template = Template("doubled", doubled)
    small = Task(template, (8192, 8), {}, Target("llvm -mcpu=x86-64-v3 -num-cores 1 -caches=32,512,2048"))
    large = Task(template, (16384, 16), {}, Target("llvm -mcpu=x86-64-v4 -num-cores 1 -caches=64,1024,4096"))
    features = ProgramFeatures(small)
    one, other = (dict(zip(f.names, f(np.array([[0]]))[0].tolist(), strict=True))
                  for f in (features, ProgramFeatures(large)))  # fmt: skip
    for name in features.names:
        group, last = name.partition(".")[0], name.rpartition(".")[2]
        if (group in ("work", "before", "after") or name.startswith("cache.L")) and last != "pages":
            # A vector of operations takes twice the bytes where vectors are twice as long.
            bytes_of_vector = {
                "traffic": 1,
                "reused": 1,
                "write": 1,
                "bytes_read": 1,
                "bytes_written": 1,
                "intensity": -1,
            }
            expected = 0 if one[name] < -19 else bytes_of_vector.get(last, 0)  # 2^-19.9 stands for nothing
            # One more than a size, as its logarithm takes it, is not quite twice as much.
            assert other[name] - one[name] == pytest.approx(expected, abs=0.1), name
    assert one["program.iterations"] == other["program.iterations"]
    assert one["tile.bytes"] == pytest.approx(other["tile.bytes"], abs=0.1)


def test_features_follow_from_numbers_that_can_be_kept(task_of: Callable[..., Task]) -> None:
    task = task_of("matmul", 64, 96, 128)
    features, rows = ProgramFeatures(task), task.space.sample(50, np.random.default_rng(1))
    numbers, refused = features.numbers(rows)
    again = finished(numbers.astype(np.float32).astype(np.float64), refused, Machine.of(task.target))
    np.testing.assert_allclose(again, features(rows), rtol=1e-5, atol=1e-5)


def scaled(cfg: Any, n: int, m: int) -> Any:
    """Long ranges of numbers decide about extents, annotations and loops."""
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    y, x = s[B].op.axis
    cfg.define_int("factor", 1, m)
    cfg.define_int("seed", 1, 10**9, log=True)
    cfg.define_float("share", 0, 1)
    xo, _ = s[B].split(x, factor=cfg["factor"].val)
    if cfg["share"].val > 0.5:
        s[B].parallel(y)
    if cfg["seed"].val > 10**5:
        s[B].reorder(xo, y)
    return s, [A, B]


@pytest.mark.parametrize("tuner", ["bayes:num_warmup=2", "evolution:num_warmup=2", "xgb:num_warmup=2"])
def test_a_template_with_long_ranges_is_tuned_and_built(tuner: str) -> None:
    task = Task(Template("scaled", scaled), (8, 64), {}, Target("llvm -num-cores 1"))
    driven = AskTell(make_tuner(tuner, task.space, program=ProgramFeatures(task)), task.space)
    while len(driven.trials) < 6:
        configs = driven.ask(2)
        driven.tell(configs, [1.0 + config["share"].val for config in configs])
    assert len({trial.config.index for trial in driven.trials}) == len(driven.trials)
    assert pb.build(task, config=driven.trials[-1].config) is not None


def test_features_of_long_ranges_equal_those_of_each_configuration_alone() -> None:
    task = Task(Template("scaled", scaled), (8, 64), {}, Target("llvm -num-cores 1"))
    features = ProgramFeatures(task)
    rows = task.space.sample(6, np.random.default_rng(0))
    for row, values in zip(rows, features(rows), strict=True):
        np.testing.assert_array_equal(values, features.direct(task.space.config(row)))
