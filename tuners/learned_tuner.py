"""`LearnedTuner`: the base of tuners with a model, which choose a share of each batch by neglected values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pegbox.hooks import bind_options
from pegbox.search import BaseTuner, FeatureSource, Floats, ModelReport, Prior, Transfer
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.choices import Choices, choice_columns
from pegbox.tuners.rows import Digits
from pegbox.tuners.trial_history import TrialHistory


class LearnedTuner(BaseTuner, ABC):
    """The options, the trials and the random generator of a tuner; subclasses make the model in `begin`."""

    Options: ClassVar[type[Any]]
    experienced: bool

    def __init__(
        self,
        space: ConfigSpace,
        *,
        seed: int = 0,
        program: FeatureSource | None = None,
        transfer: Sequence[Transfer] = (),
        experience: Prior | None = None,
        **options: Any,
    ) -> None:
        self._options = self.Options(**bind_options(type(self).__name__, self.Options, options, leading=0))
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._history = TrialHistory(space)
        self._neglected: float = self._options.neglected if choice_columns(space) else 0.0
        self._choices: Choices | None = None
        self.begin(seed, program, transfer, experience if self._options.use_experience else None)

    @abstractmethod
    def begin(
        self, seed: int, program: FeatureSource | None, transfer: Sequence[Transfer], experience: Prior | None
    ) -> None:
        """Set `batch_size` and `experienced`, and make the model; called once, before the first `ask`."""

    @abstractmethod
    def sample(self) -> Digits:
        """Draw random rows of the space, which show how often a value of a choice occurs."""

    def model_report(self) -> ModelReport | None:
        """Compare the model's scores with the costs measured afterwards; None before the first scores."""
        return self._history.predictions.report()

    def random(self, n: int) -> list[Config]:
        """Draw `n` new configurations."""
        return self._history.visited.configs(self._history.visited.sample(n, self._rng))

    def with_neglected(self, chosen: Digits, rows: Digits, scores: Floats, n: int) -> Digits:
        """Add to the chosen rows at most `n` others with the least tried values of choices (see `Choices`)."""
        if self._choices is None:
            self._choices = Choices(self._space, self.sample())
        tried = np.concatenate([self._history.visited.rows, chosen])
        return np.concatenate([chosen, self._choices.neglected(tried, rows, scores, n)])
