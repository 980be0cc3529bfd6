"""Strided gradients whose products by inserted zeros are left out: the phases of their axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te
from pegbox.compute.flop import count_flop
from pegbox.compute.graph import post_order
from pegbox.compute.phases import without_zeros
from pegbox.compute.reference import evaluate
from pegbox.compute.subscripts import check_subscripts
from pegbox.task.dag import ComputeDAG
from pegbox.templates import pack_weights

ZERO = te.const(0, "float32")


@dataclass(frozen=True)
class Gradient:
    """A transposed convolution of X[batch, channels, *sizes] with W[channels, filters, *kernel].

    Attributes:
        form: how the zeros are written: a condition of the reduction ("where") or of its terms ("gather"), an input
            that is spread in one step ("spread") or in two ("dilate+pad").
    """

    form: str
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    channels: int = 2
    filters: int = 3
    batch: int = 1
    dilation: int = 1
    reducer: Callable[..., te.Expr] = te.sum

    @property
    def reach(self) -> list[int]:
        return [(e - 1) * self.dilation for e in self.kernel]

    @property
    def shape(self) -> tuple[int, ...]:
        axes = zip(self.sizes, self.stride, self.reach, self.padding, strict=True)
        return (self.batch, self.filters, *((e - 1) * s + r + 1 - 2 * p for e, s, r, p in axes))

    def tensors(self) -> list[te.Tensor]:
        x = te.placeholder((self.batch, self.channels, *self.sizes), name="X")
        w = te.placeholder((self.channels, self.filters, *self.kernel), name="W")
        rc = te.reduce_axis((0, self.channels), name="rc")
        window = [te.reduce_axis((0, e), name=f"r{n}") for n, e in enumerate(self.kernel)]
        steps = [r * self.dilation for r in window]

        def gathered(b: te.Expr, f: te.Expr, *at: te.Expr) -> te.Expr:
            places = [i + p - r for i, p, r in zip(at, self.padding, steps, strict=True)]
            bounds = zip(places, self.stride, self.sizes, strict=True)
            there = te.all(*(c for u, s, e in bounds for c in (u >= 0, u < e * s, u % s == 0)))
            term = x[(b, rc, *_divided(places, self.stride))] * w[(rc, f, *window)]
            if self.form == "where":
                return self.reducer(term, axis=[rc, *window], where=there)
            return self.reducer(te.if_then_else(there, term, ZERO), axis=[rc, *window])

        if self.form in ("where", "gather"):
            return [x, w, te.compute(self.shape, gathered, name="conv")]
        spread = self._spread(x)

        def dense(b: te.Expr, f: te.Expr, *at: te.Expr) -> te.Expr:
            flipped = [e - 1 - r for e, r in zip(self.kernel, window, strict=True)]
            term = spread[(b, rc, *map(add, at, steps))] * w[(rc, f, *flipped)]
            return self.reducer(term, axis=[rc, *window])

        return [x, w, te.compute(self.shape, dense, name="conv")]

    def _spread(self, x: te.Tensor) -> te.Tensor:
        border = [r - p for r, p in zip(self.reach, self.padding, strict=True)]
        inner = [(e - 1) * s + 1 for e, s in zip(self.sizes, self.stride, strict=True)]
        whole = (self.batch, self.channels, *(u + 2 * b for u, b in zip(inner, border, strict=True)))

        def there(at: Sequence[te.Expr]) -> list[te.Expr]:
            return [c for i, d, u in zip(at, border, inner, strict=True) for c in (i >= d, i < u + d)]

        def zeros(at: Sequence[te.Expr]) -> list[te.Expr]:
            return [i % s == 0 for i, s in zip(at, self.stride, strict=True)]

        def one(b: te.Expr, c: te.Expr, *at: te.Expr) -> te.Expr:
            moved = [i - d for i, d in zip(at, border, strict=True)]
            inside = te.all(*there(at), *zeros(moved))
            return te.if_then_else(inside, x[(b, c, *_divided(moved, self.stride))], ZERO)

        def dilated(b: te.Expr, c: te.Expr, *at: te.Expr) -> te.Expr:
            return te.if_then_else(te.all(*zeros(at)), x[(b, c, *_divided(at, self.stride))], ZERO)

        if self.form == "spread":
            return te.compute(whole, one, name="spread")
        source = te.compute((self.batch, self.channels, *inner), dilated, name="dilated")

        def padded(b: te.Expr, c: te.Expr, *at: te.Expr) -> te.Expr:
            return te.if_then_else(
                te.all(*there(at)), source[(b, c, *(i - d for i, d in zip(at, border, strict=True)))], ZERO
            )

        return te.compute(whole, padded, name="padded")


def _divided(at: Sequence[te.Expr], stride: Sequence[int]) -> list[te.Expr]:
    return [u // s for u, s in zip(at, stride, strict=True)]


def is_phased(arguments: Sequence[te.Tensor]) -> bool:
    return any(op.name.endswith("_phases") for op in post_order([t.op for t in arguments]))


def values(arguments: Sequence[te.Tensor], inputs: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return evaluate(arguments[-1:], dict(zip(arguments, inputs, strict=False)))[0]


def inputs_of(arguments: Sequence[te.Tensor]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, t.shape).astype("float32") for t in arguments[:-1]]


def task_of(arguments: list[te.Tensor], space: str = "sketch", cores: int = 1) -> pb.Task:
    workload = pb.workload("gradient")(lambda: arguments)
    return pb.create_task(workload, args=(), space=space, target=f"llvm -num-cores {cores}")


@st.composite
def gradients(draw: st.DrawFn) -> Gradient:
    dims = draw(st.sampled_from([1, 1, 2, 2, 3]))
    most = 5 if dims < 3 else 3
    sizes, kernel, stride = (
        tuple(draw(st.lists(st.integers(1, top), min_size=dims, max_size=dims))) for top in (most, most, 4)
    )
    dilation = draw(st.sampled_from([1, 1, 2, 3]))
    reach = [(e - 1) * dilation for e in kernel]
    total = [(e - 1) * s + r for e, s, r in zip(sizes, stride, reach, strict=True)]
    padding = tuple(draw(st.integers(0, min(r, t // 2))) for r, t in zip(reach, total, strict=True))
    form = draw(st.sampled_from(["where", "gather", "spread", "dilate+pad"]))
    counts = [draw(st.integers(1, 3)) for _ in range(3)]
    reducer = draw(st.sampled_from([te.sum, te.sum, te.sum, te.max]))
    return Gradient(form, sizes, kernel, stride, padding, *counts, dilation, reducer)


@settings(max_examples=150, deadline=None)
@given(gradients())
def test_phases_compute_what_the_gradient_computes(gradient: Gradient) -> None:
    arguments = gradient.tensors()
    made = without_zeros(arguments)
    check_subscripts([made[-1].op])
    inputs = inputs_of(arguments)
    np.testing.assert_array_equal(values(made, inputs), values(arguments, inputs))


CASES = [
    Gradient("where", (9,), (3,), (2,), (1,), 4, 16),
    Gradient("spread", (7,), (5,), (3,), (0,), 3, 20),
    Gradient("spread", (4, 5), (4, 4), (2, 2), (1, 1), 3, 16),
    Gradient("dilate+pad", (4, 3), (3, 3), (2, 2), (1, 1), 3, 20),
    Gradient("gather", (3, 4), (5, 2), (3, 2), (2, 0), 3, 16),
    Gradient("where", (4, 4), (2, 2), (3, 3), (0, 0), 3, 8),  # phases without a term
    Gradient("dilate+pad", (4, 5), (4, 3), (2, 3), (1, 1), 2, 1, 2),
    Gradient("where", (2, 3, 3), (3, 2, 3), (2, 2, 2), (1, 0, 1), 2, 16),
    Gradient("where", (4, 5), (3, 3), (2, 2), (1, 1), 3, 16, 2, 1, te.max),
]


@pytest.mark.parametrize("gradient", CASES, ids=lambda g: f"{g.form}-{'x'.join(map(str, g.kernel))}-{g.filters}")
@pytest.mark.parametrize(("space", "cores"), [("sketch", 1), ("sketch", 4), ("sketch:layout_free=W", 1)])
def test_sampled_configurations_of_phases_compute_what_numpy_computes(
    gradient: Gradient, space: str, cores: int
) -> None:
    arguments = gradient.tensors()
    assert is_phased(without_zeros(arguments))
    task = task_of(arguments, space, cores)
    x, w = inputs_of(arguments)
    wanted = values(arguments, [x, w])
    packed = pack_weights(task, w) if "free" in space else w
    copies = [knob.name for knob in task.space.structure.knobs if knob.name.endswith("W_pack")]
    assert bool(copies) == (space == "sketch")
    for row in task.space.sample(1, np.random.default_rng(cores)):
        config = task.space.config(row)
        out = np.full(wanted.shape, np.nan, "float32")
        pb.build(task, config=config)(x, packed, out)
        np.testing.assert_array_equal(out, wanted, err_msg=str(config))


@pytest.mark.parametrize("gradient", [CASES[3], CASES[5]], ids=["padded", "without_a_term"])
def test_guarded_weights_are_read_right_from_every_copy(gradient: Gradient) -> None:
    arguments = gradient.tensors()
    task = task_of(arguments)
    inputs = inputs_of(arguments)
    wanted = values(arguments, inputs)
    seen = set()
    for row in task.space.sample(400, np.random.default_rng(0)):
        config = task.space.config(row)
        places = tuple(value for name, value in config.items() if name.endswith("_W_pack"))
        if places in seen or len(seen) == 5:
            continue
        seen.add(places)
        out = np.full(wanted.shape, np.nan, "float32")
        pb.build(task, config=config)(*inputs, out)
        np.testing.assert_array_equal(out, wanted, err_msg=str(config))
    assert len(seen) > 2


def test_a_gradient_in_phases(golden: Callable[[object], None]) -> None:
    golden(ComputeDAG(without_zeros(CASES[3].tensors())))


def test_a_gradient_in_phases_of_whole_kernels(golden: Callable[[object], None]) -> None:
    golden(ComputeDAG(without_zeros(CASES[2].tensors())))


@pytest.mark.parametrize(("kernel", "terms"), [(4, 4), (3, 2.25), (2, 1)])
def test_masked_terms_are_not_counted(kernel: int, terms: float) -> None:
    gradient = Gradient("spread", (6, 6), (kernel, kernel), (2, 2), (0, 0), 8, 16)
    points = float(np.prod(gradient.shape))
    assert count_flop(without_zeros(gradient.tensors())[-1:]) == 2 * points * 8 * terms


def test_zeros_that_are_left_out_make_no_nan_of_an_infinity() -> None:
    arguments = CASES[2].tensors()
    x, w = inputs_of(arguments)
    w[:] = np.inf
    assert np.isnan(values(arguments, [np.ones_like(x), w])).any()
    assert np.isposinf(values(without_zeros(arguments), [np.ones_like(x), w]))[:, :, 1:-1, 1:-1].all()


def test_ansor_s_sketches_multiply_by_the_zeros() -> None:
    task = pb.create_task("conv2d_transposed", (1, 4, 4, 5, 3, 4, 2, 1), space="sketch:rules=ansor")
    assert "phases" not in str(task.compute_dag)


def _sum_over(term: Callable[[te.Tensor, te.Tensor, te.Expr, te.Expr], te.Expr], reducer: Any = te.sum) -> Any:
    x, w = te.placeholder((8,), name="X"), te.placeholder((8,), name="W")
    r = te.reduce_axis((0, 4), name="r")
    return [x, w, te.compute((8,), lambda i: reducer(term(x, w, i, r), axis=r), name="C")]


WHOLE = {
    "other values than zero": lambda x, w, i, r: te.if_then_else((i + r) % 2 == 0, x[i], te.const(1, "float32")) * w[r],
    "zeros that are added": lambda x, w, i, r: te.if_then_else((i + r) % 2 == 0, x[i], ZERO) + w[r],
    "no single phase": lambda x, w, i, r: te.if_then_else((i + 2 * r) % 4 == 0, x[i], ZERO) * w[r],
    "no reduce axis": lambda x, w, i, r: te.if_then_else(i % 2 == 0, x[i], ZERO) * w[r],
    "all but one phase": lambda x, w, i, r: te.if_then_else((i + r) % 2 != 0, x[i], ZERO) * w[r],
    "an index that is no sum": lambda x, w, i, r: te.if_then_else((i * r) % 2 == 0, x[i], ZERO) * w[r],
}


@pytest.mark.parametrize("term", WHOLE.values(), ids=WHOLE)
def test_what_has_no_phases_stays_as_it_is(term: Callable[..., te.Expr]) -> None:
    arguments = _sum_over(term)
    assert without_zeros(arguments) == tuple(arguments)


def test_zeros_count_in_a_maximum() -> None:
    arguments = _sum_over(lambda x, w, i, r: te.if_then_else((i + r) % 2 == 0, x[i], ZERO) * w[r], te.max)
    assert without_zeros(arguments) == tuple(arguments)


def test_a_phase_of_the_reduce_axis_alone() -> None:
    arguments = _sum_over(lambda x, w, i, r: te.if_then_else(r % 2 == 1, x[i], ZERO) * w[r])
    made = without_zeros(arguments)
    assert is_phased(made)
    assert made[-1].op.attrs == {}
    inputs = inputs_of(arguments)
    np.testing.assert_array_equal(values(made, inputs), values(arguments, inputs))
    assert count_flop(made[-1:]) * 2 == count_flop(arguments[-1:])


def test_readers_of_a_gradient_interleave_its_phases() -> None:
    x, w, conv = CASES[2].tensors()
    relu = te.compute(conv.shape, lambda *at: te.maximum(conv[at] + te.const(1, "float32"), ZERO), name="relu")
    arguments = [x, w, relu]
    made = without_zeros(arguments)
    assert [t.name for t in made[-1].op.inputs] == ["conv_phases"]
    inputs = inputs_of(arguments)
    np.testing.assert_array_equal(values(made, inputs), values(arguments, inputs))
