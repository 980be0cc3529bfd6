"""`Operator`: a template or a workload as a function of arrays.

A program that calls an earlier program's kernels loads only this module: a call imports templates, plugins, schedules
and LLVM when it needs them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from pegbox.checks import check_flag, check_instance, check_mapping
from pegbox.codegen.targets.target import Target, target_of
from pegbox.errors import ArgumentError
from pegbox.operators.arrays import Array, CopyWarning, as_array, as_output, contiguous, dtype_name, like
from pegbox.operators.call_key import Inputs
from pegbox.operators.chain import KernelChain
from pegbox.operators.implementation import Implementation, computed, input_of
from pegbox.operators.kernel_library import KernelLibrary, StoreLike
from pegbox.operators.packed import PackedOperand
from pegbox.own_call import OwnCall
from pegbox.records.in_effect import in_effect
from pegbox.shown import value_text

if TYPE_CHECKING:
    from pegbox.operators.tuning import Shapes
    from pegbox.search.loop.outcome import TuneResult
    from pegbox.search.loop.trial import Trial

_NAMED = 8
"""The number of arguments whose names for messages are ready."""


class Operator(OwnCall):
    """A function of arrays: `op(a, b)` computes with the best known kernel for arrays of these shapes.

    Without tuning, that is the kernel that experience predicts to be the fastest. Several threads may call one operator
    at once. `print(op)` shows the shapes for which it has kernels.

    Attributes:
        name: the name of the template or workload, or the function itself.
        given: its arguments that do not come from arrays.
        target: the processor to compile kernels for.
    """

    if TYPE_CHECKING:

        def __call__(self, *arrays: Any, out: Any = None) -> Any:
            """Compute from the inputs, in the order of the template's placeholders.

            Args:
                arrays: NumPy arrays, those of other libraries with DLPack (torch, JAX) in this processor's memory, or
                    operands of `pack`.
                out: an array for the result, or a tuple of arrays for several results; it is returned. Without it, the
                    results are allocated, as arrays of the first input's library.

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
        store: StoreLike,
        implementations: str | Sequence[str] = (),
        accuracy: float | None = None,
    ) -> None:
        if not isinstance(name, str) and not callable(name):
            wanted = "the name of a template or workload, or the function"
            raise ArgumentError(f"operator({value_text(name)}): give {wanted}")
        self.name, self.given = name, check_mapping("given", given, "arguments of the template or workload")
        self.target = check_instance("target", target_of(target), Target, "a target, such as 'llvm -num-cores 1'")
        self._strict = check_flag("strict", strict)
        self._chain = KernelChain(self._dispatch, self.call_by)
        self._library = KernelLibrary(
            name,
            self.given,
            self.target,
            space=space,
            first_use=first_use,
            store=store,
            implementations=implementations,
            accuracy=accuracy,
            chain=self._chain,
        )
        self._warned: set[int] = set()
        if not isinstance(name, str):
            self._library.function  # noqa: B018 - an object that is none is refused now

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.given.items())
        return f"operator({self._library.label!r}{given})"

    def __str__(self) -> str:
        rows = [
            (", ".join(_shown(place in packed, *each) for place, each in enumerate(inputs)), found.origin)
            for (inputs, packed), found in list(self._library.known.items())  # other threads may add
        ]
        width = max((len(shapes) for shapes, _ in rows), default=0)
        lines = [f"  {shapes:<{width}}  {origin}" for shapes, origin in rows]
        return "\n".join([f"{self!r} for {self.target}", *(lines or ["  not called yet"])])

    def __reduce__(self) -> tuple[Any, ...]:
        library = self._library
        options = (
            library.space,
            self._strict,
            library.first_use,
            library.store,
            library.implementations,
            library.accuracy,
        )
        return _unpickled, (self.name, self.given, self.target, options)

    def implementation(self, *arrays: Any) -> Implementation:
        """Return the kernel for arrays like these, compiled if it is new, and its origin.

        Raises:
            ArgumentError, CompileError: as for a call.
        """
        given = [self._operand(number, each) for number, each in enumerate(arrays)]
        return self._library.find(*_described(given))

    def pack(self, array: Any) -> PackedOperand:
        """Pack an array that stays the same over many calls; return an operand to pass in its place.

        It is packed once, in the layout that kernels read. If the template has no packed form of an input, kernels get
        the array as it is.

        Raises:
            ArgumentError: it is not an array.
        """
        plain = as_array(f"{self._library.label}.pack(): the array", array)
        return PackedOperand(contiguous(plain), repr(self))

    @overload
    def tune(self, *arrays: Any, shapes: None = None, **options: Any) -> TuneResult: ...

    @overload
    def tune(self, *, shapes: Sequence[Shapes], dtype: str = "float32", **options: Any) -> list[Trial | None]: ...

    def tune(self, *arrays: Any, shapes: Sequence[Shapes] | None = None, dtype: str = "float32", **options: Any) -> Any:
        """Search for the best kernel for arrays like these, or for several shapes; later calls use it at once.

        Args:
            arrays: inputs as for a call, including operands of `pack`, which are tuned in packed form.
            shapes: in place of arrays, a list with the inputs' shapes for each call that matters, `[((64, 512), (512,
                512))]`; for a function of one input, its shape alone is enough.
            dtype: the type of inputs of these shapes.
            options: those of `pegbox.tune`, such as `trials=64`, `budget="10m"`, `tuner=`, `records=`, `callbacks=`.
                With shapes, trials and budget are totals.

        The configuration that calls now use is the first trial and is measured again at the end with the fastest, so
        that calls do not get slower, by those times. `first=` adds other configurations.

        Returns:
            The `TuneResult` of `pegbox.tune`; with shapes, the best trial of each, None if nothing ran.

        Raises:
            ArgumentError: the arrays fit no sizes, or an option is outside its domain.
            TuningError, RecordError: as `pegbox.tune`.
        """
        from pegbox.operators.tuning import tune_call, tune_shapes

        if shapes is not None:
            if arrays:
                raise ArgumentError(f"{self._library.label}.tune(): give arrays, or shapes=, not both")
            return tune_shapes(self._library, shapes, dtype, options)
        given = [self._operand(number, each) for number, each in enumerate(arrays)]
        return tune_call(self._library, *_described(given), options)

    def _dispatch(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Look up a kernel by the kinds of its inputs, and let later calls begin with it."""
        if named:
            given, label = ", ".join(f"{name}=" for name in named), self._library.label
            raise ArgumentError(
                f"{label}({given}): pass arrays by position, {label}(a, b, out=c), and other arguments to "
                "pegbox.operator"
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
            except ArgumentError:  # raised before the kernel ran; explain it from here
                pass
        return self._called(arrays, out)

    def _called(self, arrays: Sequence[Any], out: Any) -> Any:
        given = [self._operand(number, each) for number, each in enumerate(arrays)]
        found = self._library.find(*_described(given))
        inputs = self._ready(found, given)
        if out is None:
            made = computed(found, inputs, None)
            several = made if isinstance(made, tuple) else (made,)
            results = tuple(like(_first_array(arrays), each) for each in several)
            return results if isinstance(made, tuple) else results[0]
        listed = out if isinstance(out, tuple) else (out,)
        if len(listed) != len(found.outputs):
            wanted = ", ".join(map(str, found.outputs))
            raise ArgumentError(f"{self._library.label}: out has {len(listed)} arrays; it gives {wanted}")
        written = tuple([as_output(f"{self._library.label}: out", each) for each in listed])
        computed(found, inputs, written if len(written) > 1 else written[0])
        return out

    def _operand(self, number: int, value: Any) -> Array | PackedOperand:
        if isinstance(value, PackedOperand):
            return value
        return as_array(self._places[number] if number < _NAMED else f"{self._library.label}: argument {number}", value)

    @cached_property
    def _places(self) -> tuple[str, ...]:
        """The first arguments' names for messages: writing them at each call would take longer than the rest."""
        return tuple(f"{self._library.label}: argument {number}" for number in range(_NAMED))

    def _ready(self, found: Implementation, given: Sequence[Array | PackedOperand]) -> list[Array]:
        """Return the arrays to pass to a kernel: packed, or contiguous."""
        return [
            input_of(found, number, each) if isinstance(each, PackedOperand) else self._contiguous(number, each)
            for number, each in enumerate(given)
        ]

    def _contiguous(self, number: int, array: Array) -> Array:
        if (ready := contiguous(array)) is array:
            return array
        where = f"{self._library.label}: argument {number} is not C-contiguous (strides {array.strides})"
        remedy = "np.ascontiguousarray(...) once, ahead of the calls"
        if self._strict:
            raise ArgumentError(f"{where}, and strict=True refuses to copy it at each call; give {remedy}")
        if number not in self._warned:
            self._warned.add(number)
            from pegbox.origin import users_level

            text = f"{where} and is copied at each call; make it so by {remedy}, or let strict=True refuse it"
            warnings.warn(text, CopyWarning, stacklevel=users_level())
        return ready


def operator(
    name: str | Callable[..., Any],
    /,
    *,
    target: str | Target | None = None,
    space: object = "sketch",
    strict: bool = False,
    first_use: int = 1,
    store: StoreLike = "user",
    implementations: str | Sequence[str] = (),
    accuracy: float | None = None,
    **given: Any,
) -> Operator:
    """Make a function of arrays from a template or a workload; nothing is imported or compiled before it is called.

    Args:
        name: the name of a template or workload, "file.py:name", or the function itself. A name that both have means
            the template.
        target: where kernels run; by default the target of the surrounding `with pegbox.Target(...):` block, or this
            machine.
        space: the space generator for a workload.
        strict: refuse arrays that would have to be copied at each call.
        first_use: the number of predicted kernels that the first call of an untuned shape times to choose one.
        store: the store of this user, with the best of earlier searches and the kernels of earlier processes; or
            another `pegbox.store.TuningStore`, without kernels; or None.
        implementations: the names of implementations of the operator, such as ["conv2d", "sketch"], of which calls use
            the fastest known, or "all" that fit a call; empty for the template or workload itself. For an untuned
            shape, the first call times the predicted kernel of each.
        accuracy: the largest error of an element, relative to the largest magnitude of its output, for searches and
            their records; None for the default of tasks.
        given: arguments of the template or workload that shapes do not determine, such as `padding=1`.

    Raises:
        ArgumentError: an option is outside its domain.
        TargetError: the target is malformed.
        TemplateError: the object is neither a template nor a workload. A name that is neither is refused by the first
            call.
    """
    return Operator(
        name,
        given,
        target,
        space=space,
        strict=strict,
        first_use=first_use,
        store=store,
        implementations=implementations,
        accuracy=accuracy,
    )


def _unpickled(name: Any, given: Mapping[str, Any], target: Target, options: tuple[Any, ...]) -> Operator:
    space, strict, first_use, store, implementations, accuracy = options
    return operator(
        name,
        target=target,
        space=space,
        strict=strict,
        first_use=first_use,
        store=store,
        implementations=implementations,
        accuracy=accuracy,
        **given,
    )


def _described(given: Sequence[Array | PackedOperand]) -> tuple[Inputs, tuple[int, ...], list[Array]]:
    """Return the shapes and dtypes of a call's inputs, the places of packed ones, and all of them as arrays."""
    packed = tuple(number for number, each in enumerate(given) if isinstance(each, PackedOperand))
    plain = [each.original if isinstance(each, PackedOperand) else each for each in given]
    return tuple((each.shape, dtype_name(each.dtype)) for each in plain), packed, plain


def _first_array(arrays: Sequence[Any]) -> Any:
    """Return the first input; for a packed operand, its original array."""
    first = arrays[0]
    return first.original if isinstance(first, PackedOperand) else first


def _shown(is_packed: bool, shape: tuple[int, ...], dtype: str) -> str:
    return f"{'packed ' if is_packed else ''}{dtype}{list(shape)}"
