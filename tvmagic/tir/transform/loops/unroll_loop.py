"""UnrollLoop: loops marked `unroll`, and short serial ones where asked for, written out."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.deep_recursion import written_size
from tvmagic.ir.memory_scope import is_of_threads
from tvmagic.ir.ops import add
from tvmagic.passes import is_recording, note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.convert_ssa import convert_ssa
from tvmagic.tir.transform.use_def import used_vars

OPTIONS = {
    "auto_max_step": 0,
    "auto_max_depth": 8,
    "auto_max_extent": 0,
    "explicit_unroll": True,
    "unroll_local_access": False,
}
LARGEST = 1 << 17  # nodes of a loop when written out: what is made of them takes some seconds in all


class _Unroller(ir.Mutator):
    """Unrolls innermost loops first, counting the steps (stores, calls) that they hold."""

    def __init__(self, options: dict[str, int]) -> None:
        self.max_step, self.max_depth = int(options["auto_max_step"]), int(options["auto_max_depth"])
        self.max_extent = int(options["auto_max_extent"])
        self.explicit, self.local_access = bool(options["explicit_unroll"]), bool(options["unroll_local_access"])
        self.steps = self.serial_depth = self.unrolled_depth = 0
        self.analyzer = Analyzer()
        self.index_vars: set[ir.Var] = set()

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return self.visit_children(node) if self.local_access else node

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.PrimExpr:
        return node

    @ir.handles(ir.AttrStmt)
    def pragma(self, node: ir.AttrStmt) -> ir.Stmt:
        if node.attr_key == "pragma_auto_unroll_max_step":
            kept, self.max_step = self.max_step, int(node.value)  # type: ignore[call-overload]
            body = self.visit(node.body)
            self.max_step = kept
            return body
        if node.attr_key == "pragma_unroll_explicit":
            explicit, self.explicit = self.explicit, bool(node.value)
            body = self.visit(node.body)
            self.explicit = explicit
            return body
        return self.visit_children(node)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        node = self.visit_children(node)
        extent = self._extent(node)
        serial = node.kind is ir.ForKind.SERIAL and extent >= 0 and self.serial_depth == 0
        auto = serial and self.unrolled_depth <= self.max_depth
        auto = auto and (extent * self.steps <= self.max_step or extent <= self.max_extent)
        # a local array whose index is the loop variable can then live in registers
        if node.loop_var in self.index_vars and extent > 0:
            auto = True
            self.index_vars.discard(node.loop_var)
        if node.kind is ir.ForKind.UNROLLED:
            self._check_unrolled(node, extent)
            auto = True
        elif auto and self.explicit and extent * written_size(node.body) > LARGEST:
            auto = False
        if auto:
            self.steps *= extent
            self.unrolled_depth += 1
        else:
            self.serial_depth += 1
        if (auto and self.explicit) or 0 <= extent <= self.max_extent == 1:
            return self._unroll(node, extent)
        if auto and node.kind is not ir.ForKind.UNROLLED:
            return node.replace(kind=ir.ForKind.UNROLLED, thread_binding=None, annotations={})
        return node

    def _check_unrolled(self, node: ir.For, extent: int) -> None:
        """An error if a loop that a schedule marks cannot be written out."""
        name, hint = node.loop_var.name, "split it by a constant factor and unroll the inner loop"
        if extent < 0:
            large = isinstance(node.extent, ir.IntImm) and node.extent.value > 0
            why = f"its extent `{node.extent}` is {'too large' if large else 'not constant'}"
            raise TVMagicError(
                f"loop `{name}` cannot be unrolled: {why}", node=node, hint=hint, code="tir.unroll_loop.not_unrollable"
            )
        if self.explicit and extent * (size := written_size(node.body)) > LARGEST:
            why = f"its {extent} iterations of {size} nodes each make more than {LARGEST} nodes"
            raise TVMagicError(
                f"loop `{name}` cannot be unrolled: {why}", node=node, hint=hint, code="tir.unroll_loop.not_unrollable"
            )

    def _extent(self, node: ir.For) -> int:
        extent = node.extent if isinstance(node.extent, ir.IntImm) else self.analyzer.simplify(node.extent)
        return extent.value if isinstance(extent, ir.IntImm) and extent.value < 1 << 31 else -1

    def _unroll(self, node: ir.For, extent: int) -> ir.Stmt:
        if is_recording():
            name = node.loop_var.name
            note("unroll", f"loop `{name}` is written out {extent} times", node=node, loop=name, extent=extent)
        if extent == 0:
            return ir.Evaluate(0, node.span)
        var = node.loop_var
        values = [add(node.min, ir.IntImm(var.dtype, i)) for i in range(extent)]
        return ir.SeqStmt.flatten(*[ir.substitute(node.body, {var: value}) for value in values])

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        self._touch(node)
        return self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        self.steps += 1
        self._touch(node)
        return self.visit_children(node)

    def _touch(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        if self.local_access and is_of_threads(node.buffer.scope()):
            for index in node.indices:
                self.index_vars.update(used_vars(index))

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        self.steps += 1
        return self.visit_children(node)

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        changed = False
        parts: list[ir.Stmt] = []
        for part in node.seq:
            steps, depth, serial = self.steps, self.unrolled_depth, self.serial_depth
            self.steps = self.unrolled_depth = self.serial_depth = 0
            new = self.visit(part)
            self.steps += steps
            self.unrolled_depth = max(depth, self.unrolled_depth)
            self.serial_depth = max(serial, self.serial_depth)
            changed = changed or new is not part
            parts.append(new)
        return ir.SeqStmt.flatten(*parts) if changed else node


@tir_pass("tir.UnrollLoop", OPTIONS)
def UnrollLoop(func: ir.PrimFunc, *, options: dict[str, Any]) -> ir.PrimFunc:
    """Write out the loops marked `unroll`, and serial ones within the limits of the options.

    Options under `tir.UnrollLoop`: `auto_max_step` (steps of the unrolled loop), `auto_max_depth`,
    `auto_max_extent`, `explicit_unroll` (else the loop is only marked), `unroll_local_access`. A loop of more than
    131072 nodes when written out stays a loop, and is refused if it is marked.
    The pragmas `auto_unroll_max_step` and `unroll_explicit` of a loop are above them.
    """
    body = _Unroller(options).visit(func.body)
    return func if body is func.body else func.with_body(convert_ssa(body))
