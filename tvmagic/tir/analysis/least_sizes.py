"""The sizes that an argument must have at least: a scan writes its first rows however few there are.

TVM compiles such a program, and a call with too small an array writes beyond its end. The functions that are built here
say so in a call instead.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.query import is_call, launches_thread, operands, strip_likely, variables_in
from tvmagic.tir.transform.use_def import loads_memory


def least_sizes(func: ir.PrimFunc) -> list[tuple[ir.PrimExpr, str]]:
    """What must hold of the sizes of a function's arguments, each with what goes wrong otherwise.

    Looked at are accesses whose index does not depend on loops of symbolic extents, in the first iteration of those
    loops; it runs if no loop is empty and the conditions around hold. What depends on data is left out.
    """
    arguments = {b for b in func.buffer_map.values() if not all(isinstance(size, ir.IntImm) for size in b.shape)}
    found = _AccessCollector(arguments)
    if arguments:
        found.visit(func.body)
    return list(found.needed.items())


def with_least_sizes(program: ir.IRModule, lowered: ir.IRModule) -> ir.IRModule:
    """`lowered` with assertions on the sizes that the functions of `program`, before the passes, need."""
    needed = {var.name_hint: least_sizes(func) for var, func in program.functions.items()}
    if not any(needed.values()):
        return lowered
    return ir.IRModule({var: with_conditions(f, needed.get(var.name_hint, [])) for var, f in lowered.functions.items()})


def with_conditions(func: ir.PrimFunc, conditions: Sequence[tuple[ir.PrimExpr, str]]) -> ir.PrimFunc:
    """`func` with an assertion for each condition on its sizes, with the message of its error."""
    sizes = {v for b in func.buffer_map.values() for e in b.shape for v in variables_in(e)} | set(func.params)
    body = func.body
    for condition, message in reversed(conditions):
        if set(variables_in(condition)) <= sizes:
            body = ir.AssertStmt(condition, ir.StringImm(message), body)
    return func if body is func.body else func.with_(body=body)


class _AccessCollector(ir.Visitor):
    """What each access needs, in the order of the program."""

    def __init__(self, arguments: set[ir.Buffer]) -> None:
        self.arguments = arguments
        self.needed: dict[ir.PrimExpr, str] = {}
        self.analyzer = Analyzer()
        self.bound: dict[ir.Var, ir.PrimExpr] = {}  # the variables that are not loops'
        self.loops: list[tuple[ir.Var, ir.PrimExpr, ir.PrimExpr]] = []
        self.conditions: list[ir.PrimExpr] = []

    @contextmanager
    def _if(self, condition: ir.PrimExpr) -> Generator[None]:
        parts = [ir.substitute(strip_likely(c), self.bound) for c in operands(condition, ir.And)]
        self.conditions += parts
        yield
        del self.conditions[len(self.conditions) - len(parts) :]

    def _in_loop(self, node: ir.For | ir.AttrStmt, var: ir.Var, begin: ir.PrimExpr, extent: ir.PrimExpr) -> None:
        extent = ir.substitute(extent, self.bound)
        self.loops.append((var, ir.substitute(begin, self.bound), extent))
        with self._if(extent > 0):
            self.visit(node.body)
        self.loops.pop()

    def _iteration(self, at_the_end: set[ir.Var]) -> dict[ir.Var, ir.PrimExpr]:
        """The first iteration of the loops, but the last of those whose variables are `at_the_end`."""
        values: dict[ir.Var, ir.PrimExpr] = {}
        for var, begin, extent in self.loops:
            values[var] = ir.substitute(begin, values)
            if var in at_the_end:
                values[var] = values[var] + (ir.substitute(extent, values) - 1)
        return values

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self._in_loop(node, node.loop_var, node.min, node.extent)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if launches_thread(node) and all(node.node.var is not var for var, _, _ in self.loops):
            self._in_loop(node, node.node.var, ir.IntImm(node.value.dtype, 0), node.value)
        else:
            self.visit(node.body)

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        self.visit(node.value)
        self.bound[node.var] = ir.substitute(node.value, self.bound)
        self.visit(node.body)

    @ir.handles(ir.BlockRealize)
    def block(self, node: ir.BlockRealize) -> None:
        for iv, value in zip(node.block.iter_vars, node.iter_values):
            self.bound[iv.var] = ir.substitute(value, self.bound)
        with self._if(node.predicate):
            self.visit(node.block.body)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        self.visit(node.condition)
        with self._if(node.condition):
            self.visit(node.then_case)
        if node.else_case is not None:
            with self._if(ir.ops.logical_not(node.condition)):
                self.visit(node.else_case)

    @ir.handles(ir.While)
    def repeat(self, node: ir.While) -> None:
        with self._if(node.condition):
            self.visit(node.body)

    @ir.handles(ir.Select, ir.And, ir.Or)
    def choice(self, node: ir.Select | ir.And | ir.Or) -> None:
        self.visit(node.condition if isinstance(node, ir.Select) else node.a)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        for argument in node.args[:1] if is_call(node, "tir.if_then_else") else node.args:
            self.visit(argument)

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        self.visit_children(node)
        if node.buffer not in self.arguments:
            return
        for axis, (index, size) in enumerate(zip(node.indices, node.buffer.shape)):
            if isinstance(size, ir.IntImm) or index.dtype.is_vector:
                continue
            index = ir.substitute(index, self.bound)
            used = set(variables_in(index))
            constant = {var for var, _, extent in self.loops if var in used and isinstance(extent, ir.IntImm)}
            ends: list[set[ir.Var]] = [set(), constant] if constant else [set()]
            for at_the_end in ends:
                values = self._iteration(at_the_end)
                at = self.analyzer.simplify(ir.substitute(index, values))
                if isinstance(at, ir.IntImm):
                    self._need(node.buffer, axis, at, size, values)

    def _need(
        self, buffer: ir.Buffer, axis: int, at: ir.IntImm, size: ir.PrimExpr, values: dict[ir.Var, ir.PrimExpr]
    ) -> None:
        """That `at` is inside if the iteration runs in which the loops have `values`."""
        inside = self.analyzer.simplify(at < size)
        runs = [self.analyzer.simplify(ir.substitute(c, values)) for c in self.conditions]
        runs = [c for c in runs if not (isinstance(c, ir.IntImm) and c.value)]
        if any(loads_memory(c) or isinstance(c, ir.IntImm) for c in (size, *runs)):  # a constant: it does not run
            return
        wanted = inside
        for condition in runs:
            with self.analyzer.constraint_scope(condition):
                if self.analyzer.can_prove(inside):
                    return
            wanted = ir.ops.logical_or(self.analyzer.simplify(ir.ops.logical_not(condition)), wanted)
        said = (
            f"`{buffer.name}` is accessed at {at.value} of axis {axis}: its size there has to be more than {at.value}"
        )
        if all(not ir.structural_equal(wanted, known) for known in self.needed):
            self.needed[wanted] = said
