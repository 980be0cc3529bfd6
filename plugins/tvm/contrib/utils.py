"""`tvm.contrib.utils`: folders that vanish with their object."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory


class TempDirectory(TemporaryDirectory[str]):
    """A folder that is removed with its object."""

    @property
    def path(self) -> Path:
        return Path(self.name)

    def relpath(self, name: str) -> str:
        """Return the full path of a file in the folder."""
        return os.path.join(self.name, name)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def listdir(self) -> list[str]:
        """List the names of the files in the folder."""
        return os.listdir(self.name)

    def remove(self) -> None:
        """Remove the folder now."""
        self.cleanup()


tempdir = TempDirectory
