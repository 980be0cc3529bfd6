"""The space generator and the implementation `sketch`, by name."""

from __future__ import annotations

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_space_generators() -> dict[str, str]:
    return {"sketch": "pegbox.plugins.sketch.generator:SketchGenerator"}


@hookimpl
def pegbox_register_implementations() -> dict[str, str]:
    return {"sketch": "pegbox.plugins.sketch.implementation:sketch"}
