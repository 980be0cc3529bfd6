"""The printed form of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.space.enumeration import count_valid

if TYPE_CHECKING:
    from pegbox.space.space import ConfigSpace

PRINT_BUDGET = 1 << 16
"""The budget for counting a printed space's valid configs, since counting may take seconds."""


def space_text(space: ConfigSpace) -> str:
    """Write the knobs with their sizes, the totals, and the constraints."""
    lines = [f"ConfigSpace: {_plural(len(space.knobs), 'knob')}, {_plural(space.size, 'point')}{_valid(space)}"]
    width = max((len(name) for name in space.knobs), default=0)
    digits = max((len(f"{len(knob):,}") for knob in space.knobs.values()), default=0)
    for name, knob in space.knobs.items():
        lines.append(f"  {name:<{width}}  {knob.kind:<8}  {len(knob):>{digits},}  {knob.detail()}")
        if knob.when is not None:
            lines.append(f"  {'':<{width}}  {'':<8}  {'':>{digits}}  when {knob.when}")
    if space.constraints:
        lines.append("constraints:")
        lines += [f"  {constraint}" for constraint in space.constraints]
    return "\n".join(lines)


def _valid(space: ConfigSpace) -> str:
    if not space.constraints and all(knob.when is None for knob in space.knobs.values()):
        return ""
    valid = count_valid(space.structure, PRINT_BUDGET)
    return ", not all of them valid" if valid is None else f", {valid:,} of them valid"


def _plural(count: int, noun: str) -> str:
    shown = f"{count:,}" if count < 10**15 else f"{count:,} (about 10^{len(str(count)) - 1})"
    return f"{shown} {noun}{'' if count == 1 else 's'}"
