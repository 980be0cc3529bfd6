"""`tvm.contrib.utils`: folders that vanish with their object."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class TempDirectory:
    """A folder that is removed with its object."""

    def __init__(self, custom_path: str | None = None) -> None:
        self._owned = None if custom_path else tempfile.TemporaryDirectory()
        self.temp_dir = custom_path or (self._owned.name if self._owned else "")
        os.makedirs(self.temp_dir, exist_ok=True)

    @property
    def path(self) -> Path:
        return Path(self.temp_dir)

    def relpath(self, name: str) -> str:
        """The full path of a file in the folder."""
        return os.path.join(self.temp_dir, name)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def listdir(self) -> list[str]:
        """The names of the files in the folder."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Remove the folder now; one that was given stays."""
        if self._owned:
            self._owned.cleanup()

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *_reason: object) -> None:
        self.remove()


def tempdir(custom_path: str | None = None, keep_for_debug: bool = False) -> TempDirectory:
    """A new folder for files that are not kept."""
    return TempDirectory(custom_path or (tempfile.mkdtemp() if keep_for_debug else None))
