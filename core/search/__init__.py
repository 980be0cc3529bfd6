"""The search: what a tuner and a cost model are, the one tuning loop, callbacks, progress, comparing tuners."""

from pegbox.search.base import BaseTuner, BoundTuner
from pegbox.search.callbacks import Callback, CallbackLike, StopSearch
from pegbox.search.comparison import Comparison, ComparisonInterrupted, Run, Summary, compare
from pegbox.search.create import make_cost_model, make_tuner
from pegbox.search.loop import run
from pegbox.search.model_report import ModelJudge, ModelReport
from pegbox.search.outcome import BestTrial, StopReason, Trial, TuneResult
from pegbox.search.progress import LineProgress, LiveProgress, progress
from pegbox.search.protocols import CostModel, FeatureSource, Measurer, SearchTask, SelfReporting, Transfer, Tuner
from pegbox.search.spec import Spec, parse_spec
from pegbox.search.state import Limits, SearchState

__all__ = [
    "BaseTuner",
    "BestTrial",
    "BoundTuner",
    "Callback",
    "CallbackLike",
    "Comparison",
    "ComparisonInterrupted",
    "CostModel",
    "FeatureSource",
    "Limits",
    "LineProgress",
    "LiveProgress",
    "Measurer",
    "ModelJudge",
    "ModelReport",
    "Run",
    "SearchState",
    "SearchTask",
    "SelfReporting",
    "Spec",
    "StopReason",
    "StopSearch",
    "Summary",
    "Transfer",
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
