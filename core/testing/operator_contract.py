"""`OperatorContract`: a test suite for templates and workloads that are called as operators.

::

    from pegbox.testing import OperatorContract

    class TestMyMatmul(OperatorContract):
        function = "my_matmul"
        sizes = {"N": 5, "L": 7, "M": 3}

pytest then runs every check of the suite. Sizes that all differ find most faults; small ones are quick. A random
configuration replaces the best one, so that no candidates are compared.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, ClassVar

import numpy as np

from pegbox.errors import ArgumentError, InvalidConfig, ScheduleError
from pegbox.measure.result import Ok
from pegbox.measure.trial.bench import make_inputs
from pegbox.measure.trial.check import Tolerance, difference
from pegbox.operators import Operator, operator
from pegbox.records.history import apply_history_best
from pegbox.records.record import Record
from pegbox.space import Config
from pegbox.task.task import Task, create_task

_THREADS = 4
_PATIENCE = 60.0
"""The seconds that a process may take on a busy machine."""


class OperatorContract:
    """Subclasses set `function` (any value that `pegbox.operator` takes) and `sizes` (the sizes of its arguments)."""

    function: ClassVar[Any]
    sizes: ClassVar[Mapping[str, int]]
    given: ClassVar[Mapping[str, Any]] = {}  # the other arguments
    space: ClassVar[str | None] = None  # the space generator, if the function is a workload
    packs: ClassVar[Sequence[int]] = ()  # the places of the inputs that its kernels take packed
    target: ClassVar[str] = "llvm -num-cores 1"

    @property
    def task(self) -> Task:
        """The task that a call must find."""
        kind: Any = type(self)
        return _tasks(kind)[0]

    def make(self) -> Operator:
        """Make a new operator, without kernels and without the user's store."""
        space = "sketch" if self.space is None else self.space
        return operator(self.function, target=self.target, space=space, store=None, **dict(self.given))

    def inputs(self, seed: int = 0) -> list[np.ndarray[Any, Any]]:
        """Make random values for each input, in call order."""
        return make_inputs([spec for spec in self.task.arguments() if not spec.is_output], seed=seed)

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Open a block with known best configurations."""
        kind: Any = type(self)
        with apply_history_best(_records(kind)):
            yield

    def check(self, results: Any, inputs: Sequence[np.ndarray[Any, Any]]) -> None:
        """Compare results with those of NumPy."""
        expected = self.task.reference(inputs)
        listed = results if isinstance(results, tuple) else (results,)
        tolerance = Tolerance.of(expected, flop=self.task.flop)
        for got, wanted in zip(listed, expected, strict=True):
            wrong = difference("the result", got, wanted, tolerance)
            assert wrong is None, f"{self.make()!r}: {wrong}"

    def test_the_sizes_are_found_and_the_results_are_numpys(self) -> None:
        inputs = self.inputs()
        with self.chosen():
            op = self.make()
            found = op.implementation(*inputs)
            self.check(op(*inputs), inputs)
        assert found.task is not None
        assert found.task.workload == self.task.workload
        assert found.origin == "tuned"

    def test_out_is_written_and_returned(self) -> None:
        inputs = self.inputs(1)
        outputs = tuple(np.empty(t.shape, t.dtype) for t in self.task.outputs)
        out = outputs if len(outputs) > 1 else outputs[0]
        with self.chosen():
            assert self.make()(*inputs, out=out) is out
        self.check(out, inputs)

    def test_packed_operands_give_the_same(self) -> None:
        inputs = self.inputs(2)
        with self.chosen():
            op = self.make()
            for place in self.packs:
                packed = op.pack(inputs[place])
                given = [packed if each == place else array for each, array in enumerate(inputs)]
                self.check(op(*given), inputs)
                (layout,) = packed.layouts
                self.check(op(*given), inputs)
                assert packed.layouts == (layout,), "a later call packs nothing"

    def test_arrays_that_fit_no_sizes_are_refused(self) -> None:
        inputs = self.inputs()
        for wrong in (inputs[:-1], [*inputs, inputs[0]], [*inputs[:-1], inputs[-1][None]], []):
            message = _refusal(self.make(), wrong)
            assert "expected" in message or "takes" in message, f"{[each.shape for each in wrong]}: {message!r}"

    def test_several_threads_make_the_first_call_at_once(self) -> None:
        inputs = self.inputs(3)
        with self.chosen():
            op, results = self.make(), list[Any]()
            calls = [(copy_context(), lambda: results.append(op(*inputs))) for _ in range(_THREADS)]
            threads = [threading.Thread(target=context.run, args=(call,)) for context, call in calls]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(results) == _THREADS
        for each in results:
            self.check(each, inputs)

    def test_a_fork_calls_it(self) -> None:
        inputs = self.inputs(4)
        with self.chosen():
            op = self.make()
            op(*inputs)
            assert _in_a_fork(lambda: self.check(op(*inputs), inputs)) == 0

    def test_a_pickled_one_computes_the_same(self) -> None:
        inputs = self.inputs(5)
        copy = pickle.loads(pickle.dumps(self.make()))
        assert repr(copy) == repr(self.make())
        with self.chosen():
            self.check(copy(*inputs), inputs)


@cache
def _tasks(contract: Any) -> list[Task]:
    """Return the task of a contract, and those of its packed forms."""
    arguments = {**contract.sizes, **contract.given}
    plain = create_task(contract.function, kwargs=arguments, target=contract.target, space=contract.space)
    tasks = [plain]
    names = [spec.name for spec in plain.arguments() if not spec.is_output]
    for place in contract.packs:
        form = plain.template.packed_form(names[place])
        assert form is not None, f"{plain!r} does not take {names[place]} packed"
        tasks.append(create_task(form.template, kwargs={**plain.workload[1], **form.given}, target=contract.target))
    return tasks


@cache
def _records(contract: Any) -> list[Record]:
    """Return a record of a configuration that can be scheduled, for each task."""
    return [Record.of(task, _config(task), Ok((1e-3,))) for task in _tasks(contract)]


def _config(task: Task) -> Config:
    rng = np.random.default_rng(0)
    return next(config for config in map(task.space.config, task.space.sample(50, rng)) if _can_be_built(task, config))


def _can_be_built(task: Task, config: Config) -> bool:
    try:
        task.lowered(config)
    except (InvalidConfig, ScheduleError):
        return False
    return True


def _refusal(op: Operator, arrays: Sequence[Any]) -> str:
    """Return the message that refuses arrays; empty if they are accepted."""
    try:
        op(*arrays)
    except ArgumentError as error:
        return str(error)
    return ""


def _in_a_fork(check: Callable[[], None]) -> int:
    """Run a check in a fork of this process; 0 if it passes in time."""
    child = os.fork()
    if not child:
        failed = 1
        try:
            check()
            failed = 0
        finally:
            os._exit(failed)
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL
