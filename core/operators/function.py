"""`OperatorFunction`: the template or workload of an operator, and the tasks that it makes for arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pegbox.checks import near_names
from pegbox.codegen.targets.target import Target
from pegbox.compute.tensor import PlaceholderOp, Tensor
from pegbox.errors import ArgumentError, TemplateError, UnknownName
from pegbox.hooks import registry
from pegbox.operators.arrays import Array
from pegbox.operators.call_key import Inputs
from pegbox.operators.implementation import Packers
from pegbox.operators.sizes import Input, Shape, SizeSolver, open_sizes
from pegbox.origin import Definition
from pegbox.space import Config
from pegbox.task.code_fingerprint import code_fingerprint
from pegbox.task.group import TaskGroup, Tasks, task_of
from pegbox.task.implementations import ImplementationNames
from pegbox.task.packing import PackedForm
from pegbox.task.task import Task
from pegbox.task.template import Template, takes_config
from pegbox.task.workload import GeneratedTemplate, Workload, generated_template, template_of

_DTYPE = "dtype"
"""The name of the argument of templates and workloads for the type of their inputs."""


@dataclass(frozen=True)
class CallTask:
    """The task of a call, or the group of its implementations.

    Attributes:
        task: the task or group.
        members: each task with the functions that pack its inputs.
    """

    task: Tasks
    members: tuple[tuple[Task, Packers], ...]

    def of(self, config: Config) -> tuple[Task, Packers]:
        """Return the task of a configuration, and the functions that pack its inputs."""
        owner = task_of(self.task, config)
        return next((task, packers) for task, packers in self.members if task is owner)


class OperatorFunction:
    """A template with the arguments that do not come from arrays.

    Args:
        template: the template; for a workload, the one that a space generator makes.
        given: the fixed arguments.
        target: the processor to compile kernels for.

    Raises:
        ArgumentError: the template lacks an argument with a given name, or needs one that no shape determines.
    """

    def __init__(self, template: Template, given: Mapping[str, Any], target: Target) -> None:
        self.template, self.given, self.target = template, dict(given), target
        self.name = template.workload.name if isinstance(template, GeneratedTemplate) else template.name
        known = template.signature.parameters
        if unknown := next((name for name in given if name not in known), None):
            raise ArgumentError(f"operator({self.name!r}): it has no argument {unknown!r}{near_names(unknown, known)}")
        self._unknown = open_sizes(self.name, template.signature, self._fixed(""))
        self._solvers: dict[str, SizeSolver] = {}

    @property
    def place(self) -> str:
        """The name by which other processes find the function: its file or module, its name, and its code.

        For pegbox's own functions, it is the registered name. It is empty if the function is not at the top level of a
        file.
        """
        named = self.template.workload if isinstance(self.template, GeneratedTemplate) else self.template
        definition = Definition.of(named.function)
        if definition.module.partition(".")[0] == "pegbox":
            return named.name
        if not os.path.isfile(definition.path):  # a notebook's cell has no file
            return ""
        home = os.path.realpath(definition.path) if definition.file else definition.module
        name = getattr(named.function, "__qualname__", "<")
        # The code distinguishes functions with one name, such as those defined in a loop.
        code = code_fingerprint(named.function)
        return f"{home}:{name}:{code}" if code and name.isidentifier() else ""

    def task(self, inputs: Inputs) -> Task:
        """Return the task for inputs of these shapes and dtypes.

        Raises:
            ArgumentError: the inputs fit no sizes, or their dtypes are not the function's.
        """
        if not inputs:
            raise ArgumentError(f"{self.name}() was given nothing; it takes {self._solver('float32').expected}")
        shapes = [shape for shape, _ in inputs]
        dtypes = list(dict.fromkeys(dtype for _, dtype in inputs)) if self._takes_dtype else [inputs[0][1]]
        for dtype in dtypes:
            arguments = {**self._fixed(dtype), **self._solver(dtype).solve(shapes)}
            made = self._run(arguments)
            tensors = _placeholders(made.tensors if isinstance(made, Task) else made)
            if [(each.shape, each.dtype) for each in tensors] == list(inputs):
                return made if isinstance(made, Task) else self._generated(arguments, shapes)
        if [each.shape for each in tensors] != shapes:
            sizes = ", ".join(f"{name}={arguments[name]}" for name in self._unknown)
            taken = ", ".join(f"{each.name}{list(each.shape)}" for each in tensors)
            raise self._solver(dtype).misfit(shapes, f"takes {taken} for {sizes or 'its arguments'}")
        given = ", ".join(f"{t.name}: {dtype}" for t, (_, dtype) in zip(tensors, inputs, strict=True))
        taken = ", ".join(f"{each.name}: {each.dtype}" for each in tensors)
        raise ArgumentError(f"{self.name} was given {given}; it takes {taken}: convert with .astype(...)")

    def call_task(
        self, inputs: Inputs, places: Sequence[int], implementations: ImplementationNames, accuracy: float | None
    ) -> CallTask:
        """Return the task of a call, or the group of its implementations, with the functions that pack its inputs.

        Args:
            places: the places of the inputs that are operands of `pack`.
            implementations: their names, "all", or none for the function itself.
            accuracy: the accuracy of the tasks; None for the default.

        Raises:
            ArgumentError, UnknownName, PluginError: as `task`, and as `Task.with_implementations`.
        """
        plain = self.task(inputs).with_accuracy(accuracy)
        if not implementations:
            task, packers = self.packed(plain, places)
            return CallTask(task, ((task, packers),))
        made = {
            name: self.packed(each, places) for name, each in plain.with_implementations(implementations).tasks.items()
        }
        is_packed = any(packers for _, packers in made.values())
        group = TaskGroup({name: task for name, (task, _) in made.items()}, packed=is_packed)
        return CallTask(group, tuple(made.values()))

    def packed(self, plain: Task, places: Sequence[int]) -> tuple[Task, Packers]:
        """Return the task for inputs of which some are packed ahead, and the functions that pack these.

        There is no such function for inputs that the kernels do not take packed.
        """
        task, forms = plain, dict[int, PackedForm]()
        names = [spec.name for spec in plain.arguments() if not spec.is_output]
        for place in places:
            if (form := task.template.packed_form(names[place])) is None:
                continue
            try:
                given = {**task.kwargs, **form.given}
                task = Task(form.template, (), given, self.target, accuracy=task.given_accuracy)
            except TemplateError:  # no layout suits the computation's reads of this input
                continue
            forms[place] = form

        def packer(form: PackedForm) -> Callable[[Array], Array]:
            replaced = {name: self.given[name] for name in form.given if name in self.given}
            return lambda array: form.pack(task, array, replaced)

        return task, {place: packer(form) for place, form in forms.items()}

    def _generated(self, arguments: Mapping[str, Any], shapes: Sequence[Shape]) -> Task:
        """Return the task of a workload for inputs of these shapes; its kernels may take them packed."""
        assert isinstance(self.template, GeneratedTemplate)
        task = Task(self.template, (), arguments, self.target)
        if [each.shape for each in _placeholders(task.tensors)] == shapes:
            return task
        if (plain := self.template.with_packed()) is None:
            raise ArgumentError(f"{task!r} takes other inputs than its workload; give a space that packs nothing")
        return Task(plain, (), arguments, self.target)

    @cached_property
    def _takes_dtype(self) -> bool:
        return _DTYPE in self.template.signature.parameters and _DTYPE not in self.given

    def _fixed(self, dtype: str) -> dict[str, Any]:
        """Return the arguments that shapes do not determine."""
        return {**({_DTYPE: dtype} if self._takes_dtype else {}), **self.given}

    def _solver(self, dtype: str) -> SizeSolver:
        if dtype not in self._solvers:
            about = f" of {dtype}" if self._takes_dtype else ""
            self._solvers[dtype] = SizeSolver(
                self.name, self._unknown, lambda sizes: self._inputs(dtype, sizes), about=about, remedy=self._packing
            )
        return self._solvers[dtype]

    @cached_property
    def _packing(self) -> str:
        """The remedy if arrays are not packed, but the arguments ask for packed ones; empty otherwise."""
        if (found := self.template.unpacked(self.given)) is None:
            return ""
        name, usual = found
        asked = ", ".join(f"{key}={value!r}" for key, value in self.given.items() if usual[key] is not value)
        return f"; with {asked}, {name} is given packed: leave that out, and give op.pack(array) for {name}"

    def _inputs(self, dtype: str, sizes: Mapping[str, int]) -> list[Input]:
        made = self._run({**self._fixed(dtype), **sizes})
        return [
            Input(each.name, each.shape) for each in _placeholders(made.tensors if isinstance(made, Task) else made)
        ]

    def _run(self, arguments: Mapping[str, Any]) -> Task | Sequence[Tensor]:
        """Apply the function to arguments: return a template's task, or a workload's tensors without a space."""
        if isinstance(self.template, GeneratedTemplate):
            return self.template.workload.tensors(**arguments)
        return Task(self.template, (), arguments, self.target)


def function_of(name: object, space: object, given: Mapping[str, Any], target: Target) -> OperatorFunction:
    """Return the function for a name, or for another argument of `pegbox.operator`.

    A name that both a template and a workload have means the template.

    Raises:
        UnknownName, PluginError, TemplateError: there is no such template or workload.
        ArgumentError: it lacks an argument with a given name, or the space generator lacks an option.
    """
    found = name
    if isinstance(name, str) and "@" not in name:
        names = {kind: registry.names(kind) for kind in ("template", "workload")}
        kind = next((kind for kind, known in names.items() if name in known), None)
        if kind is None and name.isidentifier():
            known = sorted({*names["template"], *names["workload"]})
            raise UnknownName(
                f"there is no template or workload {name!r}{near_names(name, known)}; one of your own is named with "
                f"its file, FILE.py:{name}, or given as the function"
            )
        found = registry.resolve(kind or "template", name)
    if isinstance(found, str | Template) or (not isinstance(found, Workload) and _is_template(found)):
        return OperatorFunction(template_of(found), given, target)
    return OperatorFunction(generated_template(found, space), given, target)


def _is_template(found: object) -> bool:
    """Decide if an object is a template function; anything but a template or workload is refused as a workload."""
    return callable(found) and takes_config(found)


def _placeholders(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [each for each in tensors if isinstance(each.op, PlaceholderOp)]
