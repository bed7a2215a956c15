"""The wheel has the tutorials, which are in `notebooks` here; an installation that is edited in place reads them there."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tutorials(BuildHookInterface):
    """Adds each notebook, without what editors keep beside them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is built; `version` is `editable` for `pip install --editable`."""
        folder = Path(self.root, "notebooks")
        for path in sorted(folder.rglob("*.ipynb")) if version == "standard" else ():
            place = path.relative_to(folder)
            if not any(part.startswith(".") for part in place.parts):
                build_data["force_include"][str(path)] = f"tvmagic/notebook/tutorials/{place.as_posix()}"
