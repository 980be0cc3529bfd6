"""Sketches: templates that are derived from a computation by rules (Zheng et al., "Ansor", OSDI 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.hooks import on_demand

if TYPE_CHECKING:
    from pegbox.plugins.sketch.generator import SketchGenerator, default_rules, generate_sketches
    from pegbox.plugins.sketch.rules import Match, Rule, ansor_rules

__all__ = ["Match", "Rule", "SketchGenerator", "ansor_rules", "default_rules", "generate_sketches"]

# The plugin's names are wanted of every command; the generator, with all of schedules, of few.
__getattr__ = on_demand(__name__)
