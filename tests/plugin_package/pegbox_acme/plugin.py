"""What the entry point names: the answers to pegbox's hooks."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_tuners() -> dict[str, str]:
    return {"acme_walk": "pegbox_acme.walk:WalkTuner"}


@hookimpl
def pegbox_register_templates() -> dict[str, str]:
    return {"acme_scale": "pegbox_acme.scale:scale"}


@hookimpl
def pegbox_register_cli_commands() -> dict[str, object]:
    return {"acme-hello": configure_hello}


def configure_hello(parser: ArgumentParser) -> None:
    """Greet, to show that a command can be a plugin"""
    parser.add_argument("name")
    parser.set_defaults(run=_hello)


def _hello(namespace: Namespace) -> int:
    print(f"hello {namespace.name}")
    return 0
