"""Recurrent layers: RNN, LSTM and GRU, with one scan over the steps for each direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pegbox import te
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index
from pegbox.plugins.onnx.operators.slices import joined

Function = Callable[[Any], Any]

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""The number of products with the input in each step."""
PANEL = 16
"""The number of adjacent columns of recurrent weights, a multiple of every processor's vector."""
PREPARED = "prepared"
"""The attribute of a layer that takes the products of all inputs with W, and R in panels of columns."""


def _activation(node: OperatorNode, name: str, alpha: float | None, beta: float | None) -> Function:
    def given(value: float | None, default: float) -> float:
        return default if value is None else value

    table: dict[str, Function] = {
        "sigmoid": te.sigmoid,
        "tanh": te.tanh,
        "relu": lambda x: te.maximum(x, te.const(0, x.dtype)),
        "affine": lambda x: given(alpha, 1.0) * x + given(beta, 0.0),
        "leakyrelu": lambda x: te.if_then_else(x < 0, given(alpha, 0.01) * x, x),
        "thresholdedrelu": lambda x: te.if_then_else(x > given(alpha, 1.0), x, te.const(0, x.dtype)),
        "scaledtanh": lambda x: given(alpha, 1.0) * te.tanh(given(beta, 1.0) * x),
        "hardsigmoid": lambda x: te.maximum(te.minimum(given(alpha, 0.2) * x + given(beta, 0.5), 1.0), 0.0),
        "elu": lambda x: te.if_then_else(x < 0, given(alpha, 1.0) * (te.exp(x) - 1), x),
        "softsign": lambda x: x / (1 + te.abs(x)),
        "softplus": lambda x: te.maximum(x, te.const(0, x.dtype)) + te.log1p(te.exp(-te.abs(x))),
    }
    if name.lower() not in table:
        raise node.refuse(f"the activation {name!r}")
    return table[name.lower()]


def _activations(node: OperatorNode, directions: int, defaults: Sequence[str]) -> list[list[Function]]:
    """Return the activation functions of each direction, which clamp their argument first if the node says so."""
    names = list(node.get("activations") or [*defaults] * directions)
    pairs = [list(node.get(f"activation_{name}") or []) for name in ("alpha", "beta")]
    alphas, betas = ([*each, *[None] * (len(names) - len(each))] for each in pairs)
    made = [_clipped(node, _activation(node, *each)) for each in zip(names, alphas, betas, strict=True)]
    size = len(defaults)
    return [made[d * size : (d + 1) * size] for d in range(directions)]


def _clipped(node: OperatorNode, function: Function) -> Function:
    limit = node.get("clip")
    return function if limit is None else lambda x: function(te.maximum(te.minimum(x, limit), -limit))


