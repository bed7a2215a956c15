"""How an illegal schedule call is told: the requirement, and the program with the place marked."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import ScheduleError as _Base
from tvmagic.ir import Block, For, IRModule
from tvmagic.tir.blocks.sref import StmtSRef


class ScheduleError(_Base):
    """A schedule call that is not legal here.

    `message` says which requirement failed, `nodes` are the blocks and loops it is about, `names` those of
    them that the message does not name, `hint` what would make the call legal. The schedule adds the
    primitive's name and its module; `str` shows the program with the nodes underlined (level `detail`),
    the sentence alone (`fast`; the sentence `fast`, if one is given) or that nothing is shown (`none`).
    """

    def __init__(
        self, message: str, *nodes: Any, hint: str | None = None, fast: str | None = None, code: str | None = None
    ) -> None:
        found = [getattr(node, "stmt", node) for node in nodes]
        super().__init__(message, node=found[0] if found else None, hint=hint, code=code)
        self.nodes = [node for node in found if node is not None]
        labels = [StmtSRef(node).label for node in self.nodes if isinstance(node, (Block, For))]
        self.names = [label for label in labels if label not in message]
        self.primitive: str | None = None
        self.mod: IRModule | None = None
        self.level = "fast"
        self.fast = fast

    def __str__(self) -> str:
        name = f" in `{self.primitive}`" if self.primitive else ""
        if self.level == "none":
            return "(not rendered)"
        if self.level == "fast" and self.fast is not None:
            return f"ScheduleError{name}: {self.fast}"
        parts = [f"ScheduleError{name}: {self.message}"]
        if self.names:
            parts.append(f"  concerns {', '.join(dict.fromkeys(self.names))}")
        if self.span is not None:
            parts.append(f"  at {self.span}")
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        if self.level == "detail" and self.mod is not None and self.nodes:
            # each place has its kind and number above it, in the order in which the sentence names them
            labels = {node: f"tir.{type(node).__name__}#{i}" for i, node in reversed([*enumerate(self.nodes)])}
            text = self.mod.script(syntax_sugar=False, obj_to_underline=self.nodes, obj_to_annotate=labels)
            parts.append("\n" + text)
        return "\n".join(parts)


class BufferPlaceError(ScheduleError, AssertionError):
    """A buffer that a block does not have; an AssertionError too, as in TVM."""


class FunctionChoiceError(ScheduleError, ValueError):
    """Of several functions it is not known which one is meant; a ValueError too, as in TVM."""
