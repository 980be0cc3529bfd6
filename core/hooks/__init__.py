"""Plugins: hook specs, plugin loading, the registry of names, and helpers for plugins.

A plugin needs `hookimpl` from here; everything else in pegbox asks `registry` for names. Names are imported when they
are first used, because processes that run candidates need no plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.hooks import registry
    from pegbox.hooks.manager import Plugin
    from pegbox.hooks.options import bind_options
    from pegbox.hooks.refs import split_options
    from pegbox.hooks.specs import hookimpl
    from pegbox.origin import explained, located, users_level

__all__ = [
    "Plugin", "bind_options", "explained", "hookimpl", "located", "on_demand", "registry", "split_options",
    "users_level",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
