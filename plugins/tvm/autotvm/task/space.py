"""Spaces by AutoTVM's names: the `cfg` of a template, the space of a task, and the values of knobs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pegbox.space
from pegbox import TemplateConfig, te
from pegbox.errors import SpaceError
from pegbox.space import Knob, OtherEntity, SplitKnob
from pegbox.task import ApplyingConfig, handle


class Knobs:
    """The result of `get_config()`: pegbox's `cfg`, with AutoTVM's further methods.

    Args:
        view: pegbox's, which declares the knobs or applies a configuration.
        is_fallback: nothing was tuned; knobs have their first values, or those that the template sets.
    """

    def __init__(self, view: TemplateConfig, *, is_fallback: bool = False) -> None:
        self.view, self.is_fallback = view, is_fallback
        self._set: dict[str, Any] = {}
        self._filter: Callable[[Any], bool] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "view"), name)  # a copy has none at first

    def __getitem__(self, name: str) -> Any:
        return self._set[name] if name in self._set else self.view[name]

    def __setitem__(self, name: str, entity: Any) -> None:
        """Run with this value of a knob."""
        self._set[name] = entity

    @staticmethod
    def axis(var: Any) -> Any:
        """Return the axis, or one of that many iterations."""
        return te.reduce_axis((0, var), name="axis") if isinstance(var, int) else var

    reduce_axis = axis

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> tuple[str, ...]:
        """Declare a split; see `pegbox.space.ConfigSpace.define_split`. The outermost extent is always inferred."""
        if "candidate" in options:
            options["candidate"] = [[-1, *row[1:]] for row in options["candidate"]]
        return self.view.define_split(name, axis, "factors" if policy == "all" else policy, **options)

    def multi_filter(self, filter: Callable[[Any], bool]) -> None:
        """Keep the configurations for which the filter is true; it depends on all knobs of the template."""
        self._filter = filter

    def close(self) -> None:
        """Make the filter a constraint of the space, once all knobs are declared."""
        if self._filter is not None and not isinstance(self.view, ApplyingConfig) and self._knobs:
            self.view.add_constraint(self._filter, reads=list(self._knobs), message="multi_filter")

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Split into divisors that are as large as the constraints allow, innermost first; -1 allows any.

        Raises `SpaceError` if the knob is not a split, or no divisor is as small.
        """
        knob = self._knobs.get(name)
        if not isinstance(knob, SplitKnob):
            raise SpaceError(f"fallback_split({name!r}): no such split knob; declare it with define_split before")
        self[name] = handle(knob.within(list(constraints)))

    def fallback_with_reference_log(self, ref_log: Iterable[tuple[Any, Any]]) -> None:
        """Set the knobs like the configuration in a log (see `load_from_file`) with the most similar extents."""
        splits = {name: knob.extent for name, knob in self._knobs.items() if isinstance(knob, SplitKnob)}

        def alike(config: Any) -> float:
            return sum(math.gcd(n, config.space.knobs[name].extent) / n for name, n in splits.items())

        configs = [inp.config for inp, _ in ref_log]
        if not configs:
            return
        config = max(configs, key=alike)
        for name in self._knobs:
            if name in splits:
                self.fallback_split(name, [-1, *config[name].size[1:]])
            else:
                self[name] = handle(config[name])

    @property
    def _knobs(self) -> Mapping[str, Knob]:
        knobs: Mapping[str, Knob] = self.view.space.knobs
        return knobs


class ConfigSpace:
    """The space of a task: pegbox's, with AutoTVM's further names."""

    def __init__(self, space: pegbox.space.ConfigSpace) -> None:
        self.space = space

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "space"), name)  # a copy has none at first

    def __len__(self) -> int:
        """Count the configurations that filters leave, or all if they cannot be counted."""
        valid = self.space.num_valid()
        return self.range_length if valid is None else valid

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return str(self.space)

    @property
    def range_length(self) -> int:
        """The number of indices, which filters do not change."""
        return self.space.size

    @property
    def space_map(self) -> Mapping[str, Knob]:
        """The knobs by name."""
        return self.space.knobs

    def is_index_valid(self, index: int) -> bool:
        """Return True if filters leave the configuration of an index."""
        return not self.space.violated(self.space.get(index))


def SplitEntity(size: Sequence[int]) -> Any:
    """Make the value of a split: the extents of the loops, outermost first; -1 has the outermost inferred."""
    return handle(pegbox.space.SplitEntity(tuple(size)))


def ReorderEntity(perm: Sequence[int]) -> Any:
    """Make an order of loops: position i holds the number of the loop that goes there."""
    return handle(pegbox.space.ReorderEntity(tuple(perm)))


def AnnotateEntity(anns: Sequence[str]) -> Any:
    """Make the annotations of loops, one for each."""
    return handle(pegbox.space.AnnotateEntity(tuple(anns)))


def OtherOptionEntity(val: Any) -> OtherEntity:
    """Make the value of a knob of `define_knob`."""
    return OtherEntity(json.dumps(val), val)
