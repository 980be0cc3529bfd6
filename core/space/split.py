"""Split knobs: the extents into which an axis is split. Policies follow AutoTVM's `define_split`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from pegbox.checks import check_callable, check_flag, check_int, check_list, near_names
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space.entities import SplitEntity
from pegbox.space.knob import Condition, Floats, ListedKnob, preview, refuse_too_many, require_values

POLICIES = ("factors", "power2", "verbose", "candidate")
MAX_EXTENT = 1 << 40
MAX_OUTPUTS = 64


@dataclass(frozen=True, eq=False)
class SplitKnob(ListedKnob):
    """Ways to split an axis of `extent` iterations; the outermost extent is inferred, rounded up."""

    kind: ClassVar[str] = "split"
    tag: ClassVar[str] = "sp"
    entities: tuple[SplitEntity, ...] = field(repr=False)
    extent: int
    policy: str

    @property
    def num_outputs(self) -> int:
        return len(self.entities[0].sizes)

    def content(self) -> list[Any]:
        return [self.extent, [list(choice.sizes) for choice in self.entities]]

    def features(self) -> tuple[list[str], Floats]:
        return [f"{self.name}.log2[{i}]" for i in range(self.num_outputs)], self.coordinates()

    def coordinates(self) -> Floats:
        """Return the logarithms of the extents."""
        inner = np.array([choice.sizes[1:] for choice in self.entities], dtype=np.float64).reshape(len(self), -1)
        outer = np.ceil(self.extent / inner.prod(axis=1))
        return np.asarray(np.log2(np.column_stack([outer, inner])))

    def lookup_key(self, value: Any) -> tuple[int, ...]:
        """Return the inner extents; raise if the outermost extent is neither -1 nor the inferred one."""
        sizes = tuple(value)
        if not sizes or not all(type(size) is int for size in sizes):
            raise ValueError(f"{value_text(value)} is not a list of extents")
        outer, inner = sizes[0], sizes[1:]
        if min(inner, default=1) < 1 or outer not in (-1, inferred_outer(self.extent, inner)):
            raise ValueError(f"outermost extent {outer} does not fit {inner} in an axis of {self.extent}")
        return inner

    def within(self, limits: Sequence[int]) -> SplitEntity:
        """Return the split into divisors that are as large as `limits` allow, innermost first; -1 allows any.

        An axis of 128 within [-1, 8, 4] is split into [4, 8, 4], one of 49 into [7, 7, 1]. The split need not be one of
        the knob's values.

        Raises:
            SpaceError: the number of limits is not the number of loops, or no divisor is within a limit.
        """
        wanted = f"the largest extent of each of the {self.num_outputs} loops, -1 for any"
        bounds = check_list(f"split knob {self.name!r}: limits", limits, wanted, error=SpaceError, of=int)
        if len(bounds) != self.num_outputs:
            raise SpaceError(f"split knob {self.name!r}: limits {list(bounds)}: give {wanted}")
        sizes: list[int] = []
        left = self.extent
        for bound in reversed(bounds):
            largest = max((d for d in divisors(left) if bound in (-1, d) or d < bound), default=None)
            if largest is None:
                raise SpaceError(f"split knob {self.name!r}: no divisor of {left} is within {bound}; give 1 or more")
            sizes.insert(0, largest)
            left //= largest
        return SplitEntity(tuple(sizes))

    def detail(self) -> str:
        return f"{self.extent} into {self.num_outputs}, {self.policy}: {preview(self.entities, limit=4)}"


def inferred_outer(extent: int, inner: Sequence[int]) -> int:
    """Compute the extent of the outermost loop: enough tiles to cover the axis."""
    return -(-extent // math.prod(inner))


@dataclass(frozen=True)
class SplitOptions:
    """The arguments of `ConfigSpace.define_split` that decide which splits there are."""

    policy: str
    num_outputs: int | None = None
    max_factor: int | None = None
    filter: Callable[[SplitEntity], bool] | None = None
    no_tail: bool | None = None
    candidate: Sequence[Sequence[int]] | None = None


def split_knob(name: str, axis: int, options: SplitOptions, *, when: Condition | None = None) -> SplitKnob:
    """Make a split knob.

    Raises:
        SpaceError: an argument is out of its domain, or nothing is left to choose from.
    """
    if isinstance(axis, (bool, np.bool_)) or not isinstance(axis, (int, np.integer)):
        raise SpaceError(
            f"split knob {value_text(name)}: the axis must be its extent as an int, got {value_text(axis)}"
        )
    if not 1 <= axis <= MAX_EXTENT:
        raise SpaceError(
            f"split knob {value_text(name)}: the axis has extent {value_text(axis)}; splits need 1 to 2**40 iterations"
        )
    extent = int(axis)
    _check_arguments(name, options)
    policy, filter = options.policy, options.filter
    if options.candidate is not None:
        choices = _candidates(name, extent, options.candidate, options)
    else:
        tails = policy != "factors" if options.no_tail is None else not check_flag("no_tail", options.no_tail)
        outputs = 2 if options.num_outputs is None else int(options.num_outputs)
        choices = policy_splits(extent, policy, outputs, min(extent, int(options.max_factor or extent)), tails)
    if filter is not None:
        wanted = "a function of a split, lambda e: ..."
        check_callable(f"split knob {name!r}: filter", filter, wanted, error=SpaceError, arguments=1)
        choices = tuple(choice for choice in choices if filter(choice))
    require_values(name, choices, f"no split of {extent} is left under policy {policy!r}; loosen filter or no_tail")
    return SplitKnob(name, choices, extent, policy, when=when)


def _check_arguments(name: str, options: SplitOptions) -> None:
    policy = options.policy
    if not isinstance(policy, str) or policy not in POLICIES:
        raise SpaceError(
            f"split knob {value_text(name)}: unknown policy {value_text(policy)}{near_names(policy, POLICIES)}"
        )
    if (policy == "candidate") != (options.candidate is not None):
        raise SpaceError(f"split knob {name!r}: policy 'candidate' and the argument candidate= go together")
    if options.num_outputs is not None:
        check_int(f"split knob {name!r}: num_outputs", options.num_outputs, maximum=MAX_OUTPUTS, error=SpaceError)
    if options.max_factor is not None:
        check_int(f"split knob {name!r}: max_factor", options.max_factor, error=SpaceError)


@lru_cache(maxsize=512)
def policy_splits(extent: int, policy: str, num_outputs: int, max_factor: int, tails: bool) -> tuple[SplitEntity, ...]:
    """Return all splits under a policy, in AutoTVM's order (the factor next to the inferred one varies fastest).

    Cached because a template declares the same space again for every candidate that it builds.

    Raises:
        SpaceError: there are too many to list.
    """
    every = {*(divisors(extent) if policy != "power2" else ()), *(powers_of_two(extent) if policy != "factors" else ())}
    factors = sorted(f for f in every if f <= max_factor)
    # Counting by products is quick even if the list would be endless.
    counts = Counter({1: 1})
    for _ in range(num_outputs - 1):
        grown: Counter[int] = Counter()
        for product, count in counts.items():
            for factor in factors:
                if _fits(extent, product * factor, tails):
                    grown[product * factor] += count
        counts = grown
    refuse_too_many(f"split of {extent}", counts.total(), "give max_factor, fewer outputs, or the policy 'candidate'")
    stacks: list[tuple[tuple[int, ...], int]] = [((), 1)]
    for _ in range(num_outputs - 1):
        stacks = [
            ((*stack, factor), product * factor)
            for stack, product in stacks
            for factor in factors
            if _fits(extent, product * factor, tails)
        ]
    return tuple(SplitEntity((-1, *reversed(stack))) for stack, _ in stacks)


def _fits(extent: int, product: int, tails: bool) -> bool:
    """Decide if inner extents of this product are allowed. If a product is not, neither is one with further factors."""
    return product <= extent and (tails or extent % product == 0)


def divisors(n: int) -> list[int]:
    """Return all divisors, ascending."""
    n = check_int("divisors: n", n, minimum=0, maximum=MAX_EXTENT, error=SpaceError)
    tries = np.arange(1, math.isqrt(n) + 1)
    small = tries[n % tries == 0].tolist()
    return sorted({*small, *(n // d for d in small)})


def powers_of_two(n: int) -> list[int]:
    """List 1, 2, 4, ... up to n."""
    n = check_int("powers_of_two: n", n, minimum=0, maximum=MAX_EXTENT, error=SpaceError)
    return [1 << bit for bit in range(n.bit_length())]


def _candidates(
    name: str, extent: int, candidate: Sequence[Sequence[int]], options: SplitOptions
) -> tuple[SplitEntity, ...]:
    """Return the checked candidates, without repetitions of one split."""
    listed = check_list(f"split knob {name!r}: candidate", candidate, "a list of lists of extents", error=SpaceError)
    rows = [_checked_candidate(name, extent, row) for row in listed]
    outputs, largest = options.num_outputs or (len(rows[0].sizes) if rows else 0), options.max_factor or math.inf
    by_inner: dict[tuple[int, ...], SplitEntity] = {}
    for row in rows:
        if len(row.sizes) != outputs:
            raise SpaceError(f"split knob {name!r}: candidate {row} has {len(row.sizes)} extents, expected {outputs}")
        inner = row.sizes[1:]
        if max(inner, default=1) <= largest and not (options.no_tail and extent % math.prod(inner)):
            by_inner.setdefault(inner, row)
    return tuple(by_inner.values())


def _checked_candidate(name: str, extent: int, row: Sequence[int]) -> SplitEntity:
    try:
        sizes = tuple(int(size) for size in row)
    except (TypeError, ValueError, OverflowError) as error:
        raise SpaceError(f"split knob {name!r}: candidate {row!r} is not a list of extents") from error
    if not sizes or any(size < 1 for size in sizes[1:]) or sizes[0] == 0 or sizes[0] < -1:
        raise SpaceError(
            f"split knob {name!r}: candidate {list(sizes)}: extents are positive, only the first may be -1"
        )
    if sizes[0] not in (-1, outer := inferred_outer(extent, sizes[1:])):
        raise SpaceError(
            f"split knob {name!r}: candidate {list(sizes)} does not cover an axis of {extent}: "
            f"its outermost extent would be {outer}; write -1 to have it inferred"
        )
    return SplitEntity(sizes)
