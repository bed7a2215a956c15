"""References to the blocks and loops of a program that is being scheduled."""

from __future__ import annotations

from typing import ClassVar

from tvmagic.ir import Block, For, Identified

__all__ = ["StmtSRef"]


class StmtSRef(Identified):
    """A block or loop that stays itself while the program around it is rewritten.

    `stmt` is the `Block` or `For` as it is now (None once it is gone), `parent` the reference of
    the nearest block or loop around it (None at the root), `seq_index` its place in the sequence
    that holds it directly (-1 if none does).
    """

    __slots__ = ("parent", "seq_index", "stmt")
    _marks: ClassVar[dict[str, StmtSRef]] = {}

    def __init__(self, stmt: Block | For | None, parent: StmtSRef | None = None, seq_index: int = -1) -> None:
        self.stmt = stmt
        self.parent = parent
        self.seq_index = seq_index

    @staticmethod
    def inline_mark() -> StmtSRef:
        """The mark that tells compute-at to inline."""
        return StmtSRef._marks.setdefault("inline", StmtSRef(None))

    @staticmethod
    def root_mark() -> StmtSRef:
        """The mark that tells compute-at to leave a block at the root."""
        return StmtSRef._marks.setdefault("root", StmtSRef(None))

    @property
    def is_block(self) -> bool:
        """Whether it stands for a block."""
        return isinstance(self.stmt, Block)

    @property
    def is_loop(self) -> bool:
        """Whether it stands for a loop."""
        return isinstance(self.stmt, For)

    @property
    def block(self) -> Block:
        """The block it refers to."""
        assert isinstance(self.stmt, Block)
        return self.stmt

    @property
    def loop(self) -> For:
        """The loop it refers to."""
        assert isinstance(self.stmt, For)
        return self.stmt

    @property
    def label(self) -> str:
        """Its name for people: the block's name or the loop's variable."""
        if isinstance(self.stmt, Block):
            return f"block `{self.stmt.name_hint}`"
        return f"loop `{self.stmt.loop_var.name}`" if self.stmt is not None else "a removed block or loop"

    def ancestors(self) -> list[StmtSRef]:
        """The references around it, from the nearest to the root."""
        found: list[StmtSRef] = []
        sref = self.parent
        while sref is not None:
            found.append(sref)
            sref = sref.parent
        return found

    def __repr__(self) -> str:
        return f"StmtSRef({self.label})"
