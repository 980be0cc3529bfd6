"""Spaces by AutoTVM's names, over those of pegbox."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import pegbox.space as pegbox_space
from pegbox.codegen.targets.target import Target
from pegbox.errors import SpaceError
from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity, Configurable
from pegbox.plugins.tvm.autotvm.task.entities import VirtualAxis, plain_axes, renamed
from pegbox.space import Knob
from pegbox.space.digits import digits_of, index_of
from pegbox.space.split import inferred_outer
from pegbox.task.config_view import DeclaringConfig

_POLICIES = {"all": "factors"}
"""Policies of define_split as AutoTVM called them before 0.6."""
_MULTI_FILTER = "multi_filter"
_DRAWS, _LISTED = 256, 1 << 16
"""How often a random index is drawn before the indices are listed, and how many of them."""


class OutsideSpace(SpaceError, IndexError):
    """An index that a space does not have, or that its `multi_filter` leaves out."""


class ConfigSpace(Configurable):
    """The knobs of a template. `view` is what pegbox declares them with; without one the space stands alone."""

    def __init__(self, view: DeclaringConfig | None = None) -> None:
        super().__init__()
        self._view = view or DeclaringConfig(Target.default())
        self._declared: dict[str, Callable[[], tuple[str, ...] | None]] = {}
        self._filter: Callable[[Any], bool] | None = None

    @classmethod
    def of(cls, space: pegbox_space.ConfigSpace) -> ConfigSpace:
        """That of a task, whose knobs are declared already."""
        made = cls()
        made._view.space = space
        return made

    @property
    def space(self) -> pegbox_space.ConfigSpace:
        """The space as pegbox has it, with what `multi_filter` leaves as a constraint that reads all knobs."""
        space = self._view.space
        if self._filter is not None and space.knobs:
            others = [c for c in space.constraints if c.message != _MULTI_FILTER]
            if [*space.knobs] != [name for c in space.constraints if c not in others for name in c.reads]:
                space.constraints[:] = others
                space.add_constraint(self._filter, reads=list(space.knobs), message=_MULTI_FILTER)
        return space

    # Declaring ------------------------------------------------------------------------------------------------------

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> list[str]:
        """Declare how an axis is split; see `pegbox.space.ConfigSpace.define_split`."""
        extent = axis.length if isinstance(axis, VirtualAxis) else axis
        view = self._view
        if isinstance(rows := options.get("candidate"), list | tuple):
            options["candidate"] = [_inferred(row, getattr(extent, "extent", extent)) for row in rows]
        return self._define(name, lambda: view.define_split(name, extent, _POLICIES.get(policy, policy), **options))

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> list[str]:
        """Declare an order of axes; see `pegbox.space.ConfigSpace.define_reorder`."""
        plain, view = plain_axes(axes), self._view
        named = {key: renamed(value, axes, plain) for key, value in options.items()}
        return self._define(name, lambda: view.define_reorder(name, plain, policy, **named))

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> list[str]:
        """Declare annotations of axes; see `pegbox.space.ConfigSpace.define_annotate`."""
        plain, view = plain_axes(axes), self._view
        return self._define(name, lambda: view.define_annotate(name, plain, policy, **options))

    def define_knob(self, name: str, candidate: Sequence[Any]) -> list[str]:
        """Declare a choice of one value."""
        return self._define(name, lambda: self._view.define_knob(name, candidate))

    def _define(self, name: str, declare: Callable[[], tuple[str, ...] | None]) -> list[str]:
        """Declare a knob. One of another content takes the place of the one before, as in AutoTVM."""
        known = name in self._view.space.knobs
        self._declared[name] = declare
        try:
            return list(declare() or ())
        except SpaceError:
            if not known:
                raise
        self._view.space = pegbox_space.ConfigSpace()
        return list({key: again() for key, again in self._declared.items()}[name] or ())

    def multi_filter(self, filter: Callable[[Any], bool]) -> None:
        """Keep the configurations for which it is true; it gets what can be asked for a knob's entity by its name."""
        self._filter = filter
        self._view.space.constraints[:] = [c for c in self._view.space.constraints if c.message != _MULTI_FILTER]

    def clear_cache(self) -> None:
        """Nothing: it is asked anew which indices `multi_filter` leaves."""

    def add_flop(self, flop: float) -> None:
        super().add_flop(flop)
        self._view.add_flop(float(getattr(flop, "value", flop)))

    # Looking up -----------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        """The first value of a knob, with which the declaring run goes on."""
        return self._view[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._view.space.knobs)

    def __contains__(self, name: object) -> bool:
        return name in self._view.space.knobs

    def __repr__(self) -> str:
        knobs = "\n".join(f"  {place:2} {knob}" for place, knob in enumerate(self.space_map.values()))
        return f"ConfigSpace (len={len(self)}, range_length={self.range_length}, space_map=\n{knobs}\n)"

    @property
    def space_map(self) -> Mapping[str, Knob]:
        """The knobs by name."""
        return OrderedDict(self._view.space.knobs)

    def __len__(self) -> int:
        """How many configurations `multi_filter` leaves, of all."""
        valid = self.space.num_valid() if self.space.constraints else None
        return self.range_length if valid is None else valid

    def __bool__(self) -> bool:
        return True

    @property
    def range_length(self) -> int:
        """How many indices there are, whatever `multi_filter` leaves."""
        return self._view.space.size

    @property
    def dims(self) -> list[int]:
        """How many values each knob has."""
        return [len(knob) for knob in self._view.space.knobs.values()]

    def get(self, index: int) -> ConfigEntity:
        """The configuration of an index. Raises `IndexError` for one that is outside, or left out by `multi_filter`."""
        if not self.is_index_valid(index):
            raise OutsideSpace(f"index {index} is left out by multi_filter; ask is_index_valid first")
        return ConfigEntity.of(self.space.get(int(index)))

    def is_index_valid(self, index: int) -> bool:
        """Whether `multi_filter` leaves it."""
        if not 0 <= index < self.range_length:
            raise OutsideSpace(f"index {index} is outside the space of {self.range_length:,}, counted from 0")
        return not self.space.constraints or not self.space.violated(self.space.get(int(index)))

    def subrange_length(self, start: int, end: int) -> int:
        """How many of the indices from `start` to before `end` are valid."""
        if not 0 <= start <= end <= self.range_length:
            raise OutsideSpace(f"({start}, {end}) is no range of {self.range_length:,} indices, counted from 0")
        return end - start if not self.space.constraints else sum(map(self.is_index_valid, range(start, end)))

    def get_rand_index(
        self, start: int | None = None, end: int | None = None, to_exclude: Sequence[int] | None = None
    ) -> int:
        """A random valid index from `start` to before `end`, but those excluded. Raises `IndexError` without one."""
        indices, excluded = range(start or 0, self.range_length if end is None else end), set(to_exclude or ())
        for _ in range(_DRAWS if indices else 0):
            index = random.choice(indices)
            if index not in excluded and self.is_index_valid(index):
                return index
        left = [index for index in indices[:_LISTED] if index not in excluded and self.is_index_valid(index)]
        if not left:
            raise OutsideSpace(f"no valid index is left from {indices.start} to before {indices.stop}")
        return random.choice(left)

    def get_next_index(self, index: int, n: int = 1, start: int | None = None, end: int | None = None) -> int | None:
        """The `n`-th valid index after this one, before it where `n` is negative; None outside `start` to `end`."""
        first, stop, step = start or 0, self.range_length if end is None else end, 1 if n > 0 else -1
        left = abs(n)
        while left:
            index += step
            if not first <= index < stop:
                return None
            left -= self.is_index_valid(index)
        return index

    def sample_ints(self, m: int) -> np.ndarray[Any, Any]:
        """`m` different valid indices at random."""
        rows = self.space.sample(m, np.random.default_rng(random.getrandbits(32)))
        return np.array([self.knob2point(row) for row in rows.tolist()], dtype=np.int64)

    def random_walk(self, point: int) -> int:
        """The index of a valid configuration near by."""
        row = np.array([self.point2knob(point)], dtype=np.int64)
        moved = self.space.neighbors(row, np.random.default_rng(random.getrandbits(32)))
        return self.knob2point(moved[0].tolist())

    def point2knob(self, point: int) -> list[int]:
        """The digits of an index, one for each knob."""
        return list(digits_of(point, self.dims))

    def knob2point(self, knob: Sequence[int]) -> int:
        """The index of digits."""
        return index_of(tuple(knob), self.dims)


def _inferred(row: Sequence[int], extent: int) -> Sequence[int]:
    """A candidate of define_split, whose outermost extent AutoTVM does not look at: -1 where it does not fit."""
    return row if row[0] in (-1, inferred_outer(extent, row[1:])) else [-1, *row[1:]]
