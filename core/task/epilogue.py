"""Templates with an epilogue: a computation on their output, in the same kernel and in the template's loops."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pegbox.codegen.targets.target import Target
from pegbox.codegen.targets.vectors import lanes_of
from pegbox.compute.epilogue import Epilogue, epilogue_of
from pegbox.compute.flop import operations
from pegbox.compute.ops import placeholder
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor
from pegbox.digest import sha256
from pegbox.errors import ComputeError, PegboxError, TemplateError
from pegbox.origin import explained, located
from pegbox.schedule.te.schedule import TESchedule
from pegbox.shown import value_text
from pegbox.task.config_view import ApplyingConfig, TemplateConfig
from pegbox.task.dag import ComputeDAG
from pegbox.task.packing import PackedForm
from pegbox.task.template import Template

if TYPE_CHECKING:
    import numpy as np

    from pegbox.task.task import Task

GivenEpilogue: TypeAlias = Callable[[Tensor], "Tensor | Sequence[Tensor]"]
"""A function of the tensor to follow that returns the output, or [further inputs..., output]."""


class _Followed:
    """The function of a template with an epilogue: the base template's, whose schedule gets the epilogue."""

    def __init__(self, base: Template, epilogue: Epilogue) -> None:
        self.base, self.epilogue = base, epilogue
        cfg = inspect.Parameter("cfg", inspect.Parameter.POSITIONAL_ONLY)
        self.__signature__ = inspect.Signature([cfg, *base.signature.parameters.values()])
        self.__doc__ = base.doc

    def __call__(self, cfg: TemplateConfig, /, *args: Any, **kwargs: Any) -> Any:
        made = self.base(cfg, *args, **kwargs)
        if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], TESchedule)):
            raise TemplateError(f"{self.base.name} returned {value_text(made)}; an epilogue needs a TE schedule")
        schedule, tensors = made
        inputs = [tensor for tensor in tensors if isinstance(tensor.op, PlaceholderOp)]
        output = self._followed(tensors)
        if not isinstance(cfg, ApplyingConfig):
            self._declare(cfg, output)
        lanes = lanes_of(cfg.target, output.dtype)
        return schedule, [*inputs, *self.epilogue.inputs, schedule.append_epilogue(output, self.epilogue, lanes)]

    def _followed(self, tensors: Sequence[Tensor]) -> Tensor:
        source = self.epilogue.source
        output = only_output(self.base, tensors)
        if (output.shape, output.dtype) != (source.shape, source.dtype):
            raise TemplateError(
                f"{self.base.name}: its output is {output!r} for these arguments, but its epilogue follows {source!r}"
            )
        return output

    def _declare(self, cfg: TemplateConfig, output: Tensor) -> None:
        """Extend the template's declarations about its computation."""
        op = self.epilogue.op
        if cfg.flop is not None:
            cfg.add_flop(math.prod(output.shape) * operations(op.body[0]))
        plain, cfg.plain = cfg.plain, None
        if callable(plain):  # NumPy code given as text has no tensor to continue from
            cfg.define_plain(lambda: [self.epilogue.after(plain()[0], op.name).outputs[0]])


@dataclass(frozen=True)
class EpilogueTemplate(Template):
    """The template of one shape whose output an epilogue follows, called "template+output-digest".

    Its arguments, space and constraints are those of the template.
    """

    function: _Followed

    remedy: ClassVar[str] = ""

    @property
    def base(self) -> Template:
        return self.function.base.base

    @property
    def code(self) -> str:
        return self.function.base.code

    @property
    def ref(self) -> str:
        return ""

    @property
    def source_files(self) -> list[str] | None:
        return self.function.base.source_files

    def source(self, target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        return self.function.base.source(target, args, kwargs)

    def packed_form(self, name: str) -> PackedForm | None:
        form = self.function.base.packed_form(name)
        if form is None:
            return None

        def pack(task: Task, array: np.ndarray[Any, Any], replaced: Mapping[str, Any]) -> np.ndarray[Any, Any]:
            return form.pack(task.over(form.template), array, replaced)

        return PackedForm(self.over(form.template), form.given, pack)

    def over(self, base: Template) -> EpilogueTemplate:
        """Return another template with this one's epilogue."""
        return _template(base, self.function.epilogue)

    def __reduce__(self) -> tuple[Any, ...]:
        return _template, (self.function.base, self.function.epilogue)


def _template(base: Template, epilogue: Epilogue) -> EpilogueTemplate:
    text = f"{ComputeDAG(epilogue.tensors)}\n{', '.join(each.name for each in epilogue.tensors)}"
    digest = sha256(text.encode()).hexdigest()[:8]
    return EpilogueTemplate(f"{base.name}+{epilogue.op.name}-{digest}", _Followed(base, epilogue))


def epilogue_template(base: Template, tensors: Sequence[Tensor], follow: GivenEpilogue) -> EpilogueTemplate:
    """Return a template whose output, among its tensors for some arguments, is followed by a pointwise computation.

    Raises:
        TemplateError: the template has several outputs, the function raises or returns anything but tensors, or the
            computation is not pointwise.
    """
    output = only_output(base, tensors)
    source = placeholder(output.shape, output.dtype, output.name)
    label = getattr(follow, "__name__", value_text(follow))
    try:
        made = follow(source)
        given = [made] if isinstance(made, Tensor) else made
        if not (isinstance(given, list | tuple) and all(isinstance(each, Tensor) for each in given)):
            raise TemplateError(f"epilogue {label} returned {value_text(made)}; return its output, a tensor")
        return _template(base, epilogue_of(source, given))
    except ComputeError as error:
        raise located(TemplateError(f"epilogue {label} of {base.name}: {error}"), error) from error
    except PegboxError as error:
        raise located(error)  # noqa: B904  the same error, with the line of the function
    except Exception as error:
        raised = TemplateError(f"epilogue {label} of {base.name} raised {explained(error)}")
        raise located(raised, error) from error


def only_output(base: Template, tensors: Sequence[Tensor]) -> Tensor:
    """Return the one output among the tensors of a template.

    Raises:
        TemplateError: there are several.
    """
    outputs = [tensor for tensor in tensors if isinstance(tensor.op, ComputeOp)]
    if len(outputs) != 1:
        names = ", ".join(each.name for each in outputs) or "nothing"
        raise TemplateError(f"{base.name} computes {names}; an epilogue follows a template with one output")
    return outputs[0]
