"""Workload keys, taken apart and compared; names of functions; shapes as numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pegbox.compute.ops import placeholder
from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError

_TENSOR = "TENSOR"


def get_func_name(func: Callable[..., Any]) -> str:
    """What a workload is called that is registered without a name: as its function."""
    name = getattr(func, "__name__", None) or getattr(getattr(func, "func", None), "__name__", None)
    return str(name or type(func).__name__)


def get_const_int(value: Any) -> int:
    """A size as a number."""
    return int(value)


def get_const_tuple(values: Iterable[Any]) -> tuple[int, ...]:
    """A shape as a tuple of numbers."""
    return tuple(map(int, values))


def list_to_tuple(value: Any) -> Any:
    """JSON's lists as tuples, nested ones too."""
    return tuple(map(list_to_tuple, value)) if isinstance(value, list | tuple) else value


def serialize_args(args: Iterable[Any]) -> tuple[Any, ...]:
    """Arguments of a workload as JSON can hold them: of a tensor, its shape and data type."""
    return tuple((_TENSOR, get_const_tuple(a.shape), a.dtype) if isinstance(a, Tensor) else a for a in args)


def deserialize_args(args: Iterable[Any]) -> tuple[Any, ...]:
    """The arguments again, with a new placeholder for each tensor."""
    return tuple(
        placeholder(tuple(a[1]), str(a[2])) if isinstance(a, list | tuple) and a and a[0] == _TENSOR else a
        for a in map(list_to_tuple, args)
    )


class WorkloadKey(NamedTuple):
    """A workload key, taken apart."""

    name: str
    args: tuple[Any, ...]


def decode_workload_key(key: str) -> tuple[str, tuple[Any, ...]]:
    """The name and the arguments of a workload key. Raises `ArgumentError` for what is none."""
    try:
        name, *args = json.loads(key)
    except (TypeError, ValueError):
        return _not_a_key(key)
    return WorkloadKey(name, list_to_tuple(args)) if isinstance(name, str) else _not_a_key(key)


def _not_a_key(key: object) -> WorkloadKey:
    raise ArgumentError(
        f"{key!r} is no workload key; make one with auto_scheduler.make_workload_key(function, args), "
        "which gives text such as '[\"matmul\", 64, 64, 64]'"
    )


def calc_workload_dis_factor(target: tuple[str, Sequence[Any]], other: tuple[str, Sequence[Any]]) -> float:
    """How far two workloads are apart: the product of the ratios of their sizes, infinity where they do not compare.

    The other one compares where its function and all that is no number are the same, and its sizes divide those of
    the first.
    """
    (name, args), (other_name, other_args) = target, other
    return _ratio(list(args), list(other_args)) if name == other_name else math.inf


def _ratio(one: Any, other: Any) -> float:
    match one, other:
        case (list() | tuple(), list() | tuple()) if len(one) == len(other):
            return math.prod(_ratio(a, b) for a, b in zip(one, other, strict=True))
        case (Mapping(), Mapping()) if one.keys() == other.keys():
            return math.prod(_ratio(one[key], other[key]) for key in one)
        case (int(), int()) if one != other:
            return one / other if other and one and one % other == 0 else math.inf
        case _:
            return 1.0 if one == other else math.inf
