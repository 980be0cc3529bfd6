"""The protocols of tuners and cost models.

Both are structural: a plugin writes a class with these methods and need not inherit from anything.
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
"""The activities of tuners while they are asked, in words."""

Features: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.float64]


@runtime_checkable
class Tuner(Protocol):
    """A tuner proposes configurations and learns from their costs.

    A factory `factory(space, *, seed: int, **options)` makes one. A tuner never proposes a configuration twice, nor one
    that `tell` has already shown it, and draws only from its own generator seeded with `seed`: the same seed and the
    same measurements give the same proposals. A tuner may have an `int` attribute `batch_size`, which the tuning loop
    uses by default. With `asks_ahead = True`, it gets the first half of a batch, and is asked for the next one, while
    the others are measured, as far as that does not disturb them. A tuner that works in the background has a method
    `wait()`, which returns when that work ends. A tuner that does not use the `experience` of its factory has
    `experienced = False`. `activity` is the text of the progress line while it is asked: "learning from experience".
    """

    def ask(self, n: int, /) -> Sequence[Config]:
        """Propose at most `n` new configurations; an empty sequence means that the space is exhausted."""

    def tell(self, configs: Sequence[Config], results: Sequence[Result], /) -> None:
        """Learn from measured results, in the order of `configs`; they need not come from `ask` (`--resume`)."""


@runtime_checkable
class SelfReporting(Protocol):
    """A tuner that reports on its model."""

    def model_report(self) -> ModelReport | None:
        """Report on the model; None if it has not been tested yet."""


class FeatureSource(Protocol):
    """A source of features, which turns configurations into numbers for a cost model."""

    @property
    def names(self) -> tuple[str, ...]:
        """The meaning of each column."""

    def __call__(self, digits: Digits, /) -> Features:
        """Compute features of rows of digits (n, knobs), of shape (n, len(names)); each depends on its row alone."""


@dataclass(frozen=True)
class Transfer:
    """Measurements of another shape of the same template: `features` (n, d) of their programs, `costs` (n,) in seconds.

    The columns are those of the `program` features that the tuner is given; `name` is their source, and `weight`, from
    0 to 1, the weight of each measurement relative to other sources.
    """

    name: str
    features: Features
    costs: Floats
    weight: float = 1.0


Prior: TypeAlias = Callable[[Features], Floats]
"""A function that scores features of programs, (n, d), before any measurement: (n,), higher is faster."""


@runtime_checkable
class CostModel(Protocol):
    """A cost model, which ranks configurations by features. A factory `factory(*, seed: int, **options)` makes one."""

    def fit(self, features: Features, costs: Floats, /) -> None:
        """Learn from scratch. `features` has shape (n, d); `costs` (n,) are seconds, infinity for a failed trial."""

    def predict(self, features: Features, /) -> Floats:
        """Compute scores of shape (n,); higher is faster. Only their order and their spread have a meaning."""


class SearchTask(Protocol):
    """The part of a task that a search uses."""

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def space(self) -> ConfigSpace:
        """The space of its configurations."""

    @property
    def flop(self) -> float:
        """The floating-point operations of one call."""


TunerFactory: TypeAlias = Callable[..., Tuner]
