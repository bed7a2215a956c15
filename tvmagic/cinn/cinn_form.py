"""CINN's form of a program, and the way from TensorIR's form to it and back.

Both are the same IR. In CINN's form a block has no init and no predicate: the first values of a reduction `B` are
stored by a block of their own, `B__reduce_init`, in front of the loops that reduce; a condition is an `IfThenElse`
in the loops; a statement list of one is a `StmtList`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

from tvmagic import ir
from tvmagic.cinn.text.reductions import SUFFIX, join_inits
from tvmagic.ir.deep_recursion import with_deep_stack
from tvmagic.ir.derive import node as declare
from tvmagic.ir.ops import logical_and
from tvmagic.ir.program_form import FORM, is_cinn_form
from tvmagic.ir.query import is_one, operands, variables_in
from tvmagic.tir.blocks.conditions import all_of, conjuncts
from tvmagic.tir.blocks.regions import with_detected_regions

FOR_TYPE = "cinn.for_type"  # annotation of a loop of a kind that only CINN has: its name
VECTOR_LENGTH = "cinn.vector_length"  # annotation of a vectorized loop: how many elements a vector has
BARE = "cinn.bare"  # attribute of a function whose text has no braces around the root

_N = TypeVar("_N", bound=ir.Node)


@declare
class StmtList(ir.SeqStmt):
    """A statement list that stays one, and prints in braces, though it has a single statement."""

    @staticmethod
    def flatten(*parts: Any) -> ir.Stmt:
        """The statements as `SeqStmt.flatten` gives them; a single one as a list."""
        flat = ir.SeqStmt.flatten(*parts)
        return flat if isinstance(flat, ir.SeqStmt) else StmtList((flat,))


# ---------------------------------------------------------------------------- questions


def parts_of(body: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """The statements of a list; a statement that is not a list alone."""
    return tuple(body.seq) if isinstance(body, ir.SeqStmt) else (body,)


def listed(*parts: ir.Stmt | None) -> ir.SeqStmt:
    """The statements as a list, which stays one if it has a single statement."""
    flat = StmtList.flatten(*parts)
    assert isinstance(flat, ir.SeqStmt)
    return flat


class ListMutator(ir.Mutator):
    """A mutator that leaves lists of statements lists, those of a single statement too."""

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        parts = [self.visit(s) for s in node.seq]
        return node if all(a is b for a, b in zip(parts, node.seq)) else listed(*parts)


def buffer_name(buffer: ir.Buffer) -> str:
    """What CINN calls the buffer of a tensor `B`: `_B`, or the name that SetBuffer or Rfactor gave it."""
    return buffer.data.name if buffer.data.name != buffer.name else f"_{buffer.name}"


def has_outer_braces(function: ir.PrimFunc) -> bool:
    """Whether the text of a function begins with the list that holds its root."""
    return not (function.attrs and BARE in function.attrs)


def init_block_of(block: ir.Block) -> str:
    """The name of a block `B__reduce_init` that stores what B adds to: its other name for B's tensor; else empty."""
    if not block.name_hint.endswith(SUFFIX):
        return ""
    stem = re.escape(block.name_hint.removesuffix(SUFFIX))
    stores = accesses_in_order(block)[1]
    fits = stores and all(re.fullmatch(stem + "(_(local|shared|global)_temp_buffer)*", s.buffer.name) for s in stores)
    return block.name_hint if fits else ""


class _AccessCollector(ir.Visitor):
    def __init__(self) -> None:
        self.loads: list[ir.BufferLoad] = []
        self.stores: list[ir.BufferStore] = []
        self.blocks = False

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.loads.append(node)
        self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.stores.append(node)
        self.visit(node.value)  # as in the text, where the indices of a store are not loads of the block
        for index in node.indices:
            self.visit(index)

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> None:
        self.blocks = True
        self.visit_children(node)


def accesses_in_order(block: ir.Block) -> tuple[list[ir.BufferLoad], list[ir.BufferStore]]:
    """The loads and the stores in a block's body, in the order of the text."""
    found = _AccessCollector()
    found.visit(block.body)
    return found.loads, found.stores


