"""The built-in commands, by name."""

from __future__ import annotations

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_cli_commands() -> dict[str, str]:
    return {
        "tune": "pegbox.plugins.cli.tune:configure",
        "compare": "pegbox.plugins.cli.compare:configure",
        "sweep": "pegbox.plugins.cli.sweep:configure",
        "best": "pegbox.plugins.cli.best:configure",
        "plot": "pegbox.plugins.cli.plot:configure",
        "store": "pegbox.plugins.cli.store:configure",
        "spaces": "pegbox.plugins.cli.spaces:configure",
        "show": "pegbox.plugins.cli.show:configure",
        "build": "pegbox.plugins.cli.build:configure",
        "model": "pegbox.plugins.cli.model:configure",
        "sketch": "pegbox.plugins.sketch.command:configure",
        "cluster": "pegbox.plugins.cli.cluster:configure",
        "templates": "pegbox.plugins.cli.templates:configure",
        "plugins": "pegbox.plugins.cli.plugins:configure",
    }
