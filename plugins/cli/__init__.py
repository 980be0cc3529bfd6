"""The command line: one file per command, each registered through the same hook as a third party's."""

from pegbox.plugins.cli.app import main

__all__ = ["main"]
