"""Test suites (contracts) for authors of tuners and cost models, and an artificial machine to measure on."""

from pegbox.search.testing.cost_model_contract import CostModelContract, easy_data
from pegbox.search.testing.tuner_contract import (
    FLOP,
    ArtificialMeasurer,
    TunerContract,
    constrained_space,
    matmul_cost,
    matmul_space,
    result_of,
    small_space,
)

__all__ = [
    "FLOP",
    "ArtificialMeasurer",
    "CostModelContract",
    "TunerContract",
    "constrained_space",
    "easy_data",
    "matmul_cost",
    "matmul_space",
    "result_of",
    "small_space",
]
