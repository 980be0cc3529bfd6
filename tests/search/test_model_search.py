"""A search of a model: relatives of the best, few kinds of programs, and neighbours that are good as well."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import pegbox as pb
from pegbox.features import program_features
from pegbox.search import Features, Floats
from pegbox.search.models import model_search
from pegbox.search.models.model_search import NEAR_CLASSES, ModelSearch
from pegbox.task.task import Task


@pytest.fixture(scope="module")
def task() -> Task:
    return pb.create_task("matmul", args=(61, 128, 96), target="llvm -mcpu=x86-64-v3 -num-cores 1")


def near(wanted: Features, features: Features) -> Floats:
    return np.asarray(-np.abs(features - wanted).sum(axis=1), dtype=np.float64)


def search(task: Task, wanted: Features) -> ModelSearch:
    return ModelSearch(program_features(task), partial(near, wanted), np.random.default_rng(0))


def test_relatives_of_the_best_score_higher_than_a_sample(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    source = program_features(task)
    wanted = source(task.space.sample(1, np.random.default_rng(5)))[0]
    found = search(task, wanted).ranked(40)
    again = search(task, wanted).ranked(40)
    assert found.tolist() == again.tolist()
    assert len(np.unique(found, axis=0)) == len(found)
    assert task.space.is_valid(found).all()
    assert source.within(found, classes=NEAR_CLASSES).all()
    monkeypatch.setattr(model_search, "STEPS", 0)
    sampled = search(task, wanted).ranked(40)
    assert near(wanted, source(found[:10])).mean() > near(wanted, source(sampled[:10])).mean()


def test_one_that_stands_alone_comes_after_those_among_equals(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    source = program_features(task)
    monkeypatch.setattr(model_search, "STEPS", 0)
    sampled = ModelSearch(source, lambda features: np.zeros(len(features)), np.random.default_rng(0)).ranked(40)
    alone = source(sampled[:1])

    around = task.space.neighbors(np.repeat(sampled[:1], 1000, axis=0), np.random.default_rng(0))
    slow = {row.tobytes() for row in source(around)}

    def score(features: Features) -> Floats:
        plain = [0.0 if row.tobytes() in slow else 0.9 for row in features]
        return np.where((features == alone).all(axis=1), 1.0, plain)

    monkeypatch.setattr(model_search, "STEADY", 0)
    assert (source(ModelSearch(source, score, np.random.default_rng(0)).ranked(40)[:1]) == alone).all()
    monkeypatch.setattr(model_search, "STEADY", 32)
    steady = ModelSearch(source, score, np.random.default_rng(0)).ranked(40)
    assert score(source(steady[:1])).tolist() == [0.9]
