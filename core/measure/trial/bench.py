"""The bench of a task: seeded inputs, expected outputs, and the tolerance."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pegbox.checks import check_array, check_mapping
from pegbox.errors import ArgumentError, IndexOutOfBounds, MeasureError
from pegbox.expr import dtypes
from pegbox.measure.trial.check import Array, Tolerance, difference

if TYPE_CHECKING:
    from pegbox.codegen import ArgSpec
    from pegbox.task.packing import Pack
    from pegbox.task.task import Task

_FILE = "bench.pickle"

_COPIES_ARRAYS = 4
"""The last protocol of pickle that loads arrays into memory of NumPy's own."""


class Values(NamedTuple):
    """Inputs and their correct outputs, in the order of the arguments."""

    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]


@dataclass(frozen=True)
class Bench:
    """The data of one task: `inputs` and `expected` follow the order of the input and output arguments in `args`.

    `flop` is the arithmetic work of one call. `fresh` are other values, on which possible winners are checked again, or
    None. Candidates run on arrays that begin at cache lines if `aligned`, else on NumPy's. Remote runners ship a bench
    once, not once per candidate.
    """

    args: tuple[ArgSpec, ...]
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]
    tolerance: Tolerance
    flop: float = 0.0
    fresh: Values | None = None
    aligned: bool = False

    @property
    def values(self) -> Values:
        """The values for the check of every candidate."""
        return Values(self.inputs, self.expected)

    @classmethod
    def of(
        cls,
        task: Task,
        *,
        seed: int,
        given: Mapping[str, Array],
        rtol: float | None = None,
        atol: float | None = None,
        aligned: bool = False,
    ) -> Bench:
        """Make the bench, with random inputs unless they are `given`, and tolerances from the work unless there are
        some.

        Raises:
            MeasureError: the reference leaves a tensor at these inputs, or the arrays take too much memory.
        """
        args = task.arguments()
        try:
            inputs = inputs_of(task, seed=seed, given=given)
            expected = exact_outputs(task, inputs)
        except IndexOutOfBounds as error:
            raise MeasureError(f"{error}{about_random(error.inputs, given=given)}") from error
        except MemoryError as error:
            size = sum(spec.nbytes for spec in args) / 1e9
            raise MeasureError(
                f"the arguments of {task!r} take {size:,.1f} GB, and the check in NumPy takes a multiple of that, more "
                f"than this machine has ({error}); tune smaller shapes"
            ) from error
        tolerance = Tolerance.of(expected, flop=task.flop, rtol=rtol, atol=atol, accuracy=task.given_accuracy)
        fresh = _fresh(task, seed=seed, given=given)
        return cls(tuple(args), tuple(inputs), expected, tolerance, task.flop, fresh, aligned)

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return sum(array.nbytes for array in (*self.inputs, *self.expected))

    def save(self, folder: Path) -> None:
        """Write the bench into an existing folder."""
        with open(folder / _FILE, "wb") as file:
            pickle.dump(self, file, protocol=_COPIES_ARRAYS)

    @classmethod
    def load(cls, folder: Path) -> Bench:
        """Read a folder written by `save`; arrays are fresh NumPy arrays, with NumPy's alignment."""
        with open(folder / _FILE, "rb") as file:
            bench: Bench = pickle.load(file)
        return bench


def _fresh(task: Task, *, seed: int, given: Mapping[str, Array]) -> Values | None:
    """Make values of another seed; None if every input is given, or the reference fails for the new values."""
    args = task.arguments()
    if all(spec.is_output or spec.name in given for spec in args):
        return None
    inputs = inputs_of(task, seed=seed + 1, given=given)
    try:
        return Values(tuple(inputs), exact_outputs(task, inputs))
    except (IndexOutOfBounds, MemoryError):
        return None


