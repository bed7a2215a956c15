"""How a late pass is declared, and the facts that several of them need.

A late pass rewrites the lowered program for one processor. All that is decided on the way to machine code is then in the
program: the emitter writes down what it gets.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.intervals import Intervals
from tvmagic.codegen.late.work_estimate import Work
from tvmagic.ir.constants import largest_integer
from tvmagic.ir.loop_annotations import ANY_ORDER, KEEP_SCALAR, MADE_BY, POLL, STACK, annotation, is_kept_scalar
from tvmagic.ir.query import has_node, is_call, nodes_of, variables_in
from tvmagic.ir.semantics import Neutral
from tvmagic.passes import Pass, PassContext, note
from tvmagic.target import Target

__all__ = [
    "ANY_ORDER",
    "KEEP_SCALAR",
    "LATE_PASSES",
    "MADE_BY",
    "MOST_LOOPS",
    "MOST_OPERATIONS",
    "POLL",
    "STACK",
    "ExpressionMutator",
    "NotApplicable",
    "StatementMutator",
    "When",
    "Census",
    "annotation",
    "are_disjoint",
    "census",
    "disjoint_memory",
    "extent_from",
    "has_many_operations",
    "is_split",
    "is_kept_scalar",
    "keep_scalar",
    "late_pass",
    "memory_groups",
    "on_cpus",
    "on_threaded_targets",
    "unchecked",
    "unchecked_on_cpus",
    "work_of",
]

# Operations of a function from which on passes and LLVM do not unroll more loops: the time to emit a function grows faster
# than the function.
MOST_OPERATIONS = 16384

# True, or the reason why a pass does not apply to a target, or to a build that checks bounds.
When = Callable[[Target, bool], "Literal[True] | str"]
LatePass = Callable[..., Pass]
LATE_PASSES: dict[str, LatePass] = {}


class NotApplicable(Exception):
    """A pass does not apply to a part of the program, for the reason given."""


def late_pass(name: str, when: When | None = None) -> Callable[[Callable[..., Any]], LatePass]:
    """Declare the late pass `late.<name>` by a function from `func: PrimFunc` to `PrimFunc`, or from `mod: IRModule` to `IRModule`.

    The function returns its argument if nothing changed. It may take `target: Target`, `check_bounds: bool` and options. What is declared makes
    the pass: `VersionGuardedLoops(target, check_bounds)`. If `when` returns a reason, the pass adds it as a note and changes nothing.
    """

    def declare(function: Callable[..., Any]) -> LatePass:
        parameters = inspect.signature(function).parameters

        def make(target: Target, check_bounds: bool = False, **options: Any) -> Pass:
            facts = {"target": target, "check_bounds": check_bounds}
            given = {**{name: fact for name, fact in facts.items() if name in parameters}, **options}

            def run(mod: ir.IRModule, _: PassContext) -> ir.IRModule:
                applies = when(target, check_bounds) if when is not None else True
                applies = "not measured for OpenCL" if target.is_opencl else applies
                if applies is not True:
                    note("late", f"skipped: {applies}")
                    return mod
                change = functools.partial(function, **given)
                return change(mod) if "mod" in parameters else mod.map_functions(change)

            return Pass(f"late.{name}", run, options={"target": str(target), **options}, doc=function.__doc__)

        make.__name__, make.__doc__ = name, function.__doc__
        LATE_PASSES[name] = make
        return make

    return declare


# ---------------------------------------------------------------------------- where passes apply


def on_cpus(target: Target, check_bounds: bool) -> Literal[True] | str:
    """Apply on processors, with and without bounds checks."""
    return "kernels are compiled by the device's compiler" if target.family.launches else True


def unchecked_on_cpus(target: Target, check_bounds: bool) -> Literal[True] | str:
    """Apply on processors, to builds without bounds checks."""
    applies = unchecked(target, check_bounds)
    return on_cpus(target, check_bounds) if applies is True else applies


def unchecked(target: Target, check_bounds: bool) -> Literal[True] | str:
    """Apply to builds without bounds checks."""
    return "bounds checks need the accesses as they are" if check_bounds else True


def on_threaded_targets(target: Target, check_bounds: bool) -> Literal[True] | str:
    """Apply on targets that have the runtime's threads."""
    return True if target.family.has_threads else "not measured on targets without threads"


# ---------------------------------------------------------------------------- memory


def memory_groups(arguments: Iterable[ir.Var], noalias: bool, body: ir.Stmt) -> dict[ir.Var, object]:
    """Return the memory behind each pointer of a function: an argument's, its own if arguments do not alias, or an allocation's."""
    groups: dict[ir.Var, object] = {pointer: pointer if noalias else "parameters" for pointer in arguments}
    return groups | {node.buffer_var: node.buffer_var for node in nodes_of(body, ir.Allocate, ir.AllocateConst)}


def are_disjoint(groups: Mapping[ir.Var, object], a: ir.Var, b: ir.Var) -> bool:
    """Return whether two pointers provably lead to disjoint memory."""
    return a in groups and b in groups and groups[a] != groups[b]


def disjoint_memory(func: ir.PrimFunc, volatile: bool = True) -> Callable[[ir.Var, ir.Var], bool]:
    """Return a function that tells whether two pointers provably lead to disjoint memory.

    Unless `volatile`, accesses of volatile memory count as overlapping all others.
    """
    arguments = [buffer.data for buffer in func.buffer_map.values()]
    groups = memory_groups(arguments, bool(func.attrs.get("tir.noalias", False)), func.body)
    if not volatile:
        for node in nodes_of(func.body, ir.AttrStmt):
            if node.attr_key == "volatile_scope":
                groups.pop(node.node, None)
    return functools.partial(are_disjoint, groups)


