"""The table of names: the owners of each name of a kind, and the object behind it."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pegbox.checks import near_names
from pegbox.errors import ArgumentError, PluginError, UnknownName
from pegbox.hooks.refs import import_ref, is_file_module, is_module_ref
from pegbox.hooks.specs import HOOK_OF_KIND
from pegbox.origin import Definition, explained

# They have a meaning in "name:option=value" and "workload@generator", unlike the slash in "tutorial/matmul".
_FORBIDDEN = set(" \t\n:=,@")
PLUGIN = "plugin "
"""The prefix of owners that are plugins."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of an owner on a name.

    `target` is the object or "module:attribute"; `origin` is the place of its definition.
    """

    kind: str
    name: str
    target: object
    owner: str
    origin: str | None

    def load(self) -> object:
        """Return the object; import it if necessary. Raises PluginError if it cannot be imported."""
        if not isinstance(self.target, str):
            return self.target
        try:
            return import_ref(self.target)
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"{label(self.kind)} {self.name!r} of {self.owner} cannot be imported from {self.target!r}: "
                f"{explained(error)}"
            ) from error

    @property
    def reference(self) -> str:
        """The text that means only this object, even if others share its name, "my_ops.py:conv", or empty."""
        if isinstance(self.target, str):
            return self.target
        module, _, name = (self.origin or "").rpartition(":")
        if module == "__main__":  # importing its file would run it again
            return ""
        path = str(self.definition).rpartition(":")[0]
        if path and name.isidentifier():
            return f"{path}:{name}"
        return self.origin if self.origin and is_module_ref(self.origin) else ""

    @property
    def definition(self) -> Definition:
        """The place in a Python file; empty outside files, as in a notebook's cell, and if it is unknown.

        A class has no line, and is found only in a file given by its path.
        """
        found = Definition.of(self.target) if callable(self.target) else Definition()
        module = (self.origin or "").rpartition(":")[0]
        if not found.path and is_file_module(module):
            found = Definition(module, str(getattr(sys.modules.get(module), "__file__", "")))
        return found if found.path.endswith(".py") and os.path.isfile(found.path) else Definition()


class NameTable:
    """The names of every kind, in the order they were claimed.

    Several may claim one name: a file's own `matmul` is found by its file. A lookup of the name alone raises an error
    that shows how to write each.
    """

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], list[Claim]] = {}

    def add(self, kind: str, name: str, target: object, *, owner: str) -> PluginError | None:
        """Add a claim; one on the same definition (module and qualified name) replaces the older one.

        Return the clash with other claims, or None. Raises PluginError, and adds nothing, for a malformed name or
        target, or if the owner has given the name to another definition; ArgumentError for an unknown kind.
        """
        check_kind(kind)
        _check_claim(kind, name, target, owner)
        claim = Claim(kind, name, target, owner, origin_of(target))
        claims = self._claims.setdefault((kind, name), [])
        for other in claims:  # a plugin's module registers itself while it is imported
            if _same(other, claim) and isinstance(other.target, str):
                claim = replace(claim, owner=other.owner)
        others = [other for other in claims if not _same(other, claim)]
        if twice := [other for other in others if other.owner == claim.owner and not _is_copy(other, claim)]:
            raise _clash([*twice, claim])
        claims[:] = [*others, claim]
        return _clash(found) if len(found := _distinct(claims)) > 1 else None

    def discard(self, kind: str, name: str, *, owner: str) -> None:
        """Forget `owner`'s claims on the name, if it has any."""
        kept = [claim for claim in self._claims.get((kind, name), []) if claim.owner != owner]
        if kept:
            self._claims[kind, name] = kept
        else:
            self._claims.pop((kind, name), None)

    def claim(self, kind: str, name: str) -> Claim:
        """Find the only claim on a name. Raises UnknownName, or PluginError if there are several."""
        check_kind(kind)
        distinct = self.distinct(kind, name)
        if not distinct:
            message = f"there is no {label(kind)} {name!r}"
            if others := [label(other) for other, known in self._claims if known == name]:
                message += f": {name!r} is a {' and a '.join(others)}; give it as such"
            raise UnknownName(message + near_names(name, self.names(kind)))
        if len(distinct) > 1:
            raise _clash(distinct)
        return distinct[0]

    def distinct(self, kind: str, name: str) -> list[Claim]:
        """List the claims on a name, each definition once."""
        return _distinct(self._claims.get((kind, name), []))

    def claims_of_module(self, module: str, name: str) -> dict[str, Claim]:
        """Find the claims of a module's definitions on a name, by their kinds."""
        return {
            kind: claim
            for (kind, known), claims in self._claims.items()
            for claim in claims
            if known == name and (claim.origin or "").startswith(f"{module}:")
        }

    def is_local(self, kind: str, name: str) -> bool:
        """Decide if a local object claims the name; a plugin's claim is text."""
        claims = self._claims.get((kind, name), ())
        return any(not isinstance(each.target, str) and not each.owner.startswith(PLUGIN) for each in claims)

    def names(self, kind: str) -> list[str]:
        """List all names of a kind, sorted."""
        check_kind(kind)
        return sorted(name for known, name in self._claims if known == kind)

    def claims(self, kind: str) -> Iterator[Claim]:
        """List all claims of a kind, sorted by name."""
        for name in self.names(kind):
            yield from self._claims[kind, name]


