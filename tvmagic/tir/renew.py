"""A function with new variables and buffers in the place of all that it defines."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import BufferRemapper, MatchBufferRegion, PrimFunc, Var, handles
from tvmagic.ir.buffer import Buffer


class _Renewer(BufferRemapper):
    def __init__(self) -> None:
        super().__init__()
        self.vars: dict[Var, Var] = {}

    @handles(Var)
    def var(self, var: Var) -> Var:
        return self.vars.get(var, var)

    def visit_var_def(self, var: Var) -> Var:
        new = self.vars.get(var)
        if new is None:
            new = self.vars[var] = var.copy_with_name(var.name)
        return new

    def define_buffer(self, buffer: Buffer) -> Buffer:
        """A new buffer for one of a parameter or a matched one, with new variables for what describes it."""
        self.visit_var_def(buffer.data)
        for field in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(field, Var):
                self.visit_var_def(field)
        return self.visit_buffer_def(buffer)

    @handles(MatchBufferRegion)
    def matched(self, node: MatchBufferRegion) -> MatchBufferRegion:
        return node.with_(source=self.visit(node.source), buffer=self.define_buffer(node.buffer))

    def visit_buffer_def(self, buffer: Buffer) -> Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            # memory that nothing else defines is the buffer's own
            self.visit_var_def(buffer.data)
            new = self.remap(buffer)
            found = self.buffers[buffer] = new if new is not buffer else buffer.replace()
        return found


def renew_defs(func: PrimFunc) -> PrimFunc:
    """`func` with every variable and buffer that it defines replaced by a new one."""
    renewer = _Renewer()
    params = tuple([renewer.visit_var_def(p) for p in func.params])
    buffers = {renewer.visit_var_def(v): renewer.define_buffer(b) for v, b in func.buffer_map.items()}
    return func.replace(params=params, buffer_map=buffers, body=renewer.visit(func.body))


def renewed(stmt: Any) -> Any:
    """A statement with new variables and buffers in the place of all that it defines: a second one to put beside it."""
    return _Renewer().visit(stmt)
