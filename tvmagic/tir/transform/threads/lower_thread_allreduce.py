"""LowerThreadAllreduce: reductions over threads, in steps.

In shared memory each thread puts its value into `red_buf*`; then half of the threads take in the values of the
other half, and so on, with a barrier after each step, until the first place has the result for all. The threads
of a warp can do the same by reading each other's registers (`warp_allreduce.py`).
"""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.ops import cast
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.threads.allreduce_plan import Allreduce, AllreduceFinder, Form, Warps, barrier
from tvmagic.tir.transform.threads.warp_allreduce import warp_allreduce
from tvmagic.tir.transform.with_analyzer import is_true


class _Rewriter(ir.Mutator):
    def __init__(self, found: AllreduceFinder) -> None:
        self.found, self.warps = found, found.warps
        self.analyzer = found.analyzer

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        plan = self.found.found.get(node)
        if plan is None:
            return self.visit_children(node)
        values: list[ir.PrimExpr] = [self.visit(source) for source in plan.sources]
        if not is_true(plan.condition):
            condition = self.visit(plan.condition)
            neutral = [cast(v.dtype, start) for v, start in zip(values, plan.reducer.identity_element)]
            values = [ir.Select(condition, v, start) for v, start in zip(values, neutral)]
        if plan.group.size == 1:
            return ir.SeqStmt.flatten(*[ir.BufferStore(b, v, (0,)) for b, v in zip(plan.results, values)])
        buffers = [self.found.placed[result.data] for result in plan.results]
        if plan.form is Form.SHARED:
            note("allreduce", f"{plan.group.size} threads reduce together in shared memory", node=node)
            steps = self._in_shared_memory(plan, values, buffers)
        else:
            note("allreduce", f"{plan.group.size} threads reduce together in the registers of their warps", node=node)
            steps = warp_allreduce(plan, values, buffers, self.warps.size)
        return ir.SeqStmt.flatten(steps, *self._copies(plan))

    def _copies(self, plan: Allreduce) -> list[ir.Stmt]:
        """Each thread's own copies of the results whose memory has other values too."""
        kept = [result for result in plan.results if self.found.keeps_memory(result.data)]
        return [ir.BufferStore(result, self.found.loads[result.data], (0,)) for result in kept]

    def _in_shared_memory(self, plan: Allreduce, values: list[ir.PrimExpr], buffers: list[ir.Buffer]) -> ir.Stmt:
        place = plan.group.place(plan.group.index, self.analyzer)
        stmts: list[ir.Stmt] = [barrier("shared")]  # threads may still read what was there before
        stmts += [ir.BufferStore(buffer, value, (place,)) for buffer, value in zip(buffers, values)]
        stmts.append(barrier("shared"))
        return ir.SeqStmt.flatten(*stmts, *_Tree(plan, buffers, place, self.analyzer).steps(self.warps.size))

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        body = self.visit(node.body)
        return node.with_(body=body)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        data = node.buffer.data
        if data not in self.found.loads or self.found.keeps_memory(data):
            return self.visit_children(node)
        return self.found.loads[data]

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        body = self.visit(node.body)
        buffer = self.found.placed.get(node.buffer_var)
        if buffer is None:
            return node.with_(body=body)
        if buffer.scope() == "shared":
            body = ir.AttrStmt(buffer.data, "volatile_scope", ir.IntImm("int32", 1), body, node.span)
        made = ir.Allocate(buffer.data, buffer.dtype, buffer.shape, ir.IntImm("bool", 1), body, span=node.span)
        return node.with_(body=made) if self.found.keeps_memory(node.buffer_var) else made

    @ir.handles(ir.DeclBuffer)
    def declaration(self, node: ir.DeclBuffer) -> ir.Stmt:
        if self.found.keeps_memory(node.buffer.data):
            return self.visit_children(node)
        return node.replace(buffer=self.found.placed.get(node.buffer.data, node.buffer), body=self.visit(node.body))


class _Tree:
    """The steps in which the threads of a group take in each other's values."""

    def __init__(self, plan: Allreduce, buffers: list[ir.Buffer], place: ir.PrimExpr, analyzer: Analyzer) -> None:
        self.reducer, self.group = plan.reducer, plan.group
        self.buffers, self.place, self.analyzer = buffers, place, analyzer

    def steps(self, warp_size: int) -> list[ir.Stmt]:
        group, stmts = self.group, list[ir.Stmt]()
        width = 1 << (group.size - 1).bit_length()
        if width > group.size:  # only some threads have a partner
            width //= 2
            stmts += self._step(width, group.size - width)
        aligned = group.count == 1 or group.contiguous % warp_size == 0
        while width > 1 and (width > group.contiguous or width > warp_size or not aligned):
            width //= 2
            stmts += self._step(width, width)
        if width > 1:
            stmts += self._in_warp(width)
        return stmts

    def _step(self, distance: int, active: int) -> list[ir.Stmt]:
        taken = ir.IfThenElse(self.group.index < active, self._store(self._combined(distance)))
        return [taken, barrier("shared")]

    def _in_warp(self, width: int) -> list[ir.Stmt]:
        """The last steps, by threads that run in step: loads and stores are apart, without a branch between."""
        half = width // 2
        stmts: list[ir.Stmt] = []
        for distance in (half >> n for n in range(half.bit_length())):
            values = self._combined(distance)
            kept = [ir.Var(f"w_{distance}_{i}", value.dtype) for i, value in enumerate(values)]
            body = ir.SeqStmt.flatten(barrier("warp"), self._store(list(kept)), barrier("warp"))
            for var, value in zip(kept, values):
                body = ir.LetStmt(var, value, body)
            stmts.append(body)
        return [ir.IfThenElse(self.group.index < half, ir.SeqStmt.flatten(*stmts)), barrier("shared")]

    def _combined(self, distance: int) -> list[ir.PrimExpr]:
        """A thread's values combined with those of the thread `distance` further."""
        further = self.group.place(self.group.index + distance, self.analyzer)
        values: dict[ir.Var, ir.PrimExpr] = {}
        for x, y, buffer in zip(self.reducer.lhs, self.reducer.rhs, self.buffers):
            values[x], values[y] = ir.BufferLoad(buffer, (self.place,)), ir.BufferLoad(buffer, (further,))
        return [ir.substitute(result, values) for result in self.reducer.result]

    def _store(self, values: list[ir.PrimExpr]) -> ir.Stmt:
        return ir.stored_together([ir.BufferStore(b, v, (self.place,)) for b, v in zip(self.buffers, values)])


def _warps_of(func: ir.PrimFunc) -> Warps:
    """The warps of the function's target; threads that each run for themselves without one."""
    target = func.attrs.get("target")
    attrs = getattr(target, "attrs", {})
    kind = str(getattr(target, "kind", ""))
    size, most = attrs.get("thread_warp_size", 1), attrs.get("max_num_threads", 0)
    return Warps(int(size), int(most), kind == "cuda")


@tir_pass("tir.LowerThreadAllreduce")
def LowerThreadAllreduce(func: ir.PrimFunc, warp_size: int | None = None) -> ir.PrimFunc:
    """Write reductions over threads (`tvm_thread_allreduce`) as steps in memory that the threads share.

    For functions with a target of CUDA (BindTarget) the threads of a warp read each other's registers instead,
    as TVM lets them. `warp_size`: how many threads run in step, so that they need no barrier among them in shared
    memory; that of the function's target unless given, else 1.
    """
    found = AllreduceFinder(_warps_of(func) if warp_size is None else Warps(warp_size))
    found.visit(func.body)
    return func.with_body(_Rewriter(found).visit(func.body)) if found.found else func
