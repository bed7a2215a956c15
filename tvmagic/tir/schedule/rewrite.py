"""Rewrites that many primitives share: substitution with the blocks it changes, predicates,
simplified bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.deep_recursion import check_written_size
from tvmagic.ir.query import nodes_of
from tvmagic.tir.analysis.facts import Facts
from tvmagic.tir.blocks.conditions import both
from tvmagic.tir.blocks.domains import loop_domains
from tvmagic.tir.blocks.sref import StmtSRef

# Nodes when written out; splits that do not divide double a condition, if their loops are fused and split again.
_LARGEST_CONDITION = 1 << 12


class BlockReuse(dict[ir.Block, ir.Block]):
    """Which new block stands for which old one, kept through several rewrites."""

    def note(self, old: ir.Block, new: ir.Block) -> None:
        """Say that `new` stands where `old` stood."""
        if old is new:
            return
        origin = next((first for first, last in self.items() if last is old), old)
        self[origin] = new

    def follow(self, before: ir.Stmt, after: ir.Stmt) -> None:
        """Match the blocks of a statement before and after a rewrite that kept their order."""
        for old, new in zip(nodes_of(before, ir.Block), nodes_of(after, ir.Block)):
            self.note(old, new)


def substitute_loops(stmt: ir.Stmt, values: Mapping[ir.Var, ir.PrimExpr], reuse: BlockReuse) -> ir.Stmt:
    """`stmt` with loop variables replaced, the changed blocks noted in `reuse`."""
    new = ir.substitute(stmt, values)
    if new is not stmt:
        reuse.follow(stmt, new)
    return new


class _PredicateAppender(ir.Mutator):
    def __init__(self, predicate: ir.PrimExpr) -> None:
        self.predicate = predicate

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        return node.replace(predicate=both(node.predicate, self.predicate))


def append_predicate(stmt: ir.Stmt, predicate: ir.PrimExpr) -> ir.Stmt:
    """`stmt` with `predicate` added to the outermost blocks in it."""
    return _PredicateAppender(predicate).visit(stmt)


class _BindingSimplifier(Facts, ir.Mutator):
    """Simplifies what blocks are bound to, as iterator maps over the loops around them."""

    def __init__(self, loops: Mapping[ir.Var, ir.Range], reuse: BlockReuse, preserve_unit_iters: bool) -> None:
        self.loops = dict(loops)
        self.reuse = reuse
        self.preserve_unit_iters = preserve_unit_iters
        self.analyzer = Analyzer(self.loops)

    def known_domain(self, var: ir.Var, domain: ir.Range) -> None:
        super().known_domain(var, domain)
        self.loops[var] = domain

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        self.known_loop(node)
        result = self.visit_children(node)
        del self.loops[node.loop_var]
        return result

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt:
        from tvmagic.arith.iter_map import iter_map_simplify

        if not node.iter_values:
            new = self.visit_children(node)
            self.reuse.note(node.block, new.block)
            return new
        what, hint = f"the condition of block `{node.block.name_hint}`", "split by factors that divide the loop"
        check_written_size(node.predicate, what, _LARGEST_CONDITION, hint)
        values = iter_map_simplify(
            node.iter_values,
            self.loops,
            node.predicate,
            check_level="surjective",
            analyzer=self.analyzer,
            simplify_trivial_iterators=not self.preserve_unit_iters,
        )
        if all(a is b for a, b in zip(values, node.iter_values)):
            return node
        return node.replace(iter_values=tuple(values))


def simplify_bindings(
    stmt: ir.Stmt, outer_loops: Sequence[StmtSRef], reuse: BlockReuse, preserve_unit_iters: bool
) -> ir.Stmt:
    """`stmt` with the bindings of its blocks simplified; `outer_loops` are those around it."""
    return _BindingSimplifier(loop_domains(list(outer_loops)), reuse, preserve_unit_iters).visit(stmt)


class _RemoveChild(ir.Mutator):
    """Takes one block's realize (or loop) out, and whatever then holds nothing."""

    def __init__(self, target: Any) -> None:
        self.target = target

    @ir.handles(ir.Stmt)
    def other(self, node: ir.Stmt) -> Any:
        if node is self.target or (isinstance(node, ir.BlockRealize) and node.block is self.target):
            return None
        if isinstance(node, ir.SeqStmt):
            return self.sequence(node)
        if isinstance(node, ir.BlockRealize):
            return node
        body = getattr(node, "body", None)
        if body is None:
            return node
        new = self.visit(body)
        if new is body:
            return node
        return None if new is None else node.replace(body=new)

    def sequence(self, node: ir.SeqStmt) -> Any:
        parts = [self.visit(s) for s in node.seq]
        if all(a is b for a, b in zip(parts, node.seq)):
            return node
        left = [p for p in parts if p is not None]
        if not left:
            return None
        return left[0] if len(left) == 1 else ir.SeqStmt.flatten(*left)


def remove_child(body: ir.Stmt, target: Any) -> ir.Stmt | None:
    """`body` without the block or loop `target`; loops and sequences left empty go with it.

    None if nothing is left.
    """
    return _RemoveChild(target).visit(body)
