"""The search: what a tuner and a cost model are, the one tuning loop, callbacks, progress, comparing tuners.

Names are imported when they are first used: a search needs no comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.search.base import BaseTuner, BoundTuner
    from pegbox.search.callbacks import Callback, CallbackLike, StopSearch
    from pegbox.search.comparison import Comparison, ComparisonInterrupted, Run, Summary, compare
    from pegbox.search.create import make_cost_model, make_tuner
    from pegbox.search.display import LineProgress, LiveProgress, progress
    from pegbox.search.loop import run
    from pegbox.search.model_report import ModelJudge, ModelReport
    from pegbox.search.outcome import BestTrial, StopReason, Trial, TuneResult
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

__getattr__ = on_demand(
    __name__,
    {
        "BaseTuner": "pegbox.search.base",
        "BestTrial": "pegbox.search.outcome",
        "BoundTuner": "pegbox.search.base",
        "Callback": "pegbox.search.callbacks",
        "CallbackLike": "pegbox.search.callbacks",
        "Comparison": "pegbox.search.comparison",
        "ComparisonInterrupted": "pegbox.search.comparison",
        "CostModel": "pegbox.search.protocols",
        "FeatureSource": "pegbox.search.protocols",
        "Limits": "pegbox.search.state",
        "LineProgress": "pegbox.search.display",
        "LiveProgress": "pegbox.search.display",
        "Measurer": "pegbox.search.protocols",
        "ModelJudge": "pegbox.search.model_report",
        "ModelReport": "pegbox.search.model_report",
        "Run": "pegbox.search.comparison",
        "SearchState": "pegbox.search.state",
        "SearchTask": "pegbox.search.protocols",
        "SelfReporting": "pegbox.search.protocols",
        "Spec": "pegbox.search.spec",
        "StopReason": "pegbox.search.outcome",
        "StopSearch": "pegbox.search.callbacks",
        "Summary": "pegbox.search.comparison",
        "Transfer": "pegbox.search.protocols",
        "Trial": "pegbox.search.outcome",
        "TuneResult": "pegbox.search.outcome",
        "Tuner": "pegbox.search.protocols",
        "compare": "pegbox.search.comparison",
        "make_cost_model": "pegbox.search.create",
        "make_tuner": "pegbox.search.create",
        "parse_spec": "pegbox.search.spec",
        "progress": "pegbox.search.display",
        "run": "pegbox.search.loop",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