def holds_blocks(block: ir.Block) -> bool:
    """Whether a block holds other blocks."""
    found = _AccessCollector()
    found.visit(block.body)
    return found.blocks


# ---------------------------------------------------------------------------- expressions


class _Order(ir.Mutator):
    """Factors in front, sums leaning to the right: `((8 * a) + ((2 * b) + c))`."""

    @ir.handles(ir.Mul)
    def product(self, node: ir.Mul) -> ir.PrimExpr:
        node = self.visit_children(node)
        return ir.Mul(node.b, node.a) if isinstance(node.b, ir.IntImm) and not isinstance(node.a, ir.IntImm) else node

    @ir.handles(ir.Add)
    def total(self, node: ir.Add) -> ir.PrimExpr:
        if not node.dtype.is_int:
            return self.visit_children(node)
        terms = [self.visit(part) for part in operands(node, ir.Add)]
        result = terms[-1]
        for term in reversed(terms[:-1]):
            result = ir.Add(term, result)
        return result


def in_order(expr: ir.PrimExpr) -> ir.PrimExpr:
    """An index expression as CINN's simplifier writes it."""
    return _Order().visit(expr)


# ---------------------------------------------------------------------------- into CINN's form


@dataclass
class _Init:
    """First values on their way out of the loops that reduce: the statement, and the loops still to be left."""

    stmt: ir.Stmt
    reducing: set[ir.Var]


class _Inits(ir.Mutator):
    """Takes inits out of blocks and writes predicates as conditions, each as far out as its variables allow."""

    def __init__(self) -> None:
        self.loops: list[ir.For] = []
        self.pending: list[_Init] = []
        self.guards: set[ir.Stmt] = set()

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt:
        outer, self.loops, self.pending = (self.loops, self.pending), [], []
        block = self.visit_children(node.block)
        self.loops, self.pending = outer
        found = None if block.init is None else self.init(node, block)
        if found is not None:
            block = with_detected_regions(block.replace(init=None))
        result: ir.Stmt = node.replace(block=block)
        if not is_one(node.predicate):
            result = node.replace(block=block, predicate=ir.IntImm("bool", 1))
            for part in reversed(conjuncts(node.predicate)):
                result = ir.IfThenElse(part, result, None)
                self.guards.add(result)
        if found is not None and not found.reducing:
            return ir.SeqStmt.flatten(found.stmt, result)
        if found is not None:
            self.pending.append(found)
        return result

    def init(self, node: ir.BlockRealize, block: ir.Block) -> _Init:
        """The block that stores the first values, with the conditions on spatial variables around it."""
        inside = {loop.loop_var for loop in self.loops}
        axes = list(zip(block.iter_vars, node.iter_values))
        reducing = {v for axis, x in axes if axis.iter_type == ir.IterVar.CommReduce for v in variables_in(x)} & inside
        spatial = [(axis, value) for axis, value in axes if axis.iter_type != ir.IterVar.CommReduce]
        fresh = {axis.var: ir.Var(axis.var.name, axis.var.dtype) for axis, _ in spatial}
        assert block.init is not None
        made = ir.Block(
            [axis.replace(var=fresh[axis.var]) for axis, _ in spatial], [], [],
            block.name_hint + SUFFIX, ir.substitute(block.init, fresh), span=block.span,
        )  # fmt: skip
        stmt: ir.Stmt = ir.BlockRealize(
            [value for _, value in spatial], True, with_detected_regions(made), span=node.span
        )
        return _Init(_guarded(stmt, node.predicate, reducing), reducing)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        outer, self.pending = self.pending, []
        self.loops.append(node)
        body = self.visit(node.body)
        self.loops.pop()
        inits, self.pending = self.pending, outer
        new: ir.Stmt = node if body is node.body else self.hoisted(node.replace(body=body))
        done: list[ir.Stmt] = []
        for found in inits:
            if node.loop_var in found.reducing:
                found.reducing.discard(node.loop_var)
            elif node.loop_var in variables_in(found.stmt):
                var = ir.Var(node.loop_var.name, node.loop_var.dtype)
                inner = ir.substitute(found.stmt, {node.loop_var: var})
                found.stmt = node.replace(loop_var=var, body=inner)
            if found.reducing:
                self.pending.append(found)
            else:
                done.append(found.stmt)
        return ir.SeqStmt.flatten(*done, new) if done else new

    def hoisted(self, loop: ir.For) -> ir.Stmt:
        """The conditions that a predicate became and that do not use the loop's variable, around the loop."""
        body = loop.body
        if body not in self.guards or not isinstance(body, ir.IfThenElse):
            return loop
        if loop.loop_var in variables_in(body.condition):
            return loop
        guard = body.replace(then_case=self.hoisted(loop.replace(body=body.then_case)))
        self.guards.add(guard)
        return guard

    @ir.handles(ir.IfThenElse)
    def condition(self, node: ir.IfThenElse) -> ir.Stmt:
        place = len(self.pending)
        new = self.visit_children(node)
        for found in self.pending[place:]:
            found.stmt = _guarded(found.stmt, node.condition, found.reducing)
        return new


