"""Prediction: the configurations of a task that experience ranks first, before anything of it is measured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pegbox.features import program_features
from pegbox.search.models.experience import shipped_experience
from pegbox.space import Config
from pegbox.task.task import Task

CANDIDATES = 1500
"""The random configurations among which the best is chosen."""


def predicted_configs(task: Task, *, candidates: int = CANDIDATES) -> Iterator[Config]:
    """The configurations of a random sample of the space, those first that experience expects to be fastest.

    Configurations that the template refuses are left out. The order is the same in every process.

    Raises:
        SpaceError: no configuration of the space is valid.
        PluginError: the cost model of experience cannot be loaded.
    """
    rows = task.space.sample(min(candidates, task.space.size), np.random.default_rng(0))
    experience = shipped_experience(task)
    if experience is not None:
        experience.prepare()  # it learns while the features are computed
    source = program_features(task)
    features = source(rows)
    scores = np.zeros(len(rows)) if experience is None else experience(features)
    scores[features[:, source.names.index("invalid")] > 0] = -np.inf
    for place in np.argsort(-scores, kind="stable"):
        if np.isfinite(scores[place]):
            yield task.space.config(rows[place])
