"""The contract that every tuner has to keep, for whoever looks for it here.

It stands in the installed package, so that the tests of a third party's tuner can subclass it.
"""

from pegbox.search.testing import TunerContract

__all__ = ["TunerContract"]
