"""`Operator`: a template or a workload as a function of arrays.

A program that calls what an earlier one compiled waits for this module alone: templates, plugins, schedules and LLVM
are imported where a call needs them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload
from weakref import WeakKeyDictionary

from pegbox.checks import check_choice, check_flag, check_instance, check_int, check_list, check_mapping
from pegbox.codegen.targets.target import Target, target_of
from pegbox.errors import ArgumentError
from pegbox.operators.arrays import Array, CopyWarning, as_array, as_output, contiguous, like
from pegbox.operators.call_key import CallKey, Inputs
from pegbox.operators.chain import KernelChain
from pegbox.operators.implementation import Implementation, Packers, computed, input_of
from pegbox.operators.kept import keep_kernel, kept_config, kept_kernel
from pegbox.operators.packed import PackedOperand
from pegbox.own_call import OwnCall
from pegbox.records.in_effect import in_effect
from pegbox.shown import value_text

if TYPE_CHECKING:
    from pegbox.operators.function import OperatorFunction
    from pegbox.records.history import History
    from pegbox.search.loop.outcome import Trial, TuneResult
    from pegbox.space import Config
    from pegbox.store import TuningStore
    from pegbox.task.task import Task

_NAMED = 8
"""The arguments that have their names for messages ready."""

_first_calls = threading.RLock()
"""Held while a kernel is found or compiled: other threads that need the same one wait for it."""


def _after_fork() -> None:
    global _first_calls
    _first_calls = threading.RLock()  # a thread that is not in this process may have held it


os.register_at_fork(after_in_child=_after_fork)

Shapes: TypeAlias = Sequence[Sequence[int]] | Sequence[int]
"""The shapes of a call's inputs, or that of its only one."""

_Implementations: TypeAlias = dict[tuple[Inputs, tuple[int, ...]], Implementation]


