"""The search: what a tuner and a cost model are, the one tuning loop, callbacks, progress, comparing tuners."""

from pegbox.search.callbacks import Callback, CallbackLike, StopSearch
from pegbox.search.compare import compare
from pegbox.search.comparison import Comparison, Run, Summary
from pegbox.search.create import make_cost_model, make_tuner
from pegbox.search.loop import run
from pegbox.search.outcome import BestTrial, StopReason, Trial, TuneResult
from pegbox.search.progress import LineProgress, LiveProgress, progress
from pegbox.search.protocols import CostModel, Measurer, SearchTask, Tuner
from pegbox.search.spec import Spec, parse_spec
from pegbox.search.state import Limits, SearchState

__all__ = [
    "BestTrial",
    "Callback",
    "CallbackLike",
    "Comparison",
    "CostModel",
    "Limits",
    "LineProgress",
    "LiveProgress",
    "Measurer",
    "Run",
    "SearchState",
    "SearchTask",
    "Spec",
    "StopReason",
    "StopSearch",
    "Summary",
    "Trial",
    "TuneResult",
    "Tuner",
    "compare",
    "make_cost_model",
    "make_tuner",
    "parse_spec",
    "progress",
    "run",
]
