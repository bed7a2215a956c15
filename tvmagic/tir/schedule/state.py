"""The state of a schedule: the module, its tree of references, and how a part is replaced.

The program is immutable, so replacing a part copies the path to the root and points the
references along it to the copies. What is known of a scope (dependencies, affine bindings,
region cover) is computed when it is asked for and kept by the identity of the scope's nodes, so
it is never out of date.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from typing import Any

from tvmagic import ir
from tvmagic.errors import DefectError, TVMagicError, a_thing
from tvmagic.ir.numpy_types import as_integer
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.flags import CachedFlags, FlagCache
from tvmagic.tir.blocks.scope import BlockScope
from tvmagic.tir.blocks.sref import StmtSRef


class _TriedOut(Exception):
    """Ends the trial of a change, which is then taken back."""


class ScheduleDebugMask:
    """What to verify after each step: the tree of references, the cached flags."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


class _Schedulables(ir.StmtVisitor):
    """The blocks and loops directly below a statement, each with its place in a sequence."""

    def __init__(self) -> None:
        self.found: list[tuple[ir.Block | ir.For, int]] = []

    def below(self, stmt: ir.Block | ir.For) -> list[tuple[ir.Block | ir.For, int]]:
        self.visit(stmt.body)
        return self.found

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.found.append((node, -1))

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> None:
        self.found.append((node.block, -1))

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> None:
        for index, child in enumerate(node.seq):
            if isinstance(child, ir.For):
                self.found.append((child, index))
            elif isinstance(child, ir.BlockRealize):
                self.found.append((child.block, index))
            else:
                self.visit(child)


def children_of(stmt: ir.Block | ir.For) -> list[tuple[ir.Block | ir.For, int]]:
    """The blocks and loops directly below `stmt`, with their places in a sequence."""
    body = stmt.body
    if isinstance(body, ir.For):
        return [(body, -1)]
    if isinstance(body, ir.BlockRealize):
        return [(body.block, -1)]
    return _Schedulables().below(stmt)


class _ReplaceChild(ir.Mutator):
    """Puts a new child in the place of one statement, not looking inside blocks and loops."""

    def __init__(self, old: ir.Node, new: ir.Stmt) -> None:
        self.old, self.new = old, new

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        return self.new if node is self.old else node

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt:
        if node.block is not self.old:
            return node
        return node.replace(block=self.new) if isinstance(self.new, ir.Block) else self.new


def replace_child(body: ir.Stmt, old: ir.Block | ir.For, new: ir.Stmt, seq_index: int = -1) -> ir.Stmt:
    """`body` with its block or loop `old` replaced; a Block keeps the realize around it."""
    change = _ReplaceChild(old, new).visit
    if isinstance(body, ir.SeqStmt) and 0 <= seq_index < len(body.seq):
        child = body.seq[seq_index]
        replaced = change(child)
        if replaced is not child:
            if isinstance(replaced, ir.SeqStmt):
                return ir.SeqStmt.flatten(*body.seq[:seq_index], replaced, *body.seq[seq_index + 1 :])
            return body.replace(seq=(*body.seq[:seq_index], replaced, *body.seq[seq_index + 1 :]))
    return change(body)


