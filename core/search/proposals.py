"""The loop's side of ask and tell: it trusts no tuner to be right, and names the one that is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pegbox.measure.result import Result
from pegbox.search.model_report import ModelReport
from pegbox.search.protocols import SelfReporting, Tuner

if TYPE_CHECKING:
    from pegbox.space import Config, ConfigSpace

MAX_STALE_ASKS = 8
"""Asks in a row without anything new after which a tuner counts as broken rather than unlucky."""


class Broke(Exception):
    """The tuner or the measurer broke. The error itself, if there is one, is the cause."""


class Proposer:
    """Asks a tuner for configurations that are valid and new, and tells it what came of them."""

    def __init__(self, tuner: Tuner, name: str, *, space: ConfigSpace | None = None) -> None:
        self._tuner = tuner
        self._name = name
        self._space = space
        self._known: dict[Config, Result] = {}

    def ask(self, n: int) -> list[Config]:
        """At most `n` configurations never measured before; none when the tuner proposes none."""
        for _ in range(MAX_STALE_ASKS):
            proposed = self._ask(n)
            fresh = [config for config in dict.fromkeys(proposed) if config not in self._known]
            if fresh or not proposed:
                return fresh
            # It gets the answer that is known already, and the chance to move on.
            self.tell(proposed, [self._known[config] for config in proposed])
        raise Broke(
            f"tuner {self._name!r} proposed only configurations that are measured already, {MAX_STALE_ASKS} times "
            "in a row; a tuner has to return [] when it has nothing new"
        )

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._known.update(zip(configs, results, strict=True))
        try:
            self._tuner.tell(configs, results)
        except Exception as error:
            raise Broke(f"tuner {self._name!r} raised {type(error).__name__} in tell(): {error}") from error

    def model_report(self) -> ModelReport | None:
        """What the tuner says of its model, if it has one."""
        return self._tuner.model_report() if isinstance(self._tuner, SelfReporting) else None

    def _ask(self, n: int) -> list[Config]:
        try:
            proposed = list(self._tuner.ask(n))[:n]
        except Exception as error:
            raise Broke(f"tuner {self._name!r} raised {type(error).__name__} in ask({n}): {error}") from error
        for config in proposed:
            self._check(config)
        return proposed

    def _check(self, config: Config) -> None:
        digits = getattr(config, "digits", None)
        if digits is None:
            raise Broke(f"tuner {self._name!r} proposed {config!r}, which is no Config; take them from space.config()")
        if self._space is None:
            return
        if config.space is not self._space and config.space.fingerprint != self._space.fingerprint:
            raise Broke(f"tuner {self._name!r} proposed a configuration of another space: {config}")
        if not bool(self._space.is_valid(np.asarray([digits], dtype=np.int64))[0]):
            raise Broke(f"tuner {self._name!r} proposed a configuration that the space excludes: {config}")
