"""The user's own modules as text, from which a process without their files imports them.

Installed packages are installed there, too. A user's module is not: one next to the script, or a file named by
"file.py:NAME". On a cluster, the folder of such a relative path may hold another file with that name.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import site
import sys
import sysconfig
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

from pegbox.hooks.refs import adopt_files, is_file_module, known_files

_IMPORT = re.compile(
    r"(?:^|[:;])[ \t]*(?:from[ \t]+(?P<base>[.\w]+)[ \t]+)?import[ \t]+(?P<names>\([^)]*\)|[^\n#;]+)", re.MULTILINE
)


@dataclass(frozen=True)
class Source:
    """A module with its file and the file's text. A folder without `__init__.py` has neither."""

    file: str
    text: str
    is_package: bool


@dataclass(frozen=True)
class Sources:
    """The user's modules by name, and the module that each path, as written, means."""

    modules: Mapping[str, Source]
    files: Mapping[str, str]

    @classmethod
    def own(cls) -> Sources:
        """Collect the modules that this process has imported so far, and those that their functions import when called.

        `__main__` is left out, as no other process can import it.
        """
        found = {}
        for name, module in list(sys.modules.items()):
            file, is_package = getattr(module, "__file__", None), hasattr(module, "__path__")
            if source := _read(name, file, is_package=is_package):
                found[name] = source
        texts = [("__main__", _main_text()), *((name, source.text) for name, source in found.items())]
        while texts:
            importer, text = texts.pop()
            is_package = importer in found and found[importer].is_package
            for name in imported_names(text, package=importer if is_package else importer.rpartition(".")[0]):
                if name not in found and name not in sys.modules and (source := _find(name)):
                    found[name] = source
                    texts.append((name, source.text))
        for name in list(found):
            while name := name.rpartition(".")[0]:
                found.setdefault(name, Source("", "", is_package=True))
        return cls(found, known_files())

    def install(self) -> None:
        """Let this process import them. They take precedence over different files with the same name."""
        sys.meta_path.insert(0, _Finder(self.modules))
        adopt_files(self.files)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, modules: Mapping[str, Source]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Serve `import`."""
        source = self._modules.get(fullname)
        if source is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and (not source.file or _text(spec.origin) == source.text):
            return spec  # with its neighbouring files
        loader = _Loader(source)
        return importlib.util.spec_from_loader(fullname, loader, origin=source.file, is_package=source.is_package)


class _Loader(importlib.abc.InspectLoader):
    def __init__(self, source: Source) -> None:
        self._source = source

    def get_source(self, fullname: str) -> str:
        """Return the text, also for tracebacks."""
        return self._source.text

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text with the name of its file."""
        return compile(self._source.text, self._source.file or fullname, "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:
        """Decide if a module has submodules."""
        return self._source.is_package

    def exec_module(self, module: ModuleType) -> None:
        """Serve `import`."""
        if self._source.file:
            module.__file__ = self._source.file
        super().exec_module(module)


def imported_names(text: str, *, package: str = "") -> Iterator[str]:
    """List the modules that a module's text may import, also in functions; a name from a package may be one of them.

    Args:
        package: the package of the module, for relative imports.
    """
    # Python's parser takes seconds for large programs, and refuses a notebook's magic commands. A line in a string that
    # looks like an import does no harm.
    for match in _IMPORT.finditer(text):
        level = len(match["base"] or "") - len((match["base"] or "").lstrip("."))
        parents = ".".join(package.split(".")[: package.count(".") + 2 - level]) if level else ""
        origin = ".".join(part for part in (parents, (match["base"] or "")[level:]) if part)
        names = [words[0] for part in match["names"].strip("() ").split(",") if (words := part.split())]
        if match["base"]:
            yield origin
        yield from (f"{origin}.{name}" if origin else name for name in names)


def _main_text() -> str:
    main = sys.modules.get("__main__")
    cells = getattr(main, "In", None)  # IPython's input cells
    if isinstance(cells, list):
        return "\n".join(filter(None, cells))
    return _text(getattr(main, "__file__", None)) or ""


def _find(name: str) -> Source | None:
    """Read a user's module that is not imported yet, since importing would run it."""
    parts, path, spec = name.split("."), None, None
    for count in range(1, len(parts) + 1):
        with contextlib.suppress(ImportError, ValueError):
            spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:count]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return _read(name, spec.origin if spec else None, is_package=path is not None)


def _read(name: str, file: object, *, is_package: bool) -> Source | None:
    if name.partition(".")[0] in ("__main__", "__mp_main__", "pegbox") or not isinstance(file, str):
        return None
    if not file.endswith(".py") or (_is_installed(file) and not is_file_module(name)):
        return None
    text = _text(file)
    return None if text is None else Source(file, text, is_package)


def _text(file: str | None) -> str | None:
    with contextlib.suppress(OSError, SyntaxError, UnicodeDecodeError, TypeError), tokenize.open(file or "") as stream:
        return stream.read()
    return None


def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    return "site-packages" in path.parts or any(path.is_relative_to(folder) for folder in _FOLDERS)


_FOLDERS = frozenset(
    Path(folder).resolve()
    for folder in (
        *(sysconfig.get_paths().get(name, "") for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
    if folder
)
