"""Prediction: configurations of a task that are expected to be fast, without any measurement of it.

A pretrained model finds the fastest by the features of the programs and of the machine, as do the pretrained models of
Zheng et al., "TenSet: A Large-scale Program Performance Dataset for Learned Tensor Compilers" (NeurIPS 2021).
`benchmarks/experience.py` trains it, and `benchmarks/prediction.py` measures its quality.
"""

from __future__ import annotations

import functools
import io
import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from pegbox.codegen.compiled import COMPILE_SECONDS
from pegbox.codegen.program import MOST_STRAIGHT, Program
from pegbox.codegen.targets.target import Target
from pegbox.errors import REFUSED, CompileError, PegboxError, RecordError
from pegbox.features import ProgramFeatures, program_features
from pegbox.features.memory_updates import has_masked_update, has_narrow_update
from pegbox.output import write_file
from pegbox.records.library import SHIPPED
from pegbox.search.models.experience import rounded
from pegbox.search.models.model_search import ModelSearch
from pegbox.search.models.trees import Trees
from pegbox.search.protocols import Features, Floats
from pegbox.space import Config
from pegbox.space.digits import Digits, Finding
from pegbox.space.entities import THREADS
from pegbox.task.task import Task

if TYPE_CHECKING:
    from pegbox.codegen.runtime.kernel import Kernel

PREDICTED: Final = "predicted, not tuned"
"""The origin of a kernel whose configuration was predicted."""

MODEL = SHIPPED / "prediction.npz"

CANDIDATES = 750
"""The number of random configurations with which the search by the model begins."""

GUARDED = 64
"""The number of best ones whose lowered programs are examined, as long as the caller wants more."""

LITTLE_FLOP, LITTLE_BYTES = 1 << 20, 1 << 18
"""The work that one thread does in about ten microseconds, before others have started. OpenBLAS uses the same limit."""

LITTLE_AGAIN = LITTLE_FLOP / 2
"""The operations of a loop that threads share repeatedly, as in each row of a scan: they wait for it while spinning."""

SCORE_OF_SPEED = 4.0
"""The difference in score of programs whose speeds differ by a factor of e.

The model's score is in units of the standard deviations of logarithms and ranks, and the logarithms of a space's
measured speeds have a deviation of about a half.
"""

TRIED = 16
"""The number of predicted configurations to compile at most, until the caller has as many kernels as it wants."""


def predicted_configs(task: Task, *, candidates: int = CANDIDATES) -> Iterator[Config]:
    """Yield valid configurations, random ones and relatives of the best, in the order of their expected speed.

    Configurations that the template refuses are left out, and `GUARDED` of the others are examined: those whose lowered
    programs are slow in a way that the model does not see move to the end. The order is the same in every process.
    Those that the template prefers (`cfg.prefer`) come first among the `GUARDED` ones, and the first configuration of a
    space precedes all if its template prefers that.

    Raises:
        SpaceError: no configuration of the space is valid.
        RecordError: the file of the model is damaged.
        TemplateError: a condition of `cfg.prefer` raises an error of Python.
    """
    return (config for config, _ in lowered_predictions(task, candidates=candidates))


def lowered_predictions(task: Task, *, candidates: int = CANDIDATES) -> Iterator[tuple[Config, Program | None]]:
    """Yield the configurations of `predicted_configs`, each with its program if it was examined and is not slow."""
    alone, cores = _of_one_core(task), task.target.num_cores
    search = ModelSearch(
        program_features(alone),
        lambda features: _scores(alone, cores, features),
        np.random.default_rng(0),
        _preferred_rows(alone),
    )
    if (preferred := preferred_config(task)) is not None:
        yield preferred, None
    ranked = map(task.space.config, _with_threads(task, alone, search.ranked(candidates)))
    doomed = []
    best = list(islice(ranked, GUARDED))
    if (prefers := task.preference) is not None:
        best.sort(key=lambda config: not prefers(config))
    for config in best:
        if (program := _promising_program(task, config)) is None:
            doomed.append(config)
        else:
            yield config, program
    yield from ((config, None) for config in (*doomed, *ranked))


def _preferred_rows(task: Task) -> Finding | None:
    """Return the function that finds the rows that the template prefers, if it prefers any.

    A sample of few kinds of programs would often have none of them.
    """
    if (prefers := task.preference) is None:
        return None
    return lambda rows: np.array([prefers(task.space.config(row)) for row in rows], dtype=bool)


def preferred_config(task: Task) -> Config | None:
    """Return the first configuration of the space, with threads for its work, if the template prefers it."""
    if not task.prefers_first:
        return None
    alone = _of_one_core(task)
    rows = _with_threads(task, alone, np.array([alone.space.get(0).digits]))
    valid = rows[task.space.is_valid(rows)]
    return task.space.config(valid[0]) if len(valid) else None


