"""The search: what a tuner and a cost model are, the one tuning loop, callbacks, progress, comparing tuners.

Names are imported when they are first used: a search needs no comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.comparison import Comparison, ComparisonInterrupted, Run, Summary, compare
    from pegbox.search.factory.base import BaseTuner, BoundTuner
    from pegbox.search.factory.create import make_cost_model, make_tuner
    from pegbox.search.factory.spec import Spec, parse_spec
    from pegbox.search.loop.callbacks import Callback, CallbackLike, StopSearch
    from pegbox.search.loop.display import LineProgress, LiveProgress, progress
    from pegbox.search.loop.outcome import BestTrial, StopReason, Trial, TuneResult
    from pegbox.search.loop.state import Limits, SearchState
    from pegbox.search.loop.tuning import run
    from pegbox.search.models.report import ModelJudge, ModelReport
    from pegbox.search.protocols import CostModel, FeatureSource, Measurer, SearchTask, SelfReporting, Transfer, Tuner

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
        "BaseTuner": "pegbox.search.factory.base",
        "BestTrial": "pegbox.search.loop.outcome",
        "BoundTuner": "pegbox.search.factory.base",
        "Callback": "pegbox.search.loop.callbacks",
        "CallbackLike": "pegbox.search.loop.callbacks",
        "Comparison": "pegbox.comparison",
        "ComparisonInterrupted": "pegbox.comparison",
        "CostModel": "pegbox.search.protocols",
        "FeatureSource": "pegbox.search.protocols",
        "Limits": "pegbox.search.loop.state",
        "LineProgress": "pegbox.search.loop.display",
        "LiveProgress": "pegbox.search.loop.display",
        "Measurer": "pegbox.search.protocols",
        "ModelJudge": "pegbox.search.models.report",
        "ModelReport": "pegbox.search.models.report",
        "Run": "pegbox.comparison",
        "SearchState": "pegbox.search.loop.state",
        "SearchTask": "pegbox.search.protocols",
        "SelfReporting": "pegbox.search.protocols",
        "Spec": "pegbox.search.factory.spec",
        "StopReason": "pegbox.search.loop.outcome",
        "StopSearch": "pegbox.search.loop.callbacks",
        "Summary": "pegbox.comparison",
        "Transfer": "pegbox.search.protocols",
        "Trial": "pegbox.search.loop.outcome",
        "TuneResult": "pegbox.search.loop.outcome",
        "Tuner": "pegbox.search.protocols",
        "compare": "pegbox.comparison",
        "make_cost_model": "pegbox.search.factory.create",
        "make_tuner": "pegbox.search.factory.create",
        "parse_spec": "pegbox.search.factory.spec",
        "progress": "pegbox.search.loop.display",
        "run": "pegbox.search.loop.tuning",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
