"""`TemplateContract`: a test suite for templates.

::

    from pegbox.testing import TemplateContract

    class TestMyTemplate(TemplateContract):
        template = "my_template"
        cases = [(8, 8), (1, 7), (5, 1)]

pytest then runs every check of the suite on the template. Choose small shapes, including extents of one, primes, and
every dtype that the template supports.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from pegbox.codegen import Program, build, emit
from pegbox.errors import InvalidConfig, ScheduleError
from pegbox.features.program import ProgramFeatures
from pegbox.loops.nodes import Function
from pegbox.measure.trial.check import Tolerance, difference, poison
from pegbox.search.testing.subprocess_test import in_another_process
from pegbox.space import Config
from pegbox.task.task import Task, create_task
from pegbox.testing.duplicate_values import duplicate_values


@cache
def shared_task(template: Any, args: tuple[Any, ...], target: str) -> Task:
    """Make a task once for all tests that do not check its creation."""
    return create_task(template, args=args, target=target)


@lru_cache(1000)
def lowered(task: Task, config: Config) -> Function:
    """Lower a configuration, for tests that do not check the lowering.

    Raises:
        InvalidConfig, ScheduleError: the template refuses it.
    """
    return task.lowered(config)


@lru_cache(100)
def emitted(task: Task, config: Config) -> Program:
    """Emit the LLVM text of a configuration, for tests that do not check the emission.

    Raises:
        InvalidConfig, ScheduleError: the template refuses it.
    """
    return emit(lowered(task, config), task.target)


@lru_cache(1000)
def sampled(task: Task, count: int, seed: int) -> list[Config]:
    """Sample distinct valid configurations, the same ones in every run."""
    return [task.space.config(row) for row in task.space.sample(count, np.random.default_rng(seed))]


class TemplateContract:
    """Subclasses set `template` (any value that `create_task` takes) and `cases` (arguments)."""

    template: ClassVar[Any]
    cases: ClassVar[Sequence[tuple[Any, ...]]]
    configs: ClassVar[int] = 6  # the number sampled for each case
    values: ClassVar[int] = 100  # the largest number of values of a knob that must make different programs
    target: ClassVar[str] = "llvm -num-cores 2"
    unchanged: ClassVar[float] = 0.25  # the share of a knob's changes that may leave the program unchanged

    def tasks(self) -> Iterator[Task]:
        """Yield a task of each case, the same ones in all tests."""
        for args in self.cases:
            yield shared_task(self.template, tuple(args), self.target)

    def made_again(self) -> Iterator[Task]:
        """Make equal tasks that share no state with those of `tasks`."""
        for args in self.cases:
            yield create_task(self.template, args=args, target=self.target)

    def sampled(self, task: Task, seed: int = 0) -> list[Config]:
        """Sample distinct valid configurations, the same ones in every run."""
        return list(sampled(task, self.configs, seed))

    def runnable(self, task: Task) -> Iterator[Config]:
        """Select the sampled configurations that the template does not refuse."""
        return (config for config in self.sampled(task) if self.text(task, config) is not None)

    def inputs(self, task: Task, seed: int = 0) -> list[np.ndarray[Any, Any]]:
        """Make random values for each input, in call order."""
        rng = np.random.default_rng(seed)
        given = [spec for spec in task.arguments() if not spec.is_output]
        return [
            rng.uniform(-1, 1, spec.shape).astype(spec.dtype)
            if spec.dtype.startswith("float")
            else rng.integers(0, 5, spec.shape).astype(spec.dtype)
            for spec in given
        ]

    def test_its_arguments_are_named_and_some_are_outputs(self) -> None:
        for task in self.tasks():
            names = [spec.name for spec in task.arguments()]
            assert len(set(names)) == len(names)
            assert all(name.isidentifier() for name in names)
            assert any(spec.is_output for spec in task.arguments())
            assert task.flop >= 0

    def test_its_space_has_configurations(self) -> None:
        for task in self.tasks():
            assert self.sampled(task), f"{task!r} has no valid configuration"

    def test_every_run_declares_the_same_space(self) -> None:
        for first, second in zip(self.tasks(), self.made_again(), strict=True):
            assert first.space.fingerprint == second.space.fingerprint
            assert first.workload == second.workload
            assert self.sampled(first) == self.sampled(second)

    def test_another_process_declares_the_same_space(self) -> None:
        assert in_another_process(self, "fingerprints") == self.fingerprints()

    def fingerprints(self) -> str:
        """Join the fingerprints of the spaces as text."""
        return " ".join(task.space.fingerprint for task in self.tasks())

    def test_every_sampled_configuration_is_lowered_or_refused(self) -> None:
        for task in self.tasks():
            fine = list(self.runnable(task))
            assert fine, f"{task!r}: none of {self.configs} sampled configurations can be scheduled"
            for config in fine:
                assert task.show_schedule(config)
                assert emitted(task, config).args == task.arguments()

    def test_every_configuration_computes_what_numpy_computes_and_leaves_its_inputs(self) -> None:
        for task in self.tasks():
            given = self.inputs(task)
            expected = task.reference(given)
            tolerance = Tolerance.of(expected, flop=task.flop)
            for config in self.runnable(task):
                arrays, outputs = self.arrays(task, [array.copy() for array in given])
                build(emitted(task, config))(*arrays)
                for spec, got, wanted in zip(
                    (s for s in task.arguments() if s.is_output), outputs, expected, strict=True
                ):
                    wrong = difference(spec.name, got, wanted, tolerance)
                    assert wrong is None, f"{task!r} with {config}: {wrong}"
                kept = [a for a, spec in zip(arrays, task.arguments(), strict=True) if not spec.is_output]
                for before, after in zip(given, kept, strict=True):
                    np.testing.assert_array_equal(before, after, err_msg=str(config))

    def arrays(self, task: Task, given: Sequence[np.ndarray[Any, Any]]) -> tuple[list[Any], list[Any]]:
        """Make all arrays in call order, and list the poisoned outputs."""
        values, arrays, outputs = iter(given), [], []
        for spec in task.arguments():
            array = np.empty(spec.shape, spec.dtype) if spec.is_output else next(values)
            if spec.is_output:
                poison(array)
                outputs.append(array)
            arrays.append(array)
        return arrays, outputs

    def test_what_numpy_is_timed_on_is_the_same_computation(self) -> None:
        """`cfg.define_plain` is the template's computation; it is absent if NumPy cannot express it."""
        for task in self.tasks():
            if task.numpy is None:
                continue
            given = self.inputs(task)
            expected = task.reference(given)
            run, outputs = task.numpy.prepare(given)
            run()
            tolerance = Tolerance.of(expected, flop=task.flop)
            for got, wanted in zip(outputs, expected, strict=True):
                wrong = difference("NumPy's output", got, wanted, tolerance)
                assert wrong is None, f"{task!r}: {wrong}\n{task.numpy.text}"

    def test_one_configuration_is_always_one_program(self) -> None:
        for first, second in zip(self.tasks(), self.made_again(), strict=True):
            for config in islice(self.runnable(first), 3):
                same = second.space.from_json(config.to_json())
                text = emitted(first, config).ll
                assert text == first.lower(config).ll == second.lower(same).ll

    def test_every_knob_changes_the_program(self) -> None:
        """A program with two configurations is measured twice; a knob without an effect doubles the space."""
        for task in self.tasks():
            tried: Counter[str] = Counter()
            same: Counter[str] = Counter()
            for config in self.runnable(task):
                program = str(lowered(task, config))
                for name, other in self.moved(task, config):
                    tried[name] += 1
                    same[name] += str(lowered(task, other)) == program
            dead = {
                name: f"{same[name]} of {tried[name]}"
                for name in tried
                if same[name] > tried[name] * self.unchanged and tried[name] >= 8  # two of four may be chance
            }
            assert not dead, f"{task!r}: changes of these knobs leave the program as it is: {dead}"

    def test_every_value_of_every_knob_changes_the_program(self) -> None:
        for task in self.tasks():
            duplicates = list(duplicate_values(task.space, partial(self.text, task), values=self.values))
            message = f"{task!r}: these values make the same programs wherever they were tried: {duplicates}"
            assert not duplicates, message

    def test_the_numbers_of_its_knobs_can_be_traced(self) -> None:
        """Code that takes only an int prevents tracing (`json.dumps`), and so does a template that remembers its runs.

        Features then cost a run of the template for each value.
        """
        for task in self.tasks():
            features = ProgramFeatures(task)
            features.of(self.sampled(task))
            names = list(task.space.knobs)
            assert not [names[position] for position in features.pinned], repr(task)

    def text(self, task: Task, config: Config) -> str | None:
        """Write the program of a configuration; None if the template refuses it."""
        try:
            return str(lowered(task, config))
        except (InvalidConfig, ScheduleError):
            return None

    def moved(self, task: Task, config: Config) -> Iterator[tuple[str, Config]]:
        """Yield, for each knob, the configuration with only that knob changed at random, if a valid one exists."""
        rng = np.random.default_rng(config.index % 2**32)
        for column, (name, knob) in enumerate(task.space.knobs.items()):
            order = rng.permutation(len(knob)) if config.exists(name) else np.empty(0, np.int64)
            rows = np.repeat([config.digits], len(order), axis=0)
            rows[:, column] = order
            for row in rows[task.space.is_valid(rows) & (order != config.digits[column])]:
                other = task.space.config(row)
                if self.text(task, other) is not None:
                    yield name, other
                    break

    def test_its_tasks_can_be_pickled(self) -> None:
        for task in self.tasks():
            copy = pickle.loads(pickle.dumps(task))
            assert repr(copy) == repr(task)
            assert copy.space.fingerprint == task.space.fingerprint
