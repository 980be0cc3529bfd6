"""Parser of plugin specs with options: `xgb:plan_size=32,loss_type=rank`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pegbox.checks import check_text
from pegbox.errors import ArgumentError
from pegbox.hooks.refs import split_options


@dataclass(frozen=True)
class Spec:
    """A plugin's name (or "file.py:Name", "package.module:Name") with options that are still text."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name}:" + ",".join(f"{name}={value}" for name, value in self.options.items())


def parse_spec(text: str) -> Spec:
    """Split `name:option=value,option=value`.

    A value may be a spec of its own with `;` between its options: `xgb:cost_model=forest:trees=8;depth=3,epsilon=0`.
    Raises `ArgumentError` with the text and the part of it that cannot be read.
    """
    reference, written = split_options(check_text("plugin", text).strip())
    name = reference.strip().removesuffix(":")
    if not name or name.startswith(":"):
        raise ArgumentError(f"{text!r} names no plugin; write 'name' or 'name:option=value,option=value'")
    options: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in written.split(","))):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not option:
            raise ArgumentError(f"cannot read {part!r} in {text!r}; write options as 'option=value'")
        if option in options:
            raise ArgumentError(f"option {option!r} stands twice in {text!r}")
        options[option] = value
    return Spec(name, options)


def parse_nested(text: str) -> Spec:
    """Read a spec that stood as a value in another one, where `;` parts the options."""
    return parse_spec(text.replace(";", ","))