# ---------------------------------------------------------------------------- loops


def extent_from(begin: ir.PrimExpr, extent: ir.PrimExpr) -> ir.PrimExpr:
    """Return the extent of a loop from `begin` on, simplified as by the parser, which reads it from the end of the loop."""
    return Analyzer().simplify(begin + extent - begin)


def keep_scalar(loop: ir.For) -> ir.For:
    """Return the loop with the annotation that LLVM must not vectorize it."""
    if is_kept_scalar(loop):
        return loop
    return loop.with_(annotations={**loop.annotations, KEEP_SCALAR: ir.IntImm("bool", 0)})


def has_many_operations(body: ir.Stmt) -> bool:
    """Return whether a function is so large that no pass makes it larger."""
    return work_of(body).written > MOST_OPERATIONS


# Loops of a program whose code is one LLVM function; they take LLVM less than half a second.
MOST_LOOPS = 128


def is_split(body: ir.Stmt, loops: int) -> bool:
    """Return whether the body of a function with so many loops is split. One with a return inside is not."""
    return loops > MOST_LOOPS and not has_node(body, _prevents_split)


def _prevents_split(node: object) -> bool:
    """Return whether a node returns from the function, or binds a pointer, which may be to an array that is copied."""
    return is_call(node, "tir.ret") or (isinstance(node, ir.LetStmt) and node.var.dtype.is_handle)


_Answer = TypeVar("_Answer")


def _once_per_body(function: Callable[[Any], _Answer]) -> Callable[[Any], _Answer]:
    """Cache the last answer: passes that change nothing ask about the same body."""
    last: tuple[Any, _Answer] | None = None

    @functools.wraps(function)
    def asked(body: Any) -> _Answer:
        nonlocal last
        found = last  # another thread may replace it
        if found is None or found[0] is not body:
            found = last = body, function(body)
        return found[1]

    return asked


@_once_per_body
def work_of(body: ir.Stmt) -> Work:
    """Return the estimate of the work in a body."""
    return Work(body)


@dataclass
class Census:
    """Whether a body has what some late passes look for, so that the others need not walk it."""

    masks: bool = False  # predicates of accesses
    odd_vectors: bool = False  # stores of vectors whose lanes are not a power of two
    strided_loads: bool = False  # of vectors
    narrowing_casts: bool = False  # of integers, to 8 or 16 bits
    bool_max: bool = False
    identities: bool = False  # elements of min and max that texts write as finite numbers
    choices: bool = False  # selects, conditionals, and conditions of several parts


@_once_per_body
def census(body: ir.Stmt) -> Census:
    """Return what a body has of the things that late passes look for, found in one walk."""
    found = Census()

    def look(node: object) -> None:
        if isinstance(node, (ir.BufferLoad, ir.BufferStore)):
            found.masks |= node.predicate is not None
            if isinstance(node, ir.BufferStore):
                lanes = node.value.dtype.lane_code
                found.odd_vectors |= lanes > 1 and bool(lanes & (lanes - 1))
            elif node.indices and isinstance(node.indices[-1], ir.Ramp):
                stride = node.indices[-1].stride
                found.strided_loads |= not (isinstance(stride, ir.IntImm) and stride.value == 1)
        elif isinstance(node, ir.FloatImm):
            found.identities |= type(node.value) is Neutral
        elif isinstance(node, (ir.And, ir.Or, ir.Select)) or is_call(node, "tir.if_then_else"):
            found.choices = True
        elif isinstance(node, ir.Cast):
            source, target = node.value.dtype, node.dtype
            narrowing = 8 <= target.bits <= 16 < source.bits and not source.is_float and not target.is_float
            found.narrowing_casts |= narrowing
            found.bool_max |= target.is_int and source.is_bool and isinstance(node.value, ir.Max)

    ir.post_order_visit(body, look)
    return found


class StatementMutator(ir.Mutator):
    """Rewrites statements; expressions are unchanged unless a subclass handles them.

    Below a loop with `pragma_any_order`, `any_order` is true. `intervals` bounds the integers in scope.
    """

    def __init__(self, func: ir.PrimFunc) -> None:
        self.any_order = False
        self.intervals = Intervals()
        known = {*func.params, *(buffer.data for buffer in func.buffer_map.values())}
        for buffer in func.buffer_map.values():
            for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                for var in variables_in(part):
                    if var not in known:
                        self.intervals.known[var] = (0, largest_integer(var.dtype))

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if node.attr_key != ANY_ORDER or self.any_order:
            return self.visit_children(node)
        self.any_order = True
        made = self.visit_children(node)
        self.any_order = False
        return made

    @ir.handles(ir.LetStmt)
    def let_statement(self, node: ir.LetStmt) -> ir.Stmt:
        value = self.visit(node.value)
        if value.dtype.is_index:
            self.intervals.define(node.var, value)
        return node.with_(value=value, body=self.visit(node.body))

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        first, extent = self.visit(node.min), self.visit(node.extent)
        self.intervals.counts(node.loop_var, extent, first)
        return node.with_(min=first, extent=extent, body=self.visit(node.body))

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        with self.intervals.where(condition):
            then = self.visit(node.then_case)
        other = None if node.else_case is None else self.visit(node.else_case)
        return node.with_(condition=condition, then_case=then, else_case=other)

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> ir.PrimExpr:
        value = self.visit(node.value)
        if value.dtype.is_index:
            self.intervals.define(node.var, value)
        return node.with_(value=value, body=self.visit(node.body))


class ExpressionMutator(StatementMutator):
    """Rewrites expressions in statements, too."""

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return self.visit_children(node)