class ScheduleState(ir.Identified):
    """A module (or a function, its `main`) that is being scheduled, with a reference to each block and loop."""

    def __init__(self, mod: Any, *, debug_mask: str | int = "none", enable_check: bool = True) -> None:
        if isinstance(mod, ir.PrimFunc):
            mod = ir.IRModule({"main": mod})
        if not isinstance(mod, ir.IRModule):
            own = getattr(mod, "schedule", None)  # an operator makes one of itself
            raise TVMagicError(
                f"a schedule works on a PrimFunc or an IRModule, not on {a_thing(mod)}",
                hint="it has one: `NAME.schedule()`, or `sch` in a `%%schedule NAME` cell" if callable(own) else None,
                code="schedule.not_a_program",
            )
        self.mod: ir.IRModule = mod
        self.debug_mask = _debug_mask(debug_mask)
        self.enable_check = enable_check
        self.srefs: dict[ir.Stmt, StmtSRef] = {}
        self.functions: dict[StmtSRef, ir.GlobalVar] = {}
        self.flags = FlagCache()
        self.scopes: dict[ir.Block, BlockScope] = {}
        self.reset(mod)

    def reset(self, mod: ir.IRModule) -> None:
        """Go on with another module; references to blocks and loops of the one before are gone."""
        for sref in self.srefs.values():
            sref.stmt = None
        self.mod, self.srefs, self.functions = mod, {}, {}
        for var, function in mod.functions.items():
            if isinstance(function.body, ir.BlockRealize):
                root = self._build(function.body.block, None, -1)
                self.functions[root] = var

    def _build(self, stmt: ir.Block | ir.For, parent: StmtSRef | None, seq_index: int) -> StmtSRef:
        top = StmtSRef(stmt, parent, seq_index)
        self.srefs[stmt] = top
        stack = [top]
        while stack:
            sref = stack.pop()
            assert sref.stmt is not None
            for child, index in children_of(sref.stmt):
                below = StmtSRef(child, sref, index)
                self.srefs[child] = below
                stack.append(below)
        return top

    # ------------------------------------------------------------------ looking up

    def get_sref(self, stmt: ir.Block | ir.For) -> StmtSRef | None:
        """The reference to a block or loop of the program as it is now."""
        return self.srefs.get(stmt)

    def sref_of(self, stmt: ir.Block | ir.For) -> StmtSRef:
        """The reference to a block or loop that is known to be in the program."""
        sref = self.srefs.get(stmt)
        if sref is None:
            raise DefectError("a block or loop is not in the tree of references", code="schedule.statement_not_in_tree")
        return sref

    def root_of(self, sref: StmtSRef) -> StmtSRef:
        """The reference to the root block of the function that holds `sref`."""
        while sref.parent is not None:
            sref = sref.parent
        return sref

    def function_of(self, sref: StmtSRef) -> tuple[ir.GlobalVar, ir.PrimFunc]:
        """The function that holds `sref`."""
        var = self.functions[self.root_of(sref)]
        return var, self.mod.functions[var]

    def scope_of(self, sref: StmtSRef) -> StmtSRef:
        """The block whose scope holds `sref`: the nearest block above it."""
        above = sref.parent
        while above is not None and not above.is_block:
            above = above.parent
        if above is None:
            raise ScheduleError(
                f"{sref.label} is the root block, which no scope holds", sref, code="schedule.root_block"
            )
        return above

    def realize_of(self, sref: StmtSRef) -> ir.BlockRealize:
        """The realize that binds the variables of a block."""
        block = sref.block
        if sref.parent is None:
            body = self.function_of(sref)[1].body
            assert isinstance(body, ir.BlockRealize)
            return body
        assert sref.parent.stmt is not None
        body = sref.parent.stmt.body
        if isinstance(body, ir.SeqStmt) and 0 <= sref.seq_index < len(body.seq):
            body = body.seq[sref.seq_index]
        if isinstance(body, ir.BlockRealize) and body.block is block:
            return body
        finder = _FindRealize(block)  # under an attribute or a condition
        finder.visit(body)
        assert finder.found is not None
        return finder.found

    def loops_of(self, sref: StmtSRef) -> list[StmtSRef]:
        """The loops between a block (or loop) and its scope, outermost first."""
        loops: list[StmtSRef] = []
        above = sref.parent
        while above is not None and above.is_loop:
            loops.append(above)
            above = above.parent
        loops.reverse()
        return loops

    def child_blocks(self, sref: StmtSRef) -> list[StmtSRef]:
        """The blocks directly inside a block's scope or below a loop, in program order."""
        found: list[StmtSRef] = []
        assert sref.stmt is not None
        stack = [child for child, _ in reversed(children_of(sref.stmt))]
        while stack:
            stmt = stack.pop()
            if isinstance(stmt, ir.Block):
                found.append(self.srefs[stmt])
            else:
                stack += [child for child, _ in reversed(children_of(stmt))]
        return found

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """The scope of a block: its child blocks and the dependencies between them."""
        return self.flags.scope(self, block_sref)

    def get_cached_flags(self, block_sref: StmtSRef) -> CachedFlags:
        """Whether a block's bindings are affine, its reads covered, its scope a stage pipeline."""
        return self.flags.flags(self, block_sref)

    _get_cached_flags = get_cached_flags

    # ------------------------------------------------------------------ changing

    @contextlib.contextmanager
    def transaction(self) -> Generator[None, None, None]:
        """Put everything back as it was where the body raises."""
        saved = [(sref, sref.stmt, sref.parent, sref.seq_index) for sref in self.srefs.values()]
        mod, srefs, functions = self.mod, dict(self.srefs), dict(self.functions)
        try:
            yield
        except BaseException:
            self.mod, self.srefs, self.functions = mod, srefs, functions
            for sref, stmt, parent, seq_index in saved:
                sref.stmt, sref.parent, sref.seq_index = stmt, parent, seq_index
            raise

    def accepts(self, change: Callable[[], Any]) -> bool:
        """Whether a change would be accepted. It is tried and taken back."""
        try:
            with self.transaction():
                change()
                raise _TriedOut
        except _TriedOut:
            return True
        except ScheduleError:
            return False

    def replace(
        self, src_sref: StmtSRef, tgt_stmt: ir.Stmt, block_sref_reuse: Mapping[ir.Block, ir.Block] | None = None
    ) -> None:
        """Put `tgt_stmt` in the place of the block or loop `src_sref`.

        A loop may become a loop or a BlockRealize, a block another block. References stay for
        subtrees that are used again as they are, for loops with the same variable, and for the
        blocks that `block_sref_reuse` maps from old to new.
        """
        src = src_sref.stmt
        if src is None:
            raise DefectError("a block or loop that was removed cannot be replaced", code="schedule.removed_statement")
        if src is tgt_stmt:
            return
        parent, seq_index = src_sref.parent, src_sref.seq_index
        top = tgt_stmt.block if isinstance(tgt_stmt, ir.BlockRealize) else tgt_stmt
        if not isinstance(top, (ir.Block, ir.For)):
            raise DefectError(
                f"a {type(top).__name__} cannot be in the tree of references",
                code="schedule.statement_without_reference",
            )
        kept, fresh = self._divide(top)
        dropped = self._drop(src, kept)
        self._graft(top, parent, seq_index, fresh, dropped, dict(block_sref_reuse or {}))
        self._replace_above(src_sref, src, parent, seq_index, tgt_stmt, top)

    def _divide(self, top: ir.Block | ir.For) -> tuple[set[ir.Stmt], list[ir.Block | ir.For]]:
        """The largest subtrees of the new tree that are in the old one, and the new nodes."""
        kept: set[ir.Stmt] = set()
        fresh: list[ir.Block | ir.For] = []
        stack: list[ir.Block | ir.For] = [top]
        while stack:
            stmt = stack.pop()
            if stmt in self.srefs:
                kept.add(stmt)
                continue
            fresh.append(stmt)
            stack += [child for child, _ in children_of(stmt)]
        return kept, fresh

    def _drop(self, src: ir.Block | ir.For, kept: set[ir.Stmt]) -> dict[ir.Stmt, StmtSRef]:
        """Take the old tree's nodes that are not kept out of the table."""
        dropped: dict[ir.Stmt, StmtSRef] = {}
        stack: list[ir.Block | ir.For] = [src]
        while stack:
            stmt = stack.pop()
            if stmt in kept:
                continue
            dropped[stmt] = self.srefs.pop(stmt)
            stack += [child for child, _ in children_of(stmt)]
        return dropped

    def _graft(
        self,
        top: ir.Block | ir.For,
        parent: StmtSRef | None,
        seq_index: int,
        fresh: list[ir.Block | ir.For],
        dropped: dict[ir.Stmt, StmtSRef],
        reuse: dict[ir.Block, ir.Block],
    ) -> None:
        """Give the new nodes references, old ones where they are meant to stay."""
        by_var = {stmt.loop_var: sref for stmt, sref in dropped.items() if isinstance(stmt, ir.For)}
        by_block = {new: dropped[old] for old, new in reuse.items() if old in dropped}
        old_of: dict[ir.Stmt, StmtSRef | None] = {}
        for stmt in fresh:
            old_of[stmt] = by_var.pop(stmt.loop_var, None) if isinstance(stmt, ir.For) else by_block.get(stmt)
        stays = {sref for sref in old_of.values() if sref is not None}
        for sref in dropped.values():
            if sref not in stays:
                sref.stmt, sref.parent = None, None
        stack: list[tuple[ir.Block | ir.For, StmtSRef | None, int]] = [(top, parent, seq_index)]
        while stack:
            stmt, above, index = stack.pop()
            sref = self.srefs.get(stmt)
            is_fresh = sref is None
            if sref is None:
                sref = self.srefs[stmt] = old_of[stmt] or StmtSRef(stmt)
                sref.stmt = stmt
            sref.parent, sref.seq_index = above, index
            if is_fresh:
                stack += [(child, sref, i) for child, i in children_of(stmt)]

    def _replace_above(
        self,
        src_sref: StmtSRef,
        src: ir.Block | ir.For,
        parent: StmtSRef | None,
        seq_index: int,
        tgt_stmt: ir.Stmt,
        top: ir.Block | ir.For,
    ) -> None:
        """Copy the path from the replaced place to the module."""
        old, new, sref = src, tgt_stmt, self.srefs[top]
        while parent is not None:
            above = parent.stmt
            assert above is not None
            body = replace_child(above.body, old, new, seq_index)
            if body is above.body:
                raise DefectError("the tree of references does not fit the program", code="schedule.tree_out_of_date")
            copy = above.replace(body=body)
            del self.srefs[above]
            self.srefs[copy] = parent
            parent.stmt = copy
            if isinstance(body, ir.SeqStmt) and isinstance(new, ir.SeqStmt | ir.BlockRealize | ir.For | ir.Block):
                self._renumber(parent)
            old, new, sref, seq_index, parent = above, copy, parent, parent.seq_index, parent.parent
        var = self.functions.pop(sref) if sref in self.functions else self.functions.pop(src_sref)
        self.functions[sref] = var
        function = self.mod.functions[var]
        assert isinstance(function.body, ir.BlockRealize)
        realize = new if isinstance(new, ir.BlockRealize) else function.body.replace(block=new)
        self.mod = self.mod.with_functions({var: function.replace(body=realize)})

    def _renumber(self, sref: StmtSRef) -> None:
        """Set the places of the children of `sref` from its body."""
        assert sref.stmt is not None
        for child, index in children_of(sref.stmt):
            below = self.srefs.get(child)
            if below is not None:
                below.seq_index = index

    def set_function(self, var: ir.GlobalVar, function: ir.PrimFunc) -> None:
        """Change what is around the root block (parameters, buffers, attributes)."""
        self.mod = self.mod.with_functions({var: function})

    # ------------------------------------------------------------------ verifying

    def verify(self) -> None:
        """Verify what `debug_mask` asks for; raise if it does not fit the program."""
        if self.debug_mask & ScheduleDebugMask.VERIFY_SREF_TREE:
            self.debug_verify()
        if self.debug_mask & ScheduleDebugMask.VERIFY_CACHED_FLAGS:
            self.verify_cached_flags()

    def verify_cached_flags(self) -> None:
        """Raise if what is kept of a block (its flags, its dependences) is not what the program says."""
        blocks = [sref for sref in self.srefs.values() if sref.is_block]
        kept = self._all_flags(blocks)
        known = self.flags, self.scopes
        self.flags, self.scopes = FlagCache(), {}
        try:
            fresh = self._all_flags(blocks)
        finally:
            self.flags, self.scopes = known
        for sref, one, other in zip(blocks, kept, fresh):
            if one != other:
                raise DefectError(f"the flags of {sref.label} are out of date", code="schedule.flags_out_of_date")

    def _all_flags(self, blocks: list[StmtSRef]) -> list[tuple[Any, ...]]:
        return [(self.get_cached_flags(sref), self.get_block_scope(sref).src2deps) for sref in blocks]

    def debug_verify(self) -> None:
        """Raise if the tree of references does not fit the program."""
        seen: set[ir.Stmt] = set()
        for root, var in self.functions.items():
            function = self.mod.functions[var]
            if not isinstance(function.body, ir.BlockRealize) or function.body.block is not root.stmt:
                raise DefectError(
                    f"the root reference of `{var.name_hint}` does not fit its body", code="schedule.tree_out_of_date"
                )
            stack = [root]
            while stack:
                sref = stack.pop()
                assert sref.stmt is not None
                seen.add(sref.stmt)
                if self.srefs.get(sref.stmt) is not sref:
                    raise DefectError(
                        f"{sref.label} is not in the table of references", code="schedule.statement_not_in_tree"
                    )
                for child, index in children_of(sref.stmt):
                    below = self.srefs.get(child)
                    if below is None or below.parent is not sref or below.seq_index != index:
                        raise DefectError(
                            f"the reference to a child of {sref.label} is wrong", code="schedule.tree_out_of_date"
                        )
                    stack.append(below)
        if len(seen) != len(self.srefs):
            raise DefectError(
                "the table of references holds statements that are gone", code="schedule.tree_out_of_date"
            )

    def copy(self) -> tuple[ScheduleState, dict[StmtSRef, StmtSRef]]:
        """A state of its own on the same module, and the new reference for each old one."""
        new = ScheduleState.__new__(ScheduleState)
        new.mod, new.debug_mask, new.enable_check = self.mod, self.debug_mask, self.enable_check
        new.flags, new.scopes = self.flags, {}
        mapping = {sref: StmtSRef(sref.stmt, None, sref.seq_index) for sref in self.srefs.values()}
        for old, copy in mapping.items():
            copy.parent = mapping[old.parent] if old.parent is not None else None
        new.srefs = {stmt: mapping[sref] for stmt, sref in self.srefs.items()}
        new.functions = {mapping[sref]: var for sref, var in self.functions.items()}
        return new, mapping


class _FindRealize(ir.Visitor):
    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.found: ir.BlockRealize | None = None

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> None:
        if node.block is self.block:
            self.found = node

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        pass


def _debug_mask(mask: Any) -> int:
    if isinstance(mask, str):
        known = {"none": 0, "all": 3}.get(mask)
    else:
        known = as_integer(mask)
    if known is None:
        raise TVMagicError(
            f"`{mask}` is not a debug mask", hint="write `none`, `all` or a number", code="schedule.unknown_debug_mask"
        )
    return known
