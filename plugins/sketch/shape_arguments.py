"""Te code with numbers as expressions of a workload's arguments, so that it fits other shapes, too."""

from __future__ import annotations

import math
import struct
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import combinations, permutations
from typing import TypeAlias

Lines: TypeAlias = Callable[[Mapping[str, int]], "Sequence[str] | None"]
"""A function that writes the te code for some values of the arguments; None if the computation refuses them."""

_PROBES = 6  # the number of other values of each single argument
_LEAST_PROBES = 3
_TOGETHER = ((5, 0), (7, 0), (5, 1), (1000, 0))
"""Factors and summands of all arguments, for values that check the expressions."""

_DIVISORS = range(2, 9)  # divisors such as strides
_LEAST, _MOST = -16, 16  # borders and windows added before a division


@dataclass(frozen=True)
class _Sample:
    """The numbers of the code for some values of the arguments.

    `same_form` is False if the text around them differs from that for the given values.
    """

    values: Mapping[str, int]
    numbers: tuple[str, ...]
    same_form: bool = True


class _Code:
    """Lines of code as numbers and the text between them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.text = "\n".join(lines)
        self.starts = [0, *(n + 1 for n, each in enumerate(self.text) if each == "\n")]
        tokens = list(tokenize.generate_tokens(StringIO(self.text).readline))
        self.words = {token.string for token in tokens if token.type == tokenize.NAME}
        self.spans = [
            (self._offset(token.start), self._offset(token.end)) for token in tokens if token.type == tokenize.NUMBER
        ]

    def _offset(self, place: tuple[int, int]) -> int:
        return self.starts[place[0] - 1] + place[1]

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(self.text[start:end] for start, end in self.spans)

    @property
    def between(self) -> list[str]:
        """The text around the numbers, shared by other shapes."""
        return [self.text[a:b] for a, b in zip((0, *(end for _, end in self.spans)), self._starts(), strict=True)]

    def _starts(self) -> list[int]:
        return [*(start for start, _ in self.spans), len(self.text)]

    def written(self, expressions: Mapping[int, str]) -> list[str]:
        """Return the lines with expressions in place of some numbers."""
        parts = self.between
        text = parts[0]
        for n, (number, after) in enumerate(zip(self.numbers, parts[1:], strict=True)):
            found = expressions.get(n, number)
            alone = text.endswith(("(", "[", ", ")) and after.startswith((")", "]", ","))
            text += (found if alone or found.isidentifier() else f"({found})" if n in expressions else found) + after
        return text.split("\n")


def over_arguments(lines: Lines, given: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Write code with expressions of as many arguments as possible.

    The expressions are found from the code for some values, and checked on others.

    Args:
        given: the arguments that may vary, with their values: integers from 1 up.

    Returns:
        The lines, and the names of the arguments in them.
    """
    first = lines(given)
    assert first is not None  # the computation accepts the given values
    code = _Code(first)
    base = _Sample(given, code.numbers)

    def sample(values: Mapping[str, int]) -> _Sample | None:
        made = lines(values)
        if made is None:
            return None
        other = _Code(made)
        return _Sample(values, other.numbers, other.between == code.between)

    varied: list[str] = []
    samples: dict[str, list[_Sample]] = {}
    found: dict[int, str] = {}
    for name in given:
        probes = (sample({**given, name: value}) for value in _others(given[name]))
        samples[name] = [each for _, each in zip(range(_PROBES), filter(None, probes), strict=False)]
        if len(samples[name]) < _LEAST_PROBES or not all(each.same_form for each in samples[name]):
            continue
        names = [*varied, name]
        together = [*filter(None, (sample(_scaled(given, names, *other)) for other in _TOGETHER))]
        expressions = _expressions(names, base, {each: samples[each] for each in names}, together)
        if expressions is not None and together:
            varied, found = names, expressions
    return code.written(found), varied


def words_of(lines: Sequence[str]) -> set[str]:
    """Return the names in te code."""
    return _Code(lines).words


def _scaled(given: Mapping[str, int], names: Sequence[str], times: int, more: int) -> dict[str, int]:
    return {**given, **{name: given[name] * (times + n) + more for n, name in enumerate(names)}}


