"""`tvm.ir`: rules for intrinsics of a user's own, `register_op_attr` and `register_intrin_lowering`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pegbox.checks import check_callable, near_names
from pegbox.errors import ArgumentError
from pegbox.expr import intrinsics
from pegbox.expr.build import as_expr
from pegbox.expr.nodes import Call, Expr
from pegbox.plugins.tvm.notice import means_nothing

Rule = Callable[[Any], Expr]

_TARGETS = ("llvm", "cpu", "default")
_rules: dict[str, tuple[int, Rule]] = {}


class IntrinCall(Call):
    """What a rule is given: `op.op.name`, `op.args`, `op.dtype`."""

    __slots__ = ()

    @property
    def op(self) -> SimpleNamespace:
        return SimpleNamespace(name=f"tir.{self.name}")


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Taken: calls have no effects here, whatever is said of them. Without a value it decorates one."""
    if attr_key != "TCallEffectKind":
        means_nothing(f"the attribute {attr_key!r} of {op_name}", "intrinsics have no attributes")
    return value if value is not None else lambda given: given


def register_intrin_lowering(op_name: str, target: str, *, f: Rule | None = None, level: int = 10) -> Any:
    """What `tir.call_intrin(dtype, op_name, ...)` becomes, by a rule that is given the call. Without `f` a decorator.

    A rule holds for calls that are made after it. Those for GPUs, and for functions that pegbox has itself, change
    nothing.
    """
    if f is None:
        return lambda rule: register_intrin_lowering(op_name, target, f=rule, level=level) or rule
    check_callable("register_intrin_lowering: f", f, "a function of a call that gives an expression")
    name = _plain(op_name)
    if target not in _TARGETS:
        means_nothing(f"a rule of {op_name} for {target!r}", "kernels are for CPUs; register it for 'llvm'")
    elif name in intrinsics.ARITY:
        means_nothing(f"a rule of {op_name}", f"{name} is pegbox's own; give the intrinsic another name")
    elif level >= _rules.get(name, (level, f))[0]:
        _rules[name] = (level, f)
    return None


def call_intrin(dtype: str, func_name: str, *args: object) -> Expr:
    """An intrinsic: one that pegbox has ("tir.exp"), or what the rule that was registered for it gives.

    Raises:
        ArgumentError: there is none of that name, or no rule for CPUs.
    """
    name = _plain(func_name)
    exprs = tuple(map(as_expr, args))
    if name in _rules:
        return as_expr(_rules[name][1](IntrinCall(name, exprs, dtype)))
    if name not in intrinsics.ARITY:
        raise ArgumentError(
            f"call_intrin({func_name!r}): no such intrinsic, and no rule for one; register_intrin_lowering("
            f"{func_name!r}, target='llvm', f=...) makes it{near_names(name, intrinsics.ARITY)}"
        )
    return intrinsics.call(name, *exprs).astype(dtype)


def _plain(name: str) -> str:
    return str(getattr(name, "name", name)).removeprefix("tir.")