def _guarded(stmt: ir.Stmt, condition: ir.PrimExpr, without: set[ir.Var]) -> ir.Stmt:
    """A statement under the parts of a condition that use none of some variables."""
    parts = [c for c in conjuncts(condition) if not without.intersection(variables_in(c)) and not is_one(c)]
    return ir.IfThenElse(all_of(parts), stmt, None) if parts else stmt


def with_schedule_blocks(node: _N) -> _N:
    """A function, module or statement with its inits and predicates as CINN has them."""
    if isinstance(node, ir.IRModule):
        functions = {v: with_schedule_blocks(f) if isinstance(f, ir.PrimFunc) else f for v, f in node.functions.items()}
        same = all(f is node.functions[v] for v, f in functions.items())
        return node if same else node.replace(functions=functions)
    if not isinstance(node, ir.PrimFunc):
        return with_deep_stack(lambda: _Inits().visit(node))
    body = with_deep_stack(lambda: _Inits().visit(node.body))
    return node if body is node.body else node.with_body(body)  # type: ignore[return-value]


def to_cinn(function: ir.PrimFunc) -> ir.PrimFunc:
    """A TensorIR function in CINN's form."""
    return function if is_cinn_form(function) else with_schedule_blocks(function).with_attr(FORM, True)


# ---------------------------------------------------------------------------- into TensorIR's form


class _Predicates(ir.Mutator):
    """Conditions around one nest with one block as the predicate of the block."""

    @ir.handles(ir.IfThenElse)
    def condition(self, node: ir.IfThenElse) -> ir.Stmt:
        node = self.visit_children(node)
        if node.else_case is not None:
            return node
        found = _with_predicate(node.then_case, node.condition)
        return node if found is None else found

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        return node.replace(body=self.visit(node.body))


def _with_predicate(stmt: ir.Stmt, condition: ir.PrimExpr) -> ir.Stmt | None:
    if isinstance(stmt, ir.For):
        body = _with_predicate(stmt.body, condition)
        return None if body is None else stmt.replace(body=body)
    if not isinstance(stmt, ir.BlockRealize):
        return None
    predicate = condition if is_one(stmt.predicate) else logical_and(condition, stmt.predicate)
    return stmt.replace(predicate=predicate)


def to_tensorir(function: ir.PrimFunc) -> ir.PrimFunc:
    """A function in CINN's form as TensorIR has it: with inits and predicates, without lists of one.

    First values that are stored elsewhere than right in front of their reduction stay a block.
    """
    body = _Predicates().visit(join_inits(function.body))
    if isinstance(body, ir.BlockRealize):
        body = body.replace(block=_with_regions_throughout(body.block))
    attrs = {key: value for key, value in (function.attrs or {}).items() if not key.startswith("cinn.")}
    return function.replace(body=body, attrs=attrs)


class _Regions(ir.Mutator):
    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        if node.init is None:
            return node
        return with_detected_regions(node)


def _with_regions_throughout(root: ir.Block) -> ir.Block:
    return root.replace(body=_Regions().visit(root.body))
