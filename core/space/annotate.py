"""Annotate knobs: one annotation for each of several axes. Policies follow AutoTVM's `define_annotate`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np

from pegbox.checks import check_int, check_list, check_text, near_names
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space.entities import AnnotateEntity
from pegbox.space.knob import AxesKnob, Condition, Floats, checked_axes, one_hot, refuse_too_many, require_values

Marks: TypeAlias = tuple[str, ...] | tuple[int, ...]

WORDS = ("try", "none", "unroll", "vec")
_BLOCKS = ("blockIdx.z", "blockIdx.y", "blockIdx.x")
_THREADS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")
BOUND_AXES = ("vthread", *_BLOCKS, *_THREADS)
ANNOTATIONS = ("none", "unroll", "vec", "parallel", "fuse", *BOUND_AXES)
POLICIES = (
    "none", "unroll", "vec", "try_unroll", "try_vec", "try_unroll_vec", "unroll_vec", "bind_gpu", "bind_gpu_virtual",
    "locate_cache", "candidate",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class AnnotateKnob(AxesKnob):
    """Annotations of the axes."""

    kind: ClassVar[str] = "annotate"
    tag: ClassVar[str] = "an"
    entities: tuple[AnnotateEntity, ...] = field(repr=False)

    def content(self) -> list[Any]:
        return [list(self.axes), [list(choice.marks) for choice in self.entities]]

    def features(self) -> tuple[list[str], Floats]:
        """Encode each axis one-hot over the annotations that occur on it; under `locate_cache`, by one flag."""
        if self.policy == "locate_cache":
            flags = [[float(i in choice.marks) for i in range(len(self.axes))] for choice in self.entities]
            return [f"{self.name}.at[{axis}]" for axis in self.axes], np.array(flags)
        names: list[str] = []
        tables: list[Floats] = []
        for axis, column in zip(self.axes, zip(*(c.marks for c in self.entities), strict=True), strict=True):
            seen = list(dict.fromkeys(column))
            names += [f"{self.name}[{axis}]={mark}" for mark in seen]
            tables.append(one_hot([seen.index(mark) for mark in column], len(seen)))
        return names, np.column_stack(tables)

    def coordinates(self) -> Floats:
        return self.features()[1]

    def texts(self) -> list[str]:
        return [" ".join(map(str, choice.marks)) for choice in self.entities]


def annotate_knob(
    name: str,
    axes: Sequence[str],
    policy: str,
    *,
    candidate: Sequence[Sequence[str]] | None = None,
    num_anchor: int | None = None,
    when: Condition | None = None,
) -> AnnotateKnob:
    """Make an annotate knob; see `ConfigSpace.define_annotate` for the arguments.

    Raises:
        SpaceError: a policy or annotation is unknown, or the policy does not take an argument.
    """
    names = checked_axes("annotate", name, axes)
    check_text(f"annotate knob {value_text(name)}: policy", policy, error=SpaceError)
    for argument, value, owner in (
        ("candidate", candidate, "candidate"),
        ("num_anchor", num_anchor, "locate_cache"),
    ):
        if (value is not None) != (policy == owner):
            raise SpaceError(f"annotate knob {name!r}: policy {owner!r} and the argument {argument}= go together")
    rows: Sequence[Marks]
    match policy:
        case "bind_gpu" | "bind_gpu_virtual":
            rows = [_bound(name, len(names), virtual=policy == "bind_gpu_virtual")]
        case "locate_cache":
            what, count = f"annotate knob {name!r} of {len(names)} axes: num_anchor", len(names)
            chosen = check_int(what, num_anchor, maximum=count, error=SpaceError)
            refuse_too_many(name, math.comb(count, chosen), "use fewer axes")
            rows = list(itertools.combinations(range(count), chosen))
        case "candidate":
            assert candidate is not None
            wanted = "a list of lists of annotations, one for each axis"
            listed = check_list(f"annotate knob {name!r}: candidate", candidate, wanted, error=SpaceError)
            rows = [_candidate(name, names, row) for row in listed]
        case _:
            rows = _combinations(name, len(names), policy)
    choices = tuple(AnnotateEntity(row) for row in dict.fromkeys(rows))
    require_values(name, choices, "candidate= is empty")
    return AnnotateKnob(name, choices, names, policy, when=when)


def _combinations(name: str, count: int, policy: str) -> list[tuple[str, ...]]:
    """Return the choices in which each axis has one of the policy's words ("try" is "none"), at most one "vec"."""
    words = policy.split("_")
    if not set(words) <= set(WORDS):
        raise SpaceError(f"annotate knob {name!r}: unknown policy {policy!r}{near_names(policy, POLICIES)}")
    marks = list(dict.fromkeys("none" if word == "try" else word for word in words))
    if marks == ["vec"]:
        # Only one loop can be vectorized, and the others then stay plain: one choice per axis, innermost first.
        return [tuple("vec" if i == axis else "none" for i in range(count)) for axis in reversed(range(count))]
    plain = [mark for mark in marks if mark != "vec"]
    total = len(plain) ** count + ("vec" in marks) * count * len(plain) ** (count - 1)
    refuse_too_many(name, max(total, len(marks) ** count), "annotate fewer axes, or use the policy 'candidate'")
    return [row for row in itertools.product(marks, repeat=count) if row.count("vec") <= 1]


def _bound(name: str, count: int, *, virtual: bool) -> tuple[str, ...]:
    """Bind the innermost axes to a GPU's block and thread indices and fuse the outer ones."""
    threads = ("vthread",) if virtual else ()
    per_dimension = 3 if virtual else 2
    dimensions = min(3, count // per_dimension)
    if dimensions == 0:
        raise SpaceError(f"annotate knob {name!r}: binding to a GPU needs at least {per_dimension} axes, got {count}")
    bound = _BLOCKS[-dimensions:] + threads * dimensions + _THREADS[-dimensions:]
    return ("fuse",) * (count - len(bound)) + bound


def _candidate(name: str, axes: tuple[str, ...], row: Sequence[str]) -> tuple[str, ...]:
    wanted = f"one annotation for each of {list(axes)}"
    marks = tuple(check_list(f"annotate knob {name!r}: candidate", row, wanted, error=SpaceError, of=str))
    if len(marks) != len(axes):
        raise SpaceError(f"annotate knob {name!r}: candidate {row!r} must hold one annotation for each of {list(axes)}")
    for mark in marks:
        if mark not in ANNOTATIONS:
            raise SpaceError(f"annotate knob {name!r}: unknown annotation {mark!r}{near_names(mark, ANNOTATIONS)}")
    return marks
