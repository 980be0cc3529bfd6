"""Epilogues for tests: functions of a template's output, and random chains of pointwise computations."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pegbox import te

Step = Callable[..., Any]

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda v: te.max(v, 0.0),
    "relu6": lambda v: te.min(te.max(v, 0.0), 6.0),
    "silu": lambda v: v * te.sigmoid(v),
    "hard_swish": lambda v: v * te.min(te.max(v / 6.0 + 0.5, 0.0), 1.0),
    "gelu": lambda v: 0.5 * v * (1.0 + te.erf(v * 0.7071067811865476)),
    "sigmoid": te.sigmoid,
    "tanh": te.tanh,
    "leaky": lambda v: te.if_then_else(v > 0.0, v, v * 0.01),
    "through_double": lambda v: te.cast("float32", te.cast("float64", v) * 2.0),  # fewer digits would round sums apart
}


def stage(x: te.Tensor, function: Callable[..., Any], name: str) -> te.Tensor:
    """Compute a function of each element of X, which gets the element and its indices."""
    return te.compute(x.shape, lambda *at: function(x(*at), at), name=name)


def broadcast(name: str, shape: tuple[int, ...], axes: frozenset[int]) -> tuple[te.Tensor, Callable[..., Any]]:
    """Make an input with the extents of some axes and 1 for the others, and a function that reads it for an element."""
    tensor = te.placeholder([extent if axis in axes else 1 for axis, extent in enumerate(shape)], name=name)
    return tensor, lambda at: tensor(*(index if axis in axes else 0 for axis, index in enumerate(at)))


def bias_residual(activation: str, axis: int) -> Callable[[te.Tensor], te.Tensor]:
    """Make the epilogue activation(x + bias[axis] + residual)."""

    def follow(x: te.Tensor) -> te.Tensor:
        _, bias = broadcast("bias", x.shape, frozenset([axis]))
        residual = te.placeholder(x.shape, name="residual")
        biased = stage(x, lambda v, at: v + bias(at), "biased")
        added = stage(biased, lambda v, at: v + residual(*at), "added")
        return stage(added, lambda v, at: ACTIVATIONS[activation](v), activation)

    return follow


def chain(rng: random.Random) -> Callable[[te.Tensor], te.Tensor]:
    """Draw a chain of activations, of inputs that broadcast along any axes, and of earlier values."""
    draws = [(rng.choice(["input", "activation", "scalar", "earlier"]), rng.random()) for _ in range(rng.randint(1, 5))]

    def follow(x: te.Tensor) -> te.Tensor:
        made = [x]
        for place, (kind, draw) in enumerate(draws):
            inner, name = random.Random(draw), f"step{place}"
            if kind == "input":
                axes = frozenset(axis for axis in range(x.ndim) if inner.random() < 0.5)
                _, read = broadcast(f"input{place}", x.shape, axes)
                if inner.random() < 0.5:
                    made.append(stage(made[-1], lambda v, at, read=read: v * read(at), name))
                else:
                    made.append(stage(made[-1], lambda v, at, read=read: read(at) - v, name))
            elif kind == "activation":
                activation = ACTIVATIONS[inner.choice(sorted(ACTIVATIONS))]
                made.append(stage(made[-1], lambda v, at, f=activation: f(v), name))
            elif kind == "scalar":
                made.append(stage(made[-1], lambda v, at, c=draw: v * (c - 0.5) + 0.5, name))
            else:
                other = inner.choice(made)
                made.append(stage(made[-1], lambda v, at, o=other: v + o(*at), name))
        return made[-1]

    return follow