def exact_outputs(task: Task, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Compute the outputs with NumPy in float64, each rounded to its type at the end.

    If a rounded value may be on the other side of a step, such as a comparison, the computation in the types of the
    kernel is the right one: an output that differs by more than rounding is computed in these types.

    Raises `MeasureError` if the outputs are not as declared.
    """
    args = task.arguments()
    exact = check_reference(args, task.reference(inputs, wide=True))
    if task.is_continuous:
        return exact
    plain = check_reference(args, task.reference(inputs))
    tolerance = Tolerance.of(plain, flop=task.flop)
    pairs = zip(exact, plain, strict=True)
    return tuple(wide if difference("", wide, own, tolerance) is None else own for wide, own in pairs)


def inputs_of(task: Task, *, seed: int, given: Mapping[str, Array] | None = None) -> list[Array]:
    """Make random arrays for the inputs of a task, as `make_inputs` does.

    An input that the kernels take packed is packed from random values, because random packed values, such as
    transformed filters, may have errors of another size.
    """
    args, original = task.arguments(), _packed_input(task)
    if original is None or args[original.place].name in (given or {}):
        return make_inputs(args, seed=seed, given=given)
    (array,) = make_inputs([original.spec], seed=seed)
    packed = {args[original.place].name: original.pack(task.base, array, {})}
    return make_inputs(args, seed=seed, given={**(given or {}), **packed})


class _PackedInput(NamedTuple):
    """The place of an input that kernels take packed, the array before packing, and the function that packs it."""

    place: int
    spec: ArgSpec
    pack: Pack


def _packed_input(task: Task) -> _PackedInput | None:
    """Find the input of a task that its kernels take packed; None for other tasks, and for a user's own class."""
    base = getattr(task, "base", None)
    if base is None:
        return None
    arguments = base.workload[1]
    found, pack = base.template.unpacked(arguments), base.template.packer(arguments)
    if found is None or pack is None:
        return None
    name, plain = found
    specs = type(base)(base.template, (), plain, base.target).arguments()
    return next(_PackedInput(place, spec, pack) for place, spec in enumerate(specs) if spec.name == name)


def make_inputs(args: Sequence[ArgSpec], *, seed: int, given: Mapping[str, Array] | None = None) -> list[Array]:
    """Make random arrays for the inputs: floats uniform in [-1, 1], small integers other than zero, unbiased bools.

    Small integers keep the sums of int8 kernels meaningful; zero is left out because a template may divide. Arrays that
    are `given` by name replace random ones, and leave the others unchanged.
    """
    rng = np.random.default_rng(seed)
    made = [(spec.name, _random(rng, spec)) for spec in args if not spec.is_output]
    return [(given or {}).get(name, array) for name, array in made]


def about_random(names: Sequence[str], *, given: Mapping[str, Array]) -> str:
    """Describe the named inputs whose values `make_inputs` draws; empty if there are none."""
    drawn = [name for name in names if name not in given]
    if not drawn:
        return ""
    arrays = ", ".join(f'"{name}": array' for name in drawn)
    keywords = ", ".join(f"{name}=array" for name in drawn)
    return (
        f"; the values of {' and '.join(drawn)} are random, drawn by pegbox; give valid ones: "
        f'pegbox.tune(..., measure_options={{"inputs": {{{arrays}}}}}), or --inputs FILE.npz on the command line, '
        f"a file of numpy.savez('FILE.npz', {keywords})"
    )


def check_inputs(args: Sequence[ArgSpec], given: object) -> dict[str, Array]:
    """Return contiguous arrays by input. Raises `ArgumentError` for an unknown input, another shape or data type."""
    inputs = {spec.name: spec for spec in args if not spec.is_output}
    listed = check_mapping("inputs", {} if given is None else given, "arrays by the names of inputs, as a dict")
    check_input_names("inputs", args, listed)
    for name, array in listed.items():
        check_array(f"inputs: {name} is", array, inputs[name].shape, str(dtypes.numpy_dtype(inputs[name].dtype)))
    return {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in listed.items()}


def check_input_names(what: str, args: Sequence[ArgSpec], names: Iterable[str]) -> None:
    """Raise `ArgumentError` for a name that is not an input."""
    inputs = [spec.name for spec in args if not spec.is_output]
    for name in names:
        if name not in inputs:
            raise ArgumentError(f"{what}: {name!r} is not an input of the kernel; give some of {', '.join(inputs)}")


def check_reference(args: Sequence[ArgSpec], expected: Sequence[Array]) -> tuple[Array, ...]:
    """Return the reference outputs as contiguous arrays; raise `MeasureError` if they are not as declared."""
    specs = [spec for spec in args if spec.is_output]
    if len(specs) != len(expected):
        raise MeasureError(f"the NumPy reference gave {len(expected)} arrays for {len(specs)} outputs")
    arrays = tuple(np.ascontiguousarray(array) for array in expected)
    for spec, array in zip(specs, arrays, strict=True):
        # ascontiguousarray makes a scalar one-dimensional, so compare sizes there.
        if array.dtype != dtypes.numpy_dtype(spec.dtype) or (spec.shape and array.shape != spec.shape):
            raise MeasureError(
                f"the NumPy reference of output {spec.name!r} is {array.dtype}{list(array.shape)}, "
                f"but the kernel declares {spec.dtype}{list(spec.shape)}"
            )
    return tuple(array.reshape(spec.shape) for spec, array in zip(specs, arrays, strict=True))


def _random(rng: np.random.Generator, spec: ArgSpec) -> Array:
    dtype = dtypes.numpy_dtype(spec.dtype)
    match "f" if dtypes.is_float(spec.dtype) else dtype.kind:
        case "f":
            return np.asarray(rng.uniform(-1.0, 1.0, size=spec.shape)).astype(dtype)
        case "b":
            return np.asarray(rng.integers(0, 2, size=spec.shape)).astype(dtype)
        case "u":
            return np.asarray(rng.integers(1, 9, size=spec.shape)).astype(dtype)
        case "i":
            values = np.asarray(rng.integers(1, 5, size=spec.shape))
            return np.asarray(values * rng.choice([-1, 1], size=spec.shape)).astype(dtype)
        case _:
            raise MeasureError(f"argument {spec.name!r} has the data type {spec.dtype!r}: no random values for that")
