"""The built-in runners, by name; each is imported when it is first asked for."""

from __future__ import annotations

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_runners() -> dict[str, str]:
    return {"local": "pegbox.plugins.runners.local:LocalRunner"}
