"""`tvm.target`: targets by TVM's strings. There are CPUs only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import pegbox
from pegbox.errors import TargetError

TargetLike: TypeAlias = "str | Mapping[str, Any] | pegbox.Target"

_NEITHER = ("kind", "keys", "tag", "host", "device", "model", "link-params")  # these change no kernel


class Target(pegbox.Target):
    """pegbox's target, which answers TVM's questions.

    Args:
        target: a string such as "llvm -mcpu=core-avx2", the same as JSON or a mapping, or a target.
        host: the target of the code that calls the kernel; on CPUs it is the target itself.

    Raises `TargetError` for a malformed string, a GPU, or another kind.
    """

    def __init__(self, target: TargetLike = "llvm", host: TargetLike | None = None) -> None:
        super().__init__(_text(target))
        # pegbox's own `Target.host()` makes a target, and is asked of the class.
        vars(self)["host"] = None if host is None else Target(host)

    @classmethod
    def current(cls, allow_none: bool = True) -> Target | None:
        """Return the target of the innermost `with` block around the caller, or None.

        Raises `TargetError` if there is none, and None is not allowed.
        """
        found = cls.entered()
        if found is None and not allow_none:
            raise TargetError("there is no current target; call this inside `with tvm.target.Target('llvm'):`")
        return None if found is None else found if isinstance(found, Target) else cls(found)

    @property
    def kind(self) -> SimpleNamespace:
        """Its `name` is "llvm"."""
        return SimpleNamespace(name="llvm")

    @property
    def keys(self) -> list[str]:
        return ["cpu"]

    @property
    def mcpu(self) -> str:
        return self.cpu

    @property
    def mattr(self) -> list[str]:
        return list(self.attributes)

    @property
    def max_num_threads(self) -> int:
        return self.num_cores


def create(target: TargetLike) -> Target:
    """Make a target (TVM's older name of `Target`)."""
    return Target(target)


def llvm(options: str | Sequence[str] = ()) -> Target:
    """Make a target of the kind "llvm" with options."""
    return Target(" ".join(["llvm", *([options] if isinstance(options, str) else options)]))


def _text(target: object) -> str:
    """Return the target string of pegbox that says the same."""
    if isinstance(target, pegbox.Target):
        return str(target)
    if isinstance(target, str) and target.lstrip().startswith("{"):
        target = json.loads(target)
    if isinstance(target, str) and target.split():
        kind, *words = target.split()
        target = {"kind": kind, **_options(words)}
    if not isinstance(target, Mapping):
        raise TargetError(f"target {target!r}: give a string such as 'llvm -mcpu=core-avx2'")
    if (kind := target.get("kind", "llvm")) not in ("llvm", "cpu"):
        raise TargetError(
            f"target {kind!r}: pegbox generates code for CPUs only; use 'llvm', and test tvm.cuda(0).exist (False "
            "here) where a script chooses"
        )
    options = {name: value for name, value in target.items() if name not in _NEITHER}
    return " ".join(["llvm", *(f"-{name}={_value(value)}" for name, value in options.items())])


def _value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _options(words: Sequence[str]) -> dict[str, str]:
    """Read `-name=value` and `--name value`."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        options[name] = value
    return options
