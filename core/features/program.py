"""`ProgramFeatures`: features of the programs of a task for rows of configurations."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import isroutine
from typing import Any

import numpy as np

from pegbox.checks import check_callable, check_instance, check_int, check_list
from pegbox.codegen.targets.cpus import PLAIN_CACHES
from pegbox.errors import PegboxError, SpaceError
from pegbox.features.classes import Classes, Conflict, Leaf, Rows
from pegbox.features.describe import WIDTH, describe
from pegbox.features.footprint import Known
from pegbox.features.formulas import Features, Machine, compute
from pegbox.features.from_te import nest_of_stages
from pegbox.features.graph import Evaluation, Floats
from pegbox.features.groups import ClassGroups
from pegbox.features.nest import nest_of_function
from pegbox.features.row_values import RowValues
from pegbox.features.symbol import Quantity
from pegbox.features.traced import TraceRecorder
from pegbox.features.tracing import TracedConfig, TracedNumbers
from pegbox.schedule.schedule import Schedule
from pegbox.space import Config
from pegbox.space.digits import Digits, Finding, Mask, checked_rows
from pegbox.task.config_view import ApplyingConfig, TemplateConfig
from pegbox.task.task import Task

CHUNK = 2048
"""The number of rows computed together. MAX_CLASSES has room for their classes and those of the pool."""

FORMULA_ROWS = 1024
"""The number of rows whose features are computed together, few enough for their loops' levels to stay in cache."""

MAX_CLASSES = 4096
"""The number of classes to keep; then all are forgotten, and found again as needed."""

POOL = 64
"""The number of configurations to search for members of each class, to check it."""

PRIMING = 4
"""The number of configurations of the pool whose classes are found first."""

CHECKS = 1
"""The number of a new class's members, after the first one, that are described again without tracing."""

CHECKED = 4
"""The number of first classes that are all checked."""

CHECKED_LATER = 32
"""Later classes are checked if their number is a multiple of this: a template that hides things does so often."""

TRUSTED = 16
"""The number of a template's checked classes in this process after which further tasks get fewer checks.

Then only the first class and every `CHECKED_LATER`th are checked.
"""

_passed: Counter[object] = Counter()
"""The number of checked classes that were described correctly, by author of schedules."""

BEGINNINGS = 8
"""The number of random configurations per class with which a sample begins."""

WALKS = 16
"""The number of steps of random walks to further members of classes."""

NEIGHBORS = 16
"""The number of configurations near the first one of a class to search for members to check."""


