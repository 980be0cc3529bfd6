"""The module that the entry point names, with the answers to pegbox's hooks."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_tuners() -> dict[str, str]:
    return {"acme_walk": "pegbox_acme.walk:WalkTuner"}


@hookimpl
def pegbox_register_templates() -> dict[str, str]:
    return {"acme_rows": "pegbox_acme.rows:rows", "acme_scale": "pegbox_acme.scale:scale"}


@hookimpl
def pegbox_register_implementations() -> dict[str, str]:
    return {"acme_rows": "pegbox_acme.rows:implement"}


@hookimpl
def pegbox_register_workloads() -> dict[str, str]:
    return {"acme_axpy": "pegbox_acme.tiles:axpy"}


@hookimpl
def pegbox_register_space_generators() -> dict[str, str]:
    return {"acme_tiles": "pegbox_acme.tiles:TilesGenerator"}


@hookimpl
def pegbox_register_sketch_rules() -> dict[str, str]:
    return {"acme_flat": "pegbox_acme.flat:FlatRows"}


@hookimpl
def pegbox_register_runners() -> dict[str, str]:
    return {"acme_cluster": "pegbox_acme.cluster:ClusterRunner"}


@hookimpl
def pegbox_register_cost_models() -> dict[str, str]:
    return {"acme_mean": "pegbox_acme.mean:MeanModel"}


@hookimpl
def pegbox_register_results_readers() -> dict[str, str]:
    return {"acme_lines": "pegbox_acme.results:LinesReader"}


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
