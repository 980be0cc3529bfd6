"""Reorder knobs: orders of a list of axes. Policies follow AutoTVM's `define_reorder`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np

from pegbox.checks import check_int, check_list
from pegbox.errors import SpaceError
from pegbox.space.entities import ReorderEntity
from pegbox.space.knob import Condition, Floats, Knob, near_names, preview, refuse_too_many, require_values

POLICIES = ("identity", "all", "interval_all", "interval", "interleave", "interleave_cuda", "candidate")

Chains: TypeAlias = Sequence[Sequence[str]]
Order: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ReorderKnob(Knob):
    """Orders of the named axes, outermost first."""

    kind: ClassVar[str] = "reorder"
    tag: ClassVar[str] = "re"
    axes: tuple[str, ...]
    choices: tuple[ReorderEntity, ...] = field(repr=False)
    policy: str = "all"

    @property
    def entities(self) -> tuple[ReorderEntity, ...]:
        return self.choices

    @property
    def num_outputs(self) -> int:
        return len(self.axes)

    def content(self) -> list[Any]:
        return [list(self.axes), [list(choice.order) for choice in self.choices]]

    def features(self) -> tuple[list[str], Floats]:
        return [f"{self.name}.rank[{axis}]" for axis in self.axes], self._ranks()

    def coordinates(self) -> Floats:
        """Ranks: their L1 distance is Spearman's footrule, smallest for a swap of neighbours."""
        return self._ranks()

    def _ranks(self) -> Floats:
        return np.argsort(np.array([choice.order for choice in self.choices]), axis=1).astype(np.float64)

    def lookup_key(self, value: Any) -> Order:
        return tuple(value)

    def detail(self) -> str:
        shown = preview([" ".join(self.axes[i] for i in choice.order) for choice in self.choices], limit=3)
        return f"{self.policy}: {shown}"


def reorder_knob(
    name: str,
    axes: Sequence[str],
    policy: str,
    *,
    candidate: Sequence[Sequence[str | int]] | None = None,
    interval: tuple[int, int] | None = None,
    spatial: Chains | None = None,
    reduce: Chains | None = None,
    when: Condition | None = None,
) -> ReorderKnob:
    """Make a reorder knob; see `ConfigSpace.define_reorder` for the arguments.

    Raises:
        SpaceError: an unknown policy or axis, an argument the policy does not take, or too many orders.
    """
    names = checked_axes("reorder", name, axes)
    if not isinstance(policy, str) or policy not in POLICIES:
        raise SpaceError(f"reorder knob {name!r}: unknown policy {policy!r}{near_names(policy, POLICIES)}")
    _check_arguments(name, policy, {"candidate": candidate, "interval": interval, "spatial": spatial, "reduce": reduce})
    orders: Iterator[Order]
    match policy:
        case "identity":
            orders = iter([tuple(range(len(names)))])
        case "all":
            orders = _interval_orders(name, len(names), (0, len(names)))
        case "interval" | "interval_all":
            assert interval is not None
            orders = _interval_orders(name, len(names), interval)
        case "interleave" | "interleave_cuda":
            assert spatial is not None
            chains = _chains(name, names, "spatial", spatial)
            reduces = _chains(name, names, "reduce", () if reduce is None else reduce)
            orders = _interleaved(name, len(names), chains, reduces, policy == "interleave_cuda")
        case "candidate":
            assert candidate is not None
            wanted = "a list of orders, each a list of all axes"
            listed = check_list(f"reorder knob {name!r}: candidate", candidate, wanted, error=SpaceError)
            orders = iter([_candidate(name, names, row) for row in listed])
        case _:
            raise AssertionError(policy)
    choices = tuple(ReorderEntity(order) for order in dict.fromkeys(orders))
    require_values(name, choices, "candidate= is empty")
    return ReorderKnob(name, names, choices, policy, when=when)


def checked_axes(family: str, name: str, axes: Sequence[str]) -> tuple[str, ...]:
    """The axes as a tuple of distinct names."""
    names = tuple(check_list(f"{family} knob {name!r}: axes", axes, "a list of names", error=SpaceError))
    if not names or not all(isinstance(axis, str) for axis in names):
        raise SpaceError(f"{family} knob {name!r}: axes must be a list of one or more names, got {axes!r}")
    if len(set(names)) != len(names):
        raise SpaceError(f"{family} knob {name!r}: an axis is listed twice in {list(names)}")
    return names


_TAKES = {
    "interval": {"interval"},
    "interval_all": {"interval"},
    "interleave": {"spatial", "reduce"},
    "interleave_cuda": {"spatial", "reduce"},
    "candidate": {"candidate"},
}


def _check_arguments(name: str, policy: str, given: dict[str, object]) -> None:
    takes = _TAKES.get(policy, set())
    for argument, value in given.items():
        if value is not None and argument not in takes:
            raise SpaceError(f"reorder knob {name!r}: policy {policy!r} takes no argument {argument}={value!r}")
    for argument in sorted(takes - {"reduce"}):
        if given[argument] is None:
            raise SpaceError(f"reorder knob {name!r}: policy {policy!r} needs the argument {argument}=")


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


def _interval_orders(name: str, count: int, interval: tuple[int, int]) -> Iterator[Order]:
    """All orders of the axes begin..end-1, the others staying where they are."""
    what = f"reorder knob {name!r}: interval"
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
    """Outer spatial axes first, then the reduction axes mixed with (or followed by) the innermost spatial ones."""
    listed = [axis for chain in spatial + reduce for axis in chain]
    if sorted(listed) != list(range(count)) or not all(spatial + reduce):
        raise SpaceError(
            f"reorder knob {name!r}: spatial= and reduce= must together hold each of the {count} axes once"
        )
    inner = [chain[-1:] for chain in spatial]
    groups = [[chain[:-1] for chain in spatial], reduce if fixed_inner else inner + reduce]
    refuse_too_many(name, math.prod(_merge_count(g) for g in groups), "list orders with policy 'candidate'")
    suffix = tuple(axis for chain in inner for axis in chain) if fixed_inner else ()
    return (tuple(a + b) + suffix for a in _merges(groups[0]) for b in _merges(groups[1]))


def _merge_count(chains: list[list[int]]) -> int:
    lengths = [len(chain) for chain in chains]
    return math.factorial(sum(lengths)) // math.prod(math.factorial(length) for length in lengths)


def _merges(chains: list[list[int]]) -> Iterator[list[int]]:
    """All ways to merge the chains that keep the order inside each; the chain with most axes left goes first."""
    left = [i for i, chain in enumerate(chains) if chain]
    if not left:
        yield []
        return
    for i in sorted(left, key=lambda i: -len(chains[i])):
        rest = [chain[1:] if j == i else chain for j, chain in enumerate(chains)]
        for tail in _merges(rest):
            yield [chains[i][0], *tail]
