"""Questions about expressions that passes of all levels ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard, TypeVar

from tvmagic.ir.expr import IntImm, Var
from tvmagic.ir.functor import Visitor, handles, post_order_visit, pre_order_visit
from tvmagic.ir.iteration import IterVar
from tvmagic.ir.node import Node
from tvmagic.ir.operators import Add, BinaryOp, Call, Mul, Sub
from tvmagic.ir.prim_expr import PrimExpr
from tvmagic.ir.stmt import AttrStmt

_Kind = TypeVar("_Kind", bound=Node)


class _UndefinedVarCollector(Visitor):
    def __init__(self) -> None:
        self.found: list[Var] = []

    @handles(Var)
    def var(self, var: Var) -> Any:
        self.found.append(var)


def variables_in(expr: Node) -> list[Var]:
    """The variables in an expression or a statement, each as often as it occurs, from left to right.

    The pointers and sizes of the buffers that are accessed do not count.
    """
    if isinstance(expr, Var):
        return [expr]
    finder = _UndefinedVarCollector()
    if not isinstance(expr, IntImm):
        finder.visit(expr)
    return finder.found


def variables_behind(values: Iterable[PrimExpr], lets: Mapping[Var, PrimExpr]) -> set[Var]:
    """The variables that values depend on: those in them, and those in what `lets` binds such a variable to."""
    found: set[Var] = set()
    pending = list(values)
    while pending:
        for var in variables_in(pending.pop()):
            if var not in found:
                found.add(var)
                if var in lets:
                    pending.append(lets[var])
    return found


def contains(root: Node, *kinds: type[Node]) -> bool:
    """Whether a node is of one of these classes, or one below it is."""
    return has_node(root, lambda node: isinstance(node, kinds))


def has_node(root: Node, holds: Callable[[Any], bool]) -> bool:
    """Whether `holds` is true of a node or of one below it. Parents come first; nothing is asked after the first hit."""
    found = False

    def look(node: Node) -> bool:
        nonlocal found
        found = found or holds(node)
        return not found

    pre_order_visit(root, look)
    return found


def nodes_of(root: Node, *kinds: type[_Kind]) -> list[_Kind]:
    """The nodes of some classes in a node and below it, operands first: `[A[i], B[A[i]]]` for the loads of `B[A[i]]`."""
    found: list[_Kind] = []
    post_order_visit(root, lambda node: found.append(node) if isinstance(node, kinds) else None)
    return found


def is_zero(value: Any) -> bool:
    """Whether an expression is the constant 0."""
    return getattr(value, "value", None) == 0


def is_one(value: Any) -> bool:
    """Whether an expression is the constant 1 (or true)."""
    return getattr(value, "value", None) == 1


def operands(e: PrimExpr, op: type[BinaryOp]) -> list[PrimExpr]:
    """What `e` joins by the operator `op`, from left to right: `[a, b, c]` of `a + (b + c)` for `Add`."""
    found: list[PrimExpr] = []
    todo = [e]
    while todo:
        part = todo.pop()
        if isinstance(part, op):
            todo += (part.b, part.a)
        else:
            found.append(part)
    return found


def linear_terms(e: PrimExpr) -> tuple[list[tuple[PrimExpr, int]], int]:
    """`e` as a sum from left to right: each term with the integer that it is multiplied by, and the constant."""
    terms: list[tuple[PrimExpr, int]] = []
    constant = 0
    todo = [(e, 1)]
    while todo:
        part, factor = todo.pop()
        if isinstance(part, IntImm):
            constant += factor * part.value
        elif isinstance(part, (Add, Sub)):
            todo += ((part.b, factor if isinstance(part, Add) else -factor), (part.a, factor))
        elif isinstance(part, Mul) and isinstance(part.b, IntImm):
            todo.append((part.a, factor * part.b.value))
        elif isinstance(part, Mul) and isinstance(part.a, IntImm):
            todo.append((part.b, factor * part.a.value))
        else:
            terms.append((part, factor))
    return terms, constant


def callee(call: Any) -> str:
    """The name of the operator that a call is of (`tir.exp`); empty if it calls a function of the module."""
    return getattr(call.op, "name", "")


def is_call(node: Any, name: str) -> TypeGuard[Call]:
    """Whether `node` is a call of the operator `name` (`tir.likely`)."""
    return isinstance(node, Call) and callee(node) == name


def strip_likely(condition: PrimExpr) -> PrimExpr:
    """The condition inside `likely(...)`."""
    return condition.args[0] if is_call(condition, "tir.likely") else condition


def launches_thread(node: Any) -> TypeGuard[AttrStmt]:
    """Whether a statement gives the extent of a thread, real or virtual: its `node` is the thread's `IterVar`."""
    return (
        isinstance(node, AttrStmt)
        and node.attr_key in ("thread_extent", "virtual_thread")
        and isinstance(node.node, IterVar)
    )


def is_access_ptr(call: Any) -> bool:
    """Whether a call is `tvm_access_ptr(type, pointer, offset, extent, mask)`."""
    return is_call(call, "tir.tvm_access_ptr")
