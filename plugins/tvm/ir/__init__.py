"""`tvm.ir`: modules, and rules for intrinsics of a script's own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pegbox import te
from pegbox.errors import ArgumentError
from pegbox.expr import ARITY, Call
from pegbox.loops import structural_equal as equal
from pegbox.plugins.tvm.registry import convert
from pegbox.te import Expr
from pegbox.tir import IRModule as IRModule


def structural_equal(lhs: object, rhs: object) -> bool:
    """Return True if two modules, functions or statements are the same program up to names."""
    return equal(lhs, rhs, labels=False)


def assert_structural_equal(lhs: object, rhs: object) -> None:
    """Raise AssertionError unless two programs are the same."""
    if not structural_equal(lhs, rhs):
        raise AssertionError(f"the programs differ:\n{lhs}\nand\n{rhs}")


Rule = Callable[[Any], Expr]
_rules: dict[str, tuple[int, Rule]] = {}


class IntrinCall(Call):
    """The argument of a rule: `op.op.name`, `op.args`, `op.dtype`."""

    __slots__ = ()

    @property
    def op(self) -> SimpleNamespace:
        return SimpleNamespace(name=f"tir.{self.name}")


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Accept the effect of an intrinsic, and ignore it: calls have none here."""
    if attr_key != "TCallEffectKind":
        raise ArgumentError(f"register_op_attr({op_name!r}, {attr_key!r}): intrinsics have only 'TCallEffectKind'")
    return value


def register_intrin_lowering(op_name: str, target: str, *, f: Rule | None = None, level: int = 10) -> Any:
    """Define the meaning of `tir.call_intrin(dtype, op_name, ...)` by a rule. Without `f` a decorator.

    Raises `ArgumentError` for a GPU, and for a function that pegbox has itself.
    """
    if f is None:
        return lambda rule: register_intrin_lowering(op_name, target, f=rule, level=level) or rule
    name = _plain(op_name)
    if target not in ("llvm", "cpu", "default"):
        raise ArgumentError(f"a rule of {op_name} for {target!r}: kernels are for CPUs; register it for 'llvm'")
    if name in ARITY:
        raise ArgumentError(f"a rule of {op_name}: {name} is pegbox's own; give the intrinsic another name")
    if level >= _rules.get(name, (level, f))[0]:
        _rules[name] = (level, f)
    return None


def call_intrin(dtype: str, func_name: str, *args: object) -> Expr:
    """Call an intrinsic: one that pegbox has ("tir.exp"), or one that a rule was registered for.

    Raises `ArgumentError` for others.
    """
    name = _plain(func_name)
    exprs = tuple(map(convert, args))
    if name in _rules:
        made: Expr = convert(_rules[name][1](IntrinCall(name, exprs, dtype)))
        return made
    if name not in ARITY:
        raise ArgumentError(
            f"call_intrin({func_name!r}): no such intrinsic, and no rule for one; register_intrin_lowering("
            f"{func_name!r}, target='llvm', f=...) makes it"
        )
    called: Expr = getattr(te, name)(*exprs)
    return called.astype(dtype)


def _plain(name: str) -> str:
    return str(getattr(name, "name", name)).removeprefix("tir.")
