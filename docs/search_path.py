"""A hook of MkDocs: the folder of commands must not be searched for packages.

MkDocs runs from there, so that Python looks there first, and the command `pegbox` would be taken for the package.
"""

from __future__ import annotations

import sys
import sysconfig


def on_startup(**_: object) -> None:
    """Called once, before anything is read."""
    commands = sysconfig.get_path("scripts")
    sys.path[:] = [folder for folder in sys.path if folder != commands]