def _others(value: int) -> Iterator[int]:
    yield from (each for each in (value // 2, value - 1) if each > 1)
    yield from (value + 1, value + 2, 2 * value, 3 * value, 4 * value, 6 * value, value + 4, value + 8)


def _expressions(
    names: Sequence[str], base: _Sample, alone: Mapping[str, Sequence[_Sample]], together: Sequence[_Sample]
) -> dict[int, str] | None:
    """Return an expression for each number that differs between samples; None if one has no expression."""
    samples = [base, *(each for name in names for each in alone[name]), *together]
    if not all(each.same_form for each in together):
        return None
    found: dict[int, str] = {}
    for n, number in enumerate(base.numbers):
        if all(each.numbers[n] == number for each in samples):
            continue
        on = [name for name in names if any(each.numbers[n] != number for each in alone[name])]
        wanted = [(each.values, float(each.numbers[n])) for each in samples]
        expression = next((e for e in _candidates(on, wanted, number) if _gives(e, wanted)), None)
        if expression is None:
            return None
        found[n] = expression
    return found


def _gives(expression: str, wanted: Sequence[tuple[Mapping[str, int], float]]) -> bool:
    """Check if an expression has the value of each sample, to the digits of its type."""
    made = ((eval(expression, {"math": math}, dict(values)), value) for values, value in wanted)
    return all(math.isclose(is_, value, rel_tol=_digits(value)) if value % 1 else is_ == value for is_, value in made)


def _digits(value: float) -> float:
    return 1e-7 if _is_float32(value) else 1e-15


def _is_float32(value: float) -> bool:
    """Check if a float32 has exactly this value: then its text has no more digits."""
    return abs(value) < 3e38 and bool(struct.unpack("f", struct.pack("f", value))[0] == value)


def _candidates(on: Sequence[str], wanted: Sequence[tuple[Mapping[str, int], float]], number: str) -> Iterator[str]:
    """Yield candidate expressions for a number, the plainest first, of the arguments on which it depends."""
    values, first = wanted[0]
    products = [" * ".join(some) for count in range(len(on), 0, -1) for some in combinations(on, count)]
    if not number.isdigit():
        for product in products:
            made = math.prod(values[name] for name in product.split(" * "))
            group = f"({product})" if " " in product else product
            yield f"{round(first * made, 6):g} / {group}"
            yield f"{round(first * made**2, 6):g} / {group} ** 2"
            yield f"{round(first * math.sqrt(made), 6):g} / math.sqrt({product})"
        return
    for product in products:
        made = math.prod(values[name] for name in product.split(" * "))
        yield _sum(product, int(first) - made)
        if first % made == 0:
            yield f"{product} * {int(first) // made}"
    yield from (f"{a} // {b}" for a, b in permutations(on, 2))
    slopes = {name: _slope(name, wanted) for name in on}
    if all(slope.is_integer() for slope in slopes.values()):
        rest = first - sum(slope * values[name] for name, slope in slopes.items())
        yield _sum("".join(_term(name, int(slope)) for name, slope in slopes.items()).removeprefix(" + "), int(rest))
    for name in on:
        for divisor in _DIVISORS:
            sums = (_sum(name, more) for more in range(_LEAST, _MOST + 1))
            yield from (f"({each}) // {divisor}" if each != name else f"{name} // {divisor}" for each in sums)


def _term(name: str, factor: int) -> str:
    size = name if abs(factor) == 1 else f"{abs(factor)} * {name}"
    return f" - {size}" if factor < 0 else f" + {size}"


def _slope(name: str, wanted: Sequence[tuple[Mapping[str, int], float]]) -> float:
    """Return the change of a number with only one argument."""
    base, first = wanted[0]
    for values, value in wanted[1:]:
        if [key for key in base if values[key] != base[key]] == [name]:
            return (value - first) / (values[name] - base[name])
    return math.nan


def _sum(text: str, more: int) -> str:
    return f"{text} + {more}" if more > 0 else f"{text} - {-more}" if more else text