def _scores(task: Task, cores: int, features: Features) -> Floats:
    """Score rows of features, and correct the scores for the number of cores, because the model was trained on
    single-threaded sketches.

    Programs whose threads share little work each time get minus infinity, unless all programs have threads. With more
    work, programs lose score by the share of their idle cores.
    """
    scores = shipped_model()(described(features, task.target))
    starts = np.exp2(features[:, ProgramFeatures.names.index("parallel.regions")]) - 1.0
    if not (starts > 0).all():
        most = 0.0 if _is_little(task) else max(task.flop / LITTLE_AGAIN, 1.0)
        scores = np.where(starts > most, -np.inf, scores)
    if _is_little(task):
        return scores
    # Rows of configurations that the template refuses are zeros.
    shares = np.maximum(np.exp2(features[:, ProgramFeatures.names.index("parallel.extent")]) - 1.0, 1.0)
    busy = shares / (np.ceil(shares / cores) * cores)
    corrected: Floats = scores + SCORE_OF_SPEED * np.log(busy)
    return corrected


def _of_one_core(task: Task) -> Task:
    """Make the task for one core if the template leaves the number of threads open; return others unchanged.

    On one core, all programs share the loops that threads may share, like those in the model's training. The number of
    threads is chosen afterwards, so that half of the candidates are not wasted.
    """
    if not _leaves_threads(task):
        return task
    target = Target(str(task.target).replace(f"-num-cores {task.target.num_cores}", "-num-cores 1"))
    alone = Task(task.template, task.args, task.kwargs, target, accuracy=task.given_accuracy)
    return alone if _lengths(alone) == _lengths(task, without=THREADS) else task


def _lengths(task: Task, *, without: str = "") -> list[tuple[str, int]]:
    return [(name, len(knob)) for name, knob in task.space.knobs.items() if name != without]


def _with_threads(task: Task, alone: Task, rows: Digits) -> Digits:
    """Add the number of threads to rows of the task for one core: one for little work, else one per core.

    A row that is not valid with that number gets one thread.
    """
    if alone is task:
        return rows
    column = list(task.space.knobs).index(THREADS)
    digit = 0 if _is_little(task) else len(task.space.knobs[THREADS]) - 1
    rows = np.insert(rows, column, digit, axis=1)
    rows[~task.space.is_valid(rows), column] = 0
    return rows[task.space.is_valid(rows)]


def _leaves_threads(task: Task) -> bool:
    """Check for the knob `THREADS`. A knob of that name means something else if its first value is not 1."""
    knob = task.space.knobs.get(THREADS)
    return knob is not None and knob.entities[0].value() == 1


def _is_little(task: Task) -> bool:
    return task.target.num_cores > 1 and task.flop <= LITTLE_FLOP and task.bytes_moved <= LITTLE_BYTES


def compiled_predictions(task: Task, *, timeout: float = COMPILE_SECONDS) -> Iterator[tuple[Kernel, Config]]:
    """Yield kernels of the predicted configurations, best first, without those that cannot be compiled.

    Raises `CompileError` after `TRIED` configurations if none of them can be compiled, and the errors of
    `predicted_configs`.
    """
    from pegbox.codegen.runtime.kernel import build  # LLVM is loaded when first needed

    failure: PegboxError | None = None
    compiled = False
    for config, program in islice(lowered_predictions(task), TRIED):
        try:
            kernel = build(program or task.lower(config), timeout=timeout)
        except REFUSED as error:
            failure = error
            continue
        compiled = True
        yield kernel, config
    if not compiled:
        raise CompileError(
            f"none of the {TRIED} best predicted configurations of {task!r} can be compiled"
        ) from failure


def is_doomed(task: Task, config: Config) -> bool:
    """Check if the program of a configuration cannot be lowered, or has a flaw that makes it slow."""
    return _promising_program(task, config) is None


def _promising_program(task: Task, config: Config) -> Program | None:
    """Lower a configuration; None if that is refused, or if the program has a flaw that makes it slow.

    Very long code without a branch counts as slow: LLVM takes seconds for it, and a search would refuse it, too.
    """
    from pegbox.codegen.emitter.emit import emit  # kept out of `import pegbox`

    try:
        program = task.lowered(config)
        vector_bytes = task.target.vector_bits // 8
        if has_masked_update(program, vector_bytes) or has_narrow_update(program, vector_bytes):
            return None
        emitted = emit(program, task.target)
    except PegboxError:
        return None
    is_slow = emitted.longest_block > MOST_STRAIGHT or (emitted.num_threads > 1 and _is_little(task))
    return None if is_slow else emitted


def described(features: Features, target: Target) -> Features:
    """Append columns that describe the machine of the target to features of programs.

    They are the logarithms of the bytes of a vector, the number of vector registers, and the bytes of the caches. So
    one model serves all machines: measurements on one machine count for another, as far as these columns agree.
    """
    sizes = (target.vector_bits // 8, target.vector_registers, *target.caches)
    machine = np.log2(np.maximum(sizes, 1)).astype(np.float32)
    return np.concatenate([rounded(features), np.tile(machine, (len(features), 1))], axis=1)


@functools.lru_cache(maxsize=1)
def shipped_model() -> Trees:
    """Load the model that comes with pegbox. Raises `RecordError` for a file that is damaged."""
    try:
        with np.load(MODEL) as held:
            return Trees(held["features"], held["thresholds"], held["values"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RecordError(f"{str(MODEL)!r} is damaged ({error}); install pegbox again") from error


def write_model(file: Path, model: Trees) -> None:
    """Write the file that `shipped_model` reads."""
    archive = io.BytesIO()
    np.savez_compressed(archive, features=model.features, thresholds=model.thresholds, values=model.values)
    write_file(file, archive.getvalue())
