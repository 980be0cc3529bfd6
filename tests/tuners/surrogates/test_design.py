"""The choice of the first points."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pegbox.tuners.surrogates.design import informative_places
from pegbox.tuners.surrogates.gaussian_process import GaussianProcess

NOISE = 0.02


def on_a_line(places: list[float]) -> np.ndarray:
    process = GaussianProcess(np.zeros(1, dtype=np.intp))
    return process.covariance(np.array(places)[:, None])


def variance_left(covariance: np.ndarray, places: list[int]) -> float:
    """Compute the mean variance after measurements of some points, in closed form."""
    own = covariance[np.ix_(places, places)] + NOISE * np.eye(len(places))
    across = covariance[:, places]
    return float(np.trace(covariance - across @ np.linalg.solve(own, across.T)))


def test_the_first_point_is_in_the_middle_and_the_next_on_both_sides() -> None:
    chosen = informative_places(on_a_line([place / 10 for place in range(11)]), 3, noise=NOISE).tolist()
    assert chosen[0] == 5
    assert sorted(chosen[1:])[0] < 5 < sorted(chosen[1:])[1]


def test_a_point_amid_many_comes_before_one_that_is_alone() -> None:
    assert informative_places(on_a_line([0.0, 1.9, 2.0, 2.1]), 2, noise=NOISE).tolist() == [2, 0]


def test_what_is_measured_already_is_not_chosen_again() -> None:
    covariance = on_a_line([place / 10 for place in range(11)])
    assert 0 not in informative_places(covariance, 10, noise=NOISE, known=1)
    assert sorted(informative_places(covariance, 20, noise=NOISE, known=4).tolist()) == list(range(4, 11))


@given(st.lists(st.floats(0, 4), min_size=3, max_size=12, unique=True), st.integers(0, 2))
def test_each_is_the_best_one_after_those_before_it(places: list[float], known: int) -> None:
    covariance = on_a_line(places)
    (chosen,) = informative_places(covariance, 1, noise=NOISE, known=known)
    before = list(range(known))
    least = min(variance_left(covariance, [*before, place]) for place in range(known, len(places)))
    assert variance_left(covariance, [*before, int(chosen)]) <= least + 1e-4
