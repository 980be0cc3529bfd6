"""`pegbox templates`: lists the registered templates."""

from __future__ import annotations

import argparse
import inspect
import json
from typing import Any

from pegbox.errors import PegboxError
from pegbox.hooks import registry
from pegbox.plugins.cli import exits

_EPILOG = f"""\
examples:
  pegbox templates
  pegbox templates --json
  pegbox show matmul 64 64 64          what a template leaves open for some arguments

A template need not be registered: FILE.py:FUNCTION works wherever a name does.
{exits.EXPLAINED}
"""


_NEEDS = {"template": "", "workload": " --space sketch"}


def configure(parser: argparse.ArgumentParser) -> None:
    """List the templates and workloads, their arguments and plugins"""
    parser.epilog = _EPILOG
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Print one template after the other."""
    found = [_describe(kind, name) for kind in ("template", "workload") for name in registry.names(kind)]
    if namespace.json:
        print(json.dumps(found, indent=2))
        return exits.DONE
    for template in found:
        print(f"{template['name']}{template['signature']}{_NEEDS[template['kind']]}")
        print(f"    {template['error'] or template['summary'] or 'no description'}")
        print(f"    from {template['owner']}")
    return exits.DONE


def _describe(kind: str, name: str) -> dict[str, Any]:
    """Describe a template or workload; if it cannot be imported, give the reason."""
    described = {"kind": kind, "name": name, "signature": "", "summary": "", "owner": "", "error": None}
    try:
        described["owner"] = registry.claim(kind, name).owner
        template = registry.get(kind, name)
    except PegboxError as error:
        return {**described, "error": str(error)}
    summary = (inspect.getdoc(inspect.unwrap(template)) or "").partition("\n")[0]
    return {**described, "signature": _signature(template, kind), "summary": summary}


def _signature(template: Any, kind: str) -> str:
    """Write the user's arguments: for a template, all but the first, the configuration."""
    try:
        signature = inspect.signature(template)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(parameters[kind == "template" :]))
