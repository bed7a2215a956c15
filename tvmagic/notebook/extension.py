"""What `%load_ext tvmagic` puts into IPython, and `%unload_ext tvmagic` takes out again."""

from __future__ import annotations

from typing import Any

from tvmagic.notebook import completion, display, errors, magic_line, tooltips
from tvmagic.notebook.html import set_theme
from tvmagic.notebook.magics import MAGICS, TensorMagics

_KEY = "_tvmagic_extension"


def load(shell: Any) -> None:
    """Register the magics, the display of our objects, completion, and how errors show."""
    if _KEY in shell.__dict__:
        return
    known = {kind: dict(table) for kind, table in shell.magics_manager.magics.items()}
    magics = TensorMagics(shell)
    set_theme(magics.theme)
    shell.register_magics(magics)
    errors.install(shell)
    forgetting = (
        completion.install(shell, magics),
        tooltips.install(shell, magics),
        display.install(shell),
        magic_line.install(shell, magics),
    )
    shell.__dict__[_KEY] = (magics, known, forgetting)


def unload(shell: Any) -> None:
    """Take away everything that `load` put there; magics of others that ours hid come back."""
    if _KEY not in shell.__dict__:
        return
    magics, known, forgetting = shell.__dict__.pop(_KEY)
    for kind, table in shell.magics_manager.magics.items():
        for name in MAGICS:
            if getattr(table.get(name), "__self__", None) is magics:
                table.pop(name)
                if name in known[kind]:
                    table[name] = known[kind][name]
    shell.magics_manager.registry.pop(type(magics).__name__, None)
    if magics in shell.configurables:
        shell.configurables.remove(magics)
    set_theme("auto")
    for forget in forgetting:
        forget()
    errors.uninstall(shell)
