"""The command line: one file per command, registered through the plugin hook."""

from pegbox.plugins.cli.app import main

__all__ = ["main"]
