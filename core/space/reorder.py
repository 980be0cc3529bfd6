"""Reorder knobs: orders of a list of axes. Policies follow AutoTVM's `define_reorder`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np

from pegbox.checks import check_int, check_list, near_names
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space.entities import ReorderEntity
from pegbox.space.knob import AxesKnob, Condition, Floats, checked_axes, refuse_too_many, require_values

POLICIES = ("identity", "all", "interval_all", "interval", "interleave", "interleave_cuda", "candidate")

Chains: TypeAlias = Sequence[Sequence[str]]
Order: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ReorderKnob(AxesKnob):
    """Orders of the axes."""

    kind: ClassVar[str] = "reorder"
    tag: ClassVar[str] = "re"
    entities: tuple[ReorderEntity, ...] = field(repr=False)

    def content(self) -> list[Any]:
        return [list(self.axes), [list(choice.order) for choice in self.entities]]

    def features(self) -> tuple[list[str], Floats]:
        return [f"{self.name}.rank[{axis}]" for axis in self.axes], self.coordinates()

    def coordinates(self) -> Floats:
        """Return ranks: their L1 distance is Spearman's footrule, smallest for a swap of neighbours."""
        return np.argsort(np.array([choice.order for choice in self.entities]), axis=1).astype(np.float64)

    def texts(self) -> list[str]:
        return [" ".join(self.axes[i] for i in choice.order) for choice in self.entities]


@dataclass(frozen=True)
class ReorderOptions:
    """The arguments of `ConfigSpace.define_reorder` that decide about the orders."""

    policy: str
    candidate: Sequence[Sequence[str | int]] | None = None
    interval: tuple[int, int] | None = None
    spatial: Chains | None = None
    reduce: Chains | None = None


def reorder_knob(
    name: str, axes: Sequence[str], options: ReorderOptions, *, when: Condition | None = None
) -> ReorderKnob:
    """Make a reorder knob.

    Raises:
        SpaceError: a policy or axis is unknown, the policy does not take an argument, or there are too many orders.
    """
    names, policy = checked_axes("reorder", name, axes), options.policy
    if not isinstance(policy, str) or policy not in POLICIES:
        raise SpaceError(
            f"reorder knob {value_text(name)}: unknown policy {value_text(policy)}{near_names(policy, POLICIES)}"
        )
    takes, given = _TAKES.get(policy, set()), vars(options)
    for argument, value in given.items():
        if value is not None and argument not in takes | {"policy"}:
            raise SpaceError(
                f"reorder knob {value_text(name)}: policy {value_text(policy)} takes no argument "
                f"{argument}={value_text(value)}"
            )
    for argument in sorted(takes - {"reduce"}):
        if given[argument] is None:
            raise SpaceError(f"reorder knob {name!r}: policy {policy!r} needs the argument {argument}=")
    choices = tuple(ReorderEntity(order) for order in dict.fromkeys(_orders(name, names, options)))
    require_values(name, choices, "candidate= is empty")
    return ReorderKnob(name, choices, names, policy, when=when)


def _orders(name: str, axes: tuple[str, ...], options: ReorderOptions) -> Iterable[Order]:
    match options.policy:
        case "identity":
            return [tuple(range(len(axes)))]
        case "all":
            return _interval_orders(name, len(axes), (0, len(axes)))
        case "interval" | "interval_all":
            return _interval_orders(name, len(axes), options.interval)
        case "interleave" | "interleave_cuda":
            spatial = _chains(name, axes, "spatial", options.spatial)
            reduce = _chains(name, axes, "reduce", () if options.reduce is None else options.reduce)
            return _interleaved(name, len(axes), spatial, reduce, options.policy == "interleave_cuda")
        case "candidate":
            wanted = "a list of orders, each a list of all axes"
            listed = check_list(f"reorder knob {name!r}: candidate", options.candidate, wanted, error=SpaceError)
            return [_candidate(name, axes, row) for row in listed]
        case _:
            raise AssertionError(options.policy)


