"""Parallel loops: the body becomes a function of its own that the thread pool calls by chunks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tvmagic.codegen.text.types import llvm_type
from tvmagic.codegen.text.writer import FunctionText
from tvmagic.ir import DataType, For

if TYPE_CHECKING:
    from tvmagic.codegen.emit.statements import FunctionEmitter

INT64 = DataType("int64")


def emit_parallel(emitter: FunctionEmitter, stmt: For) -> None:
    """Emit the parallel loop `stmt` as `i32 body(i64 begin, i64 end, ptr closure, i32 worker)` and
    the call that runs it.

    The closure holds, in slots of 8 bytes, the values of the outer function that the body
    uses; what they are is known once the body is written. A parallel loop inside another is serial.
    """
    context = emitter.context
    # internal, so any name will do that LLVM's text takes without quotes
    name = context.new_name(re.sub("[^A-Za-z0-9_]|^(?=[0-9])", "_", context.function_name) + ".parallel")
    head = (
        f"define internal i32 @{name}(i64 %begin, i64 %end, ptr noalias nocapture readonly %closure, "
        f"i32 %worker) {context.attributes()}{context.subprogram(stmt, name)}"
    )
    child = emitter.child(FunctionText(context.text, head))
    context.at(child, stmt)
    _emit_chunk(child, stmt)
    child.leave("0")
    child.scopes.finish()
    context.text.functions.append(child.out.text())

    out = emitter.out
    extent = emitter.convert(emitter.visit(stmt.extent), stmt.extent.dtype, INT64)
    closure = out.at_entry(f"alloca [{max(1, len(child.captured))} x i64], align 8")
    for slot, (kind, value) in enumerate(child.captured):
        place = out.op(f"getelementptr inbounds i64, ptr {closure}, i64 {slot}")
        out.do(f"store {kind} {value}, ptr {place}, align 8")
    emitter.leave_if(context.launch(emitter, name, closure, extent))


def _emit_chunk(child: FunctionEmitter, stmt: For) -> None:
    """Emit the iterations of a parallel loop from `%begin` to `%end`, counted from its first one."""
    out, dtype = child.out, stmt.loop_var.dtype
    first = child.visit(stmt.min)
    ends = [child.convert(name, INT64, dtype) for name in ("%begin", "%end")]
    if first != "0":
        ends = [out.op(f"add nsw {llvm_type(dtype)} {first}, {value}") for value in ends]
    child.counted_loop(stmt, *ends, child.loop_metadata(stmt))