def check_kind(kind: str) -> None:
    """Raise ArgumentError unless `kind` is one of the kinds that have a hook."""
    if kind not in HOOK_OF_KIND:
        raise ArgumentError(f"there is no kind of plugin {kind!r}; the kinds are {', '.join(HOOK_OF_KIND)}")


def label(kind: str) -> str:
    """Write a kind for messages: "cost model" for "cost_model"."""
    return kind.replace("_", " ")


def _check_claim(kind: str, name: object, target: object, owner: str) -> None:
    if not isinstance(name, str) or not name or _FORBIDDEN & set(name):
        raise PluginError(f"{owner} registers a {label(kind)} under {name!r}: a name is text without spaces or ':=,'")
    if isinstance(target, str) and not is_module_ref(target):
        raise PluginError(f"{owner} registers {label(kind)} {name!r} as {target!r}: write it as 'package.module:name'")
    if not isinstance(target, str) and not callable(target):
        raise PluginError(f"{owner} registers {label(kind)} {name!r} as {target!r}: neither callable nor 'module:name'")


def _same(old: Claim, new: Claim) -> bool:
    return old.target is new.target or (old.origin is not None and old.origin == new.origin)


def _distinct(claims: list[Claim]) -> list[Claim]:
    """Drop older copies of a definition, since a file may be imported under several names."""
    return [
        claim for place, claim in enumerate(claims) if not any(_is_copy(claim, later) for later in claims[place + 1 :])
    ]


def _is_copy(old: Claim, new: Claim) -> bool:
    """Decide if two claims have the same name and file, which may have been edited in between."""
    path, names = old.definition.path, [(claim.origin or "").rpartition(":")[2] for claim in (old, new)]
    return bool(path) and path == new.definition.path and names[0] == names[1]


def origin_of(target: object) -> str | None:
    """Find the module and qualified name of the definition; a decorated function counts as the wrapped one."""
    if isinstance(target, str):
        return target
    inner = inspect.unwrap(target) if callable(target) else target
    module, name = getattr(inner, "__module__", None), getattr(inner, "__qualname__", None)
    return f"{module}:{name}" if isinstance(module, str) and isinstance(name, str) else None


def _clash(claims: list[Claim]) -> PluginError:
    first = claims[0]
    owners, references = [], []
    for claim in claims:
        reference = claim.reference
        place = reference or claim.origin
        owners.append(f"{claim.owner} ({place})" if place and not is_file_module(claim.owner) else place or claim.owner)
        references += [repr(reference)] if reference else []
    remedies = [f"instead of the name, write {' or '.join(references)}"] if references else []
    if any((claim.origin or "").startswith("__main__:") for claim in claims):
        remedies += ["give the function itself"]
    remedies += ["rename one"]
    if any(claim.owner.startswith(PLUGIN) for claim in claims):
        remedies += ["switch a plugin off with PEGBOX_DISABLE_PLUGINS"]
    return PluginError(
        f"{label(first.kind)} {first.name!r} has {len(claims)} owners: {' and '.join(owners)}; {', or '.join(remedies)}"
    )
