"""Slips in calls of the Python API: each is an error of pegbox's own that shows the argument, the value and the remedy.

A row: what the call is, the call, the class of the error, and what its message says in this order.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te, tir
from pegbox.codegen import Target
from pegbox.errors import (
    ArgumentError,
    ComputeError,
    ExprError,
    LoweringError,
    PegboxError,
    RecordError,
    ScheduleError,
    ScriptError,
    SpaceError,
    TargetError,
    TemplateError,
    UnknownArgument,
)
from pegbox.loops.module import IRModule
from pegbox.measure.result import Ok
from pegbox.space import ListedSpace
from pegbox.task.workload import Workload
from pegbox.tir.script import from_source

A = te.placeholder((8, 4), name="A")
C = te.compute((8, 4), lambda i, j: A[i, j] + 1, name="C")
K = te.reduce_axis((0, 4), name="k")
SPACE = pb.ConfigSpace()
SPACE.define_knob("a", [1, 2, 3])
CONFIG = SPACE.get(0)
RECORDED = pb.RecordedSpace("r", SPACE, {c: Ok((1e-3 * (1 + c.index),)) for c in SPACE.iterate()})
SIMULATED = pb.SimulatedRunner(RECORDED)
MODULE = IRModule({"main": tir.Schedule([A, C]).func})
RNG = np.random.default_rng(0)


def cost(config: pb.Config) -> float:
    return 1.0 + config.index


OBJECTIVE = pb.Objective(cost, SPACE)
RESULT = pb.minimize(OBJECTIVE, tuner="random", trials=2, progress=False)
BEST = RESULT.best


def task() -> pb.Task:
    return pb.create_task("matmul", args=(16, 16, 16), target="llvm -num-cores 1")


def tune(**options: Any) -> object:
    return pb.tune(task(), **{"tuner": "random", "trials": 1, "progress": False, **options})


def compare(**options: Any) -> object:
    given = {"tasks": RECORDED, "tuners": ["random", "grid"], "trials": 2, "seeds": 2, "progress": False, **options}
    return pb.compare(**given)


def matmul(**options: Any) -> object:
    return pb.create_task("matmul", args=(8, 8, 8), kwargs=options)


def kernel() -> Any:
    return pb.build(schedule(), [A, C])


def split(**options: Any) -> object:
    return schedule()[C].split(C.op.axis[0], **options)


def tir_split(**options: Any) -> object:
    made = tir.Schedule([A, C])
    return made.split(made.get_loops("C")[0], **options)


def split_of_trace(*step: Any) -> object:
    return tir.Trace.from_json([["split", *step]]).apply(tir.Schedule([A, C]))


def schedule() -> Any:
    return te.create_schedule(C.op)


SLIPS: list[tuple[str, Callable[[], object], type[PegboxError], str]] = [
    # programs
    ("build a name", lambda: pb.build("matmul"), ArgumentError, "'matmul'.*create_task"),
    ("build nothing", lambda: pb.build(None), ArgumentError, "build.None.*give a schedule"),
    ("lower a number", lambda: pb.lower(5), ArgumentError, "lower.5.*give a schedule"),
    ("lower a task", lambda: pb.lower(task()), ArgumentError, "lower.Task.*task.lowered"),
    ("lower, args", lambda: pb.lower(schedule(), 5), ArgumentError, "args=5.*such as .A, B, C"),
    ("lower, no tensor", lambda: pb.lower(schedule(), [A, 5]), ArgumentError, "args: 5 .*place 1.*tensors"),
    ("lower, name", lambda: pb.lower(schedule(), [A, C], 5), ArgumentError, "name=5.*give a string"),
    ("build, args", lambda: pb.build(schedule(), 5), ArgumentError, "build: args=5"),
    ("build, target", lambda: pb.build(schedule(), [A, C], 5), TargetError, "target=5.*give a string"),
    ("build a task, args", lambda: pb.build(task(), [A], config=0), ArgumentError, "leave args and name out"),
    ("build a task, name", lambda: pb.build(task(), name="f", config=0), ArgumentError, "leave args and name out"),
    ("build, TVM's order", lambda: pb.build(schedule(), "llvm"), ArgumentError, "'llvm'.*give .* target='llvm'"),
    ("build a module so", lambda: pb.build(pb.lower(MODULE), "llvm"), ArgumentError, "'llvm'.*give .* target='llvm'"),
    ("build a task so", lambda: pb.build(task(), Target("llvm")), ArgumentError, "'llvm.*give .* target='llvm"),
    ("build, stranger", lambda: pb.build(task(), config=CONFIG), ArgumentError, "config=.*another space.*task.space"),
    ("export no task", lambda: pb.export("matmul", 0, "k.o"), ArgumentError, "export.'matmul'.*create_task"),
    ("export, path", lambda: pb.export(task(), 0, 5), ArgumentError, "path=5 is not a path"),
    ("prim_func", lambda: te.create_prim_func(5), LoweringError, "args=5.*such as .A, B, C"),
    ("script", lambda: from_source(5), ScriptError, "text=5 is not text"),
    # expressions and computations
    ("compute gives none", lambda: te.compute((2,), lambda i: (), name="T"), ComputeError, "T: .*gave ....*expression"),
    ("fcompute", lambda: te.compute((2,), 5, name="T"), ComputeError, "'T': fcompute=5.*lambda i, j"),
    ("attrs", lambda: te.compute((2,), lambda i: i, name="T", attrs=5), ComputeError, "'T': attrs=5 is not a mapping"),
    ("tag", lambda: te.compute((2,), lambda i: i, name="T", tag=5), ComputeError, "'T': tag=5"),
    ("name of a computation", lambda: te.compute((2,), lambda i: i, name=5), ComputeError, "name=5"),
    ("name of an input", lambda: te.placeholder((2,), name=5), ComputeError, "name=5"),
    ("const of text", lambda: te.const("x", "int32"), ExprError, "const.'x'.*give a number"),
    ("const of nothing", lambda: te.const(None), ExprError, "const.None.*give a number"),
    ("dtype of a const", lambda: te.const(1, ["int32"]), ExprError, "unknown dtype .'int32'.; use one of"),
    ("cast", lambda: te.cast(None, 1), ExprError, "unknown dtype None; use one of"),
    ("axis of a sum", lambda: te.sum(A[0, 0], axis=5), ComputeError, "sum: axis=5.*te.reduce_axis"),
    ("no axis of a sum", lambda: te.sum(A[0, 0], axis=None), ComputeError, "sum: axis=None.*te.reduce_axis"),
    ("name for an axis", lambda: te.sum(A[0, 0], axis="k"), ComputeError, "sum: axis='k'.*te.reduce_axis"),
    ("reduce_axis", lambda: te.reduce_axis(5), ComputeError, "dom=5.*first, one past the last"),
    ("fcombine", lambda: te.comm_reducer(5, lambda t: 0), ComputeError, "fcombine=5.*lambda a, b"),
    ("fidentity", lambda: te.comm_reducer(lambda a, b: a, 0), ComputeError, "fidentity=0.*lambda t"),
    # schedules
    ("cache_read of no tensor", lambda: schedule().cache_read(5, "local", [C]), ScheduleError, "5 .*give a tensor"),
    ("cache_read, readers", lambda: schedule().cache_read(A, "local", 5), ScheduleError, "readers=5.*that reads it"),
    ("cache_write", lambda: schedule().cache_write(5), ScheduleError, "tensor=5.*give a tensor"),
    ("scope", lambda: schedule().cache_write(C, ["local"]), ScheduleError, "unknown scope .'local'.*use one of"),
    ("pragma", lambda: schedule()[C].pragma(C.op.axis[0], ["x"]), ScheduleError, "pragma: name=.'x'.*give a string"),
    ("get_block", lambda: tir.Schedule([A, C]).get_block(["C"]), ScheduleError, "name=.'C'.*give a string"),
    ("trace", lambda: split_of_trace([{"loop": ["C", 0]}, [None, 2]], {"zzz": 1}), ScheduleError, "'zzz'; write split"),
    ("trace, too few", lambda: split_of_trace([], {}), ScheduleError, "missing a required argument.*write split"),
    ("trace on nothing", lambda: tir.Trace().apply(None), ScheduleError, "not to None; give a tir.Schedule"),
    # tasks
    ("args of a task", lambda: pb.create_task("matmul", args=5), ArgumentError, r"args=5.*such as args=\(5,\)"),
    ("text for args", lambda: pb.create_task("matmul", args="64"), ArgumentError, "args='64' is not a list"),
    ("a template's own argument", lambda: pb.create_task("conv2d", padding=1), ArgumentError, r"kwargs={'padding': 1}"),
    ("parameter", lambda: pb.create_task("matmul", targt="llvm"), ArgumentError, "'targt'; did you mean 'target'"),
    ("kwargs", lambda: pb.create_task("matmul", args=(1, 2, 3), kwargs=[1]), ArgumentError, "kwargs=.1. is not a mapp"),
    ("target", lambda: pb.create_task("matmul", args=(1, 2, 3), target=5), TargetError, "target=5"),
    ("reference", lambda: task().reference([]), ArgumentError, "inputs: 0 arrays; give one array for each of A, B"),
    # tuning
    ("tune a name", lambda: pb.tune("matmul"), ArgumentError, "'matmul' is not a task; .*create_task.'matmul', args"),
    ("simulate a name", lambda: pb.tune("matmul", runner=SIMULATED), ArgumentError, "'matmul' is not a task; make one"),
    ("tune a space", lambda: pb.tune(SPACE), ArgumentError, "not a task.*minimize.function, space.*pegbox.create_tu"),
    ("tune a function", lambda: pb.tune(cost), ArgumentError, "not a task; make one.*pegbox.minimize.function, space"),
    ("tune an objective", lambda: pb.tune(OBJECTIVE), ArgumentError, "not a task; pegbox.minimize.objective. searches"),
    ("minimize, swapped", lambda: pb.minimize(SPACE, cost), ArgumentError, "knobs.*cannot be called; give a function"),
    ("minimize no space", lambda: pb.minimize(cost), ArgumentError, "space=None.*give a pegbox.ConfigSpace"),
    ("minimize a dict", lambda: pb.minimize(cost, {"x": [1]}), ArgumentError, "the type dict; .*define_knob.'block'"),
    ("minimize nothing", lambda: pb.minimize(lambda: 1, SPACE), ArgumentError, "must take one argument, the config"),
    ("two spaces", lambda: pb.minimize(OBJECTIVE, SPACE), ArgumentError, "space=<Conf.*already has one; leave it out"),
    ("repeat", lambda: pb.minimize(cost, SPACE, repeat=0), ArgumentError, "repeat=0 is out of range"),
    ("sweep an objective", lambda: pb.sweep(OBJECTIVE, records="x"), ArgumentError, "is not a task; to sweep one,"),
    ("runner", lambda: compare(tasks=OBJECTIVE, runner="x"), ArgumentError, "is called in this process; leave the ru"),
    ("tune tensors", lambda: pb.tune([A, C]), ArgumentError, r"return .A, C. from .*@pegbox.workload.*space='sketch'"),
    ("tune a tensor", lambda: pb.tune(C), ArgumentError, "return .C. from .*@pegbox.workload"),
    ("tune a schedule", lambda: pb.tune(tir.Schedule([A, C])), ArgumentError, "leaves nothing open; pegbox.build.it"),
    ("tune a TE schedule", lambda: pb.tune(te.create_schedule(C.op)), ArgumentError, r"build\(schedule, .A, B, C"),
    ("tune a program", lambda: pb.tune(MODULE["main"]), ArgumentError, "leaves nothing open"),
    ("tune a template", lambda: pb.tune(schedule), ArgumentError, r"pegbox.create_task\(schedule, args="),
    ("tune a workload", lambda: pb.tune(Workload("schedule", schedule)), ArgumentError, "'schedule' is.*'sketch'"),
    ("tune a configuration", lambda: pb.tune(CONFIG), ArgumentError, "not a task; make one with pegbox"),
    ("simulate a configuration", lambda: pb.tune(CONFIG, runner=SIMULATED), ArgumentError, "not a task; make one"),
    ("tune several", lambda: pb.tune([task()]), ArgumentError, "not a task; make one with pegbox"),
    ("ask over a name", lambda: pb.create_tuner("ga", "matmul"), ArgumentError, "'matmul'.*not a space or"),
    ("ask over a configuration", lambda: pb.create_tuner("ga", CONFIG), ArgumentError, "not a space or a task"),
    ("sweep a name", lambda: pb.sweep("matmul", records="x"), ArgumentError, "'matmul' is not a task; make one"),
    ("sweep records", lambda: pb.sweep(RECORDED, records="x"), ArgumentError, "recorded already.*pegbox.create_task"),
    ("compare on a name", lambda: compare(tasks="matmul"), ArgumentError, "'matmul' is not a task; make one"),
    ("compare on names", lambda: compare(tasks=["matmul"], runner=SIMULATED), ArgumentError, "'matmul' is not a task"),
    ("compare on a space", lambda: compare(tasks=SPACE), ArgumentError, "not a task.*pegbox.Objective.function, space"),
    ("compare on a mapping", lambda: compare(tasks={"a": task()}), ArgumentError, "not a task; make one"),
    ("trials", lambda: tune(trials=0), ArgumentError, "trials=0 is out of range; give an integer >= 1"),
    ("trials below zero", lambda: tune(trials=-1), ArgumentError, "trials=-1 is out of range; give an integer >= 1"),
    ("trials and a half", lambda: tune(trials=1.5), ArgumentError, "trials=1.5 is not an integer; give an integer"),
    ("trials of text", lambda: tune(trials="10"), ArgumentError, "trials='10' is not an integer; give an integer"),
    ("trials of minimize", lambda: pb.minimize(cost, SPACE, trials=0), ArgumentError, "trials=0 is out of range"),
    ("early_stopping", lambda: tune(early_stopping=0), ArgumentError, "early_stopping=0 is out of range; give.* >= 1"),
    ("seed", lambda: tune(seed=-1), ArgumentError, "seed=-1 is out of range; give an integer >= 0"),
    ("seed of text", lambda: tune(seed="x"), ArgumentError, "seed='x' is not an integer"),
    ("timeout", lambda: tune(timeout="x"), ArgumentError, "timeout='x' is not a time; give seconds.*1m30s"),
    ("timeout of zero", lambda: tune(timeout=0), ArgumentError, "timeout=0.0: must be above 0"),
    ("budget", lambda: tune(budget=[5]), ArgumentError, r"budget=\[5\] is not a time; give seconds.*1m30s"),
    ("budget below zero", lambda: tune(budget=-1), ArgumentError, "budget=-1 is out of range"),
    ("measure_options", lambda: tune(measure_options=5), ArgumentError, "measure_options=5 is not a mapping"),
    ("unknown option", lambda: tune(measure_options={"foo": 1}), ArgumentError, "no option 'foo'.*options: .*repeats"),
    ("near option", lambda: tune(measure_options={"repeat": 1}), ArgumentError, "did you mean 'repeats'"),
    ("seed twice", lambda: tune(measure_options={"seed": 1}), ArgumentError, "seed=1 is an argument of the call"),
    ("builders", lambda: tune(measure_options={"builders": "x"}), ArgumentError, "builders='x' is not an integer"),
    ("repeats", lambda: tune(measure_options={"repeats": None}), ArgumentError, "repeats=None is not an integer"),
    ("timing", lambda: tune(measure_options={"timing": 5}), ArgumentError, "timing=5 is not a TimingPolicy; make one"),
    ("records", lambda: tune(records=5), RecordError, "records=5 is not a path"),
    ("callbacks", lambda: tune(callbacks=5), ArgumentError, "callbacks=5 is not a list; give a list of callbacks"),
    ("one callback", lambda: tune(callbacks=print), ArgumentError, "callbacks=<built-in.* is not a list"),
    ("callback", lambda: tune(callbacks=[5]), ArgumentError, "callbacks=5 cannot be called"),
    ("transfer", lambda: tune(tuner="xgb", transfer=5), ArgumentError, "transfer=5 is not a list"),
    ("tuner takes no seed", lambda: tune(tuner=lambda space: None), ArgumentError, "signature is .space.*seed"),
    ("tell", lambda: pb.create_tuner("random", SPACE).tell(None, None), ArgumentError, "configs=None is not a list"),
    ("huge cost", lambda: pb.create_tuner("random", SPACE).tell(CONFIG, 10**400), ArgumentError, "not a number of sec"),
    ("seed of a tuner", lambda: pb.create_tuner("xgb", SPACE, seed="x"), ArgumentError, "seed='x' is not an integer"),
    ("sweep, seed", lambda: pb.sweep(task(), records="x", seed=None), ArgumentError, "seed=None is not an integer"),
    ("sweep, budget", lambda: pb.sweep(task(), records="x", budget="x"), ArgumentError, "budget='x' is not a time"),
    ("features", lambda: pb.program_features(5), ArgumentError, "task=5 .*a task from pegbox.create_task"),
    # comparisons
    ("tuners", lambda: compare(tuners=5), ArgumentError, "tuners=5 is not a list.*'random', 'xgb'"),
    ("seeds", lambda: compare(seeds="x"), ArgumentError, "seeds='x' is not a list; give the number of seeds"),
    ("callbacks of runs", lambda: compare(callbacks=[print]), ArgumentError, "callbacks=.*cannot be called; give a"),
    ("save", lambda: compare(save=5), ArgumentError, "path=5 is not a path"),
    ("load what is not there", lambda: pb.Comparison.load("nofile"), RecordError, "'nofile' cannot be read: No such"),
    ("load a number", lambda: pb.Comparison.load(5), RecordError, "report=5 is not a path"),
    # records
    ("recorded_space", lambda: pb.recorded_space(5), RecordError, "recorded space=5 is not a path"),
    ("recorded of a name", lambda: pb.recorded_space("x", "matmul"), RecordError, "task='matmul'.*create_task"),
    ("simulated of a name", lambda: SIMULATED.recorded("matmul"), RecordError, "task='matmul'.*pegbox.create_task"),
    ("args to choose", lambda: pb.recorded_space("x", args=5), RecordError, "args=5 is not a list"),
    ("history", lambda: pb.apply_history_best(5).__enter__(), RecordError, "source=5.*a file of records"),
    ("SimulatedRunner", lambda: pb.SimulatedRunner(5), ArgumentError, "source=5 is not a path"),
    ("RecordedSpace, space", lambda: pb.RecordedSpace("r", 5, {}), RecordError, "space=5.*give a pegbox.ConfigSpace"),
    ("RecordedSpace, results", lambda: pb.RecordedSpace("r", SPACE, {CONFIG: 5}), RecordError, "results: 5 .*Ok"),
    ("share", lambda: RECORDED.share_within(0), ArgumentError, "share=0 is out of range"),
    # spaces
    ("candidates", lambda: pb.ConfigSpace().define_knob("a", 5), SpaceError, "'a': candidates=5.*a list of values"),
    ("when", lambda: pb.ConfigSpace().define_knob("a", [1], when=5), SpaceError, "'a': when=5.*as in when="),
    ("filter", lambda: pb.ConfigSpace().define_split("t", 8, filter=5), SpaceError, "'t': filter=5.*lambda e"),
    ("outputs", lambda: pb.ConfigSpace().define_split("t", 8, num_outputs="2"), SpaceError, "num_outputs='2' is not"),
    ("max_factor", lambda: pb.ConfigSpace().define_split("t", 8, max_factor="2"), SpaceError, "max_factor='2' is not"),
    ("splits", lambda: pb.ConfigSpace().define_split("t", 8, "candidate", candidate=5), SpaceError, "candidate=5 is"),
    ("axes", lambda: pb.ConfigSpace().define_reorder("o", 5, "all"), SpaceError, "'o': axes=5.*a list of names"),
    ("chains", lambda: pb.ConfigSpace().define_reorder("o", "ij", "interleave", spatial=5), SpaceError, "axes='ij'"),
    ("chain", lambda: pb.ConfigSpace().define_reorder("o", ["i"], "interleave", spatial=["i"]), SpaceError, "chains"),
    ("interval", lambda: pb.ConfigSpace().define_reorder("o", ["i"], "interval", interval=5), SpaceError, "interval=5"),
    ("anchor", lambda: pb.ConfigSpace().define_annotate("n", "i", "locate_cache", num_anchor=""), SpaceError, "a list"),
    ("policy", lambda: pb.ConfigSpace().define_annotate("n", ["i"], 5), SpaceError, "policy=5 is not text"),
    ("predicate", lambda: SPACE.add_constraint(5, reads="a", message="m"), SpaceError, "'m': predicate=5.*a function"),
    ("reads", lambda: SPACE.add_constraint(lambda c: True, reads=5, message="m"), SpaceError, "'m': reads=5.*names of"),
    ("digits", lambda: SPACE.config("x"), SpaceError, "digits='x': give integers, one per knob"),
    ("half a digit", lambda: SPACE.config([0.5]), SpaceError, r"digits=\[0.5\]: give integers"),
    ("exists", lambda: SPACE.exists(CONFIG, "b"), SpaceError, "no knob 'b' in this space .known: a"),
    ("violated", lambda: SPACE.violated(5), SpaceError, "config=5.*space.get"),
    ("how many", lambda: SPACE.sample("x", RNG), SpaceError, "n='x' is not an integer"),
    ("generator", lambda: SPACE.sample(1, 5), SpaceError, "rng=5.*numpy.random.default_rng"),
    ("generator of a walk", lambda: SPACE.neighbors([[0]], None), SpaceError, "rng=None.*numpy.random.default_rng"),
    ("argument", lambda: pb.tune(task(), trial=2), UnknownArgument, "no argument 'trial'; did you mean 'trials'"),
    ("argument of minimize", lambda: pb.minimize(cost, SPACE, trial=2), UnknownArgument, "'trial'; did you mean"),
    ("argument of build", lambda: pb.build(task(), confg=0), UnknownArgument, "'confg'; did you mean 'config'"),
    ("argument of lower", lambda: pb.lower(MODULE, simple=1), UnknownArgument, "'simple'; did you mean 'simple_mode'"),
    ("argument of a stage", lambda: split(factr=2), UnknownArgument, "'factr'; did you mean 'factor'"),
    ("argument of a primitive", lambda: tir_split(factr=2), UnknownArgument, "'factr'; did you mean 'factor'"),
    ("argument of matmul", lambda: matmul(dtpe="float64"), TemplateError, "dtpe='float64'.*did you mean 'dtype'"),
    ("signature", lambda: matmul(dtpe="float64"), TemplateError, r"matmul\(M: int, .*dtype: str = 'float32'"),
    ("arrays by name", lambda: kernel()(A=1, C=2), ArgumentError, r"main\(A=, C=\): .*by position: main\(A, C\)"),
    ("other trial as config", lambda: pb.build(task(), config=BEST), ArgumentError, "to another space; take one of"),
    ("other result as config", lambda: task().lower(RESULT), ArgumentError, "to another space; take one of task.space"),
    ("dict as config", lambda: pb.build(task(), config={"a": 1}), SpaceError, "no knob 'a' in this space .known"),
    ("text as config", lambda: task().lower("best"), SpaceError, "'best' is not a configuration; .*task.space.get"),
    ("entity in a term", lambda: A[0, 0] * CONFIG["a"], ExprError, r"raw=1.*read its value with .val, as in cfg"),
    ("entity as extent", lambda: te.placeholder((CONFIG["a"],)), SpaceError, r"knob \(1\).*read its value with .val"),
    ("np.exp", lambda: np.exp(A[0, 0]), ExprError, r"np.exp\(A\[0, 0\]\): NumPy's functions.*use te.exp"),
    ("np.abs", lambda: np.abs(A[0, 0]), ExprError, r"np.absolute\(A.*use te.abs"),
    ("np.maximum", lambda: np.maximum(A[0, 0], 0), ExprError, r"np.maximum\(A\[0, 0\], 0\): .*use te.maximum"),
    ("np.arctan", lambda: np.arctan(A[0, 0]), ExprError, r"np.arctan\(A.*use te.atan"),
    ("np.cbrt", lambda: np.cbrt(A[0, 0]), ExprError, r"np.cbrt\(A.*use te.exp, te.log and the like"),
    ("te.sum", lambda: te.sum(A[0, K]), ComputeError, r"sum: axis=None; .*te.reduce_axis.*sum\(A\[i, k\], axis=k\)"),
    ("te.max", lambda: te.max(A[0, K]), ComputeError, r"max: axis=None; .*te.reduce_axis.*max\(A\[i, k\], axis=k\)"),
    ("resume", lambda: tune(resume="yes"), ArgumentError, "resume='yes'.*choose from False, True and 'edited'"),
    ("listed", lambda: ListedSpace(5, [[0]]), SpaceError, "base=5.*the space that the rows are from"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), [pytest.param(*slip[1:], id=slip[0]) for slip in SLIPS])
def test_a_slip_is_reported_before_a_file_is_made(
    call: Callable[[], object], kind: type[PegboxError], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        call()
    assert not list(tmp_path.iterdir())
    assert re.search(message, str(caught.value), re.S), str(caught.value)


def test_a_kernel_is_not_exported_over_a_folder(tmp_path: Path) -> None:
    (tmp_path / "k.o").mkdir()
    with pytest.raises(ArgumentError, match=r"k\.o'.*is a folder; name a file in it"):
        pb.export(task(), 0, tmp_path / "k.o")


@pytest.mark.parametrize("text", ["90", "90s", "1.5m", "1m30s", " 90 "])
def test_times_are_written_as_on_the_command_line(text: str) -> None:
    result = pb.tune(RECORDED, tuner="random", trials=1, budget=text, timeout=text, progress=False)
    assert result.stopped_because == "trials"


@pytest.mark.parametrize("text", ["", "s", "-5", "5 s", "90 30", "5d", "1m-3s", "nan", "1.2.3"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"not a time; give seconds, or text such as 90, 90s, 1.5m, 2h or 1m30s"):
        tune(budget=text)
