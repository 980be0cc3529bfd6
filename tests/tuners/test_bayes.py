"""Bayesian optimisation: the tuner."""

from pegbox.search.protocols import Tuner
from pegbox.search.testing import TunerContract
from pegbox.space import ConfigSpace
from pegbox.tuners.bayes import BayesTuner


class TestBayes(TunerContract):
    def make(self, space: ConfigSpace, *, seed: int = 0) -> Tuner:
        return BayesTuner(space, seed=seed)
