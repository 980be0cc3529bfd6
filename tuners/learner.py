"""`Learner`: a cost model fitted to the trials, combined with models of other shapes and experience."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from pegbox.errors import ArgumentError
from pegbox.search import (
    CostModel,
    Experience,
    Floats,
    Prior,
    Transfer,
    checked_scores,
    make_cost_model,
    pairs_in_order,
    spread,
)
from pegbox.tuners.features import FeatureTable
from pegbox.tuners.rows import Digits


class Learner:
    """A learner scores configurations; higher is faster.

    `model` is the name of a cost model with its options, or a cost model. With `transfer`, a second one is fitted on
    those measurements; without, the priors in the table replace it. Only their scores exist until `fit` is called.
    After that, they have the weight of `weight` own trials if they rank the known trials perfectly, less if they do
    not, and none if they are no better than chance.
    """

    def __init__(
        self,
        table: FeatureTable,
        model: str | CostModel,
        *,
        seed: int = 0,
        options: dict[str, object] | None = None,
        transfer: Sequence[Transfer] = (),
        weight: int = 32,
    ) -> None:
        self._table = table
        self._weight = weight
        self._prior: Prior | None = None
        if transfer:
            again = make_cost_model(model, seed=seed, options=options) if isinstance(model, str) else model
            known, columns = experience_of(transfer, copy.deepcopy(again), table), table.program_columns
            self._prior = lambda features: known(features[:, columns])
        elif table.prior_columns.start < table.prior_columns.stop:
            priors = table.prior_columns
            self._prior = lambda features: features[:, priors].mean(axis=1, dtype=np.float64)
        self._model = make_cost_model(model, seed=seed, options=options)
        self.fitted = False
        """True once it has learned from its own trials."""
        self._scale = 1.0
        self._share = 1.0
        self._scores: Floats = np.empty(0)

    @property
    def ready(self) -> bool:
        """True once it can compute scores."""
        return self._prior is not None or self.fitted

    def fit(self, rows: Digits, costs: Floats) -> None:
        """Learn from scratch from rows of digits and their costs in seconds."""
        self._table.trim()
        features = self._table(rows)
        self._model.fit(features, costs)
        self.fitted = True
        self._scores = np.empty(0)
        if self._prior is not None:
            self._scale = spread(self._model.predict(features))
            trust = self._weight * agreement(self._prior(features), costs)
            self._share = trust / (trust + len(rows))

    def score(self, rows: Digits) -> Floats:
        """Compute scores of shape (n,). Scores since the last fit are cached."""
        places = self._table.places(rows)
        if len(self._scores) < len(self._table):
            unknown = np.full(2 * len(self._table) - len(self._scores), np.nan)
            self._scores = np.concatenate([self._scores, unknown])
        missing = np.unique(places[np.isnan(self._scores[places])])
        if len(missing):
            features = self._table.at(missing)
            scores = before = None if self._prior is None else self._prior(features)
            if self.fitted or before is None:
                scores = checked_scores(self._model, features)
                if before is not None:
                    scores = self._share * before + (1.0 - self._share) * scores / self._scale
            self._scores[missing] = scores
        return self._scores[places]


def agreement(scores: Floats, costs: Floats) -> float:
    """Measure the agreement of the scores with the order of the costs: from 0, no better than chance, to 1."""
    right, pairs = pairs_in_order(scores, costs)
    return max(0.0, 2.0 * right / pairs - 1.0) if pairs else 0.0


def experience_of(transfer: Sequence[Transfer], model: str | CostModel, table: FeatureTable) -> Experience:
    """Predict the costs of the programs in `table` from measurements of other shapes.

    Raises `ArgumentError` if the table has no features of programs, or other ones than the measurements.
    """
    columns, names = table.program_columns, ", ".join(source.name for source in transfer)
    if columns is None:
        raise ArgumentError(
            f"transfer from {names} needs features of programs, which mean the same for every shape; there are "
            "none here (features='knobs', or a space whose task has no template): leave transfer out"
        )
    for source in transfer:
        if source.features.ndim != 2 or source.features.shape[1] != columns.stop - columns.start:
            raise ArgumentError(
                f"transfer from {source.name}: features of shape {source.features.shape}, but programs here have "
                f"{columns.stop - columns.start} features; take them from the same program features"
            )
    return Experience(transfer, model)
