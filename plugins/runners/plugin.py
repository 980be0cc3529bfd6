"""The built-in runners, registered like any plugin's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_runners() -> Mapping[str, str]:
    """Register the runners "local", a process of this machine, and "dask", a cluster."""
    return {
        "local": "pegbox.plugins.runners.local:LocalRunner",
        "dask": "pegbox.plugins.runners.dask:DaskRunner",
    }


@hookimpl
def pegbox_register_runner_objects() -> Mapping[str, Any]:
    """Register the client of a Dask cluster by name, so that nothing is imported."""
    return {"distributed.client.Client": lambda client: ("dask", {"scheduler": client})}
