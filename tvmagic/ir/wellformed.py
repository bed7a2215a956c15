"""Whether a program is well-formed: every name is defined once, before and around its uses.

Found too: loop variables used inside a block past its bindings, blocks without bindings, and
accesses that the regions of their block do not name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tvmagic.errors import TVMagicError
from tvmagic.ir.buffer import Buffer, BufferRegion, MatchBufferRegion
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.expr import (
    Add,
    BufferLoad,
    Call,
    CommReducer,
    IntImm,
    IterVar,
    Let,
    Mul,
    PrimExpr,
    Range,
    Reduce,
    Select,
    Sub,
    Var,
)
from tvmagic.ir.function import IRModule, PrimFunc
from tvmagic.ir.functor import Visitor, handles
from tvmagic.ir.node import Node
from tvmagic.ir.op import Op
from tvmagic.ir.path import ObjectPath
from tvmagic.ir.prim_expr import MAPPINGS, TUPLES
from tvmagic.ir.query import variables_in
from tvmagic.ir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
)


class Problem(NamedTuple):
    """One way in which a program is not well-formed, the part that it is about, and what that is in.

    `inside`: the function and the statements around the part, outermost first. `further`: what else the message says,
    after the place.
    """

    message: str
    node: Any
    inside: tuple[Any, ...]
    further: str = ""

    def text(self, path: ObjectPath | None = None) -> str:
        """The whole message, with the place if it is given."""
        place = "" if path is None else f" at {path}"
        return f"{self.message}{place}. {self.further}" if self.further else f"{self.message}{place}"

    def path(self, root: Any) -> ObjectPath:
        """The path to the part from the function or module that was checked."""
        path, part = ObjectPath.root(), root
        for target in (*self.inside, self.node):
            steps = _steps_to(part, target)
            if steps is None:
                break
            for step in steps:
                path = path.then(*step)
            part = target
        return path


def _steps_to(part: Any, target: Any) -> tuple[tuple[str, Any], ...] | None:
    """The steps from a part to one inside it, other statements left out."""
    if part is target:
        return ()
    stack: list[tuple[Any, tuple[tuple[str, Any], ...]]] = [(part, ())]
    while stack:
        node, steps = stack.pop()
        inner: list[tuple[Any, tuple[str, Any]]] = []
        if isinstance(node, TUPLES):
            inner = [(item, ("index", i)) for i, item in enumerate(node)]
        elif isinstance(node, MAPPINGS):
            inner = [(item, ("key", key)) for key, item in node.items()]
        elif isinstance(node, Node):
            inner = [(getattr(node, f.name), ("attr", f.name)) for f in type(node).FIELDS]
        for item, step in inner:
            if item is target:
                return (*steps, step)
        stack += [(i, (*steps, s)) for i, s in reversed(inner) if not isinstance(i, (Stmt, PrimFunc, str))]
    return None


class WellFormednessError(TVMagicError, ValueError):
    """A program is not well-formed."""


_IF_THEN_ELSE = Op.get("tir.if_then_else")


class _Scope(NamedTuple):
    """A block that is being walked."""

    block: Block
    loops_outside: frozenset[Var]
    conditions: int


class _Checker(Visitor):
    """Walks a function with the names in scope."""

    def __init__(self, regions: bool) -> None:
        self.regions = regions
        self.problems: list[Problem] = []
        self.in_scope: dict[Var, Any] = {}
        self.ever_defined: set[Var] = set()
        self.threads: set[Var] = set()
        self.loops: dict[Var, For] = {}
        self.blocks: list[_Scope] = []
        self.conditions = 0
        self._opened: list[list[Var]] = [[]]
        self._place: list[Any] = []

    def report(self, message: str, node: Any = None, further: str = "") -> None:
        self.problems.append(
            Problem(message, node if node is not None else self._place[-1], tuple(self._place), further)
        )

    # ------------------------------------------------------------------ names

    def define(self, var: Var, place: Any = None) -> None:
        if var in self.in_scope:
            self.report(f"ill-formed, due to multiple nested definitions of variable {var.name}", place)
            return
        if var in self.ever_defined:
            self.report(f"ill-formed, due to multiple definitions of variable {var.name}", place)
        self.ever_defined.add(var)
        self.in_scope[var] = place
        self._opened[-1].append(var)

    def define_all_in(self, buffer: Buffer) -> None:
        """Define what a parameter's or matched buffer brings with it, if it is new."""
        for part in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
            for var in variables_in(part):
                if var not in self.in_scope:
                    self.define(var, buffer)

    def visit_var_def(self, var: Var) -> Var:
        self.define(var)
        return var

    def visit_buffer_def(self, buffer: Buffer) -> Buffer:
        self.buffer_is_known(buffer)
        return buffer

    def visit_buffer_use(self, buffer: Buffer) -> Buffer:
        self.buffer_is_known(buffer)
        return buffer

    def buffer_is_known(self, buffer: Buffer) -> None:
        if buffer.data not in self.in_scope:
            state = "is no longer in scope" if buffer.data in self.ever_defined else "is not declared"
            self.report(f"Invalid use of buffer `{buffer.name}`, which {state}")

    @handles(Var)
    def use(self, var: Var) -> None:
        if var not in self.in_scope:
            further = f"The definition of {var.name} is no longer in-scope." if var in self.ever_defined else ""
            self.report(f"Invalid use of undefined variable {var.name}", var, further)
        elif self.blocks and var in self.blocks[-1].loops_outside:
            block = self.blocks[-1].block
            self.report(
                f"loop variable `{var.name}` is used inside block `{block.name_hint}` past the block's bindings", var
            )

    # ------------------------------------------------------------------ scopes

    @handles(Stmt)
    def statement(self, node: Stmt) -> None:
        self._place.append(node)
        self.visit_children(node)
        self._place.pop()

    @handles(Let, Reduce)
    def expression_scope(self, node: Let | Reduce) -> None:
        self._opened.append([])
        self.visit_children(node)
        self.close()

    def close(self) -> None:
        for var in self._opened.pop():
            self.in_scope.pop(var, None)

    @handles(For)
    def loop(self, node: For) -> None:
        self._place.append(node)
        self._opened.append([])
        self.visit(node.min)
        self.visit(node.extent)
        self.define(node.loop_var)
        self.loops[node.loop_var] = node
        self.visit(node.body)
        self.loops.pop(node.loop_var, None)
        self.close()
        self._place.pop()

    @handles(LetStmt, Allocate, AllocateConst, DeclBuffer, BufferRealize, AttrStmt, AssertStmt)
    def scopes(self, node: Any) -> None:
        """Walk statements that define something for their bodies, one inside the other."""
        depth = len(self._place)
        while type(node) in _OPENERS:
            self._place.append(node)
            self._opened.append([])
            _OPENERS[type(node)](self, node)
            node = node.body
        self.visit(node)
        while len(self._place) > depth:
            self.close()
            self._place.pop()

    def open_let(self, node: LetStmt) -> None:
        self.visit(node.value)
        self.define(node.var)

    def open_allocation(self, node: Allocate | AllocateConst) -> None:
        for extent in node.extents:
            self.visit(extent)
        if isinstance(node, Allocate):
            self.visit(node.condition)
        self.define(node.buffer_var)

    def open_realize(self, node: BufferRealize) -> None:
        self.define_all_in(node.buffer)
        for part in (*node.bounds, node.condition):
            self.visit(part)

    def open_attribute(self, node: AttrStmt) -> None:
        self.visit(node.value)
        if node.attr_key == "buffer_bind_scope" and isinstance(node.node, TUPLES):
            self.define_all_in(node.node[0])  # the first buffer is the region of the second one that the value says
        if isinstance(node.node, IterVar):
            self.thread(node.node)

    def open_assertion(self, node: AssertStmt) -> None:
        self.visit(node.condition)
        self.visit(node.message)

    def thread(self, axis: IterVar) -> None:
        """Threads may be bound several times in a function, each time to the same extent."""
        if axis.var in self.ever_defined and axis.var not in self.threads:
            self.report(f"ill-formed, due to multiple definitions of variable {axis.var.name}", axis)
        else:
            self.threads.add(axis.var)
            self.ever_defined.add(axis.var)
            if axis.var not in self.in_scope:
                self.in_scope[axis.var] = axis
                self._opened[-1].append(axis.var)

    @handles(CommReducer)
    def reducer(self, node: CommReducer) -> None:
        self._opened.append([])
        for var in (*node.lhs, *node.rhs):
            self.in_scope[var] = node
            self._opened[-1].append(var)
        for part in (*node.result, *node.identity_element):
            self.visit(part)
        self.close()

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        self._place.append(node)
        self.visit(node.condition)
        self.conditions += 1
        self.visit(node.then_case)
        if node.else_case is not None:
            self.visit(node.else_case)
        self.conditions -= 1
        self._place.pop()

    @handles(Select, Call)
    def guarded(self, node: Select | Call) -> None:
        guards = isinstance(node, Select) or node.op is _IF_THEN_ELSE
        self.conditions += guards
        self.visit_children(node)
        self.conditions -= guards

    # ------------------------------------------------------------------ blocks

    @handles(BlockRealize)
    def block_realize(self, node: BlockRealize) -> None:
        self._place.append(node)
        for value in node.iter_values:
            self.visit(value)
        self.visit(node.predicate)
        block = node.block
        if len(node.iter_values) != len(block.iter_vars):
            self.report(
                f"block `{block.name_hint}` has {len(block.iter_vars)} iteration variables, "
                f"{len(node.iter_values)} are bound"
            )
        guarded = not (isinstance(node.predicate, IntImm) and node.predicate.value == 1)
        self.conditions += guarded
        self.block_inside(block)
        self.conditions -= guarded
        self._place.pop()

    @handles(Block)
    def bare_block(self, node: Block) -> None:
        self._place.append(node)
        self.report(f"block `{node.name_hint}` is run without bindings for its iteration variables")
        self.block_inside(node)
        self._place.pop()

    def block_inside(self, block: Block) -> None:
        self._place.append(block)
        self._opened.append([])
        for axis in block.iter_vars:
            if axis.dom is not None:
                self.visit(axis.dom)
        for axis in block.iter_vars:
            self.define(axis.var, axis)
        for buffer in block.alloc_buffers:
            self.define_all_in(buffer)
        outside = frozenset(self.loops) if block.iter_vars else frozenset[Var]()
        self.blocks.append(_Scope(block, outside, self.conditions))
        for match in block.match_buffers:
            self.matched(match)
        for region in (*block.reads, *block.writes):
            self.visit(region)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        self.blocks.pop()
        self.close()
        self._place.pop()

    def matched(self, match: MatchBufferRegion) -> None:
        self.visit(match.source)
        self.define_all_in(match.buffer)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        self._place.append(node)
        self.visit_children(node)
        self.access(node, node.buffer, node.indices, "write")
        self._place.pop()

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.visit_children(node)
        self.access(node, node.buffer, node.indices, "read")

    def access(self, node: Any, buffer: Buffer, indices: tuple[PrimExpr, ...], kind: str) -> None:
        """Check an access against the regions of the innermost block."""
        if not self.blocks or not self.regions:
            return
        block = self.blocks[-1].block
        if not block.iter_vars and not block.reads and not block.writes:
            return  # the root block, whose regions are left open
        if any(buffer is own for own in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers))):
            return
        regions = block.writes if kind == "write" else (*block.reads, *block.writes)
        declared = [r for r in regions if r.buffer.data is buffer.data]
        if not declared:
            self.report(
                f"block `{block.name_hint}` {kind}s buffer `{buffer.name}`, which its {kind}s do not name", node
            )
        elif self.conditions == self.blocks[-1].conditions and all(self._outside(r, buffer, indices) for r in declared):
            self.report(
                f"block `{block.name_hint}` {kind}s buffer `{buffer.name}` outside the region of its {kind}s", node
            )

    def _outside(self, region: BufferRegion, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> bool:
        """Whether an access certainly leaves a region for some iteration of the loops in the block."""
        if region.buffer is not buffer or len(region.region) != len(indices):
            return False
        outside = self.blocks[-1].loops_outside
        return any(
            _leaves(index, r, {v: loop for v, loop in self.loops.items() if v not in outside})
            for r, index in zip(region.region, indices)
        )

    # ------------------------------------------------------------------ functions

    def function(self, function: PrimFunc) -> None:
        self._place.append(function)
        self._opened.append([])
        self.threads = set()
        for param in function.params:
            self.define(param, param)
        for param in function.params:
            buffer = function.buffer_map.get(param)
            if buffer is not None:
                self.define_all_in(buffer)
        for param in function.buffer_map:
            if param not in self.in_scope:
                self.report(f"the buffer `{function.buffer_map[param].name}` is matched to no parameter")
        self.visit(function.body)
        self.close()
        self._place.pop()


_OPENERS: dict[type, Callable[[_Checker, Any], None]] = {
    LetStmt: _Checker.open_let,
    Allocate: _Checker.open_allocation,
    AllocateConst: _Checker.open_allocation,
    DeclBuffer: lambda checker, node: checker.buffer_is_known(node.buffer),
    BufferRealize: _Checker.open_realize,
    AttrStmt: _Checker.open_attribute,
    AssertStmt: _Checker.open_assertion,
}


def _leaves(index: PrimExpr, region: Range, loops: dict[Var, For]) -> bool:
    """Whether an index certainly leaves a range for some iteration of loops of constant extent.

    Only affine indices are judged: their distance to the begin of the range has exact bounds.
    """
    distance = _affine(index, 1, _affine(region.min, -1, {}))
    if distance is None or not isinstance(region.extent, IntImm):
        return False
    low = high = distance.pop(None, 0)
    for var, factor in distance.items():
        if factor == 0:
            continue
        loop = loops.get(var) if var is not None else None
        if loop is None or not isinstance(loop.min, IntImm) or not isinstance(loop.extent, IntImm):
            return False
        ends = factor * loop.min.value, factor * (loop.min.value + loop.extent.value - 1)
        low, high = low + min(ends), high + max(ends)
    return low < 0 or high >= region.extent.value


def _affine(expr: PrimExpr, factor: int, terms: dict[Var | None, int] | None) -> dict[Var | None, int] | None:
    """`terms` with `factor * expr` added: factors by variable, the constant under None.

    None if an expression is not affine.
    """
    if terms is None:
        return None
    if isinstance(expr, (Var, IntImm)):
        key, amount = (expr, factor) if isinstance(expr, Var) else (None, factor * expr.value)
        return {**terms, key: terms.get(key, 0) + amount}
    if isinstance(expr, (Add, Sub)):
        return _affine(expr.b, factor if isinstance(expr, Add) else -factor, _affine(expr.a, factor, terms))
    if isinstance(expr, Mul) and isinstance(expr.b, IntImm):
        return _affine(expr.a, factor * expr.b.value, terms)
    return None


def find_problems(obj: PrimFunc | IRModule, regions: bool = True) -> list[Problem]:
    """All ways in which a function, or the functions of a module, are not well-formed.

    With `regions`, accesses outside the regions that their block declares count too.
    """
    checker = _Checker(regions)
    functions = [f for _, f in obj.functions_items()] if isinstance(obj, IRModule) else [obj]
    for function in functions:
        checker.function(function)
    return checker.problems


@deep
def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True, check_regions: bool = False) -> bool:
    """Whether a function or module is well-formed.

    With `assert_mode`, a `WellFormednessError` tells the first problem and shows its place. Regions
    are checked only with `check_regions`: TVM accepts blocks whose accesses they do not cover.
    """
    problems = find_problems(obj, check_regions)
    if problems and assert_mode:
        problem = problems[0]
        path = problem.path(obj)
        shown = obj.script(path_to_underline=[path], num_context_lines=2)
        raise WellFormednessError(
            f"{problem.text(path)}:\n{shown}", node=problem.node, root=obj, code="program.not_well_formed"
        )
    return not problems
