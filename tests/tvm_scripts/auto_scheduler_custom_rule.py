"""A sketch rule of a script, states made step by step, and a callback that hears of each batch."""

import tempfile

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import auto_scheduler, te


@auto_scheduler.register_workload
def product(n):
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return [A, B, te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")]


def condition(policy, state, stage_id):
    return auto_scheduler.PreloadCustomSketchRule.APPLY_AND_SKIP_REST


def blocks(policy, state, stage_id):
    state = auto_scheduler.loop_state.State(state, policy.search_task.compute_dag)
    C = state.stage_ops[2]
    other = state.copy()
    i, j, k = other[C].iters
    i0, i1 = other.split(C, i, [8])
    other.reorder(C, [i0, k, i1, j])
    other.vectorize(C, other[C].iters[3])
    return [[state.state_object, -1], [other.state_object, -1]]


class Count(auto_scheduler.measure.PythonBasedMeasureCallback):
    measured = 0

    def callback(self, policy, inputs, results):
        assert isinstance(policy, auto_scheduler.search_policy.SearchPolicy)
        assert all(isinstance(inp, auto_scheduler.MeasureInput) for inp in inputs)
        assert all(isinstance(result, auto_scheduler.MeasureResult) for result in results)
        self.measured += len(results)


task = auto_scheduler.SearchTask(func="product", args=(32,), target="llvm")
with tempfile.NamedTemporaryFile() as file:
    counter = Count()
    policy = auto_scheduler.SketchPolicy(
        task,
        program_cost_model=auto_scheduler.RandomModel(),
        verbose=0,
        init_search_callbacks=[
            auto_scheduler.PreloadCustomSketchRule(condition, blocks, "blocks of rows"),
            auto_scheduler.PreloadMeasuredStates(file.name),
        ],
    )
    assert len(policy.generate_sketches(print_for_debug=True)) == 2
    options = auto_scheduler.TuningOptions(
        num_measure_trials=3,
        num_measures_per_round=2,
        early_stopping=3,
        runner=auto_scheduler.LocalRunner(repeat=1, min_repeat_ms=1),
        measure_callbacks=[auto_scheduler.RecordToFile(file.name), counter],
    )
    task.tune(tuning_options=options, search_policy=policy)
    assert counter.measured == 3
    best = tvm.build(*task.apply_best(file.name), task.target)

plain = tvm.build(*task.compute_dag.apply_steps_from_state(task.compute_dag.init_state), "llvm")
inputs = [np.random.uniform(size=(32, 32)).astype("float32") for _ in range(2)]
outputs = []
for func in (best, plain):
    arrays = [tvm.nd.array(each) for each in (*inputs, np.zeros((32, 32), "float32"))]
    func(*arrays)
    outputs.append(arrays[2].numpy())
tvm.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5)
