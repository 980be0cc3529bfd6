"""Sizes: the arguments of a template or workload, found from the shapes of arrays.

The shapes of the inputs are expressions of the arguments. They are found by running the function at a few points: an
extent that changes by a constant with an argument, and by the same one elsewhere, depends on it linearly. The extents
of the arrays then give the arguments one by one. Whatever comes out is checked by the caller, who runs the function
with it.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from pegbox.errors import ArgumentError, PegboxError

_DRAWS = 64
"""The random points among which one is looked for that the function accepts."""
_VALUES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 32)
_STEPS = (1, 2, 3, 4, 6, 8, -1, 12, 16)
"""The changes of one argument that are tried in turn: a function may accept multiples alone."""

Shapes = tuple[tuple[int, ...], ...]
"""A shape for each input."""


@dataclass(frozen=True)
class _Extent:
    """`constant + sum(factor * argument)`; None for `factors` where it is not linear."""

    constant: Fraction
    factors: Mapping[str, Fraction] | None


class SizeSolver:
    """Finds arguments from the shapes of inputs.

    Args:
        name: of the function, for messages.
        unknown: the arguments to find.
        shapes: gives the inputs' shapes for values of the unknown arguments; raises `PegboxError` where the function
            does not accept them.
    """

    def __init__(self, name: str, unknown: Sequence[str], shapes: Callable[[Mapping[str, int]], Shapes]) -> None:
        self._name, self._unknown, self._shapes = name, tuple(unknown), shapes

    def solve(self, given: Shapes) -> dict[str, int]:
        """The arguments that the shapes determine.

        Raises:
            ArgumentError: the shapes fit no arguments, or leave one open.
        """
        if not self._unknown:
            return {}
        extents = self._extents
        shown = ", ".join(map(str, given))
        if [len(shape) for shape in given] != [len(shape) for shape in extents]:
            ranks = ", ".join(str(len(shape)) for shape in extents)
            raise ArgumentError(
                f"{self._name}: arrays of the shapes {shown}; it takes {len(extents)} with {ranks} dimensions"
            )
        equations = [
            (extent, size, f"dimension {axis} of argument {number}")
            for number, (row, shape) in enumerate(zip(extents, given, strict=True))
            for axis, (extent, size) in enumerate(zip(row, shape, strict=True))
            if extent.factors
        ]
        found: dict[str, int] = {}
        progress = True
        while progress:
            progress = False
            for extent, size, where in equations:
                open_ = [name for name in extent.factors or () if name not in found]
                if len(open_) == 1:
                    found[open_[0]] = self._value(extent, open_[0], found, size, f"{where} of {shown}")
                    progress = True
        if missing := [name for name in self._unknown if name not in found]:
            raise ArgumentError(
                f"{self._name}: the shapes {shown} do not determine {', '.join(missing)}; give "
                f"pegbox.operator(..., {', '.join(f'{name}=...' for name in missing)})"
            )
        return found

    def _value(self, extent: _Extent, name: str, found: Mapping[str, int], size: int, where: str) -> int:
        assert extent.factors is not None
        rest = size - extent.constant - sum(f * found[other] for other, f in extent.factors.items() if other != name)
        value = rest / extent.factors[name]
        if value.denominator != 1 or value < 1:
            raise ArgumentError(f"{self._name}: {where} is {size}, which fits no {name}")
        return int(value)

    @cached_property
    def _extents(self) -> list[list[_Extent]]:
        base, values = self._accepted_point()
        slopes: dict[str, tuple[list[list[Fraction]], list[list[bool]]]] = {}
        for name in self._unknown:
            one = self._slopes(base, values, name, _STEPS)
            two = self._slopes(base, values, name, tuple(reversed(_STEPS)))
            slopes[name] = one, [[a == b for a, b in zip(*rows, strict=True)] for rows in zip(one, two, strict=True)]
        result: list[list[_Extent]] = []
        for number, shape in enumerate(values):
            row = []
            for axis, size in enumerate(shape):
                factors = {name: slopes[name][0][number][axis] for name in self._unknown}
                linear = all(slopes[name][1][number][axis] for name in self._unknown)
                factors = {name: factor for name, factor in factors.items() if factor}
                constant = size - sum((factor * base[name] for name, factor in factors.items()), Fraction(0))
                row.append(_Extent(constant, factors if linear else None))
            result.append(row)
        return result

    def _accepted_point(self) -> tuple[dict[str, int], Shapes]:
        rng = random.Random(0)
        refusal: PegboxError | None = None
        for _ in range(_DRAWS):
            point = {name: rng.choice(_VALUES) for name in self._unknown}
            try:
                return point, self._shapes(point)
            except PegboxError as error:
                refusal = error
        raise ArgumentError(
            f"{self._name}: no sizes were found that it accepts ({refusal}); give more of its arguments "
            f"({', '.join(self._unknown)}) by name to pegbox.operator"
        )

    def _slopes(self, base: Mapping[str, int], values: Shapes, name: str, steps: Sequence[int]) -> list[list[Fraction]]:
        """The change of each extent with one argument."""
        for step in steps:
            if base[name] + step < 1:
                continue
            try:
                moved = self._shapes({**base, name: base[name] + step})
            except PegboxError:
                continue
            if [len(shape) for shape in moved] != [len(shape) for shape in values]:
                continue
            return [
                [Fraction(b - a, step) for a, b in zip(one, other, strict=True)]
                for one, other in zip(values, moved, strict=True)
            ]
        raise ArgumentError(
            f"{self._name}: the shapes of its inputs do not show {name}; give pegbox.operator(..., {name}=...)"
        )


def open_sizes(signature: inspect.Signature, given: Mapping[str, Any]) -> list[str]:
    """The parameters whose values the shapes of arrays have to give: without a default, and not given.

    Raises:
        ArgumentError: one of them is not an integer, by its annotation.
    """
    names = []
    for parameter in signature.parameters.values():
        if parameter.name in given or parameter.default is not parameter.empty:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.annotation not in (parameter.empty, int, "int"):
            raise ArgumentError(
                f"{parameter.name}: {parameter.annotation} is not a size; give pegbox.operator(..., "
                f"{parameter.name}=...)"
            )
        names.append(parameter.name)
    return names