class ProgramFeatures:
    """The features of rows of digits: `ProgramFeatures(task)(digits)` is float32 of shape (rows, len(names)).

    The names and their meaning are the same for all templates and shapes: see docs/features.md. The template runs once
    for each class of configurations whose programs differ only in numbers, not once for each configuration. A row that
    the template refuses has 1 for "invalid" and 0 for the others. Features ignore an epilogue: it is nearly the same
    for all configurations, and experience from programs without one remains valid.
    """

    names: tuple[str, ...] = ("invalid", *compute(np.ones((WIDTH, 1)), Machine(16, 16, PLAIN_CACHES, 1)))

    def __init__(self, task: Task) -> None:
        self.task = check_instance("task", task, Task, "a task from pegbox.create_task").base
        self._machine = Machine.of(task.target)
        self._author = _author(self.task)
        self._pinned: frozenset[int] = frozenset()
        self._pool: Digits | None = None
        self._start()

    def _start(self) -> None:
        """Forget all classes."""
        self._numbers = TracedNumbers(self.task.space)
        self._classes = Classes(self._numbers.graph)
        self._groups = ClassGroups(self._numbers.graph)
        self._footprints = Known()
        self._primed = False

    @property
    def pinned(self) -> frozenset[int]:
        """The positions of the knobs whose values cannot be traced: each value makes its own class."""
        return self._pinned

    @property
    def _is_trusted(self) -> bool:
        return _passed[self._author] >= TRUSTED

    @property
    def num_classes(self) -> int:
        """The number of classes of programs found so far."""
        return len(self._classes.leaves)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProgramFeatures, (self.task,)

    def __call__(self, digits: Digits) -> Features:
        parts = [finished(*part, self._machine) for part in self._parts(digits)]
        return np.concatenate([np.empty((0, len(self.names)), np.float32), *parts])

    def numbers(self, digits: Digits) -> tuple[Floats, Mask]:
        """Compute the numbers behind the features: columns of shape (WIDTH, rows), named by LAYOUT, and the refused
        rows.

        They do not depend on the features' formulas.
        """
        numbers, refused = zip(*self._parts(digits), strict=True)
        return np.concatenate(numbers, axis=1), np.concatenate(refused)

    def _parts(self, digits: Digits) -> Iterator[tuple[Floats, Mask]]:
        columns = self._columns(digits)
        for start in range(0, columns.shape[1], CHUNK):
            part = np.ascontiguousarray(columns[:, start : start + CHUNK])
            classes = self._classified(part)
            refused = np.array([leaf.nodes is None for leaf in self._classes.leaves])[classes]
            yield self._groups.numbers(self._classes.leaves, part, classes), refused

    def within(self, digits: Digits, *, classes: int) -> Mask:
        """Find the rows of the first `classes` classes of programs among rows, in order.

        Their features cost little: a new class takes milliseconds, another row of it microseconds. To add rows of some
        new classes to rows of few classes, pass both together, those of few classes first.
        """
        check_int("within: classes", classes, minimum=1)
        return self._first(digits, classes, known=False)

    def within_known(self, digits: Digits, *, more: int) -> Mask:
        """Find the rows of the classes of programs found earlier, and of the first `more` others.

        So a search that continues with one source bounds the time of each step.
        """
        check_int("within_known: more", more, minimum=0)
        return self._first(digits, more, known=True)

    def _first(self, digits: Digits, classes: int, *, known: bool) -> Mask:
        """Find the rows of the first classes among rows, counting only new classes or also known ones."""
        columns = self._columns(digits)
        while True:
            self._prime()
            before = self._classes
            numbers = before.of(columns)
            few = dict.fromkeys(range(len(before.leaves) if known else 0))
            most = len(few) + classes
            with without_collection():
                for place, number in enumerate(numbers.tolist()):
                    if len(few) >= most or self._classes is not before:
                        break
                    if number < 0:
                        numbers[place] = number = self._leaf(columns[:, place]).number
                    few[number] = None
            if self._classes is before:  # otherwise a knob was pinned, which forgets all classes
                if len(unknown := np.flatnonzero(numbers < 0)):
                    numbers[unknown] = before.of(np.ascontiguousarray(columns[:, unknown]))
                return np.isin(numbers, list(few))

    def sample(self, count: int, rng: np.random.Generator, *, classes: int, wanted: Finding | None = None) -> Digits:
        """Sample at most `count` distinct configurations, of at most `classes` classes of programs: see `within`.

        The classes are the first ones of a random sample, those of `wanted` rows before others; random walks from their
        members find others. The sample does not depend on earlier questions.

        Raises:
            ArgumentError: `wanted` cannot be called.
            SpaceError: no configuration of the space is valid.
        """
        check_int("sample: count", count, minimum=0)
        check_int("sample: classes", classes, minimum=1)
        if wanted is not None:
            check_callable("sample: wanted", wanted, "a function of rows that returns a mask", arguments=1)
        with without_collection():
            return self._sample(count, rng, classes, wanted)

    def _sample(self, count: int, rng: np.random.Generator, classes: int, wanted: Finding | None) -> Digits:
        space = self.task.space
        rows = space.sample(min(count, BEGINNINGS * classes), rng)
        if wanted is not None:
            rows = rows[np.argsort(~wanted(rows), kind="stable")]
        found = rows[self.within(rows, classes=classes)]
        if len(found) == len(rows) < count:  # these may be all classes
            rows = space.sample(count, rng)
            found = rows[self.within(rows, classes=classes)]
        left_out = len(found) < len(rows)
        for _ in range(WALKS if left_out else 0):
            if len(found) == count:
                break
            near = space.neighbors(found[rng.integers(0, len(found), count)], rng)
            every = np.concatenate([found, near])
            every = every[np.sort(np.unique(every, axis=0, return_index=True)[1])]
            found = every[self.within(every, classes=classes)][:count]
        return found

    def _leaf(self, row: Digits) -> Leaf:
        """Find the class of one row; make a new one if necessary."""
        while True:
            leaf = self._classes.of_row(row)
            if leaf is not None:
                return leaf
            if len(self._classes.leaves) >= MAX_CLASSES:
                self._start()
                self._prime()
            self._add(row)

    def _prime(self) -> None:
        """Find the same first classes for every first question, so that the answers don't depend on it."""
        if not self._primed:
            self._primed = True
            count = 1 if self._is_trusted else PRIMING
            self._classified(np.ascontiguousarray(self._sampled()[:, :count]))

    def _columns(self, digits: Digits) -> Digits:
        """Check rows, and return the columns of their canonical configurations."""
        rows = self.task.space.structure.canonical(checked_rows(digits, len(self.task.space.knobs)))
        return np.ascontiguousarray(rows.T)

    def _classified(self, digits: Digits) -> Rows:
        """Find the class of each row, and add new ones."""
        while True:
            self._prime()
            classes = self._classes.of(digits)
            unknown = np.flatnonzero(classes < 0)
            if not len(unknown):
                return classes
            with without_collection():
                for place in unknown.tolist():
                    self._leaf(digits[:, place])

    def _sampled(self) -> Digits:
        """Sample some configurations of the space, digits of shape (knobs, rows), once."""
        if self._pool is None:
            try:
                rows = self.task.space.sample(POOL, np.random.default_rng(0))
            except SpaceError:
                rows = np.empty((0, len(self.task.space.knobs)), dtype=np.int64)
            self._pool = np.ascontiguousarray(rows.T)
        return self._pool

    def _add(self, row: Digits) -> None:
        """Find the class of a row. Pin the knobs whose values cannot be traced, or escaped tracing."""
        numbers, recorder = self._traced(row)
        traces = len(self._pinned) < len(row)
        if numbers is None and traces and self._plain(self.task.space.config(row.tolist())) is not None:
            # Only the traced run fails: some code takes only an int, such as `json.dumps`.
            self._pin(self._untraceable(row))
            return
        nodes = None if numbers is None else tuple(map(self._numbers.graph.node_of, numbers))
        try:
            leaf = self._classes.add(recorder.guards, nodes, row)
        except Conflict as conflict:
            self._pin(self._astray(conflict.other.row, row))
            return
        first = 1 if self._is_trusted else CHECKED
        if leaf.number >= first and leaf.number % CHECKED_LATER:
            return
        if traces and not self._holds(leaf, row):
            self._pin(range(len(row)))  # the template has asked for the type of some knob's number
            return
        for member in self._members(leaf, row):
            if not self._holds(leaf, member):
                self._pin(self._culprits(leaf, row, member))
                return
        if not self._pinned:
            _passed[self._author] += 1

    def _untraceable(self, row: Digits) -> Sequence[int]:
        """List the knobs that each make a run fail when only they are traced; all if it takes several together."""
        knobs = range(len(row))
        left = frozenset(knobs) - self._pinned
        return [knob for knob in left if self._traced(row, frozenset(knobs) - {knob})[0] is None] or knobs

    def _pin(self, knobs: Iterable[int]) -> None:
        """Stop tracing the values of these knobs: from now on, each value makes its own class."""
        self._pinned |= frozenset(knobs)
        _passed.pop(self._author, None)
        self._start()

    def _members(self, leaf: Leaf, row: Digits) -> Digits:
        """Find other configurations of a class, the most different first; shape (members, knobs)."""
        space = self.task.space
        near = np.repeat(row[None, :], NEIGHBORS, axis=0)
        rng = np.random.default_rng(0)
        for _ in range(3):
            near = space.neighbors(near, rng)
        rows = np.concatenate([self._sampled().T, near])
        rows = rows[self._classes.of(np.ascontiguousarray(rows.T)) == leaf.number]
        order = np.argsort(-(rows != row).sum(axis=1), kind="stable")
        return np.asarray([r for r in rows[order[:CHECKS]] if (r != row).any()])

    def _holds(self, leaf: Leaf, member: Digits) -> bool:
        """Compare the class's description of a member with that of an untraced run."""
        numbers = self._plain(self.task.space.config(member.tolist()))
        if numbers is None or leaf.nodes is None:
            return numbers is None and leaf.nodes is None
        plan = Evaluation(self._numbers.graph, leaf.nodes)
        values = plan(member[:, None])[plan.place[list(leaf.nodes)], 0]
        return bool(np.array_equal(values, np.array(numbers, dtype=np.float64)))

    def _culprits(self, leaf: Leaf, row: Digits, member: Digits) -> list[int]:
        """List the knobs whose change alone is described wrongly; all that differ if it takes several together."""
        return _to_blame(
            row,
            member,
            lambda near: self._classes.of(near[:, None])[0] == leaf.number and not self._holds(leaf, near),
        )

    def _astray(self, one: Digits, other: Digits) -> list[int]:
        """List the knobs whose change alone makes a run ask different questions after the same answers."""
        path = self._traced(one)[1].guards.items()

        def asks_another(near: Digits) -> bool:
            pairs = zip(path, self._traced(near)[1].guards.items(), strict=False)
            unlike = next(((a, b) for a, b in pairs if a != b), None)
            return unlike is not None and unlike[0][0] != unlike[1][0]

        return _to_blame(one, other, asks_another)

    def _traced(self, row: Digits, pinned: frozenset[int] | None = None) -> tuple[list[Quantity] | None, TraceRecorder]:
        """Describe a traced run, as None if the template refuses; return the trace, too."""
        recorder = TraceRecorder(self._numbers.graph, RowValues(self._numbers.graph, row))
        config = self.task.space.config(row.tolist())
        pinned = self._pinned if pinned is None else pinned
        view = ApplyingConfig(
            TracedConfig(config, self._numbers, recorder, pinned), self.task.target, self.task.given_accuracy
        )
        try:
            return self._described(view, recorder.holds, self._footprints), recorder
        finally:
            recorder.open = False

    def _plain(self, config: Config) -> list[Quantity] | None:
        """Describe one configuration by its own run."""
        return self._described(ApplyingConfig(config, self.task.target, self.task.given_accuracy), bool, Known())

    def _described(
        self, view: TemplateConfig, holds: Callable[[Quantity], bool], known: Known
    ) -> list[Quantity] | None:
        """Describe one configuration; None if the template refuses it."""
        try:
            made, tensors = self.task._run(view)
            nest = nest_of_function(made.func) if isinstance(made, Schedule) else nest_of_stages(made, tensors)
        except PegboxError:
            return None
        return describe(nest, self.task.target.vector_bits // 8, holds=holds, known=known)

    def of(self, configs: Sequence[Config]) -> Features:
        """Compute the features of configurations, of shape (len(configs), len(names))."""
        rows = [config.digits for config in check_list("configs", configs, "configurations of the task", of=Config)]
        return self(np.array(rows, dtype=np.int64).reshape(len(rows), len(self.task.space.knobs)))

    def show(self, config: Config) -> str:
        """Write the features of one configuration as text, one per line."""
        width = max(map(len, self.names))
        values = self.of([config])[0].tolist()
        return "\n".join(f"{name:<{width}} {value:10.3f}" for name, value in zip(self.names, values, strict=True))

    def direct(self, config: Config) -> Features:
        """Compute the features of one configuration by its own run, slowly, but equal to those of many."""
        numbers = self._plain(config)
        columns = np.array(numbers if numbers is not None else [0] * WIDTH, dtype=np.float64)[:, None]
        return np.asarray(finished(columns, np.array([numbers is None]), self._machine)[0])


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Pause Python's garbage collector for a short body.

    Traces and schedules are many small objects that refer to each other and live together. Repeated collections among
    them add a quarter to the time of making them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _author(task: Task) -> object:
    """Return the author of a task's schedules: a template's code, or the function or class that makes its space."""
    if task.code:
        return task.code
    made_by = getattr(task.template.function, "generator", task.template.function)
    return made_by if isroutine(made_by) else type(made_by)


def _to_blame(one: Digits, other: Digits, is_wrong: Callable[[Digits], bool]) -> list[int]:
    """List the knobs whose change alone from `one` to `other` is wrong; all that differ if it takes several."""
    differing: list[int] = np.flatnonzero(one != other).tolist()
    knobs = np.arange(len(one))
    return [knob for knob in differing if is_wrong(np.where(knobs == knob, other, one))] or differing


def finished(columns: Floats, refused: Mask, machine: Machine) -> Features:
    """Compute features, of shape (rows, len(names)), from columns of shape (WIDTH, rows)."""
    features = np.empty((columns.shape[1], len(ProgramFeatures.names)), dtype=np.float32)
    features[:, 0] = refused
    for start in range(0, len(features), FORMULA_ROWS):
        rows = slice(start, start + FORMULA_ROWS)
        found = compute(np.ascontiguousarray(columns[:, rows]), machine)
        features[rows, 1:] = np.stack(list(found.values())).T
    features[refused, 1:] = 0.0
    return features
