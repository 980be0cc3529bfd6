"""Functions that call for costs themselves can be asked."""

import gc
import random
import weakref
from collections.abc import Sequence

import numpy as np
import pytest

from pegbox.tuners.optimizers.strategy_thread import Evaluate, StrategyThread

A, B, C = (1,), (2,), (3,)


def test_it_stops_for_unknown_costs_alone() -> None:
    seen = []

    def search(evaluate: Evaluate) -> None:
        seen.append(evaluate([A, B]))
        seen.append(evaluate([B, C]))
        seen.append(evaluate([A, C]))

    thread = StrategyThread(search, seed=0)
    assert thread.wanted() == [A, B]
    thread.costs[A] = 0.1
    assert thread.wanted() == [B]
    thread.costs[B] = 0.2
    assert thread.wanted() == [C]
    thread.costs[C] = 0.3
    assert thread.wanted() == []
    assert seen == [[0.1, 0.2], [0.2, 0.3], [0.1, 0.3]]
    assert thread.error is None


def test_draws_follow_the_seed_and_leave_those_of_the_program_alone() -> None:
    def search(evaluate: Evaluate) -> None:
        while True:
            evaluate([(random.random(), np.random.random())])

    def drawn(seed: int) -> Sequence[object]:
        thread, points = StrategyThread(search, seed), []
        for _ in range(3):
            points += thread.wanted()
            random.random()
            thread.costs[points[-1]] = 1.0
        thread.stop()
        return points

    assert drawn(5) == drawn(5) != drawn(6)
    random.seed(3)
    np.random.seed(3)
    alone = random.random(), np.random.random()
    random.seed(3)
    np.random.seed(3)
    drawn(5)
    random.seed(3)
    np.random.seed(3)
    thread = StrategyThread(search, 5)
    thread.wanted()
    assert (random.random(), np.random.random()) == alone
    thread.stop()


def test_an_error_ends_it_and_is_kept() -> None:
    def search(evaluate: Evaluate) -> None:
        evaluate([A])
        raise ValueError("no more")

    thread = StrategyThread(search, seed=0)
    thread.wanted()
    thread.costs[A] = 1.0
    assert thread.wanted() == []
    assert str(thread.error) == "no more"


def test_a_function_that_turns_in_a_circle_is_stopped() -> None:
    def search(evaluate: Evaluate) -> None:
        while True:
            evaluate([A])

    thread = StrategyThread(search, seed=0)
    thread.costs[A] = 1.0
    assert thread.wanted() == []


def test_the_thread_ends_when_it_is_stopped_at_any_point() -> None:
    def search(evaluate: Evaluate) -> None:
        evaluate([A])

    for begun in (False, True):
        thread = StrategyThread(search, seed=0)
        if begun:
            thread.wanted()
        thread.stop()
        thread._thread.join(10)
        assert not thread._thread.is_alive()


def test_the_thread_of_a_forgotten_tuner_ends() -> None:
    pytest.importorskip("kernel_tuner")
    from pegbox.search import make_tuner
    from pegbox.search.testing import small_space

    tuner = make_tuner("kernel_tuner", small_space(), seed=0)
    tuner.ask(1)
    thread, gone = tuner._strategy._thread, weakref.ref(tuner)  # type: ignore[attr-defined]
    del tuner
    gc.collect()
    assert gone() is None
    thread.join(10)
    assert not thread.is_alive()
