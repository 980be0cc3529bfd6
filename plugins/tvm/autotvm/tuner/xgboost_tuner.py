"""`tvm.autotvm.tuner.xgboost_tuner`: the tuner with a cost model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pegbox.checks import check_choice
from pegbox.errors import ArgumentError
from pegbox.features import program_features
from pegbox.plugins.tvm.autotvm.env import logger
from pegbox.plugins.tvm.autotvm.measure.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.autotvm.task.task import Task
from pegbox.plugins.tvm.autotvm.tuner.built_in import BuiltInTuner
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.search.factory.base import TunerInputs
from pegbox.search.protocols import Transfer

_FEATURES = {"itervar": "program", "curve": "program", "knob": "knobs"}
_LOSSES = {"reg": "reg", "rank": "rank", "rank-binary": "rank"}


class XGBTuner(BuiltInTuner):
    """pegbox's `xgb`. What is not given has pegbox's default.

    Args:
        plan_size: configurations between two fits of the model.
        feature_type: "itervar" and "curve" stand for features of the program, "knob" for those of the knobs.
        loss_type: "reg", "rank" or "rank-binary", which is "rank" here.
    """

    spec = "xgb"

    def __init__(
        self,
        task: Task,
        plan_size: int | None = None,
        feature_type: str | None = None,
        loss_type: str | None = None,
        num_threads: int | None = None,
        optimizer: Any = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
    ) -> None:
        if feature_type is not None:
            check_choice("feature_type", feature_type, [*_FEATURES])
        if loss_type is not None:
            check_choice("loss_type", loss_type, [*_LOSSES])
        if optimizer != "sa":
            raise ArgumentError(
                f"optimizer={optimizer!r}: the model is searched by simulated annealing ('sa'); for another search "
                "write a tuner (docs/write-a-tuner.md)"
            )
        if num_threads is not None:
            means_nothing("XGBTuner(num_threads=)", "the model is fitted on one core, beside what is measured")
        if diversity_filter_ratio is not None:
            means_nothing("XGBTuner(diversity_filter_ratio=)", "every plan is varied")
        self._transfer: tuple[Transfer, ...] = ()
        super().__init__(
            task,
            plan_size=plan_size,
            features=_FEATURES.get(feature_type or ""),
            loss_type=_LOSSES.get(loss_type or ""),
        )

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Learn from earlier trials of the template, of whatever shape, before the search begins.

        Args:
            data_set: as `record.load_from_file` gives it. Trials of other templates are left out.
            min_seed_records: with fewer, nothing is learned.

        Raises:
            SpaceError: a configuration is of another space than its template has now.
        """
        own = [pair for pair in data_set if pair[0].task.name == self.task.name]
        if len(own) < min_seed_records:
            logger.warning("load_history: %d trials, fewer than min_seed_records=%d", len(own), min_seed_records)
            return
        groups: dict[tuple[Any, ...], list[tuple[MeasureInput, MeasureResult]]] = {}
        for inp, result in own:
            groups.setdefault(inp.task.workload, []).append((inp, result))
        self._transfer = tuple(map(_transfer, groups.values()))
        if self._options.get("features") == "knobs":
            means_nothing(
                "feature_type='knob' with load_history",
                "only features of programs mean the same for every shape; they are taken, too",
            )
            self._options["features"] = "both"
        self._made = None

    def inputs(self) -> TunerInputs:
        given = super().inputs()
        if self._transfer:
            given["transfer"] = self._transfer
        return given


def _transfer(pairs: list[tuple[MeasureInput, MeasureResult]]) -> Transfer:
    """What the trials of one workload teach; of a configuration the latest counts."""
    task = pairs[0][0].task
    costs = {task.config_of(inp.config).digits: result.to_result().cost for inp, result in pairs}
    features = program_features(task.inner)(np.array([*costs], dtype=np.int64))
    return Transfer(str(task.workload), features, np.array([*costs.values()]))
