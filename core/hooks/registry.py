"""The process's registry of names: `registry.get("tuner", "xgb")`.

Plugins are found and loaded when a name is first looked up or listed, not on `import pegbox`. The functions of this
module work on one registry for the whole process; tests make a `Registry` of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pegbox.errors import PluginError, UnknownName
from pegbox.hooks.manager import Plugin, PluginLoader, describe_failures
from pegbox.hooks.names import Claim, NameTable, label
from pegbox.hooks.refs import import_file, import_ref, is_module_ref, split_file_ref
from pegbox.origin import explained


class Registry:
    """A registry of tuners, cost models, runners, templates, readers and commands, of plugins and of this process."""

    def __init__(self, *, loader: Callable[[NameTable], PluginLoader] = PluginLoader) -> None:
        self._table = NameTable()
        self._make_loader = loader
        self._loader: PluginLoader | None = None
        self._lock = threading.RLock()

    def get(self, kind: str, name: str) -> Any:
        """Find the object registered as `name`, imported now if need be.

        Raises UnknownName with the near names, or PluginError when the name has two owners or cannot be imported.
        """
        return self.claim(kind, name).load()

    def claim(self, kind: str, name: str) -> Claim:
        """Find the claim for `name` without importing the object. Raises as `get` does."""
        plugins = self.plugins()
        try:
            return self._table.claim(kind, name)
        except UnknownName as error:
            raise UnknownName(f"{error}{describe_failures(plugins, kind)}") from None

    def names(self, kind: str) -> list[str]:
        """List all names of a kind, sorted; nothing is imported but the plugins themselves."""
        self.plugins()
        return self._table.names(kind)

    def claims(self, kind: str) -> list[Claim]:
        """List all claims of a kind, sorted by name; a name with two owners appears twice."""
        self.plugins()
        return list(self._table.claims(kind))

    def register(self, kind: str, name: str, obj: object, *, owner: str | None = None) -> None:
        """Register an object (or "module:attribute") from this process, without a plugin.

        Registering the same definition again (same module and qualified name) replaces it, so that a notebook cell
        can be run twice. Plugins are not loaded for this. Raises PluginError when the name is known to belong to
        another definition; a clash with a plugin that is loaded later is raised when the name is asked for.
        """
        owner = owner or str(getattr(obj, "__module__", None) or "this process")
        with self._lock:
            self._table.add(kind, name, obj, owner=owner)

    def unregister(self, kind: str, name: str, *, owner: str) -> None:
        """Forget what `owner` registered as `name`; nothing happens when it registered nothing."""
        with self._lock:
            self._table.discard(kind, name, owner=owner)

    def is_local(self, kind: str, name: str) -> bool:
        """Decide whether code of this process, and no plugin, has registered the name; loads no plugin."""
        with self._lock:
            return self._table.is_local(kind, name)

    def resolve(self, kind: str, ref: object) -> Any:
        """Find what `ref` means: an object itself, a name, "file.py:attribute" or "package.module:attribute".

        In a file, the attribute may also be a name the file registers. Raises UnknownName or PluginError.
        """
        if not isinstance(ref, str):
            return ref
        if (file_ref := split_file_ref(ref)) is not None:
            scope, attribute = vars(import_file(file_ref[0])), file_ref[1]
            if attribute in scope:
                return scope[attribute]
            for claim in self._table.claims(kind):
                if claim.name == attribute and (claim.origin or "").startswith(f"{scope['__name__']}:"):
                    return claim.load()
            public = sorted(name for name, value in scope.items() if callable(value) and not name.startswith("_"))
            found = ", ".join(public) or "nothing"
            raise UnknownName(f"{label(kind)} {ref!r}: the file defines no {attribute!r}; it defines {found}")
        if ref.endswith(".py"):
            raise UnknownName(f"{label(kind)} {ref!r} is a file: write {ref + ':NAME'!r} for what it defines")
        if is_module_ref(ref):
            try:
                return import_ref(ref)
            except (Exception, SystemExit) as error:
                raise PluginError(
                    f"{label(kind)} {ref!r} cannot be imported: {explained(error)} (options are written name:key=value)"
                ) from error
        return self.get(kind, ref)

    def plugins(self) -> list[Plugin]:
        """List all plugins, loaded or not, with their problems. Loads them on the first call."""
        with self._lock:
            if self._loader is None:
                # Kept before loading: a plugin that registers names while it is imported comes back here.
                self._loader = self._make_loader(self._table)
                try:
                    self._loader.load()
                except PluginError:
                    self._loader = None  # strict: the next call tries again
                    raise
            return self._loader.plugins


_process = Registry()

get = _process.get
claim = _process.claim
names = _process.names
claims = _process.claims
register = _process.register
unregister = _process.unregister
is_local = _process.is_local
resolve = _process.resolve
plugins = _process.plugins
