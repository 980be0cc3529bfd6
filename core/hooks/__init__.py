"""Plugins: hook specs, plugin loading, and the registry of names.

A plugin needs `hookimpl` from here; everything else in pegbox asks `registry` for names.
"""

from pegbox.hooks import registry
from pegbox.hooks.refs import split_options
from pegbox.hooks.specs import hookimpl

__all__ = ["hookimpl", "registry", "split_options"]
