"""Random compute graphs, drawn operation by operation on whatever tensors are there already.

Values are small integers, also where they are held in floats, so that results are exact in any order of evaluation:
each tensor knows the bound of its magnitude, and operations that would leave the exact range are preceded by a clamp.
Integers may be anything where they are computed in their own type, in which they wrap around.
Only graphs with intrinsics (`exact=False`) round, and are compared with a tolerance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.integers import arithmetic, condition
from pegbox import te
from pegbox.compute.tensor import ComputeOp, Tensor

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17)
SMALL = (1, 2, 3, 5, 7)
DTYPES = ("float32", "float32", "float32", "float64", "int32", "int32", "int8", "int16", "int64", "uint8", "float16")
LARGEST = 250  # elements of a tensor: sums of that many numbers up to 8 are exact in float16
WORK = 1500  # iterations of a stage


@dataclass(frozen=True)
class Graph:
    """`tensors` in call order: inputs, then outputs; `exact`: no rounding occurs."""

    kind: str
    tensors: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    exact: bool = True

    def inputs(self, seed: int = 0) -> dict[Tensor, NDArray[Any]]:
        rng = np.random.default_rng(seed)
        given = [t for t in self.tensors if t not in self.outputs]
        drawn = {t: rng.integers(0 if t.dtype == "uint8" else -4, 5, t.shape) for t in given}
        return {t: np.asarray(values).astype(t.dtype) for t, values in drawn.items()}

    def __str__(self) -> str:
        """The inputs, and what each stage computes."""
        lines = [f"{self.kind}:"]
        for op in te.create_schedule([t.op for t in self.outputs]).stages:
            lines += [f"  {t.name}[{', '.join(iv.name for iv in op.op.axis)}] : {t.dtype}{list(t.shape)} = {body}"
                      for t, body in zip(op.op.outputs, op.op.body, strict=True)]  # fmt: skip
        return "\n".join([lines[0], *(f"  {t.name}: {t.dtype}{list(t.shape)}" for t in self.inputs()), *lines[1:]])


@dataclass
class _Drawing:
    """The tensors so far, and the largest magnitude that each may hold; `rough` ones went through an intrinsic."""

    rng: random.Random
    bounds: dict[Tensor, int] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    rough: set[Tensor] = field(default_factory=set)
    stages: int = 0

    def fresh(self, shape: Sequence[int], dtype: str, name: str = "") -> Tensor:
        tensor = te.placeholder(tuple(shape), dtype, name or f"X{len(self.inputs)}")
        self.inputs.append(tensor)
        self.bounds[tensor] = 4
        return tensor

    def add(self, shape: Sequence[int], body: Callable[..., object], bound: int, sources: Sequence[Tensor]) -> Any:
        self.stages += 1
        made = te.compute(tuple(shape), body, f"S{self.stages}")
        for tensor in made if isinstance(made, tuple) else (made,):
            self.bounds[tensor] = bound
            if any(t in self.rough for t in sources):
                self.rough.add(tensor)
        return made

    def some(self, *, exact: bool = False) -> Tensor:
        """A tensor that is there, no scalar; a late one more often than not."""
        choices = [t for t in self.bounds if t.shape and t.dtype != "bool" and not (exact and t in self.rough)]
        if not choices:
            return self.fresh(self.shape(), "float32")
        return choices[-1] if self.rng.random() < 0.6 else self.rng.choice(choices)

    def calm(self, tensor: Tensor, limit: int = 16) -> Any:
        """An element expression of small magnitude, as a function of indices."""
        if self.bounds[tensor] <= limit:
            return lambda *i: tensor[i]
        low, high = te.const(0 if tensor.dtype == "uint8" else -limit, tensor.dtype), te.const(limit, tensor.dtype)
        return lambda *i: te.maximum(te.minimum(tensor[i], high), low)

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rng = self.rng
        rank = rank or rng.choice((1, 2, 2, 2, 3))
        while True:
            shape = tuple(rng.choice(SIZES if rank < 3 else SMALL) for _ in range(rank))
            if np.prod(shape) <= LARGEST:
                return shape

    def view(self, shape: Sequence[int], tensor: Tensor) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """Legal indices into `tensor` for each point of `shape`: straight, broadcast, reversed, wrapped, stretched."""
        rng = self.rng
        axes = list(range(len(shape)))
        if rng.random() < 0.25:
            rng.shuffle(axes)
        axes = axes[-len(tensor.shape) :] if len(axes) >= len(tensor.shape) else axes
        picks: list[Callable[[Sequence[Any]], Any]] = []
        for dim, extent in enumerate(tensor.shape):
            at = dim - (len(tensor.shape) - len(axes))
            picks.append(_constant(rng, extent) if at < 0 else _pick(rng, axes[at], shape[axes[at]], extent))
        return lambda i: tuple(pick(i) for pick in picks)


def _constant(rng: random.Random, extent: int) -> Callable[[Sequence[Any]], Any]:
    value = rng.randrange(extent)
    return lambda i: value


def _pick(rng: random.Random, axis: int, there: int, extent: int) -> Callable[[Sequence[Any]], Any]:
    """An index below `extent` that follows an axis of `there` values."""
    choices: list[Callable[[Sequence[Any]], Any]] = []
    if there <= extent:
        shift = rng.randint(0, extent - there)
        choices += [lambda i: i[axis]] * 4 + [lambda i: i[axis] + shift, lambda i: extent - 1 - i[axis]]
        if there > 1 and (stride := (extent - 1) // (there - 1)) > 1:
            choices += [lambda i: i[axis] * stride] * 2
    else:
        stretch = -(-there // extent)
        choices += [lambda i: i[axis] % extent, lambda i: i[axis] // stretch, lambda i: te.minimum(i[axis], extent - 1)]
    return rng.choice(choices)


def _unary(d: _Drawing) -> None:
    rng, a = d.rng, d.some()
    c, e = rng.randint(-3, 3), rng.randint(-5, 5)
    if a.dtype == "uint8":
        c, e = abs(c), abs(e)
    get = d.calm(a)
    bound = min(d.bounds[a], 16)
    forms: list[tuple[Callable[..., Any], int]] = [
        (lambda *i: get(*i) * c + e, 3 * bound + 5),
        (lambda *i: te.relu(get(*i) - abs(e)), bound + 5),
        (lambda *i: te.select(i[0] % 2 == 0, get(*i), get(*i) + 1), bound + 1),
        (lambda *i: te.select(i[-1] > 1, get(*i), te.const(3, a.dtype)), bound + 3),
        (lambda *i: get(*i) * get(*i), bound * bound),
    ]
    if a not in d.rough:
        other = rng.choice(DTYPES)
        if other != "uint8" and a.dtype != "uint8":
            forms.append((lambda *i: te.cast(other, get(*i)), bound))
        forms.append((lambda *i: te.select(get(*i) > 0, get(*i), te.const(1, a.dtype)), bound + 1))
    body, bound = rng.choice(forms)
    d.add(a.shape, body, bound, [a])


def _binary(d: _Drawing) -> None:
    rng, a = d.rng, d.some()
    b = d.some() if rng.random() < 0.7 else d.fresh(rng.choice([a.shape, a.shape[-1:]]), a.dtype)
    at, get, other = d.view(a.shape, b), d.calm(a), d.calm(b)
    forms: list[Callable[..., Any]] = [
        lambda *i: get(*i) + other(*at(i)),
        lambda *i: get(*i) - other(*at(i)),
        lambda *i: get(*i) * other(*at(i)),
        lambda *i: te.maximum(get(*i), other(*at(i))),
        lambda *i: te.select(i[-1] % 3 < 1, get(*i), other(*at(i))),
    ]
    d.add(a.shape, rng.choice(forms), 256, [a, b])


def _mask(d: _Drawing) -> None:
    """A tensor of truth values, and what it chooses."""
    a = d.some(exact=True)
    at, get = d.view(a.shape, a), d.calm(a)
    mask = d.add(a.shape, lambda *i: te.all(get(*i) > 0, i[-1] != 1), 1, [a])
    fill = te.const(2, a.dtype)
    if d.rng.random() < 0.5:
        d.add(a.shape, lambda *i: te.select(mask[at(i)], get(*i), fill), 16, [a])
    else:
        d.add(a.shape, lambda *i: te.cast(a.dtype, mask[at(i)]) + get(*i), 17, [a])


def _outputs(d: _Drawing) -> None:
    """One operation that makes two tensors."""
    a = d.some()
    get = d.calm(a)
    d.add(a.shape, lambda *i: (get(*i) + 1, get(*i) * 2), 40, [a])


def _transpose(d: _Drawing) -> None:
    a = d.some()
    order = list(range(len(a.shape)))
    d.rng.shuffle(order)
    shape = [a.shape[n] for n in order]
    d.add(shape, lambda *i: a[tuple(i[order.index(n)] for n in range(len(order)))] + 1, d.bounds[a] + 1, [a])


def _reshape(d: _Drawing) -> None:
    """Through the flat index: `//` and `%`."""
    rng, a = d.rng, d.some()
    size = int(np.prod(a.shape))
    divisors = [n for n in range(1, size + 1) if size % n == 0]
    first = rng.choice(divisors)
    shape = rng.choice([(size,), (first, size // first)])

    def body(*i: Any) -> Any:
        flat = i[0] if len(i) == 1 else i[0] * shape[1] + i[1]
        indices: list[Any] = []
        for extent in reversed(a.shape):
            indices.append(flat % extent)
            flat = flat // extent
        return a[tuple(reversed(indices))] * 1

    d.add(shape, body, d.bounds[a], [a])


def _pad(d: _Drawing) -> None:
    rng, a = d.rng, d.some()
    pads = [rng.choice((0, 1, 2)) for _ in a.shape]
    shape = [n + p + rng.choice((0, p)) for n, p in zip(a.shape, pads, strict=True)]
    if np.prod(shape) > LARGEST:
        return
    fill = te.const(rng.choice((0, 0, 3)), a.dtype)

    def body(*i: Any) -> Any:
        inside = [c for x, p, n in zip(i, pads, a.shape, strict=True) for c in (x >= p, x < n + p)]
        return te.if_then_else(te.all(*inside), a[tuple(x - p for x, p in zip(i, pads, strict=True))], fill)

    d.add(shape, body, d.bounds[a] + 3, [a])


def _stencil(d: _Drawing) -> None:
    """Neighbours along one or two axes, in steps, spread out, or clamped at the border."""
    rng, a = d.rng, d.some()
    get = d.calm(a)
    dims = rng.sample(range(len(a.shape)), rng.choice((1, min(2, len(a.shape)))))
    taps, shape = {}, list(a.shape)
    for dim in dims:
        stride, dilation, count = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2)), rng.choice((2, 3))
        reach = (count - 1) * dilation + 1
        if a.shape[dim] < reach:
            continue
        shape[dim] = (a.shape[dim] - reach) // stride + 1
        taps[dim] = (stride, dilation, count)

    def at(i: Sequence[Any], dim: int | None, tap: int) -> Any:
        return get(*(x * taps[n][0] + (tap * taps[n][1] if n == dim else 0) if n in taps else x
                     for n, x in enumerate(i)))  # fmt: skip

    def body(*i: Any) -> Any:
        total = at(i, None, 0)
        for dim, (_, _, count) in taps.items():
            for tap in range(1, count):
                total = total + at(i, dim, tap)
        return total

    d.add(shape, body, 100, [a])


def _border(d: _Drawing) -> None:
    """A stencil that is cut at the border instead of shrinking."""
    rng, a = d.rng, d.some()
    get = d.calm(a)
    dim = rng.randrange(len(a.shape))
    last = a.shape[dim] - 1
    step = rng.choice((-1, 1, 2))

    def shifted(i: Sequence[Any], *, clamp: bool) -> Any:
        x = i[dim] + step
        x = te.maximum(te.minimum(x, last), 0) if clamp else x
        return get(*(x if n == dim else y for n, y in enumerate(i)))

    if rng.random() < 0.5:
        d.add(a.shape, lambda *i: get(*i) + shifted(i, clamp=True), 40, [a])
    else:

        def body(*i: Any) -> Any:
            inside = te.all(i[dim] + step >= 0, i[dim] + step <= last)
            return te.if_then_else(inside, get(*i) + shifted(i, clamp=False), get(*i))

        d.add(a.shape, body, 40, [a])


def _concat(d: _Drawing) -> None:
    """One tensor, then another one along the first axis; or every other element."""
    rng, a = d.rng, d.some()
    b = d.some() if rng.random() < 0.5 else d.fresh(a.shape, a.dtype)
    n = a.shape[0]
    at, (rows, *rest) = d.view(a.shape, b), (2 * n, *a.shape[1:])
    if rows * int(np.prod(rest)) > LARGEST or a.dtype != b.dtype:
        return
    if rng.random() < 0.6:
        body = lambda *i: te.if_then_else(i[0] < n, a[(i[0], *i[1:])], b[at((i[0] - n, *i[1:]))])  # noqa: E731
    else:
        body = lambda *i: te.select(i[0] % 2 == 0, a[(i[0] // 2, *i[1:])], b[at((i[0] // 2, *i[1:]))])  # noqa: E731
    d.add((rows, *rest), body, max(d.bounds[a], d.bounds[b]), [a, b])


def _gather(d: _Drawing) -> None:
    """Indices that come from memory, kept inside."""
    rng, a = d.rng, d.some()
    where = d.fresh((rng.choice(SIZES),), "int32")
    last = a.shape[0] - 1
    shape = (where.shape[0], *a.shape[1:])
    if np.prod(shape) > LARGEST:
        return
    at = lambda i: te.maximum(te.minimum(te.cast("int64", where[i]), last), 0)  # noqa: E731
    if rng.random() < 0.5:
        d.add(shape, lambda *i: a[(at(i[0]), *i[1:])] + 1, d.bounds[a] + 1, [a])
    else:
        index = d.add(where.shape, lambda i: at(i), last, [where])
        d.add(shape, lambda *i: a[(index[i[0]], *i[1:])] * 1, d.bounds[a], [a])


_ARGMAX = te.comm_reducer(
    lambda a, b: (
        te.select(te.any(a[1] > b[1], te.all(a[1] >= b[1], a[0] < b[0])), a[0], b[0]),
        te.maximum(a[1], b[1]),
    ),
    lambda i, v: (te.const(2**30, i), te.min_value(v)),
    name="argmax",
)
_OWN = te.comm_reducer(lambda a, b: a + b, lambda t: te.const(0, t), name="plus")


def _reduction(d: _Drawing) -> None:
    """Over some axes of a tensor, maybe over a part of them, maybe not everywhere, maybe with a factor."""
    rng, a = d.rng, d.some()
    get = d.calm(a, 8)
    rank = len(a.shape)
    over = sorted(rng.sample(range(rank), rng.randint(1, min(rank, 2))))
    firsts = [rng.choice((0, 0, 0, 1)) if a.shape[n] > 1 else 0 for n in over]
    axes = [te.reduce_axis((f, a.shape[n]), f"k{n}") for n, f in zip(over, firsts, strict=True)]
    kept = [n for n in range(rank) if n not in over]
    shape = [a.shape[n] for n in kept] or [1]

    def point(i: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(axes[over.index(n)] if n in over else i[kept.index(n)] for n in range(rank))

    size = int(np.prod([a.shape[n] for n in over]))
    where: Callable[[Sequence[Any]], Any] = lambda i: None  # noqa: E731
    if rng.random() < 0.2:
        some = condition(rng, "int64", 2)
        where = rng.choice([lambda i: (axes[0] + i[0]) % 3 != 0, lambda i: some((axes[0], i[0]))])
    kinds = ["sum", "sum", "sum", "max", "min", "own"]
    if a not in d.rough:
        kinds += ["argmax"]
        if size <= 7:
            kinds += ["prod"]
    kind = rng.choice(kinds)
    if kind == "argmax":
        wide = te.cast("int32", axes[0])
        d.add(shape, lambda *i: _ARGMAX((wide, get(*point(i))), axis=axes, where=where(i)), 300, [a])
        return
    reduce = {"sum": te.sum, "max": te.max, "min": te.min, "prod": te.prod, "own": _OWN}[kind]
    if kind == "prod":
        get, size = d.calm(a, 2), 2**7
    bound = 8 * size if kind in ("sum", "own") else size if kind == "prod" else 2**31
    made = d.add(shape, lambda *i: reduce(get(*point(i)), axis=axes, where=where(i)), bound, [a])
    if kind in ("max", "min") and d.rng.random() < 0.7:
        d.add(shape, lambda *i: te.maximum(te.minimum(made[i], 9), 0 if a.dtype == "uint8" else -9) + 1, 10, [made])


def _product(d: _Drawing) -> None:
    """Matrix products: plain, transposed, batched, packed, with a vector."""
    rng, a = d.rng, d.some()
    if len(a.shape) < 2 or rng.random() < 0.3:
        a = d.fresh((rng.choice(SIZES), rng.choice(SIZES)), rng.choice(DTYPES))
    if a.dtype in ("int8", "uint8") and rng.random() < 0.5:
        wide: Callable[[Any], Any] = lambda x: te.cast("int32", x)  # noqa: E731
    else:
        wide = lambda x: x  # noqa: E731
    get, depth = d.calm(a, 8), a.shape[-1]
    n = rng.choice(SIZES)
    r = te.reduce_axis((0, depth), "k")
    form = rng.choice(["plain", "plain", "transposed", "packed", "vector", "self"])
    *batch, m, _ = a.shape
    size = int(np.prod(a.shape)) * (m if form == "self" else 1 if form == "vector" else n)
    if size > WORK or int(np.prod(batch)) * m * n > LARGEST:
        return
    lead = tuple(batch)
    if form == "vector":
        v = d.fresh((depth,), a.dtype)
        d.add((*lead, m), lambda *i: te.sum(wide(get(*i, r)) * wide(v[r]), axis=r), 32 * depth, [a])
    elif form == "self":
        d.add(
            (*lead, m, m),
            lambda *i: te.sum(wide(get(*i[:-1], r)) * wide(get(*i[:-2], i[-1], r)), axis=r),
            64 * depth,
            [a],
        )
    elif form == "packed":
        nr = rng.choice((2, 4, 8))
        b = d.fresh((depth, n), a.dtype)
        packed = d.add(
            (-(-n // nr), depth, nr),
            lambda x, y, z: te.if_then_else(x * nr + z < n, b[y, x * nr + z], te.const(0, a.dtype)),
            4,
            [b],
        )
        d.add(
            (*lead, m, n),
            lambda *i: te.sum(wide(get(*i[:-1], r)) * wide(packed[i[-1] // nr, r, i[-1] % nr]), axis=r),
            32 * depth,
            [a],
        )
    else:
        own = rng.random() < 0.5
        b = d.fresh((*(lead if own else ()), *((n, depth) if form == "transposed" else (depth, n))), a.dtype)

        def right(i: Sequence[Any]) -> Any:
            first = tuple(i[: len(lead)]) if own else ()
            return b[(*first, i[-1], r)] if form == "transposed" else b[(*first, r, i[-1])]

        d.add((*lead, m, n), lambda *i: te.sum(wide(get(*i[:-1], r)) * wide(right(i)), axis=r), 32 * depth, [a])


def _convolution(d: _Drawing) -> None:
    """Over the last axis or the last two, with stride and dilation; the axes before them are summed over."""
    rng, a = d.rng, d.some()
    get = d.calm(a, 8)
    rank = len(a.shape)
    spatial = [rank - 2, rank - 1] if rank > 2 else [rank - 1]
    windows, strides, dilations, out = [], [], [], []
    for dim in spatial:
        width, dilation, stride = rng.choice((1, 2, 3)), rng.choice((1, 2)), rng.choice((1, 2))
        if (width - 1) * dilation + 1 > a.shape[dim]:
            width = 1
        windows.append(width), strides.append(stride), dilations.append(dilation)
        out.append((a.shape[dim] - (width - 1) * dilation - 1) // stride + 1)
    channels = list(a.shape[: spatial[0]])
    filters = rng.choice((1, 2, 3))
    kernel = d.fresh((filters, *channels, *windows), a.dtype)
    taps = int(np.prod([*channels, *windows]))
    if filters * int(np.prod(out)) * taps > WORK or filters * int(np.prod(out)) > LARGEST:
        return
    rc = [te.reduce_axis((0, c), "rc") for c in channels]
    rs = [te.reduce_axis((0, w), f"r{n}") for n, w in enumerate(windows)]

    def body(*i: Any) -> Any:
        f, *xs = i
        at = [x * s + r * e for x, s, r, e in zip(xs, strides, rs, dilations, strict=True)]
        return te.sum(get(*rc, *at) * kernel[(f, *rc, *rs)], axis=[*rc, *rs])

    d.add((filters, *out), body, 32 * taps, [a])


def _normalized(d: _Drawing) -> None:
    """What softmax and layer norm are made of, in integers: several reductions of rows and what they give back."""
    a = d.some()
    get = d.calm(a, 4)
    *rows, n = a.shape
    if not rows or a.dtype in ("int8", "uint8"):
        return
    k, k2 = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "q")
    top = d.add(rows, lambda *i: te.max(get(*i, k), axis=k), 4, [a])
    less = d.add(a.shape, lambda *i: get(*i) - top[i[:-1]], 8, [a])
    total = d.add(rows, lambda *i: te.sum(less[(*i, k2)] * less[(*i, k2)], axis=k2), 64 * n, [less])
    low = te.const(0, a.dtype)
    d.add(a.shape, lambda *i: less[i] * n - te.maximum(total[i[:-1]], low), 8 * n + 64 * n, [less])


def _softmax(d: _Drawing) -> None:
    a = d.some()
    *rows, n = a.shape
    if not rows or a.dtype not in ("float32", "float64"):
        return
    k, k2 = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "q")
    get = d.calm(a, 4)
    top = d.add(rows, lambda *i: te.max(get(*i, k), axis=k), 4, [a])
    e = d.add(a.shape, lambda *i: te.exp(get(*i) - top[i[:-1]]), 1, [a])
    d.rough.add(e)
    total = d.add(rows, lambda *i: te.sum(e[(*i, k2)], axis=k2), n, [e])
    d.add(a.shape, lambda *i: e[i] / total[i[:-1]], 1, [e])


def _intrinsic(d: _Drawing) -> None:
    a = d.some()
    if a.dtype not in ("float32", "float64"):
        return
    get = d.calm(a, 4)
    body = d.rng.choice([
        lambda *i: te.exp(get(*i) * 0.25), lambda *i: te.sqrt(te.abs(get(*i))), lambda *i: te.tanh(get(*i)),
    ])  # fmt: skip
    d.rough.add(d.add(a.shape, body, 4, [a]))


def _scalar(d: _Drawing) -> None:
    """Tensors of rank 0: an input or a reduction of everything, what is made of it, and who reads that."""
    rng, a = d.rng, d.some()
    get = d.calm(a, 8)
    axes = [te.reduce_axis((0, n), "k") for n in a.shape]
    size = int(np.prod(a.shape))
    made = rng.choice([
        lambda: d.fresh((), a.dtype),
        lambda: d.add((), lambda: te.sum(get(*axes), axis=axes), 8 * size, [a]),
        lambda: d.add((), lambda: get(*(n - 1 for n in a.shape)) + 1, 9, [a]),
    ])()  # fmt: skip
    for _ in range(rng.choice((0, 1, 1, 2))):
        before = d.calm(made, 8)
        made = d.add((), lambda before=before: before() * 2 + 1, 17, [made])
    value = d.calm(made, 20)
    shape = rng.choice([(), (1,), d.shape(), a.shape])
    if shape == a.shape and rng.random() < 0.7:
        d.add(shape, lambda *i: value() + get(*i), 28, [made, a])
    else:
        d.add(shape, lambda *i: value() * 2, 40, [made])


_WRAPPING = ("int64", "int64", "int64", "int32", "int16", "int8", "uint8")


def _wrapping(d: _Drawing) -> None:
    """Arithmetic on indices and elements that wraps around, or a tensor read where such a number says."""
    rng, a = d.rng, d.some(exact=True)
    get, dtype, rank = d.calm(a), rng.choice(_WRAPPING), len(a.shape)
    plan = arithmetic(rng, dtype, rank + 1, rng.choice((2, 3, 4)))

    def value(i: Sequence[Any]) -> Any:
        return plan([te.cast(dtype, x) for x in (*i, get(*i))])

    if rng.random() < 0.75:
        d.add(a.shape, lambda *i: value(i), 2**63, [a])
    else:
        extent = a.shape[0]
        d.add(a.shape, lambda *i: get(te.cast("int64", value(i)) % extent, *i[1:]) * 1, min(d.bounds[a], 16), [a])


def _division(d: _Drawing) -> None:
    """Divisors that come from memory."""
    a = d.some(exact=True)
    if a.dtype not in ("int32", "int64"):
        return
    get = d.calm(a)
    by = d.add(a.shape, lambda *i: get(*i) * get(*i) + 1, 257, [a])
    at = d.view(a.shape, by)
    d.add(a.shape, lambda *i: 100 // by[i] + get(*i) % by[at(i)], 400, [by, a])


_OPERATIONS: tuple[tuple[Callable[[_Drawing], None], int], ...] = (
    (_unary, 5), (_binary, 6), (_transpose, 2), (_reshape, 2), (_pad, 2), (_stencil, 4), (_border, 2), (_concat, 2),
    (_gather, 1), (_reduction, 6), (_product, 5), (_convolution, 3), (_normalized, 1), (_outputs, 1), (_division, 1),
    (_mask, 1), (_scalar, 2), (_wrapping, 3),
)  # fmt: skip
_ROUGH: tuple[tuple[Callable[[_Drawing], None], int], ...] = ((_softmax, 15), (_intrinsic, 15))


def draw_graph(rng: random.Random) -> Graph:
    """A random graph of mostly two to five stages."""
    d = _Drawing(rng)
    d.fresh(d.shape(), rng.choice(DTYPES))
    table = _OPERATIONS + _ROUGH if rng.random() < 0.12 else _OPERATIONS
    operations, weights = zip(*table, strict=True)
    wanted = rng.choice((1, 2, 2, 3, 3, 4, 5))
    for _ in range(4 * wanted):
        if d.stages >= wanted:
            break
        rng.choices(operations, weights)[0](d)
    if not d.stages:
        _unary(d)
    return _finished(d)


def _finished(d: _Drawing) -> Graph:
    """What nobody reads is an output; at times something that is read is one too."""
    computed = [t for t in d.bounds if isinstance(t.op, ComputeOp)]
    read = {t.buffer for made in computed for t in made.op.inputs}
    outputs = [t for t in computed if t.buffer not in read]
    if d.rng.random() < 0.15:
        outputs += [t for t in [d.rng.choice(computed)] if t not in outputs]
    whole = [t for t in computed if any(t.op is o.op for o in outputs)]  # an operation is an output with all it makes
    used = [t for t in d.inputs if t.buffer in read]
    return Graph("drawn", (*used, *whole), tuple(whole), exact=not d.rough)
