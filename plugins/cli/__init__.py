"""The command line: one file per command, registered through the plugin hook."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.plugins.cli.exits import INTERRUPTED

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return its exit code; raises nothing.

    Its modules are imported inside, so that Ctrl-C ends it with a message from the first millisecond.
    """
    try:
        from pegbox.plugins.cli import app

        return app.run(argv)
    except KeyboardInterrupt:
        import sys

        print("pegbox: interrupted", file=sys.stderr)
        return INTERRUPTED
