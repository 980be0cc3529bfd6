"""Sketches: templates that are derived from a computation by rules (Zheng et al., "Ansor", OSDI 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.hooks import on_demand

if TYPE_CHECKING:
    from pegbox.plugins.sketch.generator import SketchGenerator as SketchGenerator
    from pegbox.plugins.sketch.generator import generate_sketches as generate_sketches

# The plugin's names are wanted of every command; the generator, with all of schedules, of few.
__getattr__ = on_demand(
    __name__, dict.fromkeys(("SketchGenerator", "generate_sketches"), "pegbox.plugins.sketch.generator")
)
