"""References as text: "module:attribute", "path/to/file.py:attribute", and specs, "reference:option=value,...".

A file is imported once per process under a name made from its path, so that two files called `templates.py` are two
modules, and their classes can be found by name.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from types import ModuleType

from pegbox.checks import check_text
from pegbox.errors import ArgumentError, PluginError
from pegbox.origin import explained, located

_MODULE_REF = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_WITH_OPTIONS = re.compile(r"(?P<reference>.+?):(?P<options>\s*[A-Za-z_]\w*\s*=.*)")
_FILE_MODULE = "pegbox_file_"
_NAMES: dict[str, str] = {}
"""The module of each file, by its path as written."""
_ADOPTED: dict[str, str] = {}
"""The modules of another process, whose files may be missing here."""
_FILE_REF = re.compile(r"(?P<path>.+\.py):(?P<attribute>[^\W\d]\w*)")


def is_module_ref(text: str) -> bool:
    """Decide if `text` has the form "package.module:attribute"."""
    return _MODULE_REF.fullmatch(text) is not None


def split_file_ref(text: str) -> tuple[Path, str] | None:
    """Split "path/to/file.py:attribute" into the file and the attribute; None when `text` has another form."""
    match = _FILE_REF.fullmatch(text)
    return (Path(match["path"]), match["attribute"]) if match else None


def import_ref(ref: str) -> object:
    """Import the object that "module:attribute" names. Raises any error of the import, or AttributeError."""
    module, _, attribute = ref.partition(":")
    return reduce(getattr, attribute.split("."), importlib.import_module(module))


def is_file_module(name: str) -> bool:
    """Decide if `import_file` made a module: another process must import its file, not its name."""
    return name.startswith(_FILE_MODULE)


def known_files() -> dict[str, str]:
    """Return the modules made by `import_file`, by their paths as written and by their full paths."""
    return dict(_NAMES)


def adopt_files(names: Mapping[str, str]) -> None:
    """Let `import_file` import modules with these names for these paths of another process."""
    _ADOPTED.update(names)


def import_file(path: Path) -> ModuleType:
    """Import the Python file at `path`, once per process.

    Its folder is on `sys.path` (last, so that it hides nothing) while it runs, so it may import its neighbours. Raises
    PluginError if there is no such file, or if running it raises.
    """
    if (adopted := _ADOPTED.get(str(path))) is not None:
        try:
            return importlib.import_module(adopted)
        except (Exception, SystemExit) as error:
            raise PluginError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    written, path = path, path.expanduser().resolve()
    name = f"{_FILE_MODULE}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    _NAMES.update({str(written): name, str(path): name})
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise PluginError(f"there is no Python file {str(path)!r}: check the path before the colon")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before running, because dataclasses and pickle look up their module by name
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise located(PluginError(f"{path} cannot be imported: {explained(error)}"), error) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def split_options(text: str) -> tuple[str, str]:
    """Split "xgb:plan_size=32,loss=rank" into the reference and the text of its options: ("xgb", "plan_size=32,...").

    The reference may itself contain a colon: "file.py:Tuner:alpha=2" gives ("file.py:Tuner", "alpha=2"). Without
    options the second part is empty.
    """
    match = _WITH_OPTIONS.fullmatch(check_text("reference", text))
    return (match["reference"], match["options"]) if match else (text, "")


@dataclass(frozen=True)
class Spec:
    """A plugin's name (or "file.py:Name", "package.module:Name") with options as text."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name}:" + ",".join(f"{name}={value}" for name, value in self.options.items())


def parse_spec(text: str) -> Spec:
    """Split `name:option=value,option=value`.

    A value may itself be a spec, with `;` between its options: `xgb:cost_model=forest:trees=8;depth=3,epsilon=0`.
    Raises `ArgumentError` with the text and its unreadable part.
    """
    reference, written = split_options(check_text("plugin", text).strip())
    name = reference.strip().removesuffix(":")
    if not name or name.startswith(":"):
        raise ArgumentError(f"{text!r} names no plugin; write 'name' or 'name:option=value,option=value'")
    options: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in written.split(","))):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not option:
            raise ArgumentError(f"cannot read {part!r} in {text!r}; write options as 'option=value'")
        if option in options:
            raise ArgumentError(f"option {option!r} occurs twice in {text!r}")
        options[option] = value
    return Spec(name, options)


def parse_nested(text: str) -> Spec:
    """Read a spec that is a value in another spec, with `;` between the options."""
    return parse_spec(text.replace(";", ","))
