"""The first values of CINN's reductions: a block `B__reduce_init` in front of the loops that reduce.

`B__reduce_init` is another name of `B`'s tensor. Where its block is what TensorIR calls an init, it becomes the init
of block `B`; elsewhere it stays a block of its own that stores to `B`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tvmagic import ir
from tvmagic.cinn.text.syntax import Expr, Statement
from tvmagic.ir.query import is_one

SUFFIX = "__reduce_init"
_CACHE = "(_(local|shared|global)_temp_buffer)*"  # what CacheWrite adds to a tensor's name


def name_tensors(statements: list[Statement]) -> None:
    """Call the tensor `B__reduce_init` by its name `B` throughout, if the text stores to `B` too."""
    every = list(_statements(statements))
    stores = [s for s in every if s.kind == "store"]
    found = {s.name: _added_to(s.name.removesuffix(SUFFIX), stores) for s in stores if s.name.endswith(SUFFIX)}
    names = {init: tensor for init, tensor in found.items() if tensor is not None}
    if not names:
        return
    for statement in every:
        if statement.kind == "store":
            statement.name = names.get(statement.name, statement.name)
        for expr in _expressions(statement):
            if expr.kind == "access":
                expr.text = names.get(expr.text, expr.text)


def _added_to(name: str, stores: list[Statement]) -> str | None:
    """The tensor to which a reduction adds: `name` or a cache of it, whichever is added to; None if there is none."""
    own = re.compile(re.escape(name) + _CACHE)
    fitting = [s for s in stores if own.fullmatch(s.name)]
    adding = [s.name for s in fitting if any(e.text == s.name for e in _expressions(s) if e.kind == "access")]
    plain = [s.name for s in fitting if s.name == name]
    return next(iter([*adding, *plain]), None)


def ranks_in(statements: list[Statement]) -> dict[str, int]:
    """The most indices that any access of each tensor has."""
    ranks: dict[str, int] = {}
    for statement in _statements(statements):
        found = [(e.text, len(e.args)) for e in _expressions(statement) if e.kind == "access"]
        if statement.kind == "store":
            found.append((statement.name, len(statement.exprs) - 1))
        for name, rank in found:
            ranks[name] = max(ranks.get(name, rank), rank)
    return ranks


def _statements(roots: list[Statement]) -> Iterator[Statement]:
    pending = list(reversed(roots))
    while pending:
        statement = pending.pop()
        yield statement
        pending += reversed([*statement.init, *statement.body, *statement.otherwise])


def _expressions(statement: Statement) -> Iterator[Expr]:
    ends = [e for region in statement.regions for _, *both in region.axes for e in both if e is not None]
    pending = [*statement.exprs, *ends]
    while pending:
        expr = pending.pop()
        yield expr
        pending += expr.args


def join_inits(body: ir.Stmt) -> ir.Stmt:
    """`body` with each block `B__reduce_init` that sets what block `B` adds to as the init of `B`, without lists of one."""
    return _JoinInits().visit(body)


class _JoinInits(ir.Mutator):
    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        done: list[ir.Stmt] = []
        for stmt in [self.visit(s) for s in node.seq]:
            joined = _merge_init(done[-1], stmt) if done else None
            if joined is None:
                done.append(stmt)
            else:
                done[-1] = joined
        return ir.SeqStmt.flatten(*done)


def _merge_init(first: ir.Stmt, second: ir.Stmt) -> ir.Stmt | None:
    """Both statements as one, if the first is the init of the block in the loops of the second."""
    if not isinstance(first, ir.BlockRealize) or not first.block.name_hint.endswith(SUFFIX):
        return None
    loops: list[ir.For] = []
    inner = second
    while isinstance(inner, ir.For) and inner.kind in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
        loops.append(inner)
        inner = inner.body
    name = first.block.name_hint.removesuffix(SUFFIX)
    if not isinstance(inner, ir.BlockRealize) or inner.block.name_hint != name or inner.block.init is not None:
        return None
    init = _init_of(first, inner, {loop.loop_var for loop in loops})
    if init is None:
        return None
    return ir.within_loops(loops, inner.replace(block=inner.block.replace(init=init)))


def _init_of(first: ir.BlockRealize, realize: ir.BlockRealize, loops: set[Any]) -> ir.Stmt | None:
    """The body of the block `first` in the variables of the block that adds up; None if it is not an init of it.

    TensorIR runs an init whenever the variables that reduce are at their least values. That is the first iteration
    of `loops` alone if each variable that reduces is one of these loops, and each of them is such a variable.
    """
    block, given = realize.block, first.block
    store = given.body
    if not is_one(first.predicate) or not is_one(realize.predicate) or given.init is not None:
        return None
    if not isinstance(store, ir.BufferStore) or store.buffer not in _stored(block):
        return None
    axes = list(zip(block.iter_vars, realize.iter_values))
    reducing = [value for axis, value in axes if axis.iter_type == ir.IterVar.CommReduce]
    spatial = [(axis.var, value) for axis, value in axes if axis.iter_type != ir.IterVar.CommReduce]
    if len(reducing) != len(loops) or set(reducing) != loops or any(_variables(v) & loops for _, v in spatial):
        return None
    values: dict[ir.Var, ir.PrimExpr] = {}
    for axis, value in zip(given.iter_vars, first.iter_values):
        found = next((var for var, other in spatial if ir.structural_equal(value, other)), None)
        if found is None:
            return None
        values[axis.var] = found
    return ir.substitute(store, values)


def _variables(value: ir.PrimExpr) -> set[ir.Var]:
    found: set[ir.Var] = set()
    ir.post_order_visit(value, lambda node: found.add(node) if isinstance(node, ir.Var) else None)
    return found


def _stored(block: ir.Block) -> set[object]:
    found: set[object] = set()
    ir.post_order_visit(block.body, lambda node: found.add(node.buffer) if isinstance(node, ir.BufferStore) else None)
    return found
