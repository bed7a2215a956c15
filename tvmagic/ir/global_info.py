"""What all functions of a module share, by name and position: devices that values live on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir.derive import node
from tvmagic.ir.hooks import provided
from tvmagic.ir.node import Node
from tvmagic.ir.prim_expr import MAPPINGS, SEQUENCES


@node
class GlobalInfo(Node):
    """A fact that all functions of a module may refer to. Two are equal if they hold the same."""


@node
class DummyGlobalInfo(GlobalInfo):
    """A fact without contents."""


@node
class VDevice(GlobalInfo):
    """A virtual device: a target, which of its devices, and a memory of that device.

    `target` may be a text (`"llvm -mcpu=haswell"`) or a mapping of options.
    """

    target: Any = None
    vdevice_id: int = 0
    memory_scope: str = "global"

    def check(self) -> None:
        given: Any = self.target
        if isinstance(given, (str, *MAPPINGS)):
            self.target = provided("target")(given)


def global_infos_of(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Lists of global infos by name, with plain texts as names; what is not such an info is refused."""
    infos: dict[str, Any] = {}
    for name, items in (given or {}).items():
        if not isinstance(items, SEQUENCES) or not all(isinstance(item, GlobalInfo) for item in items):
            raise TVMagicError(
                f"the global infos `{name}` of a module are a list of such infos",
                hint='write {"vdevice": [I.vdevice("llvm")]}',
                code="module.global_infos_not_a_list",
            )
        infos[str(getattr(name, "value", name))] = tuple(items)
    return infos
