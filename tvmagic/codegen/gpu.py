"""Threads of a GPU: block and thread indices as PTX special registers, shared memory, barriers."""

from __future__ import annotations

from typing import Any

from tvmagic.codegen.types import memory_type
from tvmagic.errors import BuildError
from tvmagic.ir import Allocate, AttrStmt, For, IterVar, Stmt, Var

__all__ = ["GpuThreads"]

_REGISTERS = {"blockIdx": "ctaid", "threadIdx": "tid"}


class GpuThreads:
    """How thread-bound loops and shared memory are emitted for nvptx."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def launch(self, emitter: Any, stmt: AttrStmt) -> Stmt:
        """`AttrStmt(IterVar, "thread_extent", extent)`: a loop where there are no such threads."""
        node = stmt.node
        if not isinstance(node, IterVar):
            return stmt.body
        if self.context.target.is_nvptx and stmt.attr_key == "thread_extent":
            self._bind(emitter, node.var, node.thread_tag, stmt)
            emitter.intervals.known[node.var] = (0, emitter.intervals.of(stmt.value)[1] - 1)
            return stmt.body
        from tvmagic.ir import ForKind

        return For(node.var, 0, stmt.value, ForKind.SERIAL, stmt.body, span=stmt.span)

    def bind(self, emitter: Any, stmt: For) -> Stmt:
        """A thread-bound loop."""
        tag = stmt.thread_binding.thread_tag if stmt.thread_binding is not None else ""
        self._bind(emitter, stmt.loop_var, tag, stmt)
        emitter.intervals.known[stmt.loop_var] = (0, emitter.intervals.of(stmt.extent)[1] - 1)
        return stmt.body

    def _bind(self, emitter: Any, var: Var, tag: str, node: Any) -> None:
        if tag.startswith("vthread"):
            raise BuildError("virtual threads are not lowered yet", node=node, hint="run InjectVirtualThread")
        name, _, axis = tag.partition(".")
        if name not in _REGISTERS or axis not in ("x", "y", "z"):
            raise BuildError(f"there is no thread axis `{tag}`", node=node, hint="axes are blockIdx.x to threadIdx.z")
        register = self.context.text.declare(f"llvm.nvvm.read.ptx.sreg.{_REGISTERS[name]}.{axis}", "i32", "")
        value = emitter.out.op(f"call i32 {register}()")
        if var.dtype.bits == 64:
            value = emitter.out.op(f"zext i32 {value} to i64")
        emitter.values[var] = value
        emitter.index_values.add(value)

    def shared(self, stmt: Allocate, count: int) -> str:
        """Memory that the threads of a block share."""
        if not count:
            raise BuildError("shared memory has constant sizes", node=stmt)
        name = f"@{self.context.new_name('shared')}"
        kind = f"[{count} x {memory_type(stmt.dtype)}]"
        self.context.text.globals[name] = f"{name} = internal addrspace(3) global {kind} poison, align 16"
        return f"addrspacecast (ptr addrspace(3) {name} to ptr)"