class Direction:
    """One direction of a recurrent layer.

    Attributes:
        steps, batch, hidden: the extents of its states, which have one more row: the initial one.
        stride: the columns from one gate to the next in products with recurrent weights.

    Args:
        x, w, r: the inputs and the weights; without W, all inputs multiplied by it with their biases, and R in panels.
    """

    def __init__(
        self, node: OperatorNode, number: int, x: te.Tensor, w: te.Tensor | None, r: te.Tensor, b: te.Tensor | None,
        lengths: te.Tensor | None,
    ) -> None:  # fmt: skip
        self._number, self._x, self._w, self._b = number, x, w, b
        self._recurrent, self._lengths = r, lengths
        self._batchwise = bool(node.get("layout", 0))
        self.steps, self.batch = x.shape[:2][::-1] if self._batchwise else x.shape[:2]
        self.hidden = r.shape[-1] if w is not None else r.shape[-2]
        self._rows = GATES[node.kind] * self.hidden
        self.stride = self.hidden if w is not None else -(-self.hidden // PANEL) * PANEL
        self._back = number == 1 or node.get("direction", "forward") == "reverse"

    def _step(self, t: Index, i: Index) -> Index:
        """Return the input's row of a step."""
        if not self._back:
            return t
        if self._lengths is None:
            return self.steps - 1 - t
        return te.maximum(te.minimum(te.cast("int64", self._lengths(i)), self.steps) - 1 - t, 0)

    def _input(self, t: Index, i: Index, k: Index) -> Any:
        """Return an element of a step's input."""
        row = self._step(t, i)
        return self._x(i, row, k) if self._batchwise else self._x(row, i, k)

    def inputs(self, *, with_recurrent_bias: int = 1 << 30) -> Callable[[Index, Index, Index], Any]:
        """Multiply all inputs by the weights, and add the biases; return the elements by step, row and output.

        Args:
            with_recurrent_bias: the first output whose recurrent bias is left out.
        """
        d, rows, w = self._number, self._rows, self._w
        if w is None:
            return lambda t, i, g: self._input(t, i, d * rows + g)
        k = te.reduce_axis((0, self._x.shape[-1]), name="k")

        def total(t: Index, i: Index, g: Index) -> Any:
            return te.sum(self._input(t, i, k) * w(d, g, k), axis=k)

        made = computed((self.steps, self.batch, rows), total, name="inputs")
        if self._b is None:
            return made
        bias = self._b

        def biased(t: Index, i: Index, g: Index) -> Any:
            own = made(t, i, g) + bias(d, g)
            if with_recurrent_bias >= rows:
                return own + bias(d, rows + g)
            return te.if_then_else(g < with_recurrent_bias, own + bias(d, rows + g), own)

        return computed(made.shape, biased, name="biased")

    def recurrent_bias(self, g: Index) -> Any:
        """Return the recurrent bias of an output."""
        return 0.0 if self._b is None else self._b(self._number, g if self._w is None else self._rows + g)

    def products(
        self, state: te.Tensor, gates: int, *, first: int = 0, lag: int = 1, name: str = "recurrent"
    ) -> te.Tensor:
        """Multiply the rows of a state by the recurrent weights of gates, from the gate `first` on."""
        k = te.reduce_axis((0, self.hidden), name="k")
        d, r = self._number, self._recurrent

        def weight(g: Index) -> Any:
            if self._w is not None:
                return r(d, first * self.stride + g, k)
            return r(d, first * self.stride // PANEL + g // PANEL, k, g % PANEL)

        return computed(
            (self.steps + 1, self.batch, gates * self.stride),
            lambda t, i, g: te.sum(state(t - lag if lag else t, i, k) * weight(g), axis=k),
            name=name,
        )

    def state(self, name: str) -> te.Tensor:
        """Make a state's placeholder."""
        return te.placeholder((self.steps + 1, self.batch, self.hidden), self._x.dtype, name)

    def initial(self, given: te.Tensor | None, name: str) -> te.Tensor:
        """Return the first row of a state."""

        def element(_: Index, i: Index, h: Index) -> Any:
            if given is None:
                return te.const(0, self._x.dtype)
            return given(i, self._number, h) if self._batchwise else given(self._number, i, h)

        return computed((1, self.batch, self.hidden), element, name=name)

    def kept(self, new: Any, old: Any, t: Index, i: Index) -> Any:
        """Keep the old value of a state beyond the end of a sequence."""
        if self._lengths is None:
            return new
        return te.if_then_else(t <= te.cast("int64", self._lengths(i)), new, old)

    def output(self, states: te.Tensor) -> te.Tensor:
        """Return the states of each step in the layout of Y: [steps, 1, batch, hidden]."""

        def element(t: Index, _: Index, i: Index, h: Index) -> Any:
            row = self._step(t, i)
            if self._lengths is None:
                return states(row + 1, i, h)
            inside = t < te.cast("int64", self._lengths(i))
            return te.if_then_else(inside, states(row + 1, i, h), te.const(0, states.dtype))

        return computed((self.steps, 1, self.batch, self.hidden), element, name="steps")

    def last(self, states: te.Tensor) -> te.Tensor:
        """Return the last state: [1, batch, hidden]."""
        return computed((1, self.batch, self.hidden), lambda _, i, h: states(self.steps, i, h), name="last")


def _check(node: OperatorNode, x: te.Tensor, w: te.Tensor, r: te.Tensor, b: te.Tensor | None) -> None:
    directions, hidden = (2 if node.get("direction") == "bidirectional" else 1), r.shape[-1]
    rows = GATES[node.kind] * hidden
    node.require_shape("W", w.shape, (directions, rows, x.shape[-1]))
    node.require_shape("R", r.shape, (directions, rows, node.get("hidden_size", hidden)))
    if b is not None:
        node.require_shape("B", b.shape, (directions, 2 * rows))


def _layer(
    node: OperatorNode, x: te.Tensor, w: te.Tensor | None, r: te.Tensor, b: te.Tensor | None,
    lengths: te.Tensor | None, run: Callable[[Direction, int], list[te.Tensor]],
) -> list[te.Tensor]:  # fmt: skip
    """Run each direction for its states; return all steps of the first state, and each state's last row."""
    if w is not None:
        _check(node, x, w, r, b)
    made = []
    for number in range(r.shape[0]):
        direction = Direction(node, number, x, w, r, b, lengths)
        made.append((direction, run(direction, number)))
    steps = joined([direction.output(states[0]) for direction, states in made], 1)
    lasts = [joined([d.last(states[k]) for d, states in made], 0) for k in range(len(made[0][1]))]
    if not node.get("layout", 0):
        return [steps, *lasts]
    t, d, i, h = steps.shape
    turned = computed((i, t, d, h), lambda i, t, d, h: steps(t, d, i, h), name=node.kind)
    return [turned, *(computed((i, d, h), lambda i, d, h, own=each: own(d, i, h), name="last") for each in lasts)]


@operator("RNN")
def rnn(
    node: OperatorNode, x: te.Tensor, w: te.Tensor | None, r: te.Tensor, b: te.Tensor | None = None,
    lengths: te.Tensor | None = None, initial: te.Tensor | None = None,
) -> list[te.Tensor]:  # fmt: skip
    functions = _activations(node, r.shape[0], ["Tanh"])

    def run(direction: Direction, number: int) -> list[te.Tensor]:
        (f,) = functions[number]
        inputs, h = direction.inputs(), direction.state("h")
        back = direction.products(h, 1)
        new = computed(
            h.shape,
            lambda t, i, j: direction.kept(f(inputs(t - 1, i, j) + back(t, i, j)), h(t - 1, i, j), t, i),
            name="new_h",
        )
        return [te.scan(direction.initial(initial, "h0"), new, h, name="RNN")]

    return _layer(node, x, w, r, b, lengths, run)


@operator("GRU")
def gru(
    node: OperatorNode, x: te.Tensor, w: te.Tensor | None, r: te.Tensor, b: te.Tensor | None = None,
    lengths: te.Tensor | None = None, initial: te.Tensor | None = None,
) -> list[te.Tensor]:  # fmt: skip
    functions = _activations(node, r.shape[0], ["Sigmoid", "Tanh"])
    before = bool(node.get("linear_before_reset", 0))

    def run(direction: Direction, number: int) -> list[te.Tensor]:
        f, g = functions[number]
        n, m = direction.hidden, direction.stride
        inputs = direction.inputs(with_recurrent_bias=2 * n if before else 1 << 30)
        h = direction.state("h")
        back = direction.products(h, 3 if before else 2)

        def gate(place: int, t: Index, i: Index, j: Index) -> Any:
            return f(inputs(t - 1, i, place * n + j) + back(t, i, place * m + j))

        if before:

            def fresh(t: Index, i: Index, j: Index) -> Any:
                inner = back(t, i, 2 * m + j) + direction.recurrent_bias(2 * n + j)
                return inputs(t - 1, i, 2 * n + j) + gate(1, t, i, j) * inner

        else:
            reset = computed(h.shape, lambda t, i, j: gate(1, t, i, j) * h(t - 1, i, j), name="reset")
            inner_product = direction.products(reset, 1, first=2, lag=0, name="inner")

            def fresh(t: Index, i: Index, j: Index) -> Any:
                return inputs(t - 1, i, 2 * n + j) + inner_product(t, i, j)

        def element(t: Index, i: Index, j: Index) -> Any:
            z, old = gate(0, t, i, j), h(t - 1, i, j)
            return direction.kept((1 - z) * g(fresh(t, i, j)) + z * old, old, t, i)

        new = computed(h.shape, element, name="new_h")
        return [te.scan(direction.initial(initial, "h0"), new, h, name="GRU")]

    return _layer(node, x, w, r, b, lengths, run)


@operator("LSTM")
def lstm(
    node: OperatorNode, x: te.Tensor, w: te.Tensor | None, r: te.Tensor, b: te.Tensor | None = None,
    lengths: te.Tensor | None = None, initial_h: te.Tensor | None = None, initial_c: te.Tensor | None = None,
    peepholes: te.Tensor | None = None,
) -> list[te.Tensor]:  # fmt: skip
    functions = _activations(node, r.shape[0], ["Sigmoid", "Tanh", "Tanh"])

    def run(direction: Direction, number: int) -> list[te.Tensor]:
        f, g, final = functions[number]
        n, m = direction.hidden, direction.stride
        inputs, h, c = direction.inputs(), direction.state("h"), direction.state("c")
        back = direction.products(h, 4)

        def gate(place: int, t: Index, i: Index, j: Index, cell: Any, peephole: int) -> Any:
            total = inputs(t - 1, i, place * n + j) + back(t, i, place * m + j)
            if peepholes is not None and peephole >= 0:
                total = total + peepholes(number, peephole * n + j) * cell
            return total

        def cell(t: Index, i: Index, j: Index) -> Any:
            old = c(t - 1, i, j)
            let_in = f(gate(0, t, i, j, old, 0))
            forget = 1 - let_in if node.get("input_forget", 0) else f(gate(2, t, i, j, old, 2))
            return direction.kept(forget * old + let_in * g(gate(3, t, i, j, old, -1)), old, t, i)

        new_c = computed(c.shape, cell, name="new_c")

        def hidden(t: Index, i: Index, j: Index) -> Any:
            value = new_c(t, i, j)
            return direction.kept(f(gate(1, t, i, j, value, 1)) * final(value), h(t - 1, i, j), t, i)

        new_h = computed(h.shape, hidden, name="new_h")
        starts = [direction.initial(initial_h, "h0"), direction.initial(initial_c, "c0")]
        made: list[te.Tensor] = te.scan(starts, [new_h, new_c], [h, c], name="LSTM")
        return made

    return _layer(node, x, w, r, b, lengths, run)
