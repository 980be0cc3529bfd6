"""The search: protocols of tuners and cost models, the tuning loop, callbacks, progress.

Names are imported when they are first used, so that a search loads no comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.comparison import Comparison, ComparisonInterrupted, Run, Summary, compare
    from pegbox.hooks.refs import Spec, parse_spec
    from pegbox.measure.pipeline.measurer import Measurer
    from pegbox.search.allocation import Allocation, GradientAllocation, Progress, RoundRobin
    from pegbox.search.factory import BaseTuner, BoundTuner, make_cost_model, make_tuner
    from pegbox.search.loop.archive import gain_of
    from pegbox.search.loop.best_trial import BestTrial, Gain
    from pegbox.search.loop.callbacks import Callback, CallbackLike, StopSearch
    from pegbox.search.loop.display import LineProgress, LiveProgress, progress
    from pegbox.search.loop.options import PriorTrials, SearchOptions
    from pegbox.search.loop.outcome import StopReason, TuneResult
    from pegbox.search.loop.remarks import lost_threads, waiting
    from pegbox.search.loop.state import Limits, SearchState
    from pegbox.search.loop.trial import Trial
    from pegbox.search.loop.tuning import run
    from pegbox.search.models.experience import EXPERIENCE_MODEL, Experience, checked_scores, spread
    from pegbox.search.models.prediction import predicted_configs
    from pegbox.search.models.report import ModelJudge, ModelReport, pairs_in_order
    from pegbox.search.models.training import (
        checked_features,
        checked_training,
        not_fitted,
        rank_and_speed,
        rank_share,
        relative_speed,
        standardised_logs,
    )
    from pegbox.search.objective import Objective
    from pegbox.search.protocols import (
        CHOOSING,
        LEARNING,
        CostModel,
        Features,
        FeatureSource,
        Floats,
        Prior,
        SearchTask,
        SelfReporting,
        Transfer,
        Tuner,
    )
    from pegbox.search.session import Session
    from pegbox.search.subject import Subject

__all__ = [
    "CHOOSING", "EXPERIENCE_MODEL", "LEARNING", "Allocation", "BaseTuner", "BestTrial", "BoundTuner", "Callback",
    "CallbackLike", "Comparison", "ComparisonInterrupted", "CostModel", "Experience", "FeatureSource", "Features",
    "Floats", "Gain", "GradientAllocation", "Limits", "LineProgress", "LiveProgress", "Measurer", "ModelJudge",
    "ModelReport", "Objective", "Prior", "PriorTrials", "Progress", "RoundRobin", "Run", "SearchOptions", "SearchState",
    "SearchTask", "SelfReporting", "Session", "Spec", "StopReason", "StopSearch", "Subject", "Summary", "Transfer",
    "Trial", "TuneResult", "Tuner", "checked_features", "checked_scores", "checked_training", "compare", "gain_of",
    "lost_threads", "make_cost_model", "make_tuner", "not_fitted", "pairs_in_order", "parse_spec", "predicted_configs",
    "progress",
    "rank_and_speed", "rank_share", "relative_speed", "run", "spread", "standardised_logs", "waiting",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
