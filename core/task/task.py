"""`Task`: a template with arguments and a target."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn

from pegbox.checks import check_callable, check_flag, check_instance, check_list, check_mapping, near_names
from pegbox.codegen.compiled import ArgSpec
from pegbox.codegen.program import Program
from pegbox.codegen.targets.target import Target, target_of
from pegbox.compute.continuity import is_continuous
from pegbox.compute.flop import count_flop
from pegbox.compute.subscripts import has_indirect_reads
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor
from pegbox.errors import ArgumentError, ComputeError, ScheduleError, TargetError, TemplateError
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.origin import definition_of
from pegbox.schedule.schedule import Schedule
from pegbox.schedule.te.replay import replay
from pegbox.schedule.te.schedule import TESchedule
from pegbox.shown import value_text
from pegbox.space import ConfigSpace
from pegbox.space.given_config import GivenConfig, given_config
from pegbox.task.accuracy import check_accuracy, default_accuracy
from pegbox.task.config_view import ApplyingConfig, TemplateConfig
from pegbox.task.dag import ComputeDAG
from pegbox.task.epilogue import GivenEpilogue, epilogue_template
from pegbox.task.group import TaskGroup
from pegbox.task.implementations import ALL, ImplementationNames, implementations_of
from pegbox.task.speed_text import bytes_of
from pegbox.task.template import Template
from pegbox.task.template_run import check_result, run_template
from pegbox.task.workload import GeneratedTemplate, SpaceGenerator, generated_template, template_of

if TYPE_CHECKING:
    import numpy as np

    from pegbox.compute.numpy_program import NumpyProgram


class Task:
    """A tunable operator: a search explores `task.space`, and `task.lower(config)` makes the program of one of its
    points.

    Attributes:
        name: the template's name.
        args, kwargs: the arguments of the template.
        target: where the program runs.
        workload: (name, arguments by name), JSON-able: tasks of one workload compute the same thing.
        given_accuracy: the accuracy that the user asked for; None for the default.
    """

    def __init__(
        self,
        template: Template,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        target: Target,
        *,
        accuracy: float | None = None,
    ) -> None:
        listed = f"the template's arguments as a list or tuple, such as args=({value_text(args)},)"
        self.template = check_instance("template", template, Template, "what @pegbox.template makes")
        self.args = tuple(check_list("args", args, listed))
        self.kwargs = check_mapping("kwargs", kwargs, "the template's arguments by name, as a dict")
        self.target = check_instance("target", target, Target, "a pegbox.Target", error=TargetError)
        self.workload: tuple[str, dict[str, Any]] = (template.name, template.bind(self.args, self.kwargs))
        self.given_accuracy = None if accuracy is None else check_accuracy(accuracy)
        declaring = TemplateConfig(target, self.given_accuracy)
        made, self._tensors = self._run(declaring)
        check_result(self.template, made, self._tensors)
        self.space: ConfigSpace = declaring.space
        self._declared_flop = declaring.flop
        self.prefers_first = declaring.prefers_first
        self.preference = declaring.preference
        self._plain = declaring.plain
        if isinstance(self._plain, str):
            self._check_numpy()

    @property
    def name(self) -> str:
        return self.template.name

    @property
    def fingerprint(self) -> str:
        """The fingerprint that records carry, SHA-256, of the space and, for a generated space, of its template's
        steps.

        Equal knobs are not enough there: another computation or other rules may have made them.
        """
        if self._source is None:
            return self.space.fingerprint
        return hashlib.sha256(f"{self.space.fingerprint}\n{self._source}".encode()).hexdigest()

    @cached_property
    def _source(self) -> str | None:
        return self.template.source(self.target, self.args, self.kwargs)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.workload[1].items())
        return f"Task({self.name}({arguments}), target={str(self.target)!r}, {self.space.size} configurations)"

    @cached_property
    def base(self) -> Task:
        """The task without an epilogue, which has the same space."""
        template = self.template.base
        return self if template is self.template else self.over(template)

    @cached_property
    def code(self) -> str:
        """The fingerprint of the template's code, empty if a generator made it: see `task.code_fingerprint`."""
        return self.template.code

    @cached_property
    def ref(self) -> str:
        """The place where a user finds the template or its workload: "my_ops.py:conv", or empty."""
        return self.template.ref

    @cached_property
    def flop(self) -> float:
        """The arithmetic operations of one call: those of `cfg.add_flop`, else those of the computation."""
        return count_flop(self.outputs) if self._declared_flop is None else self._declared_flop

    @property
    def accuracy(self) -> float:
        """The largest error that kernels may have, relative to the largest magnitude of an output.

        It is the one that the user asked for, or the default, `16 * eps * max(4, sqrt(K))` for K products in an
        element; 0 if all outputs are integers, which must be exact.
        """
        return self.default_accuracy if self.given_accuracy is None else self.given_accuracy

    @cached_property
    def default_accuracy(self) -> float:
        """The accuracy of the task if the user gives none."""
        outputs = self.outputs
        elements = sum(math.prod(each.shape) for each in outputs)
        return default_accuracy([each.dtype for each in outputs], flop=self.flop, elements=elements)

    def with_accuracy(self, accuracy: float | None) -> Task:
        """Return the task with another accuracy; None for the default."""
        if (None if accuracy is None else check_accuracy(accuracy)) == self.given_accuracy:
            return self
        return Task(self.template, self.args, self.kwargs, self.target, accuracy=accuracy)

    def over(self, template: Template) -> Task:
        """Return the task of another template with the same arguments."""
        return Task(template, self.args, self.kwargs, self.target, accuracy=self.given_accuracy)

    @cached_property
    def is_continuous(self) -> bool:
        """True if the computation has no step, such as a comparison of floats, where a rounding error grows."""
        return is_continuous([t for t in self.plain_tensors if not isinstance(t.op, PlaceholderOp)])

    @property
    def numpy(self) -> NumpyProgram | None:
        """The same computation as a person would write it in NumPy; None if NumPy cannot express it plainly."""
        return None if isinstance(self._numpy, str) else self._numpy

    @property
    def numpy_missing(self) -> str:
        """The reason why `numpy` is None, such as "NumPy has no erf"; empty otherwise."""
        return self._numpy if isinstance(self._numpy, str) else ""

    @cached_property
    def _numpy(self) -> NumpyProgram | str:
        from pegbox.compute.numpy_program import numpy_program  # NumPy is needed only here
        from pegbox.compute.numpy_statement import NoNumpyProgram

        if isinstance(self._plain, str):
            from pegbox.compute.numpy_code import program_of_code

            return program_of_code(self._plain, self._tensors)
        inputs = [t for t in self._tensors if isinstance(t.op, PlaceholderOp)]
        try:
            return numpy_program([*inputs, *(self.outputs if self._plain is None else self._plain())])
        except NoNumpyProgram as error:
            return str(error)

    @property
    def compute_dag(self) -> ComputeDAG:
        """The computation, one line for each operation, with its amount of arithmetic."""
        return ComputeDAG(self._tensors)

    @property
    def bytes_moved(self) -> float:
        """The number of bytes that one call moves at least: each of its arguments once."""
        return bytes_of(self._tensors)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The kernel's arguments in call order, as the declaring run made them."""
        return self._tensors

    @property
    def plain_tensors(self) -> tuple[Tensor, ...]:
        """The kernel's arguments in call order, with the outputs of `cfg.define_plain` if the template calls it.

        They are computed without the copies and layouts of the template's schedule.
        """
        if not callable(self._plain):
            return self._tensors
        outputs = iter(self._plain())
        return tuple(each if isinstance(each.op, PlaceholderOp) else next(outputs) for each in self._tensors)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self._tensors if isinstance(t.op, ComputeOp))

    @property
    def has_indirect_reads(self) -> bool:
        """True if values of inputs are indices: random ones may be invalid."""
        return has_indirect_reads([t.op for t in self._tensors])

    def arguments(self) -> tuple[ArgSpec, ...]:
        """The name, shape, dtype and direction of each argument, in call order."""
        return tuple(
            ArgSpec(t.name, t.shape, t.dtype, is_output=not isinstance(t.op, PlaceholderOp)) for t in self._tensors
        )

    def reference(self, inputs: Sequence[np.ndarray], *, wide: bool = False) -> list[np.ndarray]:
        """Compute the outputs with NumPy from the inputs, both in call order.

        Args:
            wide: compute `plain_tensors` with all floats in float64, and round the outputs to their types. Without the
                copies of a schedule, this takes a fraction of the time, and it reveals a template that does not compute
                its operator.
        """
        from pegbox.compute.reference import evaluate  # NumPy is needed only here

        tensors = self.plain_tensors if check_flag("wide", wide) else self._tensors
        given = [t for t in tensors if isinstance(t.op, PlaceholderOp)]
        wanted = f"one array for each of {', '.join(t.name for t in given)}"
        inputs = check_list("inputs", inputs, wanted)
        if len(inputs) != len(given):
            raise ArgumentError(f"inputs: {len(inputs)} arrays; give {wanted}")
        try:
            outputs = [t for t in tensors if not isinstance(t.op, PlaceholderOp)]
            return evaluate(outputs, dict(zip(given, inputs, strict=True)), wide=wide)
        except ComputeError as error:  # the fault of the computation, which the task's function made
            error.source = error.source or definition_of(self.template.function)
            raise

    def instantiate(self, config: GivenConfig) -> tuple[TESchedule | Schedule, tuple[Tensor, ...]]:
        """Apply the template to one configuration: return a TE or `tir` schedule, for further steps, and the arguments.

        Here and below, a configuration may also be given as its index, `result.best`, a record, or the values of all
        knobs by name.

        Raises:
            InvalidConfig: the template refuses the configuration.
            ScheduleError: the schedule is not legal.
        """
        return self._run(ApplyingConfig(given_config(self.space, config), self.target, self.given_accuracy))

    def schedule(self, config: GivenConfig) -> Schedule:
        """Return the scheduled program of one configuration.

        Raises:
            InvalidConfig: the template refuses the configuration.
            ScheduleError: the schedule is not legal.
        """
        made, tensors = self.instantiate(config)
        if isinstance(made, Schedule):
            return made
        try:
            return replay(made, tensors, self.symbol)
        except ScheduleError as error:  # unless a call of the template raised it
            error.source = error.source or definition_of(self.template.function)
            raise

    def lowered(self, config: GivenConfig) -> Function:
        """Return the plain loops of one configuration."""
        return replace(lower_function(self.schedule(config).func), name=self.symbol)

    def lower(self, config: GivenConfig) -> Program:
        """Return the LLVM assembly of one configuration, with everything needed to compile and call it."""
        from pegbox.codegen.emitter.emit import emit  # kept out of `import pegbox`

        return emit(self.lowered(config), self.target)

    def show_schedule(self, config: GivenConfig) -> str:
        """Return the schedule's primitives as Python, then the program that they make, with its blocks."""
        sch = self.schedule(config)
        return f"{sch.trace}\n\n{sch.func}"

    def schedule_code(self, config: GivenConfig) -> str:
        """Return the computation and one configuration's schedule as te code, if a generator made the space.

        Raises:
            TemplateError: a person wrote the template, so read its code; or the generator writes no code.
        """
        write = getattr(self.template, "schedule_code", None)
        if write is None:
            raise TemplateError(
                f"template {self.name} was not generated: read its own code; show_schedule(config) prints the "
                "primitives of one configuration"
            )
        cfg = ApplyingConfig(given_config(self.space, config), self.target, self.given_accuracy)
        return str(write(cfg, self.args, self.kwargs))

    def show_ir(self, config: GivenConfig) -> str:
        """Return the plain loops as text."""
        return str(self.lowered(config))

    def with_epilogue(self, epilogue: GivenEpilogue) -> Task:
        """Return a task whose kernels also compute an epilogue, in the loops that store the output.

        Its space is this task's. Further inputs come after the template's own.

        Args:
            epilogue: a function of the output's tensor. It returns the new output, each element of which is computed
                from the same element (a bias, a residual and an activation), or [further inputs..., output].

        Raises:
            TemplateError: the computation is not pointwise, or the template has several outputs or no TE schedule.
        """
        check_callable("epilogue", epilogue, "a function of the template's output that returns a tensor")
        return self.over(epilogue_template(self.template, self._tensors, epilogue))

    def with_implementations(self, names: ImplementationNames = ALL) -> TaskGroup:
        """Return this task with the further implementations of its operator, to be searched together.

        Args:
            names: the names of the implementations, such as ["conv2d", "sketch"], the one to use without measurements
                first; or "all": this task, and all that are registered and fit it.

        Raises:
            UnknownName, ArgumentError: there is no such implementation, or it does not fit the task.
            PluginError: an implementation's arguments differ from the task's.
        """
        return implementations_of(self, names)

    def with_space(self, space: str | SpaceGenerator) -> Task:
        """Return the task of the same computation with a generator's space, without the template's schedule.

        Args:
            space: the name of a space generator, such as "sketch" or "rows", with its options, or the generator itself.

        Raises:
            UnknownName: there is no generator of that name.
            TemplateError: the generator has no schedule for the computation.
        """
        if isinstance(self.template, GeneratedTemplate):
            return create_task(self.template.workload, self.args, self.kwargs, space=space, target=self.target)
        return create_task(self.plain_tensors, space=space, target=self.target)

    @property
    def symbol(self) -> str:
        """The kernel's name in object code."""
        return re.sub(r"\W", "_", self.name)

    def _run(self, cfg: TemplateConfig) -> tuple[TESchedule | Schedule, tuple[Tensor, ...]]:
        return run_template(self.template, cfg, self.args, self.kwargs)

    def _check_numpy(self) -> None:
        """Raise `TemplateError` before the search for NumPy code that is not Python, or has unknown names."""
        try:
            assert self._numpy
        except TemplateError as error:
            error.source = definition_of(self.template.function)
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Task, accuracy=self.given_accuracy), (self.template, self.args, self.kwargs, self.target)