class Operator(OwnCall):
    """A function of arrays: `op(a, b)` computes with the best kernel that is known for arrays of these shapes.

    Where nothing was tuned for them, that is the kernel that experience predicts to be the fastest. Several threads may
    call one operator at once. `print(op)` shows the shapes that it has kernels for.

    Attributes:
        name: the name of the template or workload, or the function itself.
        given: its arguments that do not come from arrays.
        target: the processor that kernels are compiled for.
    """

    if TYPE_CHECKING:

        def __call__(self, *arrays: Any, out: Any = None) -> Any:
            """Compute from the inputs, in the order of the template's placeholders.

            Args:
                arrays: NumPy arrays, those of other libraries with DLPack (torch, JAX) in this processor's memory, or
                    operands of `pack`.
                out: an array for the result, or a tuple of them where there are several; it is returned. Without it,
                    the results are allocated, as arrays of the first input's library.

            Raises:
                ArgumentError: the arrays fit no sizes, are not arrays, or share memory with `out`.
                CompileError: no configuration can be compiled.
            """

    def __init__(
        self,
        name: str | Callable[..., Any],
        given: Mapping[str, Any],
        target: str | Target | None,
        *,
        space: object,
        strict: bool,
        first_use: int,
        store: TuningStore | Literal["user"] | None,
    ) -> None:
        if not isinstance(name, str) and not callable(name):
            wanted = "the name of a template or workload, or the function"
            raise ArgumentError(f"operator({value_text(name)}): give {wanted}")
        self.name, self.given = name, check_mapping("given", given, "arguments of the template or workload")
        self.target = check_instance("target", target_of(target), Target, "a target, such as 'llvm -num-cores 1'")
        self._space, self._store = space, _checked_store(store)
        self._strict, self._first_use = check_flag("strict", strict), check_int("first_use", first_use)
        self._chain = KernelChain(self._dispatch, self.call_by)
        self._known: _Implementations = {}
        self._of_history: WeakKeyDictionary[History, _Implementations] = WeakKeyDictionary()
        self._warned: set[int] = set()
        if not isinstance(name, str):
            self._function  # noqa: B018 - an object that is none is refused now

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.given.items())
        return f"operator({self._label!r}{given})"

    def __str__(self) -> str:
        rows = [
            (", ".join(_shown(place in packed, *each) for place, each in enumerate(inputs)), found.origin)
            for (inputs, packed), found in list(self._known.items())  # other threads may add
        ]
        width = max((len(shapes) for shapes, _ in rows), default=0)
        lines = [f"  {shapes:<{width}}  {origin}" for shapes, origin in rows]
        return "\n".join([f"{self!r} for {self.target}", *(lines or ["  not called yet"])])

    def __reduce__(self) -> tuple[Any, ...]:
        options = (self._space, self._strict, self._first_use, self._store)
        return _unpickled, (self.name, self.given, self.target, options)

    def implementation(self, *arrays: Any) -> Implementation:
        """The kernel for arrays like these, compiled where it is new, and its origin.

        Raises:
            ArgumentError, CompileError: as a call.
        """
        given = [self._operand(number, each) for number, each in enumerate(arrays)]
        return self._implementation(given)

    def pack(self, array: Any) -> PackedOperand:
        """An operand that stays the same over many calls, to be given to them in place of the array.

        Kernels read it in the layout in which it is packed once. Where the template has none for an input, they get
        the array as it is.

        Raises:
            ArgumentError: it is no array.
        """
        plain = as_array(f"{self._label}.pack(): the array", array)
        return PackedOperand(contiguous(plain), repr(self))

    @overload
    def tune(self, *arrays: Any, shapes: None = None, **options: Any) -> TuneResult: ...

    @overload
    def tune(self, *, shapes: Sequence[Shapes], dtype: str = "float32", **options: Any) -> list[Trial | None]: ...

    def tune(self, *arrays: Any, shapes: Sequence[Shapes] | None = None, dtype: str = "float32", **options: Any) -> Any:
        """Search for the best kernel for arrays like these, or for several shapes; later calls use it at once.

        Args:
            arrays: inputs as a call takes them, operands of `pack` among them: these are tuned packed.
            shapes: in place of arrays: a list with the inputs' shapes of each call that matters, `[((64, 512), (512,
                512))]`; of a function of one input, its shape alone will do.
            dtype: the type of inputs of these shapes.
            options: those of `pegbox.tune`, such as `trials=64`, `budget="10m"`, `tuner=`, `records=`, `callbacks=`.
                With shapes, trials and budget are those of all together.

        The configuration that calls use now is the first trial and is measured again at the end with the fastest, so
        that calls get no slower, by those times. `first=` gives other configurations.

        Returns:
            The `TuneResult` of `pegbox.tune`; with shapes, the best trial of each, None where nothing ran.

        Raises:
            ArgumentError: the arrays fit no sizes, or an option is outside its domain.
            TuningError, RecordError: as `pegbox.tune`.
        """
        if shapes is not None:
            if arrays:
                raise ArgumentError(f"{self._label}.tune(): give arrays, or shapes=, not both")
            return self._tune_shapes(shapes, dtype, options)
        from pegbox.search.tune import tune

        given = [self._operand(number, each) for number, each in enumerate(arrays)]
        inputs, packed, plain = _described(given)
        task, packers = self._task(inputs, packed)
        if task.has_indirect_reads:  # random indices could leave an array
            names = [spec.name for spec in task.arguments() if not spec.is_output]
            measured = {"inputs": dict(zip(names, plain, strict=True)), **options.get("measure_options", {})}
            options = {**options, "measure_options": measured}
        first = self._in_use(inputs, packed, task)
        options = {"store": self._store, "first": first, **options}
        result = tune(task, **options)
        if result.best is not None:
            self._use_best(inputs, packed, result.best.config, options, (task, packers))
        return result

    def _tune_shapes(self, shapes: Sequence[Shapes], dtype: str, options: Mapping[str, Any]) -> list[Trial | None]:
        from pegbox.expr import dtypes
        from pegbox.operators.tuning import tune

        wanted = "the inputs' shapes of each call, such as [((64, 512), (512, 512))]"
        check_choice("dtype", dtype, list(dtypes.BITS))
        calls = [
            tuple((_shape(shape, wanted), dtype) for shape in _listed(call, wanted))
            for call in check_list("shapes", shapes, wanted)
        ]
        if not calls:
            raise ArgumentError(f"{self._label}.tune(shapes=[]): give {wanted}")
        tasks = [self._task(inputs, ())[0] for inputs in calls]
        first = [self._in_use(inputs, (), task) for inputs, task in zip(calls, tasks, strict=True)]
        options = {"store": self._store, "first": first, **options}
        best = tune(tasks, **options)
        begun = options["first"] or [()] * len(calls)
        for inputs, task, start, trial in zip(calls, tasks, begun, best, strict=True):
            if trial is not None:
                self._use_best(inputs, (), trial.config, {**options, "first": start}, (task, {}))
        return best

    def _in_use(self, inputs: Inputs, packed: tuple[int, ...], task: Task) -> list[Config]:
        """The configuration that a call would use now, for a search to begin with; none where none can be predicted."""
        from pegbox.search.loop.proposals import first_fault
        from pegbox.search.models.prediction import predicted_configs

        history, known = in_effect.get(), self._known.get((inputs, packed))
        config = None if history is None else history.best_config(task)
        if config is None and known is not None:
            config = known.config or kept_config(self._call_key(inputs, packed), task)
        if config is None:
            config = self._stored(task, self._store) or next(predicted_configs(task), None)
        if config is None or first_fault([config], task.space):  # a record may be of one that the space excludes
            return []
        return [config]

    @staticmethod
    def _stored(task: Task, store: TuningStore | Literal["user"] | None) -> Config | None:
        """The best configuration that a store knows."""
        from pegbox.store import user_store

        known = user_store() if store == "user" else store
        return None if known is None else known.best_config(task)

    def _use_best(
        self,
        inputs: Inputs,
        packed: tuple[int, ...],
        best: Config,
        options: Mapping[str, Any],
        tasked: tuple[Task, Packers],
    ) -> None:
        """Let later calls use the best of a search, here and in other processes.

        That is the best of the store where the search kept its own, unless the search began with that one: then it has
        compared the two itself.
        """
        from pegbox.operators.choice import compiled_stored

        task, packers = tasked
        stored, found = self._stored(task, options["store"]), None
        if stored is not None and stored not in (best, *options["first"]):
            kernel = compiled_stored(task, stored)
            found = kernel and Implementation(kernel, "tuned", task, stored, packers)
        found = found or _tuned(task, best, packers)
        self._keep(self._known, inputs, packed, found)
        for known in list(self._of_history.values()):
            known.pop((inputs, packed), None)  # these have no record of it, or find it again
        self._keep_for_others(inputs, packed, found)

    def _keep_for_others(self, inputs: Inputs, packed: tuple[int, ...], found: Implementation) -> None:
        """Let later processes find a kernel, where they can make the key of the call."""
        if self._store == "user":
            keep_kernel(self._call_key(inputs, packed), found)

    def _dispatch(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Look a kernel up by the kinds of its inputs, and let later calls begin with it."""
        if named:
            given = ", ".join(f"{name}=" for name in named)
            raise ArgumentError(
                f"{self._label}({given}): arrays are given by their place, {self._label}(a, b, out=c), and other "
                "arguments to pegbox.operator"
            )
        entry = self._chain.find(arrays) if in_effect.get() is None else None
        if entry is not None:
            found, packed = entry
            if packed:
                inputs = [input_of(found, n, each) if n in packed else each for n, each in enumerate(arrays)]
            else:
                self._chain.link(found)
                inputs = list(arrays)
            try:
                return computed(found, inputs, out)
            except ArgumentError:  # before the kernel ran; it is explained from here
                pass
        return self._called(arrays, out)

    def _called(self, arrays: Sequence[Any], out: Any) -> Any:
        given = [self._operand(number, each) for number, each in enumerate(arrays)]
        found = self._implementation(given)
        inputs = self._ready(found, given)
        if out is None:
            made = computed(found, inputs, None)
            several = made if isinstance(made, tuple) else (made,)
            results = tuple(like(_first_array(arrays), each) for each in several)
            return results if isinstance(made, tuple) else results[0]
        listed = out if isinstance(out, tuple) else (out,)
        if len(listed) != len(found.outputs):
            wanted = ", ".join(map(str, found.outputs))
            raise ArgumentError(f"{self._label}: out has {len(listed)} arrays; it gives {wanted}")
        written = tuple([as_output(f"{self._label}: out", each) for each in listed])
        computed(found, inputs, written if len(written) > 1 else written[0])
        return out

    def _operand(self, number: int, value: Any) -> Array | PackedOperand:
        if isinstance(value, PackedOperand):
            return value
        return as_array(self._places[number] if number < _NAMED else f"{self._label}: argument {number}", value)

    @cached_property
    def _places(self) -> tuple[str, ...]:
        """The first arguments, as messages name them: to write that at each call would take longer than the rest."""
        return tuple(f"{self._label}: argument {number}" for number in range(_NAMED))

    def _ready(self, found: Implementation, given: Sequence[Array | PackedOperand]) -> list[Array]:
        """The arrays that a kernel takes: packed, or contiguous."""
        return [
            input_of(found, number, each) if isinstance(each, PackedOperand) else self._contiguous(number, each)
            for number, each in enumerate(given)
        ]

    def _contiguous(self, number: int, array: Array) -> Array:
        if (ready := contiguous(array)) is array:
            return array
        where = f"{self._label}: argument {number} is not C-contiguous (strides {array.strides})"
        remedy = "np.ascontiguousarray(...) once, ahead of the calls"
        if self._strict:
            raise ArgumentError(f"{where}, and strict=True refuses to copy it at each call; give {remedy}")
        if number not in self._warned:
            self._warned.add(number)
            from pegbox.origin import users_level

            text = f"{where} and is copied at each call; make it so by {remedy}, or let strict=True refuse it"
            warnings.warn(text, CopyWarning, stacklevel=users_level())
        return ready

    def _implementation(self, given: Sequence[Array | PackedOperand]) -> Implementation:
        inputs, packed, plain = _described(given)
        history = in_effect.get()
        known = self._known if history is None else self._of_history.setdefault(history, {})
        found = known.get((inputs, packed))
        if found is None:
            with _first_calls:
                found = known.get((inputs, packed))
                if found is None:
                    found = self._found(inputs, packed, plain, history)
                    self._keep(known, inputs, packed, found)
        return found

    def _keep(self, known: _Implementations, inputs: Inputs, packed: tuple[int, ...], found: Implementation) -> None:
        """Let later calls of this process find a kernel."""
        known[inputs, packed] = found
        if known is self._known:
            self._chain.keep(inputs, packed, found)

    def _found(
        self, inputs: Inputs, packed: tuple[int, ...], plain: Sequence[Array], history: History | None
    ) -> Implementation:
        """The kernel of the best record in effect, or one that an earlier process kept, or a new one."""
        if history is not None and (best := self._best_recorded(inputs, packed, history)) is not None:
            return best
        if history is not None and (known := self._known.get((inputs, packed))) is not None:
            return known
        if self._store == "user" and (kernel := kept_kernel(self._call_key(inputs, packed))) is not None:
            task, packers = self._task(inputs, packed) if packed else (None, {})
            return Implementation(kernel, "kept", task, packers=packers)
        found = self._compiled(inputs, packed, plain)
        self._keep_for_others(inputs, packed, found)
        return found

    def _best_recorded(self, inputs: Inputs, packed: tuple[int, ...], history: History) -> Implementation | None:
        task, packers = self._task(inputs, packed)
        config = history.best_config(task)
        return None if config is None else _tuned(task, config, packers)

    def _compiled(self, inputs: Inputs, packed: tuple[int, ...], plain: Sequence[Array]) -> Implementation:
        """Compile the best configuration that the user's store knows, or else the one that experience predicts."""
        from pegbox.operators.choice import compiled_stored, predicted

        task, packers = self._task(inputs, packed)
        config = self._stored(task, self._store)
        if config is not None and (stored := compiled_stored(task, config)) is not None:
            return Implementation(stored, "tuned", task, config, packers)
        wanted = 1 if packed else self._first_use
        given = [contiguous(each) for each in plain] if wanted > 1 else []
        kernel, config = predicted(task, first_use=wanted, inputs=given)
        return Implementation(kernel, "predicted, not tuned", task, config, packers)

    def _task(self, inputs: Inputs, packed: tuple[int, ...]) -> tuple[Task, Packers]:
        return self._function.packed(self._function.task(inputs), packed)

    def _call_key(self, inputs: Inputs, packed: tuple[int, ...]) -> CallKey:
        space = self._space if isinstance(self._space, str) else ""
        try:
            given = json.dumps(self.given, sort_keys=True)
        except (TypeError, ValueError):
            given = ""
        return CallKey(self._place if space else "", given, inputs, self.target.key, space, packed)

    @cached_property
    def _place(self) -> str:
        """The name by which other processes find the function; empty where they cannot."""
        name = self.name
        if isinstance(name, str):
            path, colon, attribute = name.rpartition(".py:")
            if colon:
                return f"{os.path.realpath(os.path.expanduser(path + '.py'))}:{attribute}"
            # A name of this process's own means nothing to others. Nothing is registered where no registry is loaded.
            registry: Any = sys.modules.get("pegbox.hooks.registry")
            if registry is None or not any(registry.is_local(kind, name) for kind in ("template", "workload")):
                return name
        return self._function.place

    @cached_property
    def _function(self) -> OperatorFunction:
        from pegbox.operators.function import function_of

        return function_of(self.name, self._space, self.given, self.target)

    @cached_property
    def _label(self) -> str:
        """The name for people."""
        return self.name if isinstance(self.name, str) else self._function.name


def operator(
    name: str | Callable[..., Any],
    /,
    *,
    target: str | Target | None = None,
    space: object = "sketch",
    strict: bool = False,
    first_use: int = 1,
    store: TuningStore | Literal["user"] | None = "user",
    **given: Any,
) -> Operator:
    """Make a function of arrays from a template or a workload; nothing is imported or compiled before it is called.

    Args:
        name: the name of a template or workload, "file.py:name", or the function itself. A name that both have is the
            template's.
        target: where kernels run; by default that of the `with pegbox.Target(...):` block around, or this machine.
        space: the space generator for a workload.
        strict: refuse arrays that would have to be copied at each call.
        first_use: the number of predicted kernels among which the first call of a shape that was not tuned chooses, by
            timing them.
        store: that of this user, which knows the best of earlier searches and the kernels of earlier processes; or
            another `pegbox.store.TuningStore`, without kernels; or None.
        given: arguments of the template or workload: those that shapes do not determine, such as `padding=1`.

    Raises:
        ArgumentError: an option outside its domain.
        TargetError: a malformed target.
        TemplateError: an object that is neither a template nor a workload. A name that is neither is refused by the
            first call.
    """
    return Operator(name, given, target, space=space, strict=strict, first_use=first_use, store=store)


def _checked_store(store: object) -> TuningStore | Literal["user"] | None:
    if store is None or (isinstance(store, str) and store == "user"):
        return store  # type: ignore[return-value]
    from pegbox.store import TuningStore

    return check_instance("store", store, TuningStore, "'user', a pegbox.store.TuningStore, or None")


def _unpickled(name: Any, given: Mapping[str, Any], target: Target, options: tuple[Any, ...]) -> Operator:
    space, strict, first_use, store = options
    return Operator(name, given, target, space=space, strict=strict, first_use=first_use, store=store)


def _tuned(task: Task, config: Config, packers: Packers) -> Implementation:
    from pegbox.codegen import build

    return Implementation(build(task.lower(config)), "tuned", task, config, packers)


def _described(given: Sequence[Array | PackedOperand]) -> tuple[Inputs, tuple[int, ...], list[Array]]:
    """The shapes and dtypes of a call's inputs, the places of those that are packed, and all of them as arrays."""
    packed = tuple(number for number, each in enumerate(given) if isinstance(each, PackedOperand))
    plain = [each.original if isinstance(each, PackedOperand) else each for each in given]
    return tuple((each.shape, each.dtype.name) for each in plain), packed, plain


def _listed(call: object, wanted: str) -> list[Any]:
    """The shapes of a call's inputs, of which a single one may be given alone."""
    listed = check_list("shapes", call, wanted)
    return [listed] if listed and all(hasattr(extent, "__index__") for extent in listed) else listed


def _shape(given: object, wanted: str) -> tuple[int, ...]:
    return tuple(check_int("an extent in shapes", each) for each in check_list("shapes", given, wanted))


def _first_array(arrays: Sequence[Any]) -> Any:
    """The first input, of an operand that is packed the array that it was made of."""
    first = arrays[0]
    return first.original if isinstance(first, PackedOperand) else first


def _shown(is_packed: bool, shape: tuple[int, ...], dtype: str) -> str:
    return f"{'packed ' if is_packed else ''}{dtype}{list(shape)}"
