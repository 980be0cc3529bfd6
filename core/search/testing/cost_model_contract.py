"""`CostModelContract`: a test suite for cost models.

::

    from pegbox.search.testing import CostModelContract

    class TestMyModel(CostModelContract):
        def make(self, *, seed=0):
            return MyModel(seed=seed)

pytest then runs every check of the suite on the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from pegbox.errors import ArgumentError
from pegbox.search.models.report import pairs_in_order
from pegbox.search.protocols import CostModel, Features, Floats
from pegbox.search.testing.subprocess_test import in_another_process


class CostModelContract:
    """A test suite for cost models. Subclass it, override `make`, and pytest runs it."""

    def make(self, *, seed: int = 0) -> CostModel:
        """Make the model to be tested."""
        raise NotImplementedError("override make() to return your cost model")

    def test_gives_a_number_for_each_row(self) -> None:
        model = self.make()
        features, costs = easy_data(40)
        model.fit(features, costs)
        for n in (0, 1, 40):
            scores = np.asarray(model.predict(features[:n]))
            assert scores.shape == (n,)
            assert np.isfinite(scores).all()

    def test_learns_the_order_of_easy_data(self) -> None:
        model = self.make()
        features, costs = easy_data(300)
        model.fit(features[:200], costs[:200])
        right, pairs = pairs_in_order(np.asarray(model.predict(features[200:]), dtype=np.float64), costs[200:])
        assert right > 0.8 * pairs

    def test_learns_from_scratch_each_time(self) -> None:
        features, costs = easy_data(60)
        model, fresh = self.make(), self.make()
        model.fit(features, costs[::-1].copy())
        model.fit(features, costs)
        fresh.fit(features, costs)
        assert np.array_equal(model.predict(features), fresh.predict(features))

    def test_takes_failures(self) -> None:
        features, costs = easy_data(80)
        model = self.make()
        model.fit(features, np.where(features[:, 0] > 0.5, np.inf, costs))
        scores = np.asarray(model.predict(features))
        assert np.isfinite(scores).all()
        assert np.median(scores[features[:, 0] > 0.5]) < np.median(scores[features[:, 0] <= 0.5])

    def test_takes_costs_that_are_all_alike(self) -> None:
        features, _ = easy_data(20)
        for cost in (1e-3, np.inf):
            model = self.make()
            model.fit(features, np.full(20, cost))
            assert np.isfinite(model.predict(features)).all()

    def test_takes_more_columns_than_rows_and_constant_ones(self) -> None:
        for rows, columns in ((2, 1), (6, 50), (30, 3)):
            features = np.random.default_rng(3).random((rows, columns)).astype(np.float32)
            features[:, : columns // 2] = 7.0
            model = self.make()
            model.fit(features, np.arange(1.0, rows + 1))
            assert np.isfinite(model.predict(features)).all()

    def test_gives_the_same_scores_in_another_process(self) -> None:
        assert in_another_process(self, "scores") == self.scores()

    def test_refuses_to_learn_from_too_few(self) -> None:
        features, costs = easy_data(4)
        model = self.make()
        refused("0 record", lambda: model.fit(features[:0], costs[:0]))
        refused("1 record", lambda: model.fit(features[:1], costs[:1]))

    def test_refuses_what_is_no_number(self) -> None:
        features, costs = easy_data(4)
        model = self.make()
        refused(r"costs\[2\] is nan", lambda: model.fit(features, np.where(np.arange(4) == 2, np.nan, costs)))
        features[1, 2] = np.nan
        refused(r"features\[1, 2\] is nan", lambda: model.fit(features, costs))

    def test_refuses_to_predict_before_it_has_learned(self) -> None:
        model = self.make()
        refused("call fit", lambda: model.predict(easy_data(4)[0]))

    def scores(self) -> str:
        """Write the scores of a model with a given seed as text."""
        features, costs = easy_data(60)
        model = self.make(seed=5)
        model.fit(features[:40], costs[:40])
        return " ".join(float(score).hex() for score in model.predict(features[40:]))


def easy_data(rows: int) -> tuple[Features, Floats]:
    """Make data with five features, two of which decide the costs."""
    features = np.random.default_rng(17).random((rows, 5)).astype(np.float32)
    costs: Floats = 1e-3 * (1.0 + 2.0 * features[:, 0] + features[:, 3]).astype(np.float64)
    return features, costs


def refused(message: str, call: Callable[[], object]) -> None:
    """Assert that the call raises `ArgumentError` with a message that contains the pattern."""
    try:
        call()
    except ArgumentError as error:
        said = str(error)
    else:
        raise AssertionError(f"nothing was raised; expected an ArgumentError that says {message!r}")
    assert re.search(message, said), f"{message!r} is not in the message: {said}"
