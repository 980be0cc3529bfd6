"""Valid arguments for public names: what stands in a call before one of its arguments is replaced by an odd value."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import comparisons
import numpy as np
from onnx import TensorProto, helper, save

import pegbox as pb
from pegbox import codegen, measure, operators, records, search, te, tir
from pegbox.compute.epilogue import epilogue_of
from pegbox.expr.nodes import Var
from pegbox.graph import Graph, Value, matmul_node
from pegbox.model import Model
from pegbox.plugins.sketch import SketchGenerator
from pegbox.search.testing import ArtificialMeasurer, small_space
from pegbox.space import ListedSpace
from pegbox.store import TuningStore
from pegbox.task import TaskGroup
from pegbox.task.config_view import TemplateConfig

A = te.placeholder((8, 8), name="A")
B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
K = te.reduce_axis((0, 8), name="k")
C = te.compute((8,), lambda i: te.sum(B[i, K], axis=K), name="C")
D = te.compute((8,), lambda i: C[i] * 2, name="D")
_BEFORE = te.placeholder((8,), name="D")
_EPILOGUE = epilogue_of(_BEFORE, [te.compute((8,), lambda i: _BEFORE[i] + 1, name="E")])
INDEX = Var("i")
N = te.var("n")
P = te.placeholder((N,), name="P")
Q = te.compute((N,), lambda i: P[i] + 1, name="Q")
TARGET = pb.Target("llvm -num-cores 1")


def cost(config: pb.Config) -> float:
    return 1.0 + config.index


def copied(n: int) -> list[te.Tensor]:
    x = te.placeholder((n,), name="X")
    return [x, te.compute((n,), lambda i: x[i], name="Y")]


def _template(cfg: Any, n: int) -> Any:
    tensors = copied(n)
    s = te.create_schedule(tensors[-1].op)
    cfg.define_split("tile", n)
    return s, tensors


@functools.cache
def template() -> Any:
    return pb.template("odd_calls")(_template)


@functools.cache
def task() -> pb.Task:
    return pb.create_task(template(), (8,), target=TARGET)


@functools.cache
def sketch_task() -> pb.Task:
    return pb.create_task("row_sum", (4, 8), space="sketch", target=TARGET)


@functools.cache
def program() -> codegen.Program:
    return task().lower(task().space.get(0))


@functools.cache
def kernel() -> codegen.Kernel:
    return codegen.build(program())


@functools.cache
def sized_kernel() -> Any:
    return pb.build(te.create_schedule(Q.op), [P, Q])


@functools.cache
def operator() -> operators.Operator:
    return pb.operator(template(), target=TARGET, store=None)


@functools.cache
def model() -> Model:
    x = Value("x", (4, 4), "float32")
    weights = Value("w", (4, 4), "float32")
    node = matmul_node("product", x, weights)
    return Model(Graph("product", (x,), node.outputs, (node,), {weights: np.eye(4, dtype="float32")}))


@functools.cache
def module() -> tir.IRModule:
    return tir.IRModule(tir.Schedule([A, D]).func)


@functools.cache
def runtime_module() -> codegen.RuntimeModule:
    return codegen.build_module(pb.lower(module()), TARGET)


@functools.cache
def recorded() -> pb.RecordedSpace:
    space = task().space
    return pb.RecordedSpace("odd", space, {c: measure.Ok((1e-3 * (1 + c.index),)) for c in space.iterate()})


@functools.cache
def result() -> Any:
    return pb.tune(recorded(), tuner="random", trials=2, progress=False)


@functools.cache
def listed() -> ListedSpace:
    return ListedSpace(task().space, task().space.sample(2, np.random.default_rng(0)))


@functools.cache
def comparison() -> pb.Comparison:
    return comparisons.made({"random": [[2.0, 1.0]], "grid": [[1.0, 1.0]]}, recorded_best=1.0)


@functools.cache
def intrinsic() -> tir.TensorIntrin:
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 1, name="y")
    return te.decl_tensor_intrin(y.op, _extern)


class World:
    """The things of one call, made when they are asked for; those that change are new in each world."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def file(self) -> Path:
        """Records of two trials."""
        path = self.folder / "odd.jsonl"
        if not path.exists():
            for trial in result().trials:
                pb.Journal(path).append(self.record(trial))
        return path

    @cached_property
    def onnx_file(self) -> Path:
        """A model of one operator."""
        path = self.folder / "odd.onnx"
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "odd", [x], [y])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    @staticmethod
    def record(trial: Any) -> records.Record:
        return records.Record.of(task(), trial.config, trial.result)

    @cached_property
    def a_record(self) -> records.Record:
        return self.record(result().trials[0])

    @cached_property
    def s(self) -> te.TESchedule:
        return te.create_schedule(D.op)

    @cached_property
    def sch(self) -> tir.Schedule:
        return tir.Schedule([A, D])

    @cached_property
    def loops(self) -> Any:
        return self.sch.get_loops("B")

    @cached_property
    def space(self) -> pb.ConfigSpace:
        space = pb.ConfigSpace()
        space.define_knob("a", [1, 2, 3])
        space.define_split("t", 8)
        return space

    @cached_property
    def rows(self) -> Any:
        return self.space.sample(2, self.rng)

    @cached_property
    def rng(self) -> Any:
        return np.random.default_rng(0)

    @cached_property
    def arrays(self) -> list[Any]:
        return [np.zeros(8, "float32"), np.zeros(8, "float32")]

    @cached_property
    def wide(self) -> list[Any]:
        return [np.zeros((8, 8), "float32"), np.zeros(8, "float32")]

    @cached_property
    def config(self) -> pb.Config:
        return task().space.get(0)

    @cached_property
    def builder(self) -> Any:
        return tir.ir_builder.create()

    @cached_property
    def tuner(self) -> Any:
        return search.make_tuner("random", self.space)

    @cached_property
    def measurer(self) -> Any:
        return ArtificialMeasurer()

    @cached_property
    def bench_folder(self) -> Path:
        folder = self.folder / "bench"
        if not folder.exists():
            folder.mkdir()
            measure.Bench.of(task(), seed=0, given={}).save(folder)
        return folder


