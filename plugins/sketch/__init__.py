"""Sketches: templates that rules derive from a computation (Zheng et al., "Ansor", OSDI 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.hooks import on_demand

if TYPE_CHECKING:
    from pegbox.plugins.sketch.generator import SketchGenerator, default_rules, generate_sketches
    from pegbox.plugins.sketch.rules import Derived, Match, Rule, ansor_rules
    from pegbox.plugins.sketch.single_template import sketch_template
    from pegbox.plugins.sketch.state import State

__all__ = [
    "Derived", "Match", "Rule", "SketchGenerator", "State", "ansor_rules", "default_rules", "generate_sketches",
    "sketch_template",
]  # fmt: skip

# Every command needs the plugin's names, but few need the generator with all of schedules.
__getattr__ = on_demand(__name__)
