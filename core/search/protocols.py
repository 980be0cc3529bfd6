"""The protocols of tuners and cost models.

Both are structural: a plugin writes a class with these methods and inherits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from pegbox.measure.result import Result

if TYPE_CHECKING:
    from pegbox.search.models.report import ModelReport
    from pegbox.space import Config, ConfigSpace, Digits

CHOOSING = "choosing what to try"
LEARNING = "learning from experience"
"""What tuners do when they are asked, in words."""

Features: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.float64]


@runtime_checkable
class Tuner(Protocol):
    """Proposes configurations and learns from what they cost.

    A factory `factory(space, *, seed: int, **options)` makes one. A tuner never proposes a configuration twice,
    nor one that `tell` has already shown it, and draws only from its own generator seeded with `seed`: the same
    seed and the same measurements give the same proposals. A tuner may carry an `int` attribute `batch_size`,
    which the tuning loop uses when its caller names no other, and `asks_ahead = True`: then it is told the first half
    of a batch, and asked for the next one, while the others are measured, as far as that does not disturb them. One
    that works in the background has a method `wait()`, which returns when it does not any more. One that leaves the
    `experience` aside that its factory is given says `experienced = False`. `activity`, a text, says what it does when
    it is asked next, as the progress line shows it: "learning from experience".
    """

    def ask(self, n: int, /) -> Sequence[Config]:
        """Propose at most `n` new configurations; an empty sequence says that the space is exhausted."""

    def tell(self, configs: Sequence[Config], results: Sequence[Result], /) -> None:
        """Take in measured results, in the order of `configs`; they need not come from `ask` (history, `--resume`)."""


@runtime_checkable
class SelfReporting(Protocol):
    """A tuner that says how good its model is."""

    def model_report(self) -> ModelReport | None:
        """None while the model has not been tested."""


class FeatureSource(Protocol):
    """Turns configurations into numbers that a cost model can learn from."""

    @property
    def names(self) -> tuple[str, ...]:
        """The meaning of each column."""

    def __call__(self, digits: Digits, /) -> Features:
        """Features of rows of digits (n, knobs), of shape (n, len(names)); rows do not depend on each other."""


@dataclass(frozen=True)
class Transfer:
    """Measurements of another shape of the same template: `features` (n, d) of their programs, `costs` (n,) in seconds.

    The columns are those of the `program` features that the tuner is given; `name` says where they come from, and
    `weight`, from 0 to 1, what one of them counts beside those of other sources.
    """

    name: str
    features: Features
    costs: Floats
    weight: float = 1.0


Prior: TypeAlias = Callable[[Features], Floats]
"""Scores programs by their features, (n, d), before anything is measured: (n,), the higher, the faster."""


@runtime_checkable
class CostModel(Protocol):
    """Ranks configurations from their features. A factory `factory(*, seed: int, **options)` makes one."""

    def fit(self, features: Features, costs: Floats, /) -> None:
        """Learn from scratch. `features` has shape (n, d); `costs` (n,) are seconds, infinity for a failed trial."""

    def predict(self, features: Features, /) -> Floats:
        """Scores of shape (n,): the higher, the faster. Only their order and their spread have a meaning."""


class SearchTask(Protocol):
    """The little that the search knows of a task."""

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def space(self) -> ConfigSpace:
        """The space of its configurations."""

    @property
    def flop(self) -> float:
        """Floating-point operations of one call."""


TunerFactory: TypeAlias = Callable[..., Tuner]
