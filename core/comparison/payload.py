"""The job payload: an experiment as bytes, from which another process makes its runs.

Another process cannot import classes and functions of `__main__`, of a notebook, or within functions. They travel as
code (cloudpickle), and everything else by its name, with the text of the user's own modules.
"""

from __future__ import annotations

import pickle
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pegbox.comparison.benchmark import Benchmark
from pegbox.comparison.experiment import Experiment, Plan
from pegbox.comparison.runs import TaskInfo
from pegbox.errors import ArgumentError, PluginError
from pegbox.hooks import registry
from pegbox.hooks.names import Claim, label
from pegbox.hooks.sources import Sources
from pegbox.measure.jobs.packed_task import dumps
from pegbox.search.problem import problem_of


@dataclass(frozen=True)
class _Payload:
    """The pickles of tuners, tasks and `registered` claims (of this process, without a plugin), by names for messages.

    They may need modules that the other process lacks.
    """

    sources: Sources
    plan: bytes
    tuners: Mapping[str, bytes]
    tasks: Mapping[str, bytes]
    infos: tuple[TaskInfo, ...]
    registered: tuple[tuple[str, bytes], ...]
    run_timeout: float | None = None


def pack(experiment: Experiment) -> bytes:
    """Pack the experiment for other processes, without callbacks.

    Raises `ArgumentError` for a tuner, a task or a registered object that cannot leave this process.
    """
    plan = experiment.plan
    payload = _Payload(
        sources=Sources.own(),
        plan=dumps(replace(plan, tuners={}, callbacks=None)),
        tuners={name: _packed(f"tuner {name!r}", tuner) for name, tuner in plan.tuners.items()},
        tasks={name: _packed(f"task {name!r}", one.problem.task) for name, one in experiment.benchmarks.items()},
        infos=tuple(benchmark.info for benchmark in experiment.benchmarks.values()),
        registered=tuple(_registered()),
        run_timeout=plan.run_timeout,
    )
    return pickle.dumps(payload, protocol=pickle.HIGHEST_PROTOCOL)


def run_timeout(packed: bytes) -> float | None:
    """Return the limit of a run of the payload in seconds; None without a limit."""
    payload: _Payload = pickle.loads(packed)
    return payload.run_timeout


def unpack(packed: bytes) -> Experiment:
    """Make the experiment from a payload. Raises `PluginError` for a part that cannot be made in this process."""
    payload: _Payload = pickle.loads(packed)
    payload.sources.install()
    for name, content in payload.registered:
        claim: Claim = _unpacked(name, content)
        registry.register(claim.kind, claim.name, claim.target, owner=claim.owner)
    problems = [problem_of(_unpacked(f"task {name!r}", task), "local", None) for name, task in payload.tasks.items()]
    tuners = {name: _unpacked(f"tuner {name!r}", tuner) for name, tuner in payload.tuners.items()}
    plan: Plan = pickle.loads(payload.plan)
    benchmarks = {info.name: Benchmark(one, info) for one, info in zip(problems, payload.infos, strict=True)}
    return Experiment(replace(plan, tuners=tuners), benchmarks)


def _packed(name: str, value: object) -> bytes:
    try:
        return dumps(value)
    except Exception as error:
        raise ArgumentError(
            f"{name} cannot be sent to another process ({type(error).__name__}: {error}); make the part that cannot be "
            "sent (a file, a lock, a connection) when a run begins, or compare with jobs=1"
        ) from error


def _unpacked(name: str, content: bytes) -> Any:
    try:
        return pickle.loads(content)
    except Exception as error:
        raise PluginError(
            f"{name} cannot be made in another process, on {platform.node()} ({type(error).__name__}: {error}); "
            "its imports must be installed there (a file of yours travels once this process has imported it, or "
            "as 'file.py:NAME'), or compare with jobs=1"
        ) from error


def _registered() -> Iterator[tuple[str, bytes]]:
    """Pack the names registered by this process itself, since the other process loads plugins, too."""
    owners = {plugin.owner for plugin in registry.plugins()}
    for kind in ("tuner", "cost_model"):
        for claim in registry.claims(kind):
            if claim.owner not in owners:
                name = f"the {label(kind)} {claim.name!r}, which was registered here,"
                yield name, _packed(name, claim)
