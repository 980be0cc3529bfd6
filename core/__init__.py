"""pegbox: a tuner plugin framework for tensor operators.

    import pegbox as pb
    from pegbox import te, tir

    task = pb.create_task("matmul", args=(1024, 1024, 1024))
    result = pb.tune(task, tuner="xgb", trials=64)
    func = pb.build(task, config=result.best.config)

Names are imported when they are first used, so that `import pegbox` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if __name__ != "pegbox":
    raise ImportError(
        f"this package was imported as {__name__!r}; import it as 'pegbox' after 'pip install -e .': "
        "a second name would make a second copy of every class"
    )

from pegbox.exports import on_demand

__version__ = "0.1.0"

__all__ = [
    "BaseTuner",
    "Comparison",
    "Config",
    "ConfigSpace",
    "Journal",
    "Objective",
    "RecordedSpace",
    "SimulatedRunner",
    "Target",
    "Task",
    "TemplateConfig",
    "api",
    "apply_history_best",
    "build",
    "compare",
    "compile_model",
    "create_task",
    "create_tuner",
    "errors",
    "export",
    "extract_tasks",
    "hookimpl",
    "load_model",
    "load_result",
    "lower",
    "minimize",
    "operator",
    "pack_space",
    "program_features",
    "recorded_space",
    "recorded_spaces",
    "sweep",
    "te",
    "template",
    "tir",
    "tune",
    "tune_model",
    "workload",
]

if TYPE_CHECKING:
    from pegbox import api, errors, te, tir
    from pegbox.api import build, compare, export, lower, tune
    from pegbox.codegen.targets.target import Target
    from pegbox.comparison import Comparison
    from pegbox.features import program_features
    from pegbox.hooks import hookimpl
    from pegbox.model.model import compile_model, extract_tasks, load_model
    from pegbox.model.tuning import tune_model
    from pegbox.operators.op import operator
    from pegbox.records.history import apply_history_best
    from pegbox.records.journal import Journal
    from pegbox.records.library import recorded_space, recorded_spaces
    from pegbox.records.pack import pack_space
    from pegbox.records.recorded_space import RecordedSpace
    from pegbox.records.simulation import SimulatedRunner
    from pegbox.search.asktell import create_tuner
    from pegbox.search.factory import BaseTuner
    from pegbox.search.loop.archive import load_result
    from pegbox.search.objective import Objective
    from pegbox.search.sweep.sweep import sweep
    from pegbox.search.tune import minimize
    from pegbox.space import Config, ConfigSpace
    from pegbox.task.config_view import TemplateConfig
    from pegbox.task.task import Task, create_task
    from pegbox.task.template import template
    from pegbox.task.workload import workload


__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return ["__version__", *__all__]
