"""`pegbox plugins`: lists plugins, their names, and their errors."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from pegbox.hooks import registry
from pegbox.plugins.cli import exits

_EPILOG = f"""\
examples:
  pegbox plugins
  pegbox plugins --json                          with the tracebacks of failed plugins
  PEGBOX_DISABLE_PLUGINS=acme pegbox plugins     leave a plugin out (comma-separated names)
  PEGBOX_STRICT_PLUGINS=1 pegbox plugins         stop at the first plugin with an error

A plugin is an installed package with an entry point in the group 'pegbox'.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """List the plugins, the names they register and their errors"""
    parser.epilog = _EPILOG
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Print one plugin after the other, including their errors, which do not fail the command."""
    plugins = registry.plugins()
    if namespace.json:
        print(json.dumps([asdict(plugin) for plugin in plugins], indent=2))
        return exits.DONE
    for plugin in plugins:
        state = "disabled" if not plugin.enabled else "error" if plugin.problems else "ok"
        print(f"{plugin.name:<20} {state:<9} {plugin.source} ({plugin.module})")
        for kind, names in plugin.provides.items():
            print(f"    {kind.replace('_', ' ')}: {', '.join(sorted(names))}")
        for problem in plugin.problems:
            print(f"    ERROR {problem}")
    return exits.DONE
