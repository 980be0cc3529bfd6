"""`tvm.ir`: modules and passes, by TVM's names."""

from __future__ import annotations

from pegbox.loops import equal as loops
from pegbox.loops.module import IRModule as IRModule
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.ir import transform as transform
from pegbox.plugins.tvm.ir.op import register_intrin_lowering as register_intrin_lowering
from pegbox.plugins.tvm.ir.op import register_op_attr as register_op_attr

__getattr__ = names(__name__)


def structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> bool:
    """Whether two modules, functions or statements are the same program, whatever things are called in them."""
    return loops.structural_equal(lhs, rhs, labels=False)


def assert_structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> None:
    """Raises AssertionError where they are not."""
    if not structural_equal(lhs, rhs):
        raise AssertionError(f"the programs differ:\n{lhs}\nand\n{rhs}")
