"""Fallback configurations: what a template runs with where nothing was tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pegbox.errors import PegboxError, SpaceError
from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity
from pegbox.plugins.tvm.autotvm.task.config_space import ConfigSpace
from pegbox.space import SplitKnob
from pegbox.space.split import divisors
from pegbox.task.apply import handle


class FallbackError(SpaceError, RuntimeError):
    """No such fallback."""


class FallbackConfigEntity(ConfigSpace):
    """What a template runs with where nothing was tuned: the first value of each knob, or what the template sets."""

    is_fallback = True

    def __init__(self) -> None:
        super().__init__()
        self._set: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self._set[name] if name in self._set else super().__getitem__(name)

    def __setitem__(self, name: str, entity: Any) -> None:
        """Choose the value of a knob."""
        self._set[name] = entity

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Choose the split into divisors that are as large as the constraints allow, innermost first; -1 allows any.

        Raises:
            FallbackError: no knob of that name that splits, or no divisor is as small.
        """
        knob = self._view.space.knobs.get(name)
        if not isinstance(knob, SplitKnob):
            raise FallbackError(f"fallback_split({name!r}): no such split knob; declare it with define_split before")
        try:
            self[name] = handle(knob.within(list(constraints)))
        except SpaceError as error:
            raise FallbackError(str(error)) from error

    def fallback_with_reference_log(self, ref_log: Sequence[tuple[Any, Any]]) -> None:
        """Choose the splits like those of the most similar configuration of a log; other knobs as there.

        Args:
            ref_log: inputs and results, as `record.load_from_file` gives them.
        """
        knobs = self._view.space.knobs
        splits = {name: knob for name, knob in knobs.items() if isinstance(knob, SplitKnob)}
        configs = [_with_space(inp) for inp, _ in ref_log]
        scored = [(_similarity(splits, config), config) for config in configs]
        score, config = max(scored, key=lambda item: item[0], default=(0.0, None))
        if config is None or score == 0:
            return
        for name in splits:
            self.fallback_split(name, [-1, *config[name].size[1:]])
        for name in knobs.keys() - splits.keys():
            self[name] = config[name]

    def __repr__(self) -> str:
        shown = ", ".join(f"({name!r}, {self[name]})" for name in self)
        return f"[{shown}],{self.code_hash}"


def _with_space(inp: Any) -> Any:
    """The configuration of an input; one that was read from a log in the space of its task, where that is known."""
    if inp.config.config is not None:
        return inp.config
    try:
        return ConfigEntity.of(inp.task.config_of(inp.config))
    except PegboxError:
        return inp.config


def _similarity(splits: Mapping[str, SplitKnob], config: Any) -> float:
    """How many divisors of each split's extent are divisors of the configuration's as well, as shares, summed."""
    total = 0.0
    for name, knob in splits.items():
        inner = int(np.prod(config[name].size[1:], dtype=np.int64))
        outer = config[name].size[0]
        if outer == -1 and config.config is not None:
            other = config.config.space.knobs[name].extent
        else:
            other = inner * max(outer, 1)
        own = divisors(knob.extent)
        total += sum(other % d == 0 for d in own) / len(own)
    return total
