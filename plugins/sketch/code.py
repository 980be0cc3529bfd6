"""Sketches as te code: the computation, the knobs, and the schedule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pegbox.compute import ComputeOp, Tensor, post_order, te_lines, tensor_names
from pegbox.expr import quoted
from pegbox.loops import literal
from pegbox.plugins.sketch.steps import (
    Argument,
    Axes,
    Choice,
    KnobChoices,
    Name,
    OptionValue,
    Size,
    SketchKnob,
    StageArgument,
    StageCall,
    Step,
    Tile,
)

_INDENT = "    "

RESERVED = ("s", "cfg", "pb", "np", "math", "list", "ValueError")
"""What the code of a template uses beside te code."""


def compute_lines(arguments: Sequence[Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    """The te code of a computation, inputs in the order of the arguments first."""
    outputs = [t.op for t in arguments if isinstance(t.op, ComputeOp)]
    given = [t.op for t in arguments if not isinstance(t.op, ComputeOp)]
    ops = [*given, *(op for op in post_order(outputs) if op not in given)]
    return list(te_lines(ops, {tensor.buffer: name for name, tensor in tensors.items()}))


def plain_lines(outputs: Sequence[Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    """The te code of a function that gives other outputs of the inputs that `tensors` name."""
    ops = [op for op in post_order([t.op for t in outputs]) if isinstance(op, ComputeOp)]
    given = {tensor.buffer: name for name, tensor in tensors.items() if not isinstance(tensor.op, ComputeOp)}
    names = {**tensor_names(ops, {*RESERVED, *given.values()}), **given}
    return [*te_lines(ops, names), f"return [{', '.join(names[t.buffer] for t in outputs)}]"]


def schedule_lines(
    steps: Sequence[Step], cfg: KnobChoices | None = None, knobs: Mapping[str, str] | None = None
) -> list[str]:
    """The te code of a sketch's steps.

    Args:
        cfg: the values of the knobs, where the code is for one configuration; without it the code asks `cfg`.
        knobs: the names that the knobs have in `cfg`, where these are others.
    """
    return list(_Writer(cfg, knobs or {}).lines(steps))


class _Writer:
    def __init__(self, cfg: KnobChoices | None, knobs: Mapping[str, str]) -> None:
        self.cfg, self.knobs = cfg, knobs

    def lines(self, steps: Sequence[Step]) -> Iterator[str]:
        for step in steps:
            match step:
                case Axes(tensor, loops, reduce):
                    kind = "reduce_axis" if reduce else "axis"
                    yield f"{targets(loops)} = s[{tensor}].op.{kind}"
                case StageCall(stage, method, arguments, results, options):
                    target = "s" if stage is None else f"s[{stage}]"
                    given = [*map(self._argument, arguments), *(f"{k}={self._argument(v)}" for k, v in options)]
                    call = f"{target}.{method}({', '.join(given)})"
                    yield f"{', '.join(results)} = {call}" if results else call
                case Tile(stage, loop, knob, results):
                    yield from self._tile(stage, loop, knob, results)
                case Choice(knob, branches):
                    yield from self._choice(knob, branches)

    def _tile(self, stage: str, loop: str, knob: str, results: Sequence[str]) -> Iterator[str]:
        if self.cfg is None:
            yield f"{targets(results)} = {self._knob(knob)}.apply(s, {stage}, {loop})"
            return
        size, rest, inner = self.cfg[knob].size, loop, results[-1]
        for level, outer in enumerate(results[:-1], start=1):
            yield f"{outer}, {inner} = s[{stage}].split({rest}, factor={math.prod(size[level:])})"
            rest = inner
        if len(results) == 1:
            yield f"{inner} = {loop}"

    def _choice(self, knob: str, branches: Sequence[tuple[Any, tuple[Step, ...]]]) -> Iterator[str]:
        if self.cfg is not None:
            chosen = self.cfg[knob].val
            yield from self.lines(next((steps for value, steps in branches if value == chosen), ()))
            return
        word = "if"
        for value, steps in branches:
            yield f"{word} {self._knob(knob)}.val == {literal(value)}:"
            yield from (_INDENT + line for line in self.lines(steps))
            word = "elif"

    def _argument(self, argument: Argument) -> str:
        match argument:
            case Name(name):
                return name
            case StageArgument(tensor):
                return f"s[{tensor}]"
            case OptionValue(knob):
                return f"{self._knob(knob)}.val" if self.cfg is None else literal(self.cfg[knob].val)
            case Size(knob, level):
                if self.cfg is not None:
                    return str(math.prod(self.cfg[knob].size[level:]))
                return f"math.prod({self._knob(knob)}.size[{level}:])"
            case tuple():
                return f"[{', '.join(map(self._argument, argument))}]"
            case _:
                return literal(argument)

    def _knob(self, knob: str) -> str:
        return f"cfg[{quoted(self.knobs.get(knob, knob))}]"


def targets(names: Sequence[str]) -> str:
    """Names as one statement binds or returns them."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def list_of(values: Iterable[Any]) -> str:
    """A list of numbers, strings and tuples of them."""
    return f"[{', '.join(map(literal, values))}]"


def knob_line(knob: SketchKnob, name: str, when: Mapping[str, Any] | None) -> str:
    """The declaration of a knob."""
    condition = "" if not when else f", when={literal(when)}"
    if knob.extent is None:
        return f"cfg.define_knob({quoted(name)}, {list_of(knob.candidates)}{condition})"
    fits = "" if knob.innermost is None else f", filter=lambda split: split.size[-1] <= {knob.innermost}"
    if knob.whole:
        fits = f", filter=lambda split: split.size[-1] in {list_of(knob.whole)}"
    policy = "" if knob.policy == "factors" else f', policy="{knob.policy}"'
    return f"cfg.define_split({quoted(name)}, {knob.extent}{policy}, num_outputs={knob.levels}{fits}{condition})"