def create_task(
    template: object,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *loose: NoReturn,
    target: str | Target | None = None,
    space: object = None,
    epilogue: GivenEpilogue | None = None,
    accuracy: float | None = None,
    **misplaced: NoReturn,
) -> Task:
    """Make a task from a template (a name, "file.py:name", or the function itself) at `args`.

    With `space`, `template` is a workload, or the tensors of one computation: all arguments of the kernel, or its
    outputs.

    Args:
        target: where the kernels run; by default the target of the `with pegbox.Target(...):` block around the call, or
            this machine.
        space: the generator of the space, if `template` is a workload, which is a computation alone: the name of a
            space generator, such as "sketch" or "sketch:rules=ansor", or the generator itself.
        epilogue: a pointwise computation that follows the template's output: see `Task.with_epilogue`.
        accuracy: the largest error of an element, relative to the largest magnitude of its output; less accurate
            candidates fail. See `Task.accuracy` for the default.

    Raises:
        UnknownName, PluginError, TemplateError: the template is not found or does not take the arguments.
        ArgumentError: `args` is not a list, or `kwargs` not a mapping, or the space generator lacks an option, or an
            argument of the template is given among those of this function.
        TargetError: the target is malformed.
    """
    if misplaced:
        first, own = next(iter(misplaced)), ("args", "kwargs", "target", "space", "epilogue", "accuracy")
        raise ArgumentError(
            f"create_task has no parameter {first!r}{near_names(first, own)}; the template's own arguments go by name "
            f"into kwargs={dict(misplaced)!r}"
        )
    if loose:
        together = (args, kwargs, *loose)
        raise ArgumentError(f"create_task takes the template's arguments as one tuple: write args={together!r}")
    resolved = target_of(target)
    found = template_of(template) if space is None else generated_template(template, space)
    task = Task(found, args, {} if kwargs is None else kwargs, resolved, accuracy=accuracy)
    return task if epilogue is None else task.with_epilogue(epilogue)
