"""Experience: a ranking of programs, learned from measurements of other workloads.

A set of them comes with pegbox (`benchmarks/experience.py` makes it). Searches with pretrained models come from Zheng
et al., "TenSet: A Large-scale Program Performance Dataset for Learned Tensor Compilers" (NeurIPS 2021), and
MetaSchedule. Their models are trained for one machine. Here features are relative to a machine's resources, each
measurement names its target, and measurements on similar targets count more.
"""

from __future__ import annotations

import functools
import io
import json
import math
import threading
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pegbox.codegen.targets.target import Target
from pegbox.errors import ArgumentError, PluginError, RecordError
from pegbox.output import write_file
from pegbox.records.library import SHIPPED
from pegbox.records.record import plain
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.factory import make_cost_model
from pegbox.search.protocols import CostModel, Features, Floats, SearchTask, Transfer
from pegbox.task.group import TaskGroup
from pegbox.task.task import Task

FILE = SHIPPED / "experience.npz"

SAME_VECTORS = 0.5
"""The weight of a measurement on another processor with the same width and number of registers."""

OTHER_VECTORS = 0.25
"""The weight of a measurement with other registers, which other tiles fit."""

_STARTING = threading.Lock()

FEWEST = 2
"""The smallest number of records that have an order."""

EXPERIENCE_MODEL = "xgboost:rounds=150;max_depth=6;subsample=0.5"
"""A model with deeper trees and a lower learning rate than in a search, because it has thousands of measurements."""


class Experience:
    """A ranking of programs by measurements of other workloads; higher is faster.

    Args:
        sources: the measurements, one source for each workload. Costs count by their rank in their source: seconds of
            one workload mean nothing for another, and its fastest may be an exception.
        model: a cost model, or its name. It learns when the first score is needed, or earlier in the background, after
            `prepare`.

    Raises `ArgumentError` if nothing ran, or if the sources differ in their features.
    """

    def __init__(self, sources: Sequence[Transfer], model: str | CostModel = EXPERIENCE_MODEL) -> None:
        names = ", ".join(source.name for source in sources)
        self.sources = tuple(source for source in sources if np.isfinite(source.costs).any())
        if not self.sources:
            raise ArgumentError(f"transfer from {names or 'nothing'}: no configuration ran there; leave transfer out")
        shapes = {source.name: source.features.shape for source in self.sources}
        if len({shape[1:] for shape in shapes.values()}) > 1 or any(len(shape) != 2 for shape in shapes.values()):
            raise ArgumentError(f"transfer: the features of {shapes} do not have the same columns")
        if sum(len(source.costs) for source in self.sources) < FEWEST:
            raise ArgumentError(
                f"transfer from {names}: one record does not show which configuration is faster; leave transfer out"
            )
        self._model = model
        self._learning: Future[tuple[CostModel, float]] | None = None

    def prepare(self) -> None:
        """Begin to learn in the background. Errors are raised when scores are computed."""
        self._begun()

    def wait(self) -> None:
        """Wait until nothing runs in the background."""
        if (learning := self._learning) is not None:
            wait([learning])

    def __call__(self, features: Features) -> Floats:
        """Compute scores of shape (n,), in their standard deviations over the training data.

        Raises `PluginError` if the model cannot be loaded, or does not return numbers.
        """
        learning = self._begun()
        try:
            model, scale = learning.result()
        except Exception:
            self._learning = None  # a missing package may be installed by the next time
            raise
        return checked_scores(model, rounded(features)) / scale

    def _begun(self) -> Future[tuple[CostModel, float]]:
        with _STARTING:
            if self._learning is None:
                self._learning = ThreadPoolExecutor(1, "pegbox-experience").submit(self._learned)
            return self._learning

    def _learned(self) -> tuple[CostModel, float]:
        """Train the model; return it with the standard deviation of its scores."""
        model = make_cost_model(self._model)
        taken = [_taken(source) for source in self.sources]
        features = rounded(np.concatenate([s.features[rows] for s, rows in zip(self.sources, taken, strict=True)]))
        ranks = [ranked(s.costs)[rows] for s, rows in zip(self.sources, taken, strict=True)]
        # Models may take the logarithm of costs, which should then still be evenly spread.
        try:
            model.fit(features, np.exp(np.concatenate(ranks)))
        except PluginError as error:
            raise PluginError(f"{error}; to search without experience, give the tuner use_experience=no") from error
        return model, spread(model.predict(features))


def _taken(source: Transfer) -> npt.NDArray[np.intp]:
    """Choose the rows for training by the source's weight, so that models need no weights."""
    count = max(FEWEST, math.ceil(source.weight * len(source.costs)))
    return np.sort(np.random.default_rng(0).permutation(len(source.costs))[:count])


def rounded(features: Features) -> Features:
    """Round features to the three digits that files of experience keep: trees compare with values from training."""
    largest = float(np.finfo(np.float16).max)
    return np.clip(features, -largest, largest).astype(np.float16).astype(np.float32)


