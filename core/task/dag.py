"""`ComputeDAG`: the graph of a computation, printed as te code with its operation count."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.compute.flop import count_flop
from pegbox.compute.graph import post_order
from pegbox.compute.printer import te_lines, tensor_names
from pegbox.compute.tensor import ComputeOp, Operation, Tensor


class ComputeDAG:
    """The operations that the arguments of a kernel need, producers first.

    Attributes:
        tensors: the kernel's arguments in call order.
        ops: the operations, including inputs.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tuple(tensors)
        self.ops: tuple[Operation, ...] = tuple(post_order([t.op for t in tensors]))

    @property
    def flop(self) -> float:
        """The number of arithmetic operations; see `pegbox.compute.flop.count_flop`."""
        return count_flop([op.outputs[0] for op in self.ops if isinstance(op, ComputeOp)])

    def __str__(self) -> str:
        return "\n".join([*te_lines(self.ops, tensor_names(self.ops)), f"# {self.flop:,.0f} operations"])