_TAKES = {
    "interval": {"interval"},
    "interval_all": {"interval"},
    "interleave": {"spatial", "reduce"},
    "interleave_cuda": {"spatial", "reduce"},
    "candidate": {"candidate"},
}


def _position(name: str, axes: tuple[str, ...], axis: str | int) -> int:
    if isinstance(axis, int) and 0 <= axis < len(axes):
        return axis
    if not isinstance(axis, str) or axis not in axes:
        raise SpaceError(f"reorder knob {name!r}: {axis!r} is not among its axes{near_names(axis, axes)}")
    return axes.index(str(axis))


def _chains(name: str, axes: tuple[str, ...], argument: str, given: object) -> list[list[int]]:
    what, wanted = f"reorder knob {name!r}: {argument}", "a list of chains of axes, as in [['y.0', 'y.1']]"
    chains = check_list(what, given, wanted, error=SpaceError)
    listed = [check_list(what, chain, wanted, error=SpaceError) for chain in chains]
    return [[_position(name, axes, axis) for axis in chain] for chain in listed]


def _candidate(name: str, axes: tuple[str, ...], row: Sequence[str | int]) -> Order:
    listed = check_list(f"reorder knob {name!r}: candidate", row, "a list of all axes", error=SpaceError)
    order = tuple(_position(name, axes, axis) for axis in listed)
    if sorted(order) != list(range(len(axes))):
        raise SpaceError(f"reorder knob {name!r}: candidate {list(row)} must hold each of {list(axes)} once")
    return order


def _interval_orders(name: str, count: int, interval: object) -> Iterator[Order]:
    """Yield all orders of the axes begin..end-1, the others staying where they are."""
    what = f"reorder knob {value_text(name)}: interval"
    bounds = check_list(what, interval, "(begin, end), places among the axes", error=SpaceError)
    if len(bounds) != 2:
        raise SpaceError(f"{what}={interval!r}: give (begin, end), places among the axes")
    begin, end = (check_int(what, bound, minimum=0, error=SpaceError) for bound in bounds)
    if not 0 <= begin < end <= count:
        raise SpaceError(f"reorder knob {name!r}: interval {(begin, end)} is not inside its {count} axes")
    refuse_too_many(name, math.factorial(end - begin), "reorder fewer axes, or list orders with policy 'candidate'")
    head, tail = tuple(range(begin)), tuple(range(end, count))
    return (head + middle + tail for middle in itertools.permutations(range(begin, end)))


def _interleaved(
    name: str, count: int, spatial: list[list[int]], reduce: list[list[int]], fixed_inner: bool
) -> Iterator[Order]:
    """Yield orders: outer spatial axes first, then reduction axes mixed with (or followed by) the last spatial ones."""
    listed = [axis for chain in spatial + reduce for axis in chain]
    if sorted(listed) != list(range(count)) or not all(spatial + reduce):
        raise SpaceError(
            f"reorder knob {name!r}: spatial= and reduce= must together hold each of the {count} axes once"
        )
    inner = [chain[-1:] for chain in spatial]
    groups = [[chain[:-1] for chain in spatial], reduce if fixed_inner else inner + reduce]
    lengths = [[len(chain) for chain in group] for group in groups]
    count = math.prod(math.factorial(sum(ns)) // math.prod(map(math.factorial, ns)) for ns in lengths)
    refuse_too_many(name, count, "list orders with policy 'candidate'")
    suffix = tuple(axis for chain in inner for axis in chain) if fixed_inner else ()
    return (tuple(a + b) + suffix for a in _merges(groups[0]) for b in _merges(groups[1]))


def _merges(chains: list[list[int]]) -> Iterator[list[int]]:
    """Yield all ways to merge the chains that keep the order inside each; the chain with most axes left goes first."""
    left = [i for i, chain in enumerate(chains) if chain]
    if not left:
        yield []
        return
    for i in sorted(left, key=lambda i: -len(chains[i])):
        rest = [chain[1:] if j == i else chain for j, chain in enumerate(chains)]
        for tail in _merges(rest):
            yield [chains[i][0], *tail]
