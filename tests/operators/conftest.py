"""Operators in tests: with few candidates, whose comparison takes most of a first call's time."""

from __future__ import annotations

from functools import partial

import pytest

from pegbox.search.models import prediction
from pegbox.search.models.prediction import lowered_predictions, predicted_configs


@pytest.fixture(autouse=True)
def _few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "predicted_configs", partial(predicted_configs, candidates=8))
    monkeypatch.setattr(prediction, "lowered_predictions", partial(lowered_predictions, candidates=8))
