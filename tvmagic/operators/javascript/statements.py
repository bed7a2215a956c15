"""Statements as JavaScript: TensorIR functions before any scheduling, and extern operations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.store_merging import update_term
from tvmagic.operators.analysis import without_views
from tvmagic.operators.javascript.expressions import EXACT, Value
from tvmagic.operators.javascript.program import ProgramWriter


class InexactIntegers(Exception):
    """Integers that rounding may change are stored: `pointer` is that of their buffer."""

    def __init__(self, pointer: ir.Var) -> None:
        super().__init__(pointer.name)
        self.pointer = pointer


class StatementWriter(ProgramWriter):
    """Writes statements; an array of a buffer is known by the buffer's pointer.

    With bounds, an array of floats that is written has its errors beside it (`ea` for `a`), and the sizes of the terms
    that were added up in each element (`ma`); an array of integers has errors if its pointer is in `inexact`.
    """

    def __init__(self, bounds: bool, sizes: Mapping[ir.Var, int], inexact: Collection[ir.Var] = ()) -> None:
        super().__init__(bounds, sizes)
        self.inexact = inexact
        if bounds:
            self.lines.append("let open = false;")

    def function(self, op: Any) -> None:
        """The function of an operator; an input that it updates is copied first."""
        for tensor in op.args:
            if any(tensor is t for t in op.outputs):
                self.memory(tensor, f"{self.arrays[tensor]}.slice()" if op.is_input(tensor) else "")
            self.arrays[tensor.data] = self.arrays[tensor]
        self.visit(without_views(op.prim_func).body)

    def extern(self, op: Any) -> None:
        for buffer, tensor in zip(op.input_placeholders, op.inputs):
            self.arrays[buffer.data] = self.arrays[tensor]
        for buffer, tensor in zip(op.output_placeholders, op.outputs):
            self.arrays[tensor] = self.memory(buffer)
        self.visit(op.body)

    def memory(self, buffer: Any, text: str = "") -> str:
        """An array that statements write."""
        name = self.declare(buffer, text)
        self.arrays[buffer.data] = name
        if self.bounds and (buffer.dtype.is_float or buffer.data in self.inexact):
            self.errors[name] = f"e{name}"
            self.lines.append(
                f"const e{name} = new Float32Array({name}.length), m{name} = new Float32Array({name}.length);"
            )
        return name

    def decided(self, expr: ir.PrimExpr) -> Value:
        """The value of an expression that says what runs, or where. If rounding may decide it, all results are open."""
        value = self.value(expr)
        if value.error != EXACT:
            self.may_be_open = True
            self.lines.append(f"if ({value.error} > 0) open = true;")
        return value

    # ------------------------------------------------------------------ accesses

    def place(self, node: ir.BufferLoad | ir.BufferStore) -> tuple[str, str]:
        """The array of an access and the place in it."""
        buffer: ir.Buffer = node.buffer
        if buffer.data not in self.arrays:
            raise TVMagicError(f"buffer `{buffer.name}` has no array", node=node, code="javascript.missing_array")
        if buffer.strides or not (isinstance(buffer.elem_offset, ir.IntImm) and buffer.elem_offset.value == 0):
            raise TVMagicError(
                f"buffer `{buffer.name}` with strides or an offset has no form in JavaScript",
                node=node,
                code="javascript.strided_buffer",
            )
        for index in node.indices:
            self.decided(index)
        return self.arrays[buffer.data], self.flat(buffer, [self.number(i) for i in node.indices])

    @ir.handles(ir.BufferLoad)
    def buffer_load(self, node: ir.BufferLoad) -> Value:
        return self.element(*self.place(node), node.buffer.dtype)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        with self.scope():
            self.lines.append("{")
            array, place = self.place(node)
            at, dtype = self.name("p"), node.buffer.dtype
            self.lines.append(f"const {at} = {place};")
            value = self.value(node.value)
            term = update_term(node, ir.Add)
            if self.bounds and dtype.is_float and term is not None:
                added = self.value(term)
                self.lines.append(f"m{array}[{at}] += Math.abs({added.text});")
                before = f"e{array}[{at}]"  # of the sum so far, which the value's own error counts as well
                error = self.both(before, added.error, self.rounding(dtype, f"m{array}[{at}]", 4))
                if dtype.bits < 64:
                    error = f"summed({value.text}, m{array}[{at}], {error}, {self.edge(dtype)})[1]"
                self.lines.append(f"e{array}[{at}] = {error};")
            elif self.bounds and dtype.is_float:
                self.lines.append(f"e{array}[{at}] = {value.error}; m{array}[{at}] = Math.abs({value.text});")
            elif array in self.errors:
                self.lines.append(f"e{array}[{at}] = {value.error};")
            elif self.bounds and value.error != EXACT:
                raise InexactIntegers(node.buffer.data)
            self.lines.append(f"{array}[{at}] = {self.stored(value, dtype)};")
            self.lines.append("}")

    # ------------------------------------------------------------------ structure

    @ir.handles(ir.Stmt)
    def other_statement(self, node: ir.Stmt) -> None:
        raise TVMagicError(
            f"the statement `{type(node).__name__}` has no form in JavaScript",
            node=node,
            code="javascript.unsupported_statement",
        )

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> None:
        for part in node.seq:
            with self.scope():
                self.visit(part)

    @ir.handles(ir.AttrStmt, ir.AssertStmt, ir.DeclBuffer)
    def around(self, node: Any) -> None:
        self.visit(node.body)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        self.memory(ir.Buffer(node.buffer_var, node.dtype, node.extents, None, None, node.buffer_var.name))
        self.visit(node.body)

    @ir.handles(ir.LetStmt)
    def let_statement(self, node: ir.LetStmt) -> None:
        self.let_be(node.var, node.value)
        self.visit(node.body)

    @ir.handles(ir.For)
    def for_loop(self, node: ir.For) -> None:
        low, extent = self.intervals.of(node.min), self.intervals.of(node.extent)
        first, count = self.number(node.min), self.number(node.extent)
        with self.scope():
            self.loop(node.loop_var, first, f"{first} + {count}", (low[0], max(low[0], low[1] + extent[1] - 1)))
            self.visit(node.body)
            self.lines.append("}")

    @ir.handles(ir.While)
    def while_loop(self, node: ir.While) -> None:
        self.lines.append("while (true) {")
        with self.scope():
            condition = self.decided(node.condition)
            self.lines.append(f"if (!({condition.text})) break;")
            self.visit(node.body)
        self.lines.append("}")

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        condition = self.decided(node.condition)
        self.lines.append(f"if ({condition.text}) {{")
        with self.scope():
            self.visit(node.then_case)
        if node.else_case is not None:
            self.lines.append("} else {")
            with self.scope():
                self.visit(node.else_case)
        self.lines.append("}")

    @ir.handles(ir.BlockRealize)
    def block(self, node: ir.BlockRealize) -> None:
        block: ir.Block = node.block
        always = isinstance(node.predicate, ir.IntImm) and node.predicate.value
        values = [self.value(v) for v in node.iter_values]
        with self.scope():
            self.lines.append("{" if always else f"if ({self.decided(node.predicate).text}) {{")
            for axis, value, given in zip(block.iter_vars, values, node.iter_values):
                self.env[axis.var] = value
                self.intervals.known[axis.var] = self.intervals.of(given)
            for buffer in block.alloc_buffers:
                self.memory(buffer)
            if block.init is not None:
                self._initial(block, block.init)
            self.visit(block.body)
            self.lines.append("}")

    def _initial(self, block: ir.Block, init: ir.Stmt) -> None:
        """What runs before the first iteration of a reduction."""
        axes = [a for a in block.iter_vars if a.iter_type == ir.IterVar.CommReduce]
        tests = [f"{self.env[a.var].text} === {self.number(a.dom.min)}" for a in axes if a.dom is not None]
        self.lines.append(f"if ({' && '.join(tests) or 'true'}) {{")
        with self.scope():
            self.visit(init)
        self.lines.append("}")
