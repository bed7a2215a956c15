"""InstrumentProfileIntrinsics: functions and loops are marked where a profiler is to measure them."""

from __future__ import annotations

from dataclasses import dataclass

from tvmagic import ir
from tvmagic.passes import PassContext
from tvmagic.tir.transform.declaration import tir_pass

# The next number of a function or loop: no two of a process are the same, unless `tir.reset_start_id` begins again.
_next_number = 0


def _next_id() -> int:
    global _next_number
    _next_number += 1
    return _next_number - 1


@tir_pass("tir.InstrumentProfileIntrinsics")
def InstrumentProfileIntrinsics(mod: ir.IRModule, context: PassContext) -> ir.IRModule:
    """Put `start_profile_intrinsic(n)` and `end_profile_intrinsic(n)` around each function and around its larger loops.

    Those are loops beside others (`tir.instr_siblings`, the default), or all down to a depth (`tir.lwp_max_depth`);
    none are loops with fewer than `tir.lwp_min_height` loops inside, and loops in parallel ones. Machine code for
    this computer leaves the calls out; a device's code generator gives them a meaning.
    """
    global _next_number
    if context.option("tir.reset_start_id", False):
        _next_number = 0
    rules = _Rules(
        whole=not context.option("tir.lwp_disable_func_prof", False),
        siblings=bool(context.option("tir.instr_siblings", True)),
        depth=int(context.option("tir.lwp_max_depth", 0)),
        height=int(context.option("tir.lwp_min_height", 1)),
    )
    marked = {var: _marked(f, rules) for var, f in mod.functions.items()}
    return mod.with_functions(marked)


@dataclass(frozen=True)
class _Rules:
    whole: bool
    siblings: bool
    depth: int
    height: int


def _marked(func: ir.PrimFunc, rules: _Rules) -> ir.PrimFunc:
    number = _next_id()
    loops = _Loops()
    loops.visit(func.body)
    body = _Marks(loops.found, rules).visit(func.body)
    return func.with_body(_around(number, body) if rules.whole else body)


def _around(number: int, body: ir.Stmt) -> ir.Stmt:
    start, end = (
        ir.Evaluate(ir.Call("handle", f"tir.{name}_profile_intrinsic", (ir.IntImm("int32", number),)))
        for name in ("start", "end")
    )
    return ir.SeqStmt.flatten(start, body, end)


@dataclass
class _Loop:
    number: int
    depth: int
    height: int = 0  # how many loops are nested in it
    has_siblings: bool = False
    in_parallel: bool = False


class _Loops(ir.Visitor):
    """Numbers the loops of a function in their order, and finds how deep and how high each is."""

    def __init__(self) -> None:
        self.found: dict[ir.For, _Loop] = {}

    @ir.handles(ir.For)
    def outermost(self, node: ir.For) -> None:
        self._visit_loop(node, 0, False)

    def _visit_loop(self, node: ir.For, depth: int, in_parallel: bool) -> int:
        """Look at one loop; gives its height."""
        loop = self.found[node] = _Loop(_next_id(), depth, in_parallel=in_parallel)
        # a parallel loop can be measured as a whole, but an outermost one's inside as well, as in TVM
        inside = in_parallel or (depth > 0 and node.kind is ir.ForKind.PARALLEL)
        loop.height = self._height(node.body, depth, inside)
        return loop.height

    def _height(self, stmt: ir.Stmt, depth: int, in_parallel: bool) -> int:
        """The height of the body of a loop of this depth: how many loops are nested in it."""
        if isinstance(stmt, (ir.LetStmt, ir.AttrStmt, ir.Allocate)):
            return self._height(stmt.body, depth, in_parallel)
        if isinstance(stmt, ir.IfThenElse):
            branches = [stmt.then_case] if stmt.else_case is None else [stmt.then_case, stmt.else_case]
            return max([self._height(branch, depth, in_parallel) for branch in branches])
        if isinstance(stmt, ir.For):
            return self._visit_loop(stmt, depth + 1, in_parallel) + 1
        if not isinstance(stmt, ir.SeqStmt):
            return 0
        loops = [part for part in stmt.seq if isinstance(part, ir.For)]
        height = 0
        for loop in loops:  # a loop counts as at least as high as those before it, as in TVM
            height = self.found[loop].height = max(height, self._visit_loop(loop, depth + 1, in_parallel))
            self.found[loop].has_siblings = len(loops) > 1
        return height + 1 if loops else 0


class _Marks(ir.StmtMutator):
    def __init__(self, loops: dict[ir.For, _Loop], rules: _Rules) -> None:
        self.loops, self.rules = loops, rules

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        loop, rules, new = self.loops.get(node), self.rules, self.visit_children(node)
        if loop is None or loop.in_parallel or loop.height < rules.height:
            return new
        wanted = loop.has_siblings if rules.siblings else loop.depth <= rules.depth
        return _around(loop.number, new) if wanted else new
