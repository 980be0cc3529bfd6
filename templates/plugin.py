"""The built-in templates, by name; each is imported when it is first asked for."""

from __future__ import annotations

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_templates() -> dict[str, str]:
    return {
        "matmul": "pegbox.templates.matmul:matmul",
        "batch_matmul": "pegbox.templates.batch_matmul:batch_matmul",
        "conv2d": "pegbox.templates.conv2d:conv2d",
    }
