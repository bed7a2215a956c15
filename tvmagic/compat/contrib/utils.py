"""Folders for files that tests write."""

from __future__ import annotations

import os
import tempfile

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A folder that goes away with this object."""

    def __init__(self, custom_path: str | None = None) -> None:
        self._folder = None if custom_path is not None else tempfile.TemporaryDirectory()
        self.temp_dir: str = custom_path if self._folder is None else self._folder.name  # type: ignore[assignment]
        os.makedirs(self.temp_dir, exist_ok=True)

    @property
    def path(self) -> str:
        """The folder."""
        return self.temp_dir

    def relpath(self, name: str) -> str:
        """The path of the file `name` in it."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """The names of the files in it."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Delete it now."""
        if self._folder is not None:
            self._folder.cleanup()


def tempdir(custom_path: str | None = None, keep_for_debug: bool = False) -> TempDirectory:
    """A new folder."""
    return TempDirectory(custom_path)