def ranked(costs: Floats) -> Floats:
    """Compute the share of successes that are no slower than each, in (0, 1]; infinity stays; shape (n,)."""
    ran = np.isfinite(costs)
    places = np.searchsorted(np.sort(costs[ran]), costs, side="right")
    return np.where(ran, places / max(1, int(ran.sum())), np.inf)


def checked_scores(model: CostModel, features: Features) -> Floats:
    """Return the model's scores; raise `PluginError` unless there is a number for each row."""
    scores = np.asarray(model.predict(features), dtype=np.float64)
    if scores.shape != (len(features),) or np.isnan(scores).any():
        given = f"scores of shape {scores.shape}" if scores.shape != (len(features),) else "NaN among its scores"
        raise PluginError(f"the cost model {type(model).__name__} gave {given} for {len(features)} configurations")
    return scores


def spread(scores: Floats) -> float:
    """Compute the standard deviation, or 1 if all values are equal."""
    return float(np.std(scores)) or 1.0


def shipped_experience(task: SearchTask) -> Experience | None:
    """Load the experience that comes with pegbox, from all workloads but the task's own; None for a task without a
    template.

    Its own is excluded so that the search of a recorded workload is like any other. Measurements for targets like the
    task's count more (`affinity`).
    """
    own = template_task(task)
    if own is None:
        return None
    shape, sources = shape_key(own.workload), shipped_sources()
    counts = {target: affinity(own.target, Target(target)) for target in {one.target for one in sources}}
    return _weighted(tuple(0.0 if one.shape == shape else counts[one.target] for one in sources))


def template_task(task: SearchTask | TaskGroup) -> Task | None:
    """Return the task, the recorded one, or the first of a group; None without a template (results of other tools)."""
    if isinstance(task, TaskGroup):
        return task.first
    own = task.task if isinstance(task, RecordedSpace) else task
    return own if isinstance(own, Task) else None


def affinity(one: Target, other: Target) -> float:
    """Weigh measurements on one target for tuning another: 1 for the same processor, less for different ones."""
    if one.cpu == other.cpu and one.vector_bits == other.vector_bits:
        return 1.0
    alike = (one.vector_bits, one.vector_registers) == (other.vector_bits, other.vector_registers)
    return SAME_VECTORS if alike else OTHER_VECTORS


def shape_key(workload: Any) -> str:
    """Write the template and the numbers of a workload: its shape, regardless of layout and type."""
    name, *arguments = plain(workload)
    return json.dumps([name, *map(_numbers, arguments)])


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(one) for key, one in sorted(value.items()) if not isinstance(one, str)}
    if isinstance(value, list | tuple):
        found = [_numbers(one) for one in value if not isinstance(one, str)]
        # A stride of (2, 2) equals a stride of 2.
        return found[0] if found and all(one == found[0] for one in found) else found
    return value


@dataclass(frozen=True)
class ShippedSource:
    """The measurements of one workload, with its `shape_key` and their target."""

    shape: str
    target: str
    measured: Transfer


def learned_for(target: Target, sources: Sequence[ShippedSource]) -> Experience:
    """Learn from the sources for a target."""
    return Experience([replace(one.measured, weight=affinity(target, Target(one.target))) for one in sources])


@functools.lru_cache(maxsize=16)
def _weighted(weights: tuple[float, ...]) -> Experience:
    """Learn from the shipped sources, without those of weight 0.

    Learning takes half a second, so all searches with the same sources share one result: all searches on a target,
    except of shipped workloads.
    """
    pairs = zip(shipped_sources(), weights, strict=True)
    return Experience([replace(one.measured, weight=weight) for one, weight in pairs if weight])


@functools.lru_cache(maxsize=1)
def shipped_sources() -> tuple[ShippedSource, ...]:
    """Load all sources that come with pegbox. Raises `RecordError` if the file is damaged."""
    try:
        with np.load(FILE) as held:
            ends = np.cumsum(held["counts"])
            features, costs = held["features"].astype(np.float32), held["costs"].astype(np.float64)
            shapes, targets, names = (held[name].tolist() for name in ("workloads", "targets", "labels"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RecordError(f"{str(FILE)!r} is damaged ({error}); install pegbox again") from error
    parts = map(Transfer, names, np.split(features, ends[:-1]), np.split(costs, ends[:-1]))
    return tuple(map(ShippedSource, shapes, targets, parts))


def write_experience(file: Path, names: Sequence[str], sources: Sequence[ShippedSource]) -> None:
    """Write the file that `shipped_sources` reads. Features are `rounded`, which halves the file."""
    measured = [source.measured for source in sources]
    archive = io.BytesIO()
    np.savez_compressed(
        archive,
        features_of=np.array(names),
        workloads=np.array([source.shape for source in sources]),
        targets=np.array([source.target for source in sources]),
        labels=np.array([one.name for one in measured]),
        counts=np.array([len(one.costs) for one in measured]),
        features=rounded(np.concatenate([one.features for one in measured])).astype(np.float16),
        costs=np.concatenate([one.costs for one in measured]).astype(np.float32),
    )
    write_file(file, archive.getvalue())
