"""Sizes: the arguments of a template or workload, found from the shapes of arrays.

The shapes of the inputs are expressions of the arguments. Two runs of the function at points whose values all differ
reveal the extents that equal an argument, which is nearly always enough. Each argument that remains is changed by
itself: an extent that changes in proportion, for all steps, depends on it linearly. The caller runs the function with
the result and compares the shapes.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Any, TypeAlias

from pegbox.errors import ArgumentError, PegboxError, TemplateError

Shape: TypeAlias = tuple[int, ...]

_DRAWS = 64
"""The number of random points to try for some that the function accepts."""
_SMALL, _LARGE, _ROUND = range(1, 17), range(17, 64), range(16, 272, 16)
_RANGES = ((*_SMALL, *_LARGE), _LARGE, _ROUND, (*_SMALL, *_ROUND), _SMALL)
"""The sets of numbers to draw points from in turn: a function may accept only multiples, or windows in an image."""
_STEPS = (1, 2, 3, 4, 6, 8, -1, 12, 16, 32, 64)
"""The changes of one argument to try in turn."""


@dataclass(frozen=True)
class Input:
    """An input of a computation: the placeholder's name and its shape."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class InputExtent:
    """An extent of an input, `constant + sum(factor * argument)`; of another form if `factors` is None."""

    constant: Fraction
    factors: Mapping[str, Fraction] | None

    def __str__(self) -> str:
        if self.factors is None:
            return "?"
        terms = [name if factor == 1 else f"{factor}*{name}" for name, factor in self.factors.items()]
        constant = [str(self.constant)] if self.constant or not terms else []
        return " + ".join([*terms, *constant]).replace("+ -", "- ")

    def value(self, sizes: Mapping[str, int]) -> Fraction:
        """Compute a linear extent at some sizes."""
        return self.constant + sum((f * sizes[name] for name, f in (self.factors or {}).items()), Fraction(0))


_Rows: TypeAlias = tuple[tuple[InputExtent | None, ...], ...]


