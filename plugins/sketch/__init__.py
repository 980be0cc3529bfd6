"""Sketches: templates that are derived from a computation by rules (Zheng et al., "Ansor", OSDI 2020)."""

from __future__ import annotations
