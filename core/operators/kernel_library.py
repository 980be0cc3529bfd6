"""`KernelLibrary`: the kernels of an operator, and the search for missing ones."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from pegbox.checks import check_instance, check_int, check_list
from pegbox.codegen.targets.target import Target
from pegbox.operators.arrays import Array, contiguous
from pegbox.operators.call_key import CallKey, Inputs
from pegbox.operators.chain import KernelChain
from pegbox.operators.implementation import Implementation
from pegbox.operators.kept import keep_kernel, kept_kernel
from pegbox.records.in_effect import in_effect

if TYPE_CHECKING:
    from pegbox.operators.function import CallTask, OperatorFunction
    from pegbox.records.history import History
    from pegbox.space import Config
    from pegbox.store import TuningStore
    from pegbox.task.group import Tasks

StoreLike: TypeAlias = "TuningStore | Literal['user'] | None"
"""A store, "user" for that of this user, or None."""

_Implementations: TypeAlias = dict[tuple[Inputs, tuple[int, ...]], Implementation]

_first_calls = threading.RLock()
"""The lock held while a kernel is found or compiled: other threads that need the same one wait."""


def _after_fork() -> None:
    global _first_calls
    _first_calls = threading.RLock()  # a thread of the parent process may have held it at the fork


os.register_at_fork(after_in_child=_after_fork)


class KernelLibrary:
    """The kernels of an operator by the inputs of its calls.

    A missing kernel comes from the best record in effect, or from an earlier process, or it is compiled for the best
    configuration in the store, or for the one that experience predicts to be the fastest.

    Args:
        name, given, target, space, first_use, store, implementations, accuracy: as for `operator`.
        chain: the kernels that calls find without this library.
    """

    def __init__(
        self,
        name: str | Callable[..., Any],
        given: Mapping[str, Any],
        target: Target,
        *,
        space: object,
        first_use: int,
        store: StoreLike,
        implementations: str | Sequence[str],
        accuracy: float | None,
        chain: KernelChain,
    ) -> None:
        self.implementations = _checked_names(implementations)
        self.accuracy = _checked_accuracy(accuracy)
        self._name, self._given, self._target, self._chain = name, given, target, chain
        self.space, self.first_use, self.store = space, check_int("first_use", first_use), _checked_store(store)
        self.known: _Implementations = {}
        self._of_history: WeakKeyDictionary[History, _Implementations] = WeakKeyDictionary()

    def find(self, inputs: Inputs, packed: tuple[int, ...], plain: Sequence[Array]) -> Implementation:
        """Find the kernel for a call's inputs, of which those at the places `packed` are operands of `pack`.

        Raises:
            ArgumentError: the inputs fit no sizes.
            CompileError: no configuration can be compiled.
        """
        history = in_effect.get()
        known = self.known if history is None else self._of_history.setdefault(history, {})
        found = known.get((inputs, packed))
        if found is None:
            with _first_calls:
                found = known.get((inputs, packed))
                if found is None:
                    found = self._new(inputs, packed, plain, history)
                    self._keep(known, inputs, packed, found)
        return found

    def use(self, inputs: Inputs, packed: tuple[int, ...], found: Implementation) -> None:
        """Let later calls use a kernel in place of the earlier one, here and in other processes."""
        self._keep(self.known, inputs, packed, found)
        for known in list(self._of_history.values()):
            known.pop((inputs, packed), None)  # they have no record of it, or find it again
        self._keep_for_others(inputs, packed, found)

    def task(self, inputs: Inputs, packed: tuple[int, ...]) -> CallTask:
        """Make the task of a call, or the group of its implementations, with the functions that pack its inputs."""
        return self.function.call_task(inputs, packed, self.implementations, self.accuracy)

    def stored(self, task: Tasks, store: StoreLike) -> Config | None:
        """Find the best configuration in a store."""
        held = held_store(store)
        return None if held is None else held.best_config(task)

    def call_key(self, inputs: Inputs, packed: tuple[int, ...], config: Config | None = None) -> CallKey:
        """Return the key by which other processes find the kernel of a call.

        Args:
            config: the best measured configuration of several implementations; without one, the predicted kernel has a
                key of its own.
        """
        space = self.space if isinstance(self.space, str) else ""
        if self.implementations:
            owner = "" if config is None else config.space.fingerprint
            space = space and f"{space} {self.implementations!r} {owner}"
        if self.accuracy is not None:
            space = space and f"{space} accuracy={self.accuracy!r}"
        given = _json_of(self._given) if self._given else "{}"
        return CallKey(self._place if space else "", given, inputs, self._target.key, space, packed)

    @cached_property
    def label(self) -> str:
        """The operator's name for people."""
        return self._name if isinstance(self._name, str) else self.function.name

    @cached_property
    def function(self) -> OperatorFunction:
        """The template or workload, imported on demand.

        Raises:
            UnknownName, PluginError, TemplateError: there is none.
        """
        from pegbox.operators.function import function_of

        return function_of(self._name, self.space, self._given, self._target)

    @cached_property
    def _place(self) -> str:
        """The name by which other processes find the function; empty if they cannot."""
        name = self._name
        if isinstance(name, str):
            path, colon, attribute = name.rpartition(".py:")
            if colon:
                return f"{os.path.realpath(os.path.expanduser(path + '.py'))}:{attribute}"
            # A name registered in this process means nothing to others. Without a loaded registry, none is registered.
            registry: Any = sys.modules.get("pegbox.hooks.registry")
            if registry is None or not any(registry.is_local(kind, name) for kind in ("template", "workload")):
                return name
        return self.function.place

    def _keep(self, known: _Implementations, inputs: Inputs, packed: tuple[int, ...], found: Implementation) -> None:
        """Let later calls of this process find a kernel."""
        known[inputs, packed] = found
        # In a chain, an error of a Python function would make it run again.
        if known is self.known and not found.kernel.calls_python:
            self._chain.keep(inputs, packed, found)

    def _keep_for_others(self, inputs: Inputs, packed: tuple[int, ...], found: Implementation) -> None:
        """Let later processes find a kernel, if they can make the key of the call."""
        if self.store == "user":
            config = found.config if found.origin == "tuned" else None
            keep_kernel(self.call_key(inputs, packed, config), found)

    def _new(
        self, inputs: Inputs, packed: tuple[int, ...], plain: Sequence[Array], history: History | None
    ) -> Implementation:
        """Make an implementation from the best record in effect, or from a kept kernel, or compile one."""
        if history is not None and (best := self._best_recorded(inputs, packed, history)) is not None:
            return best
        if history is not None and (known := self.known.get((inputs, packed))) is not None:
            return known
        if self.store == "user" and not self.implementations:
            kernel = kept_kernel(self.call_key(inputs, packed))
            if kernel is not None:
                task, packers = self.task(inputs, packed).members[0] if packed else (None, {})
                return Implementation(kernel, "kept", task, packers=packers)
        found = self._compiled(inputs, packed, plain)
        self._keep_for_others(inputs, packed, found)
        return found

    def _best_recorded(self, inputs: Inputs, packed: tuple[int, ...], history: History) -> Implementation | None:
        from pegbox.operators.choice import tuned

        called = self.task(inputs, packed)
        config = history.best_config(called.task)
        if config is None:
            return None
        task, packers = called.of(config)
        return tuned(task, config, packers)

    def _compiled(self, inputs: Inputs, packed: tuple[int, ...], plain: Sequence[Array]) -> Implementation:
        """Compile the best configuration in the store, or else the one that experience predicts."""
        from pegbox.operators.choice import compiled_stored, predicted

        called = self.task(inputs, packed)
        config = self.stored(called.task, self.store)
        if self.implementations and self.store == "user":
            key = self.call_key(inputs, packed, config)
            kernel = None if packed and config is None else kept_kernel(key)
            if kernel is not None:
                task, packers = called.members[0] if config is None else called.of(config)
                return Implementation(kernel, "kept", task, packers=packers)
        if config is not None:
            task, packers = called.of(config)
            if (stored := compiled_stored(task, config)) is not None:
                return Implementation(stored, "tuned", task, config, packers)
        return predicted(called.members, first_use=self.first_use, inputs=[contiguous(each) for each in plain])


