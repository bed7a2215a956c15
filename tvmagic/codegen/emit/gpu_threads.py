"""Threads of a GPU: block and thread indices as PTX special registers, shared memory, barriers."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.codegen.text.types import place_type
from tvmagic.errors import BuildError

_REGISTERS = {
    f"{name}.{axis}": f"{word}.{axis}" for name, word in (("blockIdx", "ctaid"), ("threadIdx", "tid")) for axis in "xyz"
}


class GpuThreads:
    """How thread-bound loops and shared memory are emitted for nvptx."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def launch(self, emitter: Any, stmt: ir.AttrStmt) -> ir.Stmt:
        """`AttrStmt(IterVar, "thread_extent", extent)`."""
        node = stmt.node
        if not isinstance(node, ir.IterVar):
            return stmt.body
        if not self.context.family.launches or stmt.attr_key != "thread_extent":
            raise BuildError(
                f"cannot emit the launch of `{node.thread_tag or node.var.name}`: `{self.context.target}` launches no threads",
                node=stmt,
                hint="enable the pass `late.LowerLaunches`",
                code="codegen.launch_not_lowered",
            )
        self._bind(emitter, node.var, node.thread_tag, stmt)
        emitter.intervals.counts(node.var, stmt.value)
        return stmt.body

    def bind(self, emitter: Any, stmt: ir.For) -> ir.Stmt:
        """A thread-bound loop."""
        tag = stmt.thread_binding.thread_tag if stmt.thread_binding is not None else ""
        self._bind(emitter, stmt.loop_var, tag, stmt)
        emitter.intervals.counts(stmt.loop_var, stmt.extent)
        return stmt.body

    def _bind(self, emitter: Any, var: ir.Var, tag: str, node: Any) -> None:
        if tag.startswith("vthread"):
            raise BuildError(
                "virtual threads are not lowered yet",
                node=node,
                hint="run InjectVirtualThread",
                code="codegen.gpu.virtual_threads",
            )
        if tag not in _REGISTERS:
            raise BuildError(
                f"there is no thread axis `{tag}`",
                node=node,
                hint="axes are blockIdx.x to threadIdx.z",
                code="codegen.gpu.unknown_thread",
            )
        register = self.context.text.declare(f"llvm.nvvm.read.ptx.sreg.{_REGISTERS[tag]}", "i32", "")
        value = emitter.out.op(f"call i32 {register}()")
        if var.dtype.bits == 64:
            value = emitter.out.op(f"zext i32 {value} to i64")
        emitter.values[var] = value
        emitter.index_values.add(value)

    def own(self, emitter: Any, stmt: ir.Allocate, count: int | None) -> str:
        """Memory that each thread has of its own."""
        if count is None:
            raise variable_size(stmt)
        return emitter.out.at_entry(f"alloca [{max(count, 1)} x {place_type(stmt.dtype)}], align 64")

    def shared(self, stmt: ir.Allocate, count: int | None) -> str:
        """Memory that the threads of a block share."""
        if count is None:
            raise BuildError(
                f"shared memory has constant sizes in PTX, that of `{stmt.buffer_var.name}` is not constant",
                node=stmt,
                hint="OpenCL C takes a size that the host knows: `--target opencl`",
                code="codegen.gpu.symbolic_shared_memory",
            )
        name = f"@{self.context.new_name('shared')}"
        kind = f"[{max(count, 1)} x {place_type(stmt.dtype)}]"
        self.context.text.globals[name] = f"{name} = internal addrspace(3) global {kind} poison, align 16"
        return f"addrspacecast (ptr addrspace(3) {name} to ptr)"


def variable_size(stmt: ir.Allocate) -> BuildError:
    """The error of memory of a thread whose size is not constant."""
    name = stmt.buffer_var.name
    return BuildError(
        f"memory of a thread has a constant size, that of `{name}` is not constant",
        node=stmt,
        code="codegen.gpu.symbolic_thread_memory",
    )


def no_assertions(stmt: ir.AssertStmt) -> BuildError:
    """The error of an assertion inside a kernel."""
    return BuildError(
        "a kernel cannot stop with the error of an assertion", node=stmt, code="codegen.gpu.assertion_in_kernel"
    )
