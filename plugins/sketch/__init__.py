"""Sketches: templates that are derived from a computation by rules (Zheng et al., "Ansor", OSDI 2020)."""

from __future__ import annotations

from pegbox.plugins.sketch.generator import SketchGenerator as SketchGenerator
from pegbox.plugins.sketch.generator import generate_sketches as generate_sketches
