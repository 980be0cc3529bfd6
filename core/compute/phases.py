"""Reductions without the terms that a stride makes zero: the phases of an axis, which are its residue classes, one by
one.

A transposed convolution of stride s multiplies zeros in all but one of s products along each axis. Output i uses only
the kernel's positions r with (i + r + c) % s == 0: the outputs of one phase i % s share one phase r % s, and form a
dense convolution (Crochiere and Rabiner, "Multirate Digital Signal Processing", 1983, on polyphase filters).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pegbox.compute.axis import IterVar, Range
from pegbox.compute.flop import elements, operations
from pegbox.compute.graph import post_order
from pegbox.compute.ops import FLOP
from pegbox.compute.reducer import SUM, Reduce, map_body
from pegbox.compute.tensor import ComputeOp, Tensor, owner
from pegbox.expr.affine import Linear, difference, linear
from pegbox.expr.bounds import Interval, Ranges, bounds, linear_bounds
from pegbox.expr.build import all_of, cast, conjuncts, const, floordiv, floormod, index, mul, select
from pegbox.expr.dtypes import INDEX
from pegbox.expr.nodes import Binary, Buffer, Cast, Compare, Const, Expr, Load, Select, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, loads, rewrite, substitute, walk

Element: TypeAlias = Callable[..., Expr]
"""The element of a tensor at some indices."""


@dataclass(frozen=True)
class Phase:
    """A condition `form % stride == rest` without which the terms of a reduction are zero.

    Attributes:
        form: a sum over the operation's axes.
        output: the output axis whose phase matters; None if only a single phase of the reduce axis does.
        reduce: the reduce axis, of which one phase remains at each point.
        step: a variable for (form - rest) / stride.
    """

    form: Linear
    stride: int
    rest: int
    output: IterVar | None
    reduce: IterVar
    step: Var

    def steps(self, ranges: Ranges) -> Interval:
        """Return the first and the last value of `step`."""
        between = linear_bounds(self.form, ranges)
        assert between is not None  # axes have ranges
        return -((self.rest - between[0]) // self.stride), (between[1] - self.rest) // self.stride

    def reduce_phase(self, output: Expr) -> Expr:
        """Return the phase of the reduce axis for a value of the output axis."""
        a = 0 if self.output is None else self.form.coefficient(self.output)
        inverse = _inverse(self.form.coefficient(self.reduce), self.stride)
        return floormod((index(-self._gap) - output * a) * inverse, self.stride)

    def values(self, output: Expr, reduce: Expr, phase: Expr) -> dict[Var, Expr]:
        """Return the values of the axes and of `step` at places of one phase of the reduce axis."""
        own, b = (self.output, self.reduce), self.form.coefficient(self.reduce)
        others = Linear({t: c // self.stride for t, c in self.form.terms.items() if t not in own}, 0).to_expr()
        found: dict[Var, Expr] = {self.reduce: reduce * self.stride + phase + self.reduce.dom.min}
        if self.output is None:
            return found | {self.step: others + reduce * b + floordiv(phase * b + self._gap, self.stride)}
        a = self.form.coefficient(self.output)
        inverse = _inverse(a, self.stride)
        missing = index(-self._gap) - phase * b
        # Solve the condition modulo the stride for the output axis, and count the strides that its multiple overshoots.
        wanted, whole = missing * inverse, missing * ((a * inverse - 1) // self.stride)
        found[self.output] = output * self.stride + floormod(wanted, self.stride)
        return found | {self.step: others + output * a + reduce * b + whole - floordiv(wanted, self.stride) * a}

    @property
    def _gap(self) -> int:
        """Compute the constant of `form - rest`, counted from the first value of the reduce axis."""
        return self.form.const - self.rest + self.form.coefficient(self.reduce) * self.reduce.dom.min


def without_zeros(arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the arguments of the same computation without the terms of reductions that a stride makes zero.

    A product with such a zero counts as zero, even for an infinity or a NaN.
    """
    ops = [op for op in post_order([t.op for t in arguments]) if type(op) is ComputeOp]
    names = [op.name for op in post_order([t.op for t in arguments])]
    made: dict[Buffer, Element] = {}
    replaced: dict[Buffer, Tensor] = {}

    def moved(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in made:
            return None
        return made[expr.buffer](*(rewrite(at, moved) for at in expr.indices))

    for op in ops:
        new = op
        if any(t.buffer in made for t in op.inputs):
            body = tuple(map_body(each, lambda e: rewrite(e, moved)) for each in op.body)
            new = ComputeOp(op.name, op.axis, body, op.attrs, op.tag, op.definition)
        element = _Phased(new, names).element()
        if element is not None:
            new = ComputeOp(op.name, op.axis, (element(*op.axis),), None, op.tag, op.definition)
        replaced.update((a.buffer, b) for a, b in zip(op.outputs, new.outputs, strict=True) if new is not op)
        made.update((buffer, tensor) for buffer, tensor in replaced.items() if buffer not in made)
        if element is not None and not any(op.outputs[0] in reader.inputs for reader in ops if reader.reduce_axis):
            made[op.outputs[0].buffer] = element  # its readers interleave the phases themselves
    return tuple(replaced.get(t.buffer, t) for t in arguments)


class _Phased:
    """An operation with its reduction split into phases, as far as its terms allow."""

    def __init__(self, op: ComputeOp, names: list[str]) -> None:
        self.op, self.names = op, names
        self.phases = list(_phases(op))
        axes = (*op.axis, *op.reduce_axis)
        self.ranges: dict[Var, Interval] = {a: (a.dom.min, a.dom.min + a.extent - 1) for a in axes}
        self.ranges.update({p.step: p.steps(self.ranges) for p in self.phases})
        self.axes: dict[Var, IterVar] = {a: IterVar(a.name, Range(0, a.extent), a.kind) for a in axes}
        self.values: dict[Var, Expr] = {a: new + a.dom.min for a, new in zip(axes, self.axes.values(), strict=True)}
        self.outer: list[IterVar] = []
        for p in self.phases:
            self._thin_out(p)
        self.new_ranges: Ranges = {a: (0, a.extent - 1) for a in (*self.outer, *self.axes.values())}
        touched = {axis for p in self.phases for axis in (p.output, p.reduce)}
        single = {a for a in axes if a.extent == 1 and a not in touched}
        self.kept = {*single, *(self.axes[a] for a in single)}  # an index that is a single axis stays one
        self.all_padded = True

    def element(self) -> Element | None:
        """Return the reader of an element from the phases that replace the operation; None if there are none."""
        reduce = self.op.reduce
        if not self.phases or reduce is None:
            return None
        terms = self._in_steps(self._expanded(reduce.sources[0]))
        conditions = list(conjuncts(self._in_steps(reduce.condition)))
        if reduce.reducer is SUM:
            terms, conditions = self._placed(terms, conditions)
        else:
            self.all_padded = False
        conditions += self._guards(terms)
        axes = tuple(self.axes[axis] for axis in reduce.axes)
        condition = self._moved(all_of(conditions))
        if isinstance(condition, Const) and not condition.value:
            return None  # no term remains, and every index would be out of bounds
        body = Reduce(reduce.reducer, (self._moved(terms),), axes, condition, 0)
        name = unused_name(f"{self.op.name}_phases", self.names)
        self.names.append(name)
        attrs = {**self._flop(), **self.op.attrs}
        new = ComputeOp(name, (*self.outer, *(self.axes[axis] for axis in self.op.axis)), (body,), attrs)
        return lambda *at: self._read(new.outputs[0], at)

    def _flop(self) -> dict[str, float]:
        """Return the attribute that counts the operations on the remaining terms, if guards mask others."""
        pairs = [(axis, p.stride) for p in self.phases for axis in (p.output, p.reduce) if axis is not None]
        if all(axis.extent % stride == 0 for axis, stride in pairs):
            return {}
        points = math.prod(axis.extent for axis in (*self.op.axis, *self.op.reduce_axis))
        terms = points / math.prod(p.stride for p in self.phases)
        return {FLOP: terms * sum(map(operations, elements(self.op)))}

    def _read(self, phases: Tensor, at: Sequence[Expr]) -> Expr:
        places = dict(zip(self.op.axis, at, strict=True))
        split = {p.output: p for p in self.phases if p.output is not None}
        outer = (p.reduce_phase(places[axis]) for axis, p in split.items())
        inner = (floordiv(x, split[a].stride) if a in split else x for a, x in places.items())
        return simplify(Load(phases.buffer, (*outer, *inner)), self._foldable(self.ranges))

    def _thin_out(self, p: Phase) -> None:
        """Replace the axes of a phase."""
        place = self.axes[p.reduce] = IterVar(p.reduce.name, Range(0, -(-p.reduce.extent // p.stride)), "reduce")
        phase: Expr = p.reduce_phase(index(0))
        output: Expr = index(0)
        if p.output is not None:
            outer = IterVar(f"{p.output.name}_phase", Range(0, p.stride), "spatial")
            inner = self.axes[p.output] = IterVar(p.output.name, Range(0, -(-p.output.extent // p.stride)), "spatial")
            self.outer.append(outer)
            phase, output = outer, inner
        self.values |= p.values(output, place, phase)

    def _moved(self, expr: Expr) -> Expr:
        """Return an expression over the new axes."""
        return simplify(substitute(expr, self.values), self._foldable(self.new_ranges))

    def _foldable(self, ranges: Ranges) -> Ranges:
        return {axis: each for axis, each in ranges.items() if axis not in self.kept}

    def _expanded(self, expr: Expr) -> Expr:
        """Inline the producers that put zeros between their elements into an expression."""
        known = [(p.form, p.stride, p.rest) for p in self.phases]

        def leaf(e: Expr) -> Expr | None:
            inlined = _inlined(e)
            if inlined is None or not any(each in known for each in map(_residue, _needed(inlined))):
                return None
            return rewrite(inlined, leaf)

        return rewrite(expr, leaf)

    def _in_steps(self, expr: Expr) -> Expr:
        """Write the forms of the phases in an expression as functions of their steps."""

        def leaf(e: Expr) -> Expr | None:
            form = linear(e) if e.dtype == INDEX else Linear({}, 0)
            for p in self.phases:
                factor, rest = divmod(form.coefficient(p.reduce), p.form.coefficient(p.reduce))
                other = form.add(p.form, -factor)
                if p.output is not None and factor and not rest and not other.coefficient(p.output):
                    step = Linear({p.step: p.stride * factor}, p.rest * factor)
                    return rewrite(other.add(step).to_expr(), leaf)
            return None

        return simplify(rewrite(expr, leaf), self._foldable(self.ranges))

    def _placed(self, expr: Expr, conditions: Sequence[Expr]) -> tuple[Expr, list[Expr]]:
        """Return the terms of a sum with conditions moved to their operands, and the remaining conditions."""
        match expr:
            case Binary("mul", a, b):
                left, rest = self._placed(a, conditions)
                right, rest = self._placed(b, rest)
                return mul(left, right), rest
            case Select(cond, a, b) if _is_zero(b):
                return self._placed(a, [*conditions, *conjuncts(cond)])
            case Cast(dtype, a):
                inner, rest = self._placed(a, conditions)
                return cast(dtype, inner), rest
            case _:
                mine = [c for c in conditions if free_vars(c) <= free_vars(expr) and free_vars(c) & self._steps]
                if not free_vars(expr) & self._steps:
                    return expr, list(conditions)
                padded = self._padded(expr, mine)
                if padded is None:
                    self.all_padded = False
                    return expr, list(conditions)
                return padded, [c for c in conditions if not any(c is each for each in mine)]

    def _padded(self, operand: Expr, conditions: Sequence[Expr]) -> Expr | None:
        """Return a load of a stage that computes an operand for each step, with zeros where no point needs it.

        None if the operand depends on more than the step, or might be read outside its shape.
        """
        indices = (e for load in loads(operand) for e in load.indices)
        used = list(dict.fromkeys(v for e in indices for v in walk(e) if isinstance(v, Var)))
        thinned = {axis for p in self.phases for axis in (p.output, p.reduce)}
        if free_vars(operand) != set(used) or thinned & set(used):
            return None
        box = {v: self._box(v) for v in used}
        inside, others = _refined(conditions, {v: self.ranges[v] for v in used})
        for load in loads(operand):
            for at, extent in zip(load.indices, load.buffer.shape, strict=True):
                between = bounds(at, inside)
                if between is None or between[0] < 0 or between[1] >= extent:
                    return None
        bounds_of = [v >= lo for v, (lo, _) in inside.items() if lo > box[v][0]]
        bounds_of += [v < hi + 1 for v, (_, hi) in inside.items() if hi < box[v][1]]
        if not bounds_of and not others:
            return operand
        axes = {v: IterVar(v.name, Range(0, hi - lo + 1), "spatial") for v, (lo, hi) in box.items()}
        back = {v: axis + box[v][0] for v, axis in axes.items()}
        element = substitute(select(all_of([*bounds_of, *others]), operand, const(0, operand.dtype)), back)
        element = simplify(element, {axis: (0, axis.extent - 1) for axis in axes.values()})
        name = unused_name(f"{next(loads(operand)).buffer.name}_padded", self.names)
        self.names.append(name)
        stage = ComputeOp(name, tuple(axes.values()), (element,))
        return Load(stage.outputs[0].buffer, tuple(v - box[v][0] for v in used))

    def _guards(self, terms: Expr) -> Iterator[Expr]:
        """Yield the conditions for a point of the new axes to be an old one, if that matters."""
        for p in self.phases:
            if p.reduce.extent % p.stride:
                yield p.reduce < p.reduce.dom.min + p.reduce.extent
            read = not self.all_padded or p.output in free_vars(terms)
            if p.output is not None and p.output.extent % p.stride and read:
                yield p.output < p.output.extent

    @property
    def _steps(self) -> set[Var]:
        return {p.step for p in self.phases}

    def _box(self, var: Var) -> Interval:
        """Return the range of a variable over all the new axes."""
        found = bounds(self._moved(var), self.new_ranges)
        assert found is not None  # axes have ranges
        return found


def _phases(op: ComputeOp) -> Iterator[Phase]:
    """Yield the conditions on an operation's terms that leave one phase of a reduce axis, each axis once."""
    reduce = op.reduce
    if reduce is None or len(op.body) > 1:
        return
    needed = [*conjuncts(reduce.condition), *(_needed(reduce.sources[0]) if reduce.reducer is SUM else ())]
    free = {*op.axis, *op.reduce_axis}
    for form, stride, rest in filter(None, map(_residue, needed)):
        phased = {term for term, factor in form.terms.items() if factor % stride}
        outputs = [axis for axis in op.axis if axis in phased]
        reduced = [axis for axis in op.reduce_axis if axis in phased]
        solvable = all(math.gcd(factor, stride) in (1, stride) for factor in form.terms.values())
        if phased <= free and len(outputs) <= 1 and len(reduced) == 1 and solvable:
            step = Var((*outputs, *reduced)[0].name)
            yield Phase(form, stride, rest, next(iter(outputs), None), reduced[0], step)
            free -= phased


def _residue(condition: Expr) -> tuple[Linear, int, int] | None:
    """Return the parts of a condition `form % stride == rest`."""
    match condition:
        case Compare("eq", Binary("floormod", number, Const() as stride), Const() as rest) if stride.integer > 1:
            return linear(number), stride.integer, rest.integer
    return None


def _needed(expr: Expr) -> Iterator[Expr]:
    """Yield the conditions that are each necessary for an expression to be nonzero."""
    match expr:
        case Select(cond, a, b) if _is_zero(b):
            yield from conjuncts(cond)
            yield from _needed(a)
        case Binary("mul", a, b):
            yield from _needed(a)
            yield from _needed(b)
        case Cast(_, a):
            yield from _needed(a)
        case Load():
            inlined = _inlined(expr)
            if inlined is not None:
                yield from _needed(inlined)


def _inlined(expr: Expr) -> Expr | None:
    """Return the computation of the stage that a load reads; None for inputs, reductions and other expressions."""
    if not isinstance(expr, Load):
        return None
    op = owner(expr.buffer).op
    if type(op) is not ComputeOp or op.reduce_axis or len(op.body) > 1:
        return None
    return substitute(op.body[0], dict(zip(op.axis, expr.indices, strict=True)))


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == 0


def _inverse(value: int, stride: int) -> int:
    """Return the multiplicative inverse of a value modulo the stride with the smallest magnitude."""
    found = pow(value, -1, stride)
    return found - stride if 2 * found > stride else found


def _refined(conditions: Iterable[Expr], ranges: Ranges) -> tuple[dict[Var, Interval], list[Expr]]:
    """Narrow the ranges of variables by conditions; return them with the conditions that do not bound a variable."""
    found, others = dict(ranges), []
    for condition in conditions:
        if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge"):
            others.append(condition)
            continue
        form = difference(condition.a, condition.b)
        if condition.op in ("gt", "ge"):
            form = form.times(-1)
        ((var, factor),) = form.terms.items() if len(form.terms) == 1 else ((None, 0),)
        if not isinstance(var, Var):
            others.append(condition)
            continue
        lo, hi = found[var]
        most = -form.const - (condition.op in ("lt", "gt"))  # of factor * var
        found[var] = (lo, min(hi, most // factor)) if factor > 0 else (max(lo, -(most // -factor)), hi)
    return found, others
