"""The text in which TVM printed programs before TVMScript.

    realize C([0, 5], [0, 16]) {
      produce C {
        for (i, 0, 5) {
          C(i, j) =5

Tensors (after ScheduleOps) are written with parentheses, buffers with brackets. A `produce` holds
what computes one tensor or buffer: neighbours whose last store goes to it, inside what computes
another one. A program that stores to one buffer alone has none.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from tvmagic import ir
from tvmagic.ir.operators import COMPARISON_SIGNS
from tvmagic.script.printer.braces import BracesPrinter, infix, prefix
from tvmagic.script.printer.buffers import producer_name
from tvmagic.script.printer.literals import quoted
from tvmagic.script.printer.statements_in_order import statements

_FLOAT_ENDS = {16: "h", 32: "f", 64: ""}
_LOOPS = {
    ir.ForKind.SERIAL: "for",
    ir.ForKind.PARALLEL: "parallel",
    ir.ForKind.VECTORIZED: "vectorized",
    ir.ForKind.UNROLLED: "unrolled",
    ir.ForKind.THREAD_BINDING: "launch_thread",
}


class ClassicPrinter(BracesPrinter):
    def __init__(self, indent: int, only_output: str | None) -> None:
        super().__init__(indent)
        self.producing = only_output
        self._outputs: dict[int, str | None] = {}

    # ------------------------------------------------------------------ expressions

    def int(self, node: ir.IntImm) -> str:
        return str(node.value) if node.dtype == "int32" else f"({node.dtype}){node.value}"

    def float(self, node: ir.FloatImm) -> str:
        return f"{node.value:g}{_FLOAT_ENDS.get(node.dtype.bits, '')}"

    def call(self, node: ir.Call) -> str:
        name = f"@{node.op.name_hint}" if isinstance(node.op, ir.GlobalVar) else node.op.script_name
        return f"{name}({self.texts(node.args)})"

    def cast(self, node: ir.Cast) -> str:
        return f"{node.dtype}({self.text(node.value)})"

    def load(self, node: ir.BufferLoad) -> str:
        return f"{node.buffer.name}[{self.texts(node.indices)}]"

    def reduce(self, node: ir.Reduce) -> str:
        combiner = node.combiner
        return (
            f"reduce(combiner=comm_reducer(result=[{self.texts(combiner.result)}], lhs=[{self.texts(combiner.lhs)}], "
            f"rhs=[{self.texts(combiner.rhs)}], identity_element=[{self.texts(combiner.identity_element)}]), "
            f"source=[{self.texts(node.source)}], init=[{self.texts(node.init)}], axis=[{self.texts(node.axis)}], "
            f"where={self.text(node.condition)}, value_index={node.value_index})"
        )

    def range(self, node: ir.Range) -> str:
        return f"range(min={self.text(node.min)}, ext={self.text(node.extent)})"

    def iter_var(self, node: ir.IterVar) -> str:
        parts = [node.var.name] + ([self.text(node.dom)] if node.dom is not None else [])
        return f"iter_var({', '.join(parts + ([node.thread_tag] if node.thread_tag else []))})"

    def region(self, ranges: Any) -> str:
        return ", ".join([f"[{self.text(r.min)}, {self.text(r.extent)}]" for r in ranges])

    # ------------------------------------------------------------------ statements

    def output(self, node: Any) -> str | None:
        """The tensor or buffer that the last store of a statement goes to."""
        passed: list[int] = []
        while node is not None:
            if id(node) in self._outputs:
                found = self._outputs[id(node)]
                break
            passed.append(id(node))
            if isinstance(node, (ir.ProducerStore, ir.BufferStore)):
                found = producer_name(node.producer) if isinstance(node, ir.ProducerStore) else node.buffer.name
                break
            node = _last_part(node)
        else:
            found = None
        self._outputs.update(dict.fromkeys(passed, found))
        return found

    def body(self, node: Any) -> None:
        """Write a body, with `produce` around what computes another tensor.

        A handler returns what follows its statement at the same level, so that long chains of
        attributes and allocations do not deepen the stack.
        """
        while node is not None:
            rest = None
            for name, group in groupby(ir.stmt_list(node), self.output):
                statements = list(group)
                if name is None or name == self.producing or _is_head(statements[0]):
                    for statement in statements:
                        self.body(rest)
                        rest = self.write(statement)
                else:
                    self.body(rest)
                    rest = None
                    self.produce(name, statements)
            node = rest

    def produce(self, name: str, statements: list[Any]) -> None:
        outer, self.producing = self.producing, name
        self.line(f"produce {name} {{")
        self.open()
        for statement in statements:
            self.body(statement)
        self.close()
        self.producing = outer

    def stmt(self, node: Any) -> None:
        self.body(self.write(node))

    def braces(self, header: str, body: Any) -> None:
        self.line(header + " {")
        self.open()
        self.body(body)
        self.close()

    def loop(self, node: ir.For) -> None:
        extent = f"{node.loop_var.name}, {self.text(node.min)}, {self.text(node.extent)}"
        self.braces(f"{_LOOPS[node.kind]} ({extent})", node.body)

    def condition(self, node: ir.IfThenElse) -> None:
        self.line(f"if ({self.text(node.condition)}) {{")
        self.open()
        self.body(node.then_case)
        if node.else_case is not None:
            self.close("} else {")
            self.open()
            self.body(node.else_case)
        self.close()

    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        kind = node.buffer_var.type_annotation
        scope = kind.storage_scope if isinstance(kind, ir.PointerType) and kind.storage_scope else "global"
        self.line(f'// attr [{node.buffer_var.name}] storage_scope = "{scope}"')
        extents = "".join([f" * {self.text(e)}" for e in node.extents])
        guard = (
            "" if isinstance(node.condition, ir.IntImm) and node.condition.value else f" if {self.text(node.condition)}"
        )
        self.line(f"allocate {node.buffer_var.name}[{node.dtype}{extents}]{guard}")
        return node.body

    def attr(self, node: ir.AttrStmt) -> ir.Stmt:
        subject = node.node
        name = quoted(subject) if isinstance(subject, str) else self.text(subject)
        value = quoted(node.value) if isinstance(node.value, str) else self.text(node.value)
        self.line(f"// attr [{name}] {node.attr_key} = {value}")
        return node.body

    def then(self, text: str, body: Any) -> Any:
        self.line(text)
        return body

    def store(self, node: ir.BufferStore) -> None:
        self.line(f"{node.buffer.name}[{self.texts(node.indices)}] = {self.text(node.value)}")

    def provide(self, node: ir.ProducerStore) -> None:
        self.line(f"{producer_name(node.producer)}({self.texts(node.indices)}) ={self.text(node.value)}")

    def realize_buffer(self, node: ir.BufferRealize) -> None:
        guard = _guard(self, node.condition)
        self.braces(f"buffer_realize {node.buffer.name}({self.region(node.bounds)}){guard}", node.body)

    def realize_tensor(self, node: ir.ProducerRealize) -> None:
        guard = _guard(self, node.condition)
        self.braces(f"realize {producer_name(node.producer)}({self.region(node.bounds)}){guard}", node.body)

    def block(self, realize: ir.BlockRealize) -> None:
        block = realize.block
        self._block(block, [self.text(v) for v in realize.iter_values], _guard(self, realize.predicate))

    def _block(self, block: ir.Block, values: list[str], guard: str) -> None:
        self.line(f"block {block.name_hint}({self.texts(block.iter_vars)}) {{")
        self.open()
        for axis, value in zip(block.iter_vars, values):
            self.line(f"bind({axis.var.name}, {value})")
        if guard:
            self.line(f"where({guard.removeprefix(' if ')})")
        for word, regions in (("reads", block.reads), ("writes", block.writes)):
            texts = [f"{r.buffer.name}[{', '.join([self._slice(x) for x in r.region])}]" for r in regions]
            self.line(f"{word}([{', '.join(texts)}])")
        for buffer in block.alloc_buffers:
            self.line(f"{buffer.name} = alloc_buffer({buffer.dtype}[{self.texts(buffer.shape)}])")
        for match in block.match_buffers:
            source = match.source
            region = ", ".join([self._slice(x) for x in source.region])
            self.line(f"{match.buffer.name} = match_buffer({source.buffer.name}[{region}])")
        if block.init is not None:
            self.braces("with init()", block.init)
        self.body(block.body)
        self.close()

    def _slice(self, node: ir.Range) -> str:
        low = self.text(node.min)
        if isinstance(node.extent, ir.IntImm) and node.extent.value == 1:
            return low
        return f"{low}:{self.text(node.min + node.extent)}"

    def function(self, node: ir.PrimFunc) -> None:
        names = ", ".join([node.buffer_map[p].name if p in node.buffer_map else p.name for p in node.params])
        attrs = ", ".join([f'"{k}": {self.text(v)}' for k, v in sorted(node.attrs.items())])
        self.braces(f"PrimFunc([{names}]) attrs={{{attrs}}}", node.body)

    def module(self, node: ir.IRModule) -> None:
        for i, (var, function) in enumerate(node.functions_items()):
            if i:
                self.line("")
            self.line(f"// function {var.name_hint}")
            self.function(function)


def _is_head(node: Any) -> bool:
    """Whether a statement only stands around what computes something."""
    if isinstance(node, ir.BlockRealize):
        return not node.block.iter_vars
    return isinstance(node, (ir.ProducerRealize, ir.Allocate, ir.AttrStmt))


_LAST = ("body", "block", "then_case")


def _last_part(node: Any) -> Any:
    if isinstance(node, ir.SeqStmt):
        return node.seq[-1]
    return next((getattr(node, name) for name in _LAST if hasattr(node, name)), None)


def _guard(printer: ClassicPrinter, condition: Any) -> str:
    if isinstance(condition, ir.IntImm) and condition.value:
        return ""
    return f" if {printer.text(condition)}"


ClassicPrinter.HANDLERS = {
    ir.Var: lambda p, n: n.name,
    ir.Buffer: lambda p, n: n.name,
    str: lambda p, n: quoted(n),
    ir.StringImm: lambda p, n: quoted(n.value),
    ir.IntImm: ClassicPrinter.int,
    ir.FloatImm: ClassicPrinter.float,
    ir.Add: infix(" + "),
    ir.Sub: infix(" - "),
    ir.Mul: infix("*"),
    ir.Div: infix("/"),
    ir.Mod: infix(" % "),
    ir.FloorDiv: prefix("floordiv", "a", "b"),
    ir.FloorMod: prefix("floormod", "a", "b"),
    ir.Min: prefix("min", "a", "b"),
    ir.Max: prefix("max", "a", "b"),
    **{op: infix(f" {sign} ") for op, sign in COMPARISON_SIGNS.items()},
    ir.And: infix(" && "),
    ir.Or: infix(" || "),
    ir.Not: lambda p, n: f"!{p.text(n.a)}",
    ir.Select: prefix("select", "condition", "true_value", "false_value"),
    ir.Cast: ClassicPrinter.cast,
    ir.Call: ClassicPrinter.call,
    ir.Let: lambda p, n: f"(let {n.var.name} = {p.text(n.value)} in {p.text(n.body)})",
    ir.Ramp: lambda p, n: f"ramp({p.text(n.base)}, {p.text(n.stride)}, {p.text(n.lanes)})",
    ir.Broadcast: lambda p, n: f"x{p.text(n.lanes)}({p.text(n.value)})",
    ir.Shuffle: lambda p, n: f"shuffle([{p.texts(n.vectors)}], [{p.texts(n.indices)}])",
    ir.BufferLoad: ClassicPrinter.load,
    ir.ProducerLoad: lambda p, n: f"{producer_name(n.producer)}({p.texts(n.indices)})",
    ir.Reduce: ClassicPrinter.reduce,
    ir.Range: ClassicPrinter.range,
    ir.IterVar: ClassicPrinter.iter_var,
    ir.SeqStmt: ClassicPrinter.body,
    ir.Evaluate: lambda p, n: p.line(p.text(n.value)),
    ir.BufferStore: ClassicPrinter.store,
    ir.ProducerStore: ClassicPrinter.provide,
    ir.For: ClassicPrinter.loop,
    ir.While: lambda p, n: p.braces(f"while ({p.text(n.condition)})", n.body),
    ir.IfThenElse: ClassicPrinter.condition,
    ir.LetStmt: lambda p, n: p.then(f"let {n.var.name} = {p.text(n.value)}", n.body),
    ir.AssertStmt: lambda p, n: p.then(f"assert({p.text(n.condition)}, {p.text(n.message)})", n.body),
    ir.AttrStmt: ClassicPrinter.attr,
    ir.Allocate: ClassicPrinter.allocate,
    ir.AllocateConst: lambda p, n: p.then(f"constant {n.buffer_var.name}[{n.dtype} * {p.texts(n.extents)}]", n.body),
    ir.DeclBuffer: lambda p, n: p.then(f"decl_buffer {n.buffer.name}[{p.texts(n.buffer.shape)}]", n.body),
    ir.BufferRealize: ClassicPrinter.realize_buffer,
    ir.ProducerRealize: ClassicPrinter.realize_tensor,
    ir.Prefetch: lambda p, n: p.line(f"prefetch {n.buffer.name}({p.region(n.bounds)})"),
    ir.BlockRealize: ClassicPrinter.block,
    ir.Block: lambda p, n: p._block(n, [], ""),
    ir.PrimFunc: ClassicPrinter.function,
    ir.IRModule: ClassicPrinter.module,
}


def _only_output(node: Any) -> str | None:
    """The name of the buffer that a program stores to, if that is one buffer alone."""
    names: set[str] = set()
    parts = list(node.functions.values()) if isinstance(node, ir.IRModule) else [node]
    for part in parts:
        body = part.body if isinstance(part, ir.PrimFunc) else part
        for stmt in statements(body) if isinstance(body, ir.Stmt) else ():
            if isinstance(stmt, ir.ProducerStore):
                return None
            if isinstance(stmt, ir.BufferStore):
                names.add(stmt.buffer.name)
    return names.pop() if len(names) == 1 else None


def classic(node: Any, indent: int = 2) -> str:
    """The text of any part of a program in the style from before TVMScript.

    `indent`: the columns that a level is indented by.
    """
    if isinstance(node, (ir.PrimFunc, ir.IRModule, ir.Stmt)):
        return "\n".join(classic_with_nodes(node, indent)[0])
    return ClassicPrinter(indent, _only_output(node)).text(node)


def classic_with_nodes(node: ir.PrimFunc | ir.IRModule | ir.Stmt, indent: int = 2) -> tuple[list[str], list[Any]]:
    """The lines of `classic`, and for each the statement that it is of."""
    printer = ClassicPrinter(indent, _only_output(node))
    if isinstance(node, ir.Stmt):
        printer.body(node)
    else:
        printer.stmt(node)
    return printer.lines, printer.nodes
