"""Statements as OpenCL C: the body of a kernel, and its head, which follows from what the body needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.codegen.emit.gpu_threads import no_assertions, variable_size
from tvmagic.codegen.emit.memory import flat_index
from tvmagic.codegen.gpu.opencl.expressions import ExpressionWriter
from tvmagic.codegen.gpu.opencl.types import Lanes, Plain, memory_type, register_type
from tvmagic.codegen.late.kernels import Kernel
from tvmagic.codegen.late.work_estimate import Work
from tvmagic.errors import BuildError
from tvmagic.ir.prim_expr import scope_of
from tvmagic.ir.query import is_call
from tvmagic.tir.transform.use_def import used_vars

# Between a line of the text and the number of its line in the program.
MARK = "\0"
_SHARED_BYTES = 48 * 1024  # that a block has on every GPU
_WORDS = {"blockIdx": "get_group_id", "threadIdx": "get_local_id"}
_INDICES = {f"{name}.{axis}": f"{word}({n})" for name, word in _WORDS.items() for n, axis in enumerate("xyz")}


def pointee(pointer: ir.Var) -> ir.DataType:
    """The type of the elements behind a pointer."""
    kind = pointer.type_annotation
    element = kind.element_type if isinstance(kind, ir.PointerType) else None
    return element.dtype if isinstance(element, ir.PrimType) else ir.DataType("uint8")


class KernelWriter(ExpressionWriter):
    """Writes one kernel.

    `line_of` returns the line of a statement in the program's text, or 0; lines of `text()` then end with `MARK` and that number.
    After `text()`, `params` are the variables that it takes, pointers and numbers, and `shared` the shared memory whose
    size the host gives, by the pointer: both in the order of the kernel's parameters.
    """

    def __init__(
        self,
        kernel: Kernel,
        helpers: dict[str, str],
        arguments: dict[ir.Var, ir.Buffer],
        types: dict[ir.Var, ir.DataType],
        line_of: Callable[[ir.Stmt], int] = lambda stmt: 0,
    ) -> None:
        super().__init__(helpers, arguments)
        self.line_of = line_of
        self.kernel, self.types = kernel, types
        self.work = Work(kernel.body)
        self.params: list[ir.Var] = []
        self.shared: list[ir.Allocate] = []
        self.heads: list[str] = []
        self.local: list[str] = []  # declarations of shared memory
        self.inside: set[ir.Var] = set()
        self.pointees, self.spaces = {}, {}

    def text(self) -> str:
        """The whole kernel."""
        launches = {launch.node.thread_tag: launch for launch in self.kernel.launches}
        for tag, (var, extent) in self.kernel.axes.items():
            if tag not in _INDICES:
                raise BuildError(
                    f"there is no thread axis `{tag}`",
                    hint="axes are blockIdx.x to threadIdx.z",
                    code="codegen.opencl.unknown_thread",
                )
            text = Plain(self.name(var.name))
            line = self.line_of(launches[tag])
            mark = f"{MARK}{line}" if line else ""
            self.lines.append(f"const {register_type(var.dtype)} {text} = {_INDICES[tag]};{mark}")
            self.values[var] = [text]
            self.intervals.counts(var, extent)
        lines = [*self.lines]
        self.lines = []
        self.statement(self.kernel.body)
        body = "\n".join(f"  {line}" for line in [*self.local, *lines, *self.lines])
        sizes = [self._dynamic(node) for node in self.shared]
        return f"__kernel void {self.kernel.name}({', '.join([*self.heads, *sizes])}) {{\n{body}\n}}\n"

    def missing(self, var: ir.Var) -> Lanes:
        """A variable of the host: a parameter."""
        if var in self.inside:
            raise BuildError(
                f"the variable `{var.name}` is used where it is not defined",
                node=var,
                code="codegen.opencl.undefined_variable",
            )
        name = Plain(self.name(var.name))
        self.params.append(var)
        if var.dtype.is_handle:
            self._pointer(name, "__global", self.types.get(var, pointee(var)))
            self.heads.append(f"__global {self.pointees[name]}* restrict {name}")
        else:
            if var.dtype.is_float and var.dtype.bits == 16:
                raise BuildError(
                    f"a kernel takes no number of type `{var.dtype}`, as `{var.name}` is",
                    node=var,
                    code="codegen.opencl.unsupported_parameter",
                )
            kind = "uchar" if var.dtype.is_bool else register_type(var.dtype)  # no kernel takes a bool
            self.heads.append(f"{kind} {name}")
        self.values[var] = [name]
        return self.values[var]

    def _pointer(self, name: str, space: str, dtype: ir.DataType) -> None:
        self.pointees[name], self.spaces[name] = memory_type(dtype.element_of), space

    def _dynamic(self, node: ir.Allocate) -> str:
        return f"__local {memory_type(node.dtype.element_of)}* {self.values[node.buffer_var][0]}"

    # ------------------------------------------------------------------ statements

    def statement(self, stmt: ir.Stmt) -> None:
        """Write `stmt`. Statements that end in another one are followed without recursion."""
        following: Any = stmt
        while following is not None:
            begin, line = len(self.lines), self.line_of(following)
            following = self.visit(following)
            if line:  # statements inside have marked their own lines
                rows = self.lines[begin:]
                self.lines[begin:] = [row if MARK in row else f"{row}{MARK}{line}" for row in rows]

    @ir.handles(ir.SeqStmt)
    def sequence(self, stmt: ir.SeqStmt) -> None:
        for part in stmt.seq:
            self.statement(part)

    @ir.handles(ir.LetStmt)
    def let_stmt(self, stmt: ir.LetStmt) -> ir.Stmt:
        self.bind(stmt.var, stmt.value)
        return stmt.body

    @ir.handles(ir.DeclBuffer, ir.AttrStmt)
    def around(self, stmt: ir.DeclBuffer | ir.AttrStmt) -> ir.Stmt:
        return stmt.body

    @ir.handles(ir.AssertStmt)
    def assertion(self, stmt: ir.AssertStmt) -> ir.Stmt:
        raise no_assertions(stmt)

    @ir.handles(ir.Evaluate)
    def evaluate(self, stmt: ir.Evaluate) -> None:
        if is_call(stmt.value, "tir.ret"):
            raise BuildError("a kernel gives no value", node=stmt, code="codegen.opencl.value_in_kernel")
        self.visit(stmt.value)

    @ir.handles(ir.BufferStore)
    def store(self, stmt: ir.BufferStore) -> None:
        buffer = stmt.buffer
        values = self.visit(stmt.value)
        if len(values) > 1:  # all lanes are computed before the first is stored
            values = [self.variable(stmt.value.dtype, text) for text in values]
        indices = self.visit(flat_index(buffer, stmt.indices, self.arguments.get(buffer.data)))
        guards = self.visit(stmt.predicate) if stmt.predicate is not None else [""] * len(values)
        for guard, index, value in zip(guards, indices, values):
            line = f"{self.element(buffer, index)} = {self.to_memory(buffer.dtype, value)};"
            self.lines.append(f"if ({guard}) {line}" if guard else line)

    @ir.handles(ir.IfThenElse)
    def if_then_else(self, stmt: ir.IfThenElse) -> None:
        (condition,) = self.visit(stmt.condition)
        self.indented(f"if ({condition})", self.block(lambda: self.statement(stmt.then_case))[0])
        if stmt.else_case is not None:
            other = stmt.else_case
            self.indented("else", self.block(lambda: self.statement(other))[0])

    @ir.handles(ir.While)
    def while_loop(self, stmt: ir.While) -> None:
        def write() -> None:
            (condition,) = self.visit(stmt.condition)
            self.lines.append(f"if (!{condition}) break;")
            self.statement(stmt.body)

        self.indented("while (true)", self.block(write)[0])

    @ir.handles(ir.For)
    def loop(self, stmt: ir.For) -> ir.Stmt | None:
        if stmt.kind is ir.ForKind.THREAD_BINDING:
            raise BuildError(
                "a loop is bound to threads in a kernel",
                node=stmt,
                hint="lower the function first",
                code="codegen.opencl.thread_loop_in_kernel",
            )
        var, kind = stmt.loop_var, register_type(stmt.loop_var.dtype)
        (first,), (extent,) = self.visit(stmt.min), self.visit(stmt.extent)
        self.intervals.counts(var, stmt.extent, stmt.min)
        if isinstance(stmt.extent, ir.IntImm) and stmt.extent.value == 1:
            self.values[var] = [Plain(self.variable(var.dtype, first, var.name))]
            return stmt.body
        name = Plain(self.name(var.name))
        end = (
            self._bound_text(stmt.extent, extent)
            if first == "0"
            else self._bound_text(stmt.extent, f"{first} + {extent}")
        )
        self.values[var] = [name]
        if stmt.kind is ir.ForKind.UNROLLED:
            self.lines.append("#pragma unroll")
        head = f"for ({kind} {name} = {first}; {name} < {end}; ++{name})"
        self.indented(head, self.block(lambda: self.statement(stmt.body))[0])
        return None

    def _bound_text(self, expr: ir.PrimExpr, text: str) -> str:
        """The end of a loop, computed once."""
        return (
            text
            if isinstance(expr, (ir.IntImm, ir.Var)) and " " not in text
            else self.variable(expr.dtype, text, "end")
        )

    # ------------------------------------------------------------------ memory

    @ir.handles(ir.Allocate)
    def allocate(self, stmt: ir.Allocate) -> ir.Stmt:
        pointer, scope = stmt.buffer_var, scope_of(stmt.buffer_var)
        self.inside.add(pointer)
        if stmt.dtype.lanes != 1 or scope.startswith(("warp", "wmma")):
            what = f"`{scope}` memory" if stmt.dtype.lanes == 1 else f"memory of vectors `{stmt.dtype}`"
            raise BuildError(
                f"there is no OpenCL C for {what}, as `{pointer.name}` is",
                node=stmt,
                code="codegen.opencl.unsupported_memory",
            )
        name, shared = self.name(pointer.name), scope.startswith("shared")
        self.values[pointer] = [name]
        self._pointer(name, "__local" if shared and self.kernel.axes else "__private", stmt.dtype)
        count = self.work.elements(stmt)
        if count is not None:
            declared = f"{memory_type(stmt.dtype)} {name}[{max(count, 1)}];"
            if shared and self.kernel.axes:
                self.local.append(f"__local {declared}")
            else:
                self.lines.append(declared)
        elif shared and self.kernel.axes:
            self._shared_of_sizes(stmt, name)
        else:
            raise variable_size(stmt)
        return stmt.body

    def _shared_of_sizes(self, stmt: ir.Allocate, name: str) -> None:
        """Shared memory whose size follows from what the host knows, or has a bound that is small enough."""
        if not any(
            var in self.inside or var in self.values and var not in self.params
            for e in stmt.extents
            for var in used_vars(e)
        ):
            self.shared.append(stmt)
            return
        most = math.prod(max(0, self.intervals.of(extent)[1]) for extent in stmt.extents)
        if most * stmt.dtype.bytes > _SHARED_BYTES:
            raise BuildError(
                f"the size of `{name}` in shared memory depends on what the kernel computes",
                node=stmt,
                code="codegen.opencl.computed_shared_size",
            )
        self.local.append(f"__local {memory_type(stmt.dtype)} {name}[{max(most, 1)}];")

    @ir.handles(ir.AllocateConst)
    def allocate_const(self, stmt: ir.AllocateConst) -> ir.Stmt:
        raise BuildError(
            f"there is no OpenCL C for the constant array `{stmt.buffer_var.name}`",
            node=stmt,
            code="codegen.opencl.constant_array",
        )