def _running_sums() -> dict[str, te.Tensor]:
    state = te.placeholder((4, 3), name="S")
    return {
        "init": te.compute((1, 3), lambda t, i: A[t, i], name="I"),
        "update": te.compute((4, 3), lambda t, i: state[t - 1, i] + A[t, i], name="U"),
        "state_placeholder": state,
    }


def _extern(ins: Any, outs: Any) -> Any:
    return te.call_extern("int32", "f", ins[0].access_ptr("r"), outs[0].access_ptr("w"))


def _written(w: World) -> Path:
    path = w.folder / "comparison.json"
    comparison().save(path)
    return path


def _intrinsic_op() -> Any:
    x = te.placeholder((8,), name="x")
    return te.compute((8,), lambda i: x[i] + 1, name="y").op


def _object_file(w: World) -> list[str]:
    path = w.folder / "part.o"
    codegen.write_object(program(), path)
    return [str(path)]


def _scripts() -> str:
    return str(module().script())


GIVEN: dict[str, Callable[[World], Any]] = {
    # instances
    "AskTell": lambda w: pb.create_tuner("random", w.space),
    "BaseTuner": lambda w: w.tuner,
    "BufferVar": lambda w: w.builder.allocate("float32", (8,), "b"),
    "Aggregate": lambda w: comparison().aggregate(),
    "Comparison": lambda w: comparison(),
    "Config": lambda w: w.config,
    "ConfigSpace": lambda w: w.space,
    "TuningStore": lambda w: TuningStore(w.folder / "store"),
    "Subject": lambda w: search.Subject("m", flop=8.0),
    "Expr": lambda w: A[0, 0],
    "History": lambda w: records.History([w.a_record]),
    "IRBuilder": lambda w: w.builder,
    "IRModule": lambda w: module(),
    "IndexMap": lambda w: tir.IndexMap.from_func(lambda i, j: (i // 4, j, i % 4)),
    "IterVar": lambda w: K,
    "Journal": lambda w: pb.Journal(w.file),
    "Kernel": lambda w: kernel(),
    "ListedSpace": lambda w: listed(),
    "ModelJudge": lambda w: search.ModelJudge(),
    "PrimFunc": lambda w: module()["main"],
    "Program": lambda w: program(),
    "ProgramFeatures": lambda w: pb.program_features(task()),
    "Record": lambda w: w.a_record,
    "RecordedSpace": lambda w: recorded(),
    "Run": lambda w: comparison().runs[0],
    "RuntimeModule": lambda w: runtime_module(),
    "Schedule": lambda w: w.sch,
    "Session": lambda w: search.Session(recorded(), tuner="random"),
    "SimulatedRunner": lambda w: pb.SimulatedRunner(recorded()),
    "SizedKernel": lambda w: sized_kernel(),
    "SketchGenerator": lambda w: SketchGenerator(),
    "Stage": lambda w: w.s[B],
    "TESchedule": lambda w: w.s,
    "Target": lambda w: TARGET,
    "Task": lambda w: task(),
    "TaskGroup": lambda w: TaskGroup({"only": task()}),
    "TemplateConfig": lambda w: TemplateConfig(TARGET),
    "Tensor": lambda w: A,
    "TensorSlice": lambda w: A[0],
    "TimingPolicy": lambda w: measure.TimingPolicy(),
    "TimeEvaluator": lambda w: kernel().time_evaluator(),
    "Trace": lambda w: w.sch.trace,
    "TuneResult": lambda w: result(),
    "Operator": lambda w: operator(),
    # the arguments of one callable
    "Operator.first_use": lambda w: 1,
    "Operator.given": lambda w: {},
    "Operator.implementation.arrays": lambda w: [np.zeros(8, "float32")],
    "Operator.name": lambda w: template(),
    "Operator.pack.array": lambda w: np.zeros(8, "float32"),
    "Operator.space": lambda w: "sketch",
    "Operator.store": lambda w: None,
    "Operator.strict": lambda w: False,
    "Operator.implementations": lambda w: (),
    "Target.with_cores.count": lambda w: 1,
    "Task.over.template": lambda w: task().template,
    "Task.with_accuracy.accuracy": lambda w: 1e-4,
    "Task.with_epilogue.epilogue": lambda w: lambda out: te.compute(out.shape, lambda *i: out(*i) + 1, name="E"),
    "compile_model.model": lambda w: model(),
    "compile_model.store": lambda w: None,
    "extract_tasks.models": lambda w: model(),
    "load_model.path": lambda w: w.onnx_file,
    "tune_model.budget": lambda w: 2,
    "tune_model.models": lambda w: [model()],
    "tune_model.progress": lambda w: False,
    "tune_model.store": lambda w: None,
    "tune_model.target": lambda w: TARGET,
    "tune_model.trials": lambda w: 2,
    "tune_model.tuner": lambda w: "random",
    "SketchGenerator.with_packed.names": lambda w: ["B"],
    "lanes_of.others": lambda w: ["float64"],
    "sketch_template.task": lambda w: sketch_task(),
    "sketch_template.config": lambda w: next(iter(sketch_task().space.iterate())),
    "sketch_template.sketch": lambda w: "",
    "PackedOperand.operator": lambda w: "operator('odd_calls')",
    "PackedOperand.original": lambda w: np.zeros(8, "float32"),
    "operator.name": lambda w: template(),
    "operator.store": lambda w: None,
    "BaseTuner.tell.configs": lambda w: [],
    "BaseTuner.tell.results": lambda w: [],
    "BaseTuner.with_options.options": lambda w: {},
    "Bench.load.folder": lambda w: w.bench_folder,
    "BoundTuner.factory": lambda w: search.BaseTuner,
    "BoundTuner.options": lambda w: {},
    "Comparison.load.path": _written,
    "Comparison.words.task": lambda w: "job",
    "ConfigSpace.config.digits": lambda w: [0, 0],
    "ConfigSpace.crossover.a": lambda w: w.rows,
    "ConfigSpace.crossover.b": lambda w: w.rows,
    "ConfigSpace.define_float.high": lambda w: 2.5,
    "ConfigSpace.define_float.low": lambda w: 0.5,
    "ConfigSpace.define_int.high": lambda w: 9,
    "ConfigSpace.define_int.low": lambda w: 1,
    "ConfigSpace.define_split.axis": lambda w: 8,
    "ConfigSpace.exists.config": lambda w: w.space.get(0),
    "ConfigSpace.exists.name": lambda w: "a",
    "ConfigSpace.from_json.form": lambda w: w.space.get(0).to_json(),
    "ConfigSpace.rows_from_json.forms": lambda w: [w.space.get(0).to_json()],
    "ConfigSpace.violated.config": lambda w: w.space.get(0),
    "ListedSpace.base": lambda w: w.space,
    "ListedSpace.rows": lambda w: w.rows,
    "ListedSpace.place.config": lambda w: listed().get(0),
    "IRBuilder.allocate.name": lambda w: "b",
    "IRBuilder.allocate.shape": lambda w: (8,),
    "IRModule.functions": lambda w: module()["main"],
    "IRModule.name_of.name": lambda w: "main",
    "IRModule.__getitem__.name": lambda w: "main",
    "IndexMap.final_indices": lambda w: [INDEX + 1],
    "IndexMap.from_func.func": lambda w: lambda i, j: (j, i),
    "IndexMap.from_text.text": lambda w: "lambda i, j: (j, i)",
    "IndexMap.from_trace_json.data": lambda w: "lambda i, j: (j, i)",
    "IndexMap.initial_indices": lambda w: [INDEX],
    "IndexMap.map_indices.indices": lambda w: [1, 2],
    "IndexMap.inverse.shape": lambda w: (8, 8),
    "Kernel.code": lambda w: None,
    "ModelJudge.add.scores": lambda w: [1.0],
    "PrimFunc.loops.name": lambda w: "B",
    "PrimFunc.with_attr.name": lambda w: "name",
    "PrimFunc.with_body.body": lambda w: module()["main"].body,
    "Program.compiled.object_code": lambda w: b"",
    "Question.at": lambda w: 1.0,
    "Question.kind": lambda w: "budget",
    "Record.from_line.line": lambda w: w.a_record.to_line(),
    "Record.of.result": lambda w: measure.Ok((1.0,)),
    "RecordedSpace.results": lambda w: {},
    "autotvm_number.result": lambda w: measure.Ok((1.0,)),
    "autotvm_result.listed": lambda w: [1.0],
    "autotvm_result.message": lambda w: "",
    "autotvm_result.number": lambda w: 0,
    "autotvm_result.timestamp": lambda w: 1.0,
    "autotvm_result.total_seconds": lambda w: 1.0,
    "TuningStore.key_of.processor": lambda w: "a processor",
    "TuningStore.folder": lambda w: w.folder / "store",
    "Schedule.mod": lambda w: [A, D],
    "Schedule.blockize.target": lambda w: w.loops[0],
    "Schedule.can_decompose_padding.block": lambda w: "C",
    "Schedule.compute_at.loop": lambda w: w.sch.get_loops("C")[0],
    "Schedule.decompose_reduction.block": lambda w: "C",
    "Schedule.decompose_reduction.loop": lambda w: w.sch.get_loops("C")[0],
    "Schedule.get_block.name": lambda w: "B",
    "Schedule.rfactor.loop": lambda w: w.sch.get_loops("C")[1],
    "Schedule.reverse_compute_at.block": lambda w: "D",
    "Schedule.reverse_compute_at.loop": lambda w: w.sch.get_loops("C")[0],
    "Schedule.reverse_compute_inline.block": lambda w: "D",
    "Schedule.tensorize.tensor_intrin": lambda w: "odd",
    "Schedule.tile.loops": lambda w: list(w.loops),
    "Schedule.tile.factors": lambda w: [2, 2],
    "Schedule.pad_einsum.padding": lambda w: [1, 1],
    "Schedule.pad_einsum.block": lambda w: "C",
    "SizedKernel.at.sizes": lambda w: 8,
    "Stage.env_threads.threads": lambda w: te.thread_axis("threadIdx.x"),
    "Stage.pragma.name": lambda w: "auto_unroll_max_step",
    "Stage.tensorize.tensor_intrin": lambda w: intrinsic(),
    "Stage.transform_layout.mapping_function": lambda w: lambda i, j: (j, i),
    "Stage.compute_at.parent": lambda w: w.s[C],
    "Stage.compute_at.loop": lambda w: C.op.axis[0],
    "Stage.merge.loop": lambda w: B.op.axis[0],
    "Stage.merge.other": lambda w: w.s[C],
    "Stage.merge.other_loop": lambda w: C.op.axis[0],
    "Stage.store_in.output": lambda w: w.s[C],
    "Task.reference.inputs": lambda w: w.arrays[:1],
    "TESchedule.outputs": lambda w: [D.op],
    "TESchedule.append_epilogue.epilogue": lambda w: _EPILOGUE,
    "TESchedule.append_epilogue.lanes": lambda w: 4,
    "TESchedule.append_epilogue.tensor": lambda w: D,
    "TESchedule.rfactor.axis": lambda w: K,
    "TESchedule.rfactor.tensor": lambda w: C,
    "TESchedule.create_group.outputs": lambda w: D,
    "TESchedule.create_group.inputs": lambda w: A,
    "TESchedule.__getitem__.key": lambda w: B,
    "TensorIntrin.get.name": lambda w: "vpdpbusd",
    "TemplateConfig.define_float.high": lambda w: 2.5,
    "TemplateConfig.define_float.low": lambda w: 0.5,
    "TemplateConfig.define_int.high": lambda w: 9,
    "TemplateConfig.define_int.low": lambda w: 1,
    "TemplateConfig.define_split.axis": lambda w: 8,
    "TimeEvaluator.time_ns": lambda w: lambda arrays, number: 1,
    "TimingPolicy.of.policy": lambda w: None,
    "TimingPolicy.of.repeats": lambda w: 3,
    "TimingPolicy.of.options": lambda w: {},
    "TuneResult.best": lambda w: None,
    "annotate.ann_key": lambda w: "key",
    "apply_history_best.source": lambda w: w.file,
    "build.what": lambda w: w.sch,
    "build.args": lambda w: (),
    "c_library.path": lambda w: w.file,
    "build_module.mod": lambda w: pb.lower(module()),
    "c_source.text": lambda w: "int f(void) { return 0; }",
    "call_extern.func_name": lambda w: "f",
    "call_llvm_intrin.name": lambda w: "llvm.fabs.f32",
    "call_pure_extern.func_name": lambda w: "f",
    "check_export.header": lambda w: False,
    "check_export.path": lambda w: w.folder / "k.o",
    "compare.tasks": lambda w: recorded(),
    "compare.tuners": lambda w: ["random"],
    "compute.fcompute": lambda w: lambda i, j: A[i, j],
    "const.value": lambda w: 1,
    "create_task.template": lambda w: template(),
    "create_tuner.over": lambda w: w.space,
    "create_tuner.tuner": lambda w: "random",
    "create_schedule.ops": lambda w: D.op,
    "decl_buffer.shape": lambda w: (8,),
    "decl_tensor_intrin.fcompute": lambda w: _extern,
    "decl_tensor_intrin.op": lambda w: _intrinsic_op(),
    "extern.fcompute": lambda w: _extern,
    "extern.shape": lambda w: (8,),
    "extern.inputs": lambda w: [C],
    "export.path": lambda w: w.folder / "k.o",
    "from_source.text": lambda w: _scripts(),
    "load.compiled": lambda w: kernel().compiled,
    "load_history.journal": lambda w: pb.Journal(w.file),
    "load_library.path": lambda w: w.file,
    "load_result.file": lambda w: w.file,
    "lower.what": lambda w: w.sch,
    "make_cost_model.spec": lambda w: "ridge",
    "make_tuner.spec": lambda w: "random",
    "minimize.function": lambda w: cost,
    "optimized_ir.program": lambda w: program(),
    "pack_space.source": lambda w: w.file,
    "parse_spec.text": lambda w: "random",
    "recorded_space.source": lambda w: w.file,
    "reduce_axis.dom": lambda w: (0, 8),
    "scan.init": lambda w: _running_sums()["init"],
    "split_options.text": lambda w: "a:b=1",
    "sweep.records": lambda w: w.folder / "swept.jsonl",
    "tag_scope.tag": lambda w: "tag",
    "template.name": lambda w: lambda cfg, n: None,
    "tune.task": lambda w: recorded(),
    "workload.name": lambda w: "w",
    "link_shared_library.parts": _object_file,
    "link_shared_library.path": lambda w: w.folder / "k.so",
    "write_object.path": lambda w: w.folder / "k.o",
    "BaseTuner.args": lambda w: w.space,
    "BaseTuner.kwargs": lambda w: {},
    "Bench.of.given": lambda w: {},
    "Bench.save.folder": lambda w: w.bench_folder,
    "BufferVar.__getitem__.indices": lambda w: 0,
    "Comparison.plot.path": lambda w: w.folder / "comparison.svg",
    "Comparison.to_html.path": lambda w: w.folder / "comparison.html",
    "Aggregate.score_of.tuner": lambda w: "random",
    "Comparison.write_paper.folder": lambda w: w.folder / "paper",
    "Comparison.aggregate.trials": lambda w: 2,
    "Config.name": lambda w: "tile",
    "ConfigSpace.define_annotate.policy": lambda w: "try_unroll",
    "IRBuilder.buffer_ptr.buffer": lambda w: te.decl_buffer((8,)),
    "IRBuilder.emit.stmt": lambda w: te.call_extern("int32", "f"),
    "IRBuilder.for_range.begin": lambda w: 0,
    "IRBuilder.for_range.end": lambda w: 8,
    "IRBuilder.pointer.content_type": lambda w: "float32",
    "Kernel.__call__.arrays": lambda w: w.arrays,
    "Kernel.__getitem__.name": lambda w: kernel().name,
    "Kernel.function.otherwise": lambda w: print,
    "Kernel.time_ns.arrays": lambda w: w.arrays,
    "ListedSpace.config.digits": lambda w: [0],
    "ListedSpace.digits": lambda w: listed().sample(2, w.rng),
    "ListedSpace.crossover.a": lambda w: listed().sample(2, w.rng),
    "ListedSpace.crossover.b": lambda w: listed().sample(2, w.rng),
    "ListedSpace.exists.config": lambda w: listed().get(0),
    "ListedSpace.exists.name": lambda w: "tile",
    "ListedSpace.from_json.form": lambda w: listed().get(0).to_json(),
    "ListedSpace.rows_from_json.forms": lambda w: [listed().get(0).to_json()],
    "Limits.trials": lambda w: 3,
    "SearchOptions.trials": lambda w: 3,
    "Subject.gflops.result": lambda w: measure.Ok((1.0,), 1.0, 1.0),
    "Subject.speed.cost": lambda w: 1.0,
    "ProgramFeatures.digits": lambda w: task().space.sample(2, w.rng),
    "ProgramFeatures.classes": lambda w: 2,
    "ProgramFeatures.more": lambda w: 2,
    "ProgramFeatures.sample.count": lambda w: 3,
    "RuntimeModule.__call__.arrays": lambda w: w.wide,
    "RuntimeModule.__getitem__.name": lambda w: "main",
    "Schedule.fuse.loops": lambda w: w.loops,
    "Schedule.env_threads.threads": lambda w: [("threadIdx.x", 2)],
    "Schedule.find_loops.loops": lambda w: w.loops,
    "Schedule.get.ref": lambda w: w.loops[0],
    "Schedule.get_loop.depth": lambda w: 0,
    "Schedule.merge.loops": lambda w: [w.loops[0], w.sch.get_loops("C")[0]],
    "Schedule.parallel.loop": lambda w: w.loops[0],
    "Schedule.reindex.buffer": lambda w: ("read", 0),
    "Schedule.remove_rv._ref": lambda w: w.loops[0],
    "Schedule.reorder.loops": lambda w: w.loops[::-1],
    "Schedule.reorder_block_iter_var.new_order": lambda w: [1, 0],
    "Schedule.rolling_buffer.block": lambda w: "C",
    "Schedule.sample_categorical.probs": lambda w: [0.5, 0.5],
    "Schedule.set_store_predicate.predicate": lambda w: "threadIdx.x == 0",
    "Schedule.split.factors": lambda w: [2, None],
    "Schedule.transform_layout.buffer": lambda w: ("write", 0),
    "Schedule.set_axis_separator.buffer": lambda w: ("write", 0),
    "SizedKernel.__call__.arrays": lambda w: w.arrays,
    "SizedKernel.__getitem__.name": lambda w: "main",
    "SizedKernel.of.arrays": lambda w: w.arrays,
    "SizedKernel.time_ns.arrays": lambda w: w.arrays,
    "Session.history": lambda w: [(recorded().space.get(0), measure.Ok((1.0,)))],
    "SplitKnob": lambda w: w.space.knobs["t"],
    "SplitKnob.within.limits": lambda w: [8, 8],
    "SplitKnob.value": lambda w: [-1, 2],
    "Knob.value": lambda w: 1,
    "Knob": lambda w: w.space.knobs["a"],
    "Stage.fuse.loops": lambda w: list(B.op.axis),
    "Stage.pragma.value": lambda w: 4,
    "Stage.reorder.loops": lambda w: B.op.axis[::-1],
    "Stage.set_store_predicate.predicate": lambda w: te.thread_axis("threadIdx.x").var.equal(0),
    "Stage.split.factor": lambda w: 2,
    "Stage.tile.x_factor": lambda w: 2,
    "Stage.tile.y_factor": lambda w: 2,
    "Schedule.pragma.value": lambda w: 4,
    "TESchedule.cache_read.readers": lambda w: B,
    "TESchedule.cache_write.tensor": lambda w: B,
    "Task.kwargs": lambda w: {},
    "Task.args": lambda w: (8,),
    "TemplateConfig.define_annotate.policy": lambda w: "try_unroll",
    "TemplateConfig.define_plain.outputs": lambda w: lambda: [B],
    "Tensor.indices": lambda w: (0, 0),
    "Tensor.__getitem__.indices": lambda w: (0, 0),
    "TensorIntrin.register.desc": lambda w: module()["main"],
    "TensorIntrin.register.impl": lambda w: module()["main"],
    "TensorSlice.__getitem__.indices": lambda w: 0,
    "TimeEvaluator.__call__.arrays": lambda w: w.arrays,
    "Tolerance.of.expected": lambda w: w.arrays,
    "Trace.apply_json_to_schedule.json_obj": lambda w: w.sch.trace.to_json(),
    "Trace.from_json.data": lambda w: w.sch.trace.to_json(),
    "Trace.with_decision.step": lambda w: 0,
    "Trace.with_decision.decision": lambda w: 0,
    "TuneResult.plot.path": lambda w: w.folder / "search.svg",
    "TuneResult.to_html.path": lambda w: w.folder / "search.html",
    "ann_key": lambda w: "key",
    "ann_val": lambda w: 1,
    "call_python.buffers": lambda w: [te.decl_buffer((8,))],
    "ceildiv.a": lambda w: INDEX,
    "ceildiv.b": lambda w: INDEX,
    "clz.x": lambda w: INDEX,
    "popcount.x": lambda w: INDEX,
    **{
        f"{name}.{operand}": lambda w: INDEX
        for name in ("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
        for operand in "xy"
    },
    "comm_reducer.fcombine": lambda w: lambda a, b: a + b,
    "comm_reducer.fidentity": lambda w: lambda t: te.const(0, t),
    "create_prim_func.args": lambda w: [A, D],
    "create_task.loose": lambda w: [],
    "create_task.args": lambda w: (8,),
    "emit.func": lambda w: task().lowered(w.config),
    "floordiv.a": lambda w: INDEX,
    "floordiv.b": lambda w: INDEX,
    "floormod.a": lambda w: INDEX,
    "floormod.b": lambda w: INDEX,
    "logical_not.a": lambda w: A[0, 0] > 0,
    **dict.fromkeys(("max.axis", "min.axis", "prod.axis", "sum.axis"), lambda w: K),
    "minimize.space": lambda w: w.space,
    "minimize.trials": lambda w: 2,
    "minimize.tuner": lambda w: "random",
    "minimize.progress": lambda w: False,
    "run.measurer": lambda w: w.measurer,
    "run.tuner": lambda w: search.make_tuner("random", small_space()),
    "run.options": lambda w: search.SearchOptions(trials=1),
    "sweep.task": lambda w: task(),
    "thread_axis.dom": lambda w: "threadIdx.x",
    "truncdiv.a": lambda w: INDEX,
    "truncdiv.b": lambda w: INDEX,
    "truncmod.a": lambda w: INDEX,
    "truncmod.b": lambda w: INDEX,
    "tune.tuner": lambda w: "random",
    "tune.trials": lambda w: 2,
    "tune.progress": lambda w: False,
    "compare.trials": lambda w: 2,
    "compare.seeds": lambda w: 1,
    "compare.progress": lambda w: False,
    "write_shared_library.path": lambda w: w.folder / "k.so",
    "pack_space.out": lambda w: w.folder / "packed.jsonl",
    # arguments by name, of all that have one
    **dict.fromkeys(("x", "y", "a", "b", "value", "expr", "exponent", "args"), lambda w: A[0, 0]),
    "Stage.loop": lambda w: B.op.axis[0],
    "Stage.loops": lambda w: B.op.axis[0],
    "Stage.axis": lambda w: B.op.axis[0],
    "Stage.parent": lambda w: B.op.axis[0],
    "Stage.var": lambda w: B.op.axis[1],
    "Stage.x": lambda w: B.op.axis[0],
    "Stage.y": lambda w: B.op.axis[1],
    "Stage.tensor": lambda w: A,
    "ConfigSpace.policy": lambda w: "all",
    "Comparison.task": lambda w: "job",
    "Comparison.tuner": lambda w: "random",
    "at": lambda w: 0,
    "axes": lambda w: ["i", "j"],
    "axis": lambda w: 0,
    "best": lambda w: 1.0,
    "best_known": lambda w: 1.0,
    "block": lambda w: "B",
    "block_or_loop": lambda w: "B",
    "buffer": lambda w: 0,
    "buffer_index": lambda w: 0,
    "candidates": lambda w: [1, 2],
    "cond": lambda w: A[0, 0] > 0,
    "condition": lambda w: A[0, 0] > 0,
    "conditions": lambda w: A[0, 0] > 0,
    "config": lambda w: w.config,
    "configs": lambda w: [w.config],
    "cost": lambda w: 1.0,
    "costs": lambda w: [1.0],
    "data": lambda w: C,
    "digits": lambda w: w.rows,
    "dtype": lambda w: "float32",
    "factor": lambda w: 2,
    "factors": lambda w: [2, None],
    "flop": lambda w: 8.0,
    "form": lambda w: "ll",
    "func": lambda w: module()["main"],
    "func_name": lambda w: "main",
    "function": lambda w: cost,
    "header": lambda w: False,
    "index": lambda w: 0,
    "index_map": lambda w: lambda *indices: indices,
    "indices": lambda w: 0,
    "inputs": lambda w: [A],
    "key": lambda w: "auto_unroll_max_step",
    "loop": lambda w: w.loops[0],
    "loops": lambda w: w.loops[0],
    "message": lambda w: "text",
    "mod": lambda w: module(),
    "n": lambda w: 2,
    "name": lambda w: "name",
    "number": lambda w: 1,
    "offset": lambda w: 1,
    "options": lambda w: {},
    "other": lambda w: A[0, 0],
    "path": lambda w: w.folder / "written",
    "policy": lambda w: "all",
    "predicate": lambda w: lambda config: True,
    "program": lambda w: program(),
    "programs": lambda w: program(),
    "read_buffer_index": lambda w: 0,
    "reads": lambda w: ["a"],
    "record": lambda w: w.a_record,
    "records": lambda w: [w.a_record],
    "result": lambda w: result(),
    "rng": lambda w: w.rng,
    "runs": lambda w: comparison().runs,
    "sch": lambda w: w.sch,
    "schedule": lambda w: w.sch,
    "scope": lambda w: "local",
    "seconds": lambda w: 1.0,
    "seed": lambda w: 0,
    "shape": lambda w: (8, 8),
    "share": lambda w: 0.5,
    "source": lambda w: recorded(),
    "space": lambda w: w.space,
    "spent": lambda w: 0.0,
    "state_placeholder": lambda w: _running_sums()["state_placeholder"],
    "storage_scope": lambda w: "local",
    "target": lambda w: TARGET,
    "task": lambda w: task(),
    "template": lambda w: template(),
    "tensor": lambda w: A,
    "tensors": lambda w: copied(8),
    "thread": lambda w: te.thread_axis("threadIdx.x"),
    "thread_axis": lambda w: "threadIdx.x",
    "threads": lambda w: 1,
    "trials": lambda w: 2,
    "update": lambda w: _running_sums()["update"],
    "write_buffer_index": lambda w: 0,
}
"""The values by the name of the argument, alone or after its callable: "define_knob.candidates", "Stage.loop"."""


def _each(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


EXEMPT = {
    **_each(
        "the search calls it",
        "Callback. LineProgress. LiveProgress. SearchState SearchState. Limits. BestTrial. SearchOptions. Subject. "
        "Run.of BoundTuner. BaseTuner.",
    ),
    **_each(
        "measuring calls it",
        "CorePlan. RunnerWrapper RunnerWrapper. Bench. Tolerance. LocalMeasurer. Measurer. Runner. TimingPolicy.",
    ),
    **_each("it measures", "Operator.tune"),
    **_each("operators make it", "Implementation"),
    **_each("sketch rules call it", "State State."),
    **_each("the report calls it", "Question. Setup. TaskInfo. Baseline."),
    **_each("the space calls it", "Knob. ListedKnob. AnnotateKnob. OptionKnob. RangeKnob. ReorderKnob. SplitKnob."),
    **_each("refuses whatever it is given", "AnnotateEntity. OtherEntity. ReorderEntity. SplitEntity."),
    **_each(
        "primitives call it",
        "Schedule.restore Schedule.update Schedule.find Schedule.find_block Schedule.find_loop "
        "Schedule.find_loops "
        "TensorIntrin.registered Stage.check_serial Stage.is_scheduled Stage.leaf_of Stage.parts_of",
    ),
    **_each(
        "plugins call it with values that pegbox gave them",
        "inferred_outer nearest policy_splits revive Experience Experience. GradientAllocation. RoundRobin. "
        "aligned_copy checked_features checked_scores checked_training gain_of lost_threads not_fitted pairs_in_order "
        "spread predicted_configs "
        "Asked. Builder Builder. Lowered. Lowering. Roofline. blas_threads run_interleaved run_trial call check_packed "
        "read_document read_unpacked bind_options explained located on_demand fits_registers missing_features "
        "target_of LocalPool LocalPool. check_archive Gain. rank_and_speed rank_share relative_speed "
        "standardised_logs CandidateArrays CandidateArrays. waiting memory_share ProcessFolder",
    ),
    **_each(
        "users don't make it",
        "BaseTuner BufferVar Callback Expr IterVar Kernel RuntimeModule SizedKernel Stage TemplateConfig "
        "Tensor TensorSlice",
    ),
}
"""Why no odd values are given to a callable, or with a dot at the end, to the methods of a class."""
