"""`tvm.target`: targets by TVM's strings. There are CPUs only; options that pegbox has no use for say so once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

from pegbox.codegen.targets import target as base
from pegbox.errors import TargetError
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.notice import means_nothing

__getattr__ = names(__name__)
TargetLike: TypeAlias = "str | Mapping[str, Any] | base.Target"

_TAKEN = ("mcpu", "mattr", "mtriple", "num-cores", "caches")
_WITHOUT_VALUE = ("system-lib", "link-params", "fast-math", "fast-math-nnan", "fast-math-ninf", "jit", "opt-level")


class Target(base.Target):
    """A target that keeps the host it was given and answers TVM's questions; else `pegbox.Target`.

    Args:
        target: a string such as "llvm -mcpu=core-avx2", the same as JSON or a mapping, or a target.
        host: the target of the code that calls the kernel; on CPUs it is the target itself.

    Raises:
        TargetError: a GPU or another kind that pegbox has no code generator for, or a malformed string.
    """

    def __init__(self, target: TargetLike = "llvm", host: TargetLike | None = None) -> None:
        super().__init__(_text(target))
        # pegbox's own `Target.host()` makes a target, and is asked of the class.
        vars(self)["host"] = None if host is None else Target(host)

    @classmethod
    def current(cls, allow_none: bool = True) -> Target | None:
        """The target of the innermost `with` block around the caller, or None.

        Raises:
            TargetError: there is none, and None is not allowed.
        """
        found = cls.entered()
        if found is None and not allow_none:
            raise TargetError("there is no current target; call this inside `with tvm.target.Target('llvm'):`")
        return None if found is None else found if isinstance(found, Target) else cls(found)

    @classmethod
    def from_device(cls, device: object) -> Target:
        """The target of a device: this machine."""
        return cls(str(device).partition("(")[0])

    @property
    def kind(self) -> SimpleNamespace:
        """Its `name` is "llvm"."""
        return SimpleNamespace(name="llvm", default_keys=["cpu"])

    @property
    def keys(self) -> list[str]:
        return ["cpu"]

    @property
    def model(self) -> str:
        """ "unknown": processors have names here, `mcpu`."""
        return "unknown"

    @property
    def mcpu(self) -> str:
        return self.cpu

    @property
    def mattr(self) -> list[str]:
        return list(self.attributes)

    @property
    def attrs(self) -> dict[str, Any]:
        """What the target says, by TVM's names."""
        said = {"mcpu": self.cpu, "mattr": self.mattr, "mtriple": self.triple, "num-cores": self.num_cores}
        return {name: value for name, value in said.items() if value}

    @property
    def max_num_threads(self) -> int:
        return self.num_cores

    def export(self) -> dict[str, Any]:
        """The target as a mapping, which `Target` takes."""
        return {"kind": "llvm", "keys": self.keys, **self.attrs}

    def with_host(self, host: TargetLike) -> Target:
        """The same target with another host."""
        return Target(self, host)


def create(target: TargetLike) -> Target:
    """The target of a string (TVM's older name of `Target`)."""
    return Target(target)


def llvm(options: str | Sequence[str] = ()) -> Target:
    """A target of the kind "llvm" with options."""
    return Target(" ".join(["llvm", *([options] if isinstance(options, str) else options)]))


def arm_cpu(model: str = "unknown", options: Any = None) -> Target:
    """Refused: TVM's table of boards is not here.

    Raises:
        TargetError: always; it names the string to write.
    """
    raise TargetError(
        f"arm_cpu({model!r}, {options!r}): boards are not known by name; give the processor, such as "
        "Target('llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72')"
    )


def _text(target: object) -> str:
    """The target string of pegbox that says the same."""
    if isinstance(target, base.Target):
        return str(target)
    if isinstance(target, str) and target.lstrip().startswith("{"):
        target = json.loads(target)
    if isinstance(target, Mapping):
        return _from_options(str(target.get("kind", "llvm")), target)
    if not isinstance(target, str) or not target.split():
        raise TargetError(f"target {target!r}: give a string such as 'llvm -mcpu=core-avx2'")
    kind, *words = target.split()
    return _from_options(kind, _options(words))


def _options(words: Sequence[str]) -> dict[str, str]:
    """`-name=value`, `--name value`, and `-name` alone."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and name not in _WITHOUT_VALUE and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        options[name] = value
    return options


def _from_options(kind: str, options: Mapping[str, Any]) -> str:
    if kind not in ("llvm", "cpu"):
        raise TargetError(
            f"target {kind!r}: pegbox generates code for CPUs only; use 'llvm', and test tvm.cuda(0).exist (False "
            "here) where a script chooses"
        )
    words = ["llvm"]
    for name, value in options.items():
        if name in _TAKEN:
            words.append(f"-{name}={','.join(value) if isinstance(value, list | tuple) else value}")
        elif name not in ("kind", "keys", "tag", "host"):
            means_nothing(f"the option -{name} of a target", "kernels depend on -mcpu, -mattr, -mtriple and -num-cores")
    return " ".join(words)
