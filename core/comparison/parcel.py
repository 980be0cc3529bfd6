"""The parcel: a contest as bytes, with which another process makes its runs.

Classes and functions of `__main__`, of a notebook and of other functions have no place where another process could
import them. They travel as code (cloudpickle), everything else by its name, with the text of the user's own modules.
"""

from __future__ import annotations

import io
import pickle
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

from pegbox.comparison.contenders import Contender
from pegbox.comparison.contest import Contest, Plan
from pegbox.comparison.runs import TaskInfo
from pegbox.comparison.testbed import Testbed
from pegbox.errors import ArgumentError, PluginError
from pegbox.hooks import registry
from pegbox.hooks.names import Claim, label
from pegbox.hooks.sources import Sources
from pegbox.search.problem import problem_of
from pegbox.space.constraint import Constraint
from pegbox.task.function import NamedFunction


@dataclass(frozen=True)
class _Item:
    """Something of the user's: what messages call it, and its pickle."""

    name: str
    content: bytes


@dataclass(frozen=True)
class _Parcel:
    """`tuners` and `registered` (of this process, without a plugin) may need modules that are not there."""

    sources: Sources
    plan: bytes
    contenders: tuple[str, ...]
    tuners: tuple[_Item, ...]
    tasks: tuple[_Item, ...]
    infos: tuple[TaskInfo, ...]
    registered: tuple[_Item, ...]


def pack(contest: Contest) -> bytes:
    """The contest for other processes, without callbacks.

    Raises `ArgumentError` for a tuner, a task or something registered that cannot leave this process.
    """
    plan, problems = contest.plan, [testbed.problem for testbed in contest.testbeds]
    parcel = _Parcel(
        sources=Sources.own(),
        plan=_dumps(replace(plan, contenders=(), callbacks=None)),
        contenders=tuple(contender.name for contender in plan.contenders),
        tuners=tuple(_packed(f"tuner {contender.name!r}", contender.tuner) for contender in plan.contenders),
        tasks=tuple(_packed(f"task {problem.task.name!r}", problem.task) for problem in problems),
        infos=tuple(testbed.info for testbed in contest.testbeds),
        registered=tuple(_registered()),
    )
    return pickle.dumps(parcel, protocol=pickle.HIGHEST_PROTOCOL)


def unpack(packed: bytes) -> Contest:
    """The contest of a parcel. Raises `PluginError` for what cannot be made from it in this process."""
    parcel: _Parcel = pickle.loads(packed)
    parcel.sources.install()
    for item in parcel.registered:
        claim: Claim = _unpacked(item)
        registry.register(claim.kind, claim.name, claim.target, owner=claim.owner)
    problems = [problem_of(_unpacked(item), "local", None) for item in parcel.tasks]
    testbeds = [Testbed(problem, info) for problem, info in zip(problems, parcel.infos, strict=True)]
    tuners: Sequence[Any] = [_unpacked(item) for item in parcel.tuners]
    contenders = [Contender(name, tuner) for name, tuner in zip(parcel.contenders, tuners, strict=True)]
    plan: Plan = pickle.loads(parcel.plan)
    return Contest(replace(plan, contenders=contenders), testbeds)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Sends the code of templates and constraints, too, where it is in no module that can be imported."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, NamedFunction) and _is_local(value.function):
            return type(value), (value.name, value.function)
        if isinstance(value, Constraint):
            return Constraint, (value.predicate, value.reads, value.message)
        return super().reducer_override(value)


def _is_local(function: Any) -> bool:
    return function.__module__ == "__main__" or "<" in function.__qualname__


def _dumps(value: object) -> bytes:
    file = io.BytesIO()
    _Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def _packed(name: str, value: object) -> _Item:
    try:
        return _Item(name, _dumps(value))
    except Exception as error:
        raise ArgumentError(
            f"{name} cannot be sent to another process ({type(error).__name__}: {error}); let it make what cannot be "
            "sent (a file, a lock, a connection) when a run begins, or compare with jobs=1"
        ) from error


def _unpacked(item: _Item) -> Any:
    try:
        return pickle.loads(item.content)
    except Exception as error:
        raise PluginError(
            f"{item.name} cannot be made in another process, on {platform.node()} ({type(error).__name__}: {error}); "
            "what it imports has to be installed there (a file of yours travels once this process has imported it, or "
            "as 'file.py:NAME'), or compare with jobs=1"
        ) from error


def _registered() -> list[_Item]:
    """List the names that this process has registered itself: plugins are loaded there as here."""
    owners = {plugin.owner for plugin in registry.plugins()}
    return [
        _packed(f"the {label(kind)} {claim.name!r}, which was registered here,", claim)
        for kind in ("tuner", "cost_model")
        for claim in registry.claims(kind)
        if claim.owner not in owners
    ]
