"""The process's registry of names: `registry.get("tuner", "xgb")`.

Plugins are found and loaded when a name is first looked up or listed, not on `import pegbox`. The functions of this
module work on one registry for the whole process; tests make their own `Registry`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pegbox.errors import PluginError, UnknownName
from pegbox.hooks.manager import Plugin, PluginLoader, describe_failures
from pegbox.hooks.names import Claim, NameTable, label, origin_of
from pegbox.hooks.refs import import_file, import_ref, is_module_ref, split_file_ref
from pegbox.origin import explained

_MODELS = frozenset({".onnx", ".pt", ".pth", ".pt2", ".tflite", ".pb", ".h5", ".keras", ".safetensors", ".mlmodel"})
"""The suffixes of files that hold models."""


class Registry:
    """A registry of tuners, cost models, runners, templates, readers and commands, of plugins and of this process."""

    def __init__(self, *, loader: Callable[[NameTable], PluginLoader] = PluginLoader) -> None:
        self._table = NameTable()
        self._make_loader = loader
        self._loader: PluginLoader | None = None
        self._lock = threading.RLock()

    def get(self, kind: str, name: str) -> Any:
        """Find the object registered as `name`; import it if necessary.

        Raises UnknownName with similar names, or PluginError if several have the name or it cannot be imported.
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
        """List all names of a kind, sorted; only the plugins themselves are imported."""
        self.plugins()
        return self._table.names(kind)

    def claims(self, kind: str) -> list[Claim]:
        """List all claims of a kind, sorted by name; a name with two owners appears twice."""
        self.plugins()
        return list(self._table.claims(kind))

    def every(self, kind: str, name: str) -> list[Any]:
        """List all objects registered as `name`; if there is one, or none, behave as `get` does."""
        self.plugins()
        claims = self._table.distinct(kind, name)
        return [claim.load() for claim in claims] if len(claims) > 1 else [self.get(kind, name)]

    def register(self, kind: str, name: str, obj: object, *, owner: str | None = None) -> None:
        """Register an object (or "module:attribute") from this process, without a plugin.

        Registering the same definition again (same module and qualified name) replaces it, so that a notebook cell can
        be run twice. This does not load plugins. Raises PluginError if the owner has given the name to another
        definition; a clash with another owner's is an error when the name alone is looked up.
        """
        owner = owner or str(getattr(obj, "__module__", None) or "this process")
        with self._lock:
            self._table.add(kind, name, obj, owner=owner)

    def unregister(self, kind: str, name: str, *, owner: str) -> None:
        """Forget the object that `owner` registered as `name`, if any."""
        with self._lock:
            self._table.discard(kind, name, owner=owner)

    def is_local(self, kind: str, name: str) -> bool:
        """Decide if code of this process, and no plugin, has registered the name, without loading plugins."""
        with self._lock:
            return self._table.is_local(kind, name)

    def resolve(self, kind: str, ref: object) -> Any:
        """Find the object that `ref` means: an object itself, a name, "file.py:attribute" or
        "package.module:attribute".

        In a file, its own definitions come first, then names that it registers, then its imports. Raises UnknownName or
        PluginError.
        """
        if not isinstance(ref, str):
            return ref
        if (file_ref := split_file_ref(ref)) is not None:
            return self._in_file(kind, ref, *file_ref)
        if ref.endswith(".py"):
            raise UnknownName(f"{label(kind)} {ref!r} is a file: write {ref + ':NAME'!r} for what it defines")
        suffix = os.path.splitext(ref)[1]
        if suffix in _MODELS and kind in ("template", "workload") and ref not in self.names(kind):
            readers = self.names("model_reader")
            remedy = (
                f"'pegbox model' shows, tunes and builds models, and takes its name: pegbox model tune {ref}"
                if suffix in readers
                else f"models of {suffix} files are not read, those of {', '.join(readers)} are: export it as one"
            )
            raise UnknownName(f"{label(kind)} {ref!r} is a model, not one operator; {remedy}")
        if suffix and os.path.isfile(ref):
            raise UnknownName(f"{label(kind)} {ref!r} is a file, not the name of a {label(kind)} or FILE.py:NAME")
        if is_module_ref(ref):
            try:
                return import_ref(ref)
            except (Exception, SystemExit) as error:
                raise PluginError(
                    f"{label(kind)} {ref!r} cannot be imported: {explained(error)} (options are written name:key=value)"
                ) from error
        return self.get(kind, ref)

    def _in_file(self, kind: str, ref: str, path: Path, attribute: str) -> Any:
        scope = vars(import_file(path))
        module = str(scope["__name__"])
        registered = self._table.claims_of_module(module, attribute)
        if registered and not (origin_of(scope.get(attribute)) or "").startswith(f"{module}:"):
            return registered.get(kind, next(iter(registered.values()))).load()
        if attribute in scope:
            return scope[attribute]
        public = sorted(name for name, value in scope.items() if callable(value) and not name.startswith("_"))
        found = ", ".join(public) or "nothing"
        raise UnknownName(f"{label(kind)} {ref!r}: the file defines no {attribute!r}; it defines {found}")

    def plugins(self) -> list[Plugin]:
        """List all plugins, loaded or not, with their problems. The first call loads them."""
        with self._lock:
            if self._loader is None:
                # Set before loading, because a plugin that registers names during its import calls this again.
                self._loader = self._make_loader(self._table)
                try:
                    self._loader.load()
                except PluginError:
                    self._loader = None  # strict mode: the next call tries again
                    raise
            return self._loader.plugins


_process = Registry()

get = _process.get
claim = _process.claim
names = _process.names
claims = _process.claims
register = _process.register
every = _process.every
unregister = _process.unregister
is_local = _process.is_local
resolve = _process.resolve
plugins = _process.plugins
