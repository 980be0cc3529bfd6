"""The search: protocols of tuners and cost models, the tuning loop, callbacks, progress.

Names are imported when they are first used: a search needs no comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.comparison import Comparison, ComparisonInterrupted, Run, Summary, compare
    from pegbox.hooks.spec import Spec, parse_spec
    from pegbox.search.factory.base import BaseTuner, BoundTuner
    from pegbox.search.factory.create import make_cost_model, make_tuner
    from pegbox.search.loop.callbacks import Callback, CallbackLike, StopSearch
    from pegbox.search.loop.display import LineProgress, LiveProgress, progress
    from pegbox.search.loop.options import PriorTrials, SearchOptions
    from pegbox.search.loop.outcome import BestTrial, StopReason, Trial, TuneResult
    from pegbox.search.loop.state import Limits, SearchState
    from pegbox.search.loop.tuning import run
    from pegbox.search.models.report import ModelJudge, ModelReport
    from pegbox.search.protocols import CostModel, FeatureSource, Measurer, SearchTask, SelfReporting, Transfer, Tuner
    from pegbox.search.subject import Subject

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
    "PriorTrials",
    "Run",
    "SearchOptions",
    "SearchState",
    "SearchTask",
    "SelfReporting",
    "Spec",
    "StopReason",
    "StopSearch",
    "Subject",
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

_NAMES = {
    "pegbox.comparison": ["Comparison", "ComparisonInterrupted", "Run", "Summary", "compare"],
    "pegbox.search.factory.base": ["BaseTuner", "BoundTuner"],
    "pegbox.search.factory.create": ["make_cost_model", "make_tuner"],
    "pegbox.hooks.spec": ["Spec", "parse_spec"],
    "pegbox.search.loop.callbacks": ["Callback", "CallbackLike", "StopSearch"],
    "pegbox.search.loop.display": ["LineProgress", "LiveProgress", "progress"],
    "pegbox.search.loop.options": ["PriorTrials", "SearchOptions"],
    "pegbox.search.subject": ["Subject"],
    "pegbox.search.loop.outcome": ["BestTrial", "StopReason", "Trial", "TuneResult"],
    "pegbox.search.loop.state": ["Limits", "SearchState"],
    "pegbox.search.loop.tuning": ["run"],
    "pegbox.search.models.report": ["ModelJudge", "ModelReport"],
    "pegbox.search.protocols": [
        "CostModel",
        "FeatureSource",
        "Measurer",
        "SearchTask",
        "SelfReporting",
        "Transfer",
        "Tuner",
    ],
}

__getattr__ = on_demand(__name__, {name: home for home, names in _NAMES.items() for name in names})


def __dir__() -> list[str]:
    return sorted(__all__)