class SizeSolver:
    """A solver that finds arguments from the shapes of inputs.

    Args:
        name: the function's name, for messages.
        unknown: the arguments to find.
        inputs: a function that returns the inputs for values of the unknown arguments, and raises `PegboxError` for
            values that it does not accept.
        about: the type of the inputs for messages, such as " of float32".
        remedy: the end of messages about shapes that fit no arguments.

    Raises:
        ArgumentError: at the first use, the function accepts none of the tried sizes.
        TemplateError: the function is faulty.
    """

    def __init__(
        self,
        name: str,
        unknown: Sequence[str],
        inputs: Callable[[Mapping[str, int]], Sequence[Input]],
        *,
        about: str = "",
        remedy: str = "",
    ) -> None:
        self._name, self._unknown, self._inputs = name, tuple(unknown), inputs
        self._about, self._remedy = about, remedy

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(each.name for each in self._points[0][1])

    @property
    def expected(self) -> str:
        """The inputs with their extents as expressions of the arguments: `A[M, K], B[K, N]`."""
        changed = self._changed
        rows = [["?" if next(changed) and not each.factors else str(each) for each in row] for row in self._extents]
        return ", ".join(f"{name}[{', '.join(row)}]" for name, row in zip(self.names, rows, strict=True))

    @property
    def _changed(self) -> Iterator[bool]:
        """Yield, for each extent, whether it changes if all arguments grow eightfold."""
        point, inputs = self._points[0]
        before = [extent for each in inputs for extent in each.shape]
        try:
            larger = self._inputs({name: 8 * value for name, value in point.items()})
        except PegboxError:
            larger = inputs
        after = [extent for each in larger for extent in each.shape]
        return (a != b for a, b in zip(before, after if len(after) == len(before) else before, strict=True))

    def solve(self, shapes: Sequence[Shape]) -> dict[str, int]:
        """Find the arguments at which the inputs have these shapes, as far as linear extents show.

        Raises:
            ArgumentError: the shapes fit no arguments, or leave one open.
        """
        ranks = [len(each.shape) for each in self._points[0][1]]
        if len(shapes) != len(ranks):
            raise self.misfit(shapes, f"takes {len(ranks)} arrays and was given {len(shapes)}")
        if [len(shape) for shape in shapes] != ranks:
            raise self.misfit(shapes, f"takes arrays of {', '.join(map(str, ranks))} dimensions")
        if zero := next((name for name, shape in zip(self.names, shapes, strict=True) if 0 in shape), ""):
            raise self.misfit(shapes, f"has nothing to compute: {zero} has an extent of 0; leave such a call out")
        found = self._solved(self._direct, shapes)
        if any(name not in found for name in self._unknown):
            found = self._solved(self._extents, shapes)
        if missing := [name for name in self._unknown if name not in found]:
            keywords = ", ".join(f"{name}=..." for name in missing)
            raise self.misfit(
                shapes, f"finds {', '.join(missing)} nowhere in the shapes; give operator(..., {keywords})"
            )
        return found

    def misfit(self, shapes: Sequence[Shape], why: str) -> ArgumentError:
        """Make the error for shapes that fit no arguments, with the given and the expected ones."""
        named = [*self.names, *["another"] * len(shapes)]
        given = ", ".join(f"{name}{list(shape)}" for name, shape in zip(named, shapes, strict=False))
        return ArgumentError(f"{self._name} {why}; given {given or 'nothing'}, expected {self.expected}{self._remedy}")

    def _solved(self, rows: _Rows, shapes: Sequence[Shape]) -> dict[str, int]:
        """Compute the arguments from the extents, one by one."""
        found: dict[str, int] = {}
        origin: dict[str, str] = {}
        places = [
            (extent, size, name)
            for name, row, shape in zip(self.names, rows, shapes, strict=True)
            for extent, size in zip(row, shape, strict=True)
            if extent is not None and extent.factors
        ]
        progress = True
        while progress:
            progress = False
            for extent, size, name in places:
                open_ = [each for each in extent.factors or () if each not in found]
                if len(open_) == 1:
                    found[open_[0]] = self._value(extent, open_[0], {**found, open_[0]: 0}, size, shapes)
                    origin[open_[0]] = name
                    progress = True
        for extent, size, name in places:
            if all(each in found for each in extent.factors or ()) and (wanted := extent.value(found)) != size:
                first = next(iter(extent.factors or ()))
                why = f"gets {extent} = {wanted} from {origin[first]}, but {name} has {size} there"
                raise self.misfit(shapes, why)
        return found

    def _value(
        self, extent: InputExtent, name: str, others: Mapping[str, int], size: int, shapes: Sequence[Shape]
    ) -> int:
        assert extent.factors is not None
        value = (size - extent.value(others)) / extent.factors[name]
        if value.denominator != 1 or value < 1:
            raise self.misfit(shapes, f"finds no {name} for {extent} = {size}")
        return int(value)

    @cached_property
    def _points(self) -> tuple[tuple[dict[str, int], tuple[Input, ...]], tuple[dict[str, int], tuple[Input, ...]]]:
        """Two accepted points whose values all differ, with the inputs there."""
        rng = random.Random(0)
        refusal: PegboxError | None = None
        found: list[tuple[dict[str, int], tuple[Input, ...]]] = []
        for draw in range(_DRAWS if self._unknown else 1):
            taken = found[0][0].values() if found else ()
            numbers = [number for number in _RANGES[draw % len(_RANGES)] if number not in taken]
            if len(numbers) < len(self._unknown):
                continue
            point = dict(zip(self._unknown, rng.sample(numbers, len(self._unknown)), strict=True))
            try:
                inputs = tuple(self._inputs(point))
            except PegboxError as error:
                refusal = error
                continue
            if not self._unknown:
                return (point, inputs), (point, inputs)
            if found and [len(each.shape) for each in found[0][1]] == [len(each.shape) for each in inputs]:
                return found[0], (point, inputs)
            found = found or [(point, inputs)]
        if isinstance(refusal, TemplateError):  # a fault of the function, which other sizes would not avoid
            raise refusal
        remedy = ", or arrays of another dtype" if self._about else ""
        raise ArgumentError(
            f"{self._name}: no sizes {', '.join(self._unknown)} were found at which it accepts arrays{self._about} "
            f"({refusal}); give some of them by name to pegbox.operator{remedy}"
        ) from refusal

    @cached_property
    def _direct(self) -> _Rows:
        """The extents that equal an argument, or a number; None for others."""
        (one, first), (two, second) = self._points

        def extent(a: int, b: int) -> InputExtent | None:
            names = [name for name in self._unknown if one[name] == a and two[name] == b]
            if a == b:
                return InputExtent(Fraction(a), {})
            return InputExtent(Fraction(0), {names[0]: Fraction(1)}) if names else None

        return tuple(
            tuple(extent(a, b) for a, b in zip(x.shape, y.shape, strict=True))
            for x, y in zip(first, second, strict=True)
        )

    @cached_property
    def _extents(self) -> tuple[tuple[InputExtent, ...], ...]:
        """All extents; those that are not arguments are found by changing one argument at a time."""
        point, inputs = self._points[0]
        open_ = [extent is None for row in self._direct for extent in row]
        slopes = {name: list(self._slopes(point, name)) for name in self._unknown} if any(open_) else {}
        again = [size for each in self._points[1][1] for size in each.shape]
        places = count()
        rows = []
        for row, each in zip(self._direct, inputs, strict=True):
            extents = []
            for extent, size, place in zip(row, each.shape, places, strict=False):
                linear = {name: slopes[name][place] for name in slopes}
                extents.append(extent or self._linear(size, again[place], linear))
            rows.append(tuple(extents))
        return tuple(rows)

    def _linear(self, size: int, again: int, slopes: Mapping[str, Fraction | None]) -> InputExtent:
        """Compute an extent from its values at both points and its changes with each argument."""
        factors = {name: slope for name, slope in slopes.items() if slope}
        (one, _), (two, _) = self._points
        found = InputExtent(size - InputExtent(Fraction(0), factors).value(one), factors)
        fits = None not in slopes.values() and found.value(two) == again
        return found if fits else InputExtent(Fraction(size), None)

    def _slopes(self, point: Mapping[str, int], name: str) -> Iterator[Fraction | None]:
        """Yield the change of each extent with one argument; None if it is not in proportion."""
        one, two = (self._changes(point, name, steps) for steps in (_STEPS, tuple(reversed(_STEPS))))
        return (a if a == b else None for a, b in zip(one, two, strict=True))

    def _changes(self, point: Mapping[str, int], name: str, steps: Sequence[int]) -> list[Fraction]:
        ranks = [len(each.shape) for each in self._points[0][1]]
        before = [extent for each in self._points[0][1] for extent in each.shape]
        for step in steps:
            if point[name] + step < 1:
                continue
            try:
                moved = self._inputs({**point, name: point[name] + step})
            except PegboxError:
                continue
            if [len(each.shape) for each in moved] == ranks:
                after = [extent for each in moved for extent in each.shape]
                return [Fraction(b - a, step) for a, b in zip(before, after, strict=True)]
        return [Fraction(0)] * len(before)  # the function accepts no other value, so shapes do not depend on it


def open_sizes(name: str, signature: inspect.Signature, given: Mapping[str, Any]) -> list[str]:
    """Return the parameters that the shapes of arrays must determine: those without a default that are not given.

    Raises:
        ArgumentError: the annotation of one is not an integer.
    """
    names = []
    for parameter in signature.parameters.values():
        if parameter.name in given or parameter.default is not parameter.empty:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.annotation not in (parameter.empty, int, "int"):
            raise ArgumentError(
                f"{name}: no shape gives {parameter.name}, which is {parameter.annotation}; give "
                f"operator(..., {parameter.name}=...)"
            )
        names.append(parameter.name)
    return names
