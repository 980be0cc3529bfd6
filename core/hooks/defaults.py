"""The built-in plugins: ordinary plugins, except that they need no entry point.

They are named as strings so that this room, at the bottom of the house, imports none of the folders above it.
"""

GROUP = "pegbox"

# Name of the plugin (what PEGBOX_DISABLE_PLUGINS takes) -> the module that answers its hooks.
BUILTIN_PLUGINS: dict[str, str] = {
    "pegbox.tuners": "pegbox.tuners.plugin",
    "pegbox.templates": "pegbox.templates.plugin",
    "pegbox.runners": "pegbox.plugins.runners.plugin",
    "pegbox.kernel_tuner": "pegbox.plugins.kernel_tuner.plugin",
    "pegbox.sketch": "pegbox.plugins.sketch.plugin",
    "pegbox.cli": "pegbox.plugins.cli.plugin",
}