def _json_of(given: Mapping[str, Any]) -> str:
    """Write arguments as JSON with sorted keys; empty if JSON cannot represent them."""
    import json  # slow to import

    try:
        return json.dumps(given, sort_keys=True)
    except (TypeError, ValueError):
        return ""


def _checked_accuracy(given: float | None) -> float | None:
    if given is None:
        return None
    from pegbox.task.accuracy import check_accuracy

    return check_accuracy(given)


def _checked_names(given: str | Sequence[str]) -> str | tuple[str, ...]:
    """Return the names of implementations: "all", or a tuple. Raises `ArgumentError` for anything else."""
    if isinstance(given, str):
        return given if given == "all" else (given,)
    return tuple(check_list("implementations", given, "'all', or names such as ['conv2d', 'sketch']", of=str))


def held_store(store: object) -> TuningStore | None:
    """Return the store that an argument means. Raises `ArgumentError` for anything else."""
    from pegbox.store import user_store

    checked = _checked_store(store)
    return user_store() if isinstance(checked, str) else checked


def _checked_store(store: object) -> StoreLike:
    if store is None or (isinstance(store, str) and store == "user"):
        return store  # type: ignore[return-value]
    from pegbox.store import TuningStore

    return check_instance("store", store, TuningStore, "'user', a pegbox.store.TuningStore, or None")
