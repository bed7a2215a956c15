"""The text in which CINN prints scheduled programs.

    ScheduleBlock(C)
    {
      i0 = axis.bind(i)
      C[i0] = ((A[i0] * 2.00000000f) + 1.00000000f)
    }

Every body stands in braces on lines of their own, two columns a level; a block whose body is
several statements has them in braces once more.
"""

from __future__ import annotations

from typing import Any

from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Allocate,
    AllocateConst,
    And,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    DeclBuffer,
    Div,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    GlobalVar,
    IfThenElse,
    IntImm,
    IRModule,
    IterVar,
    Let,
    LetStmt,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimFunc,
    Ramp,
    Select,
    SeqStmt,
    Stmt,
    StringImm,
    Sub,
    Var,
    While,
)
from tvmagic.ir.ops import add
from tvmagic.script.printer.braces import BracesPrinter, infix, prefix
from tvmagic.script.printer.literals import quoted

__all__ = ["cinn_text"]


class _Cinn(BracesPrinter):
    def __init__(self, regions: bool, lists: bool) -> None:
        super().__init__(2)
        self.domains: dict[Var, Any] = {}
        self.with_regions, self.with_lists = regions, lists

    # ------------------------------------------------------------------ expressions

    def int(self, node: IntImm) -> str:
        if node.dtype.is_bool:
            return "true" if node.value else "false"
        return f"{node.value}ll" if node.dtype == "int64" else str(node.value)

    def float(self, node: FloatImm) -> str:
        if node.dtype.bits == 64:
            return f"{node.value:.16f}"
        return f"{node.value:.8f}f"

    def call(self, node: Call) -> str:
        name = node.op.name_hint if isinstance(node.op, GlobalVar) else node.op.script_name
        return f"{name}({self.texts(node.args)})"

    def regions(self, word: str, regions: tuple[BufferRegion, ...]) -> None:
        """The line of what a block reads or writes, where that is known."""
        if regions and self.with_regions:
            texts = [f"_{r.buffer.name}[{', '.join([self.interval(x) for x in r.region])}]" for r in regions]
            self.line(f"{word}({', '.join(texts)})")

    def interval(self, node: Any) -> str:
        """One axis of a region: a block variable with its domain, or the two ends."""
        point = isinstance(node.extent, IntImm) and node.extent.value == 1
        if point and isinstance(node.min, Var) and node.min in self.domains:
            dom = self.domains[node.min]
            return f"{node.min.name}({self.text(dom.min)}:{self.text(add(dom.min, dom.extent))})"
        return f"({self.text(node.min)}:{self.text(add(node.min, node.extent))})"

    # ------------------------------------------------------------------ statements

    def braces(self, body: Any) -> None:
        self.line("{")
        self.open()
        for part in body.seq if isinstance(body, SeqStmt) else (body,):
            self.stmt(part)
        self.close()

    def loop(self, node: For) -> None:
        kinds = {
            ForKind.SERIAL: "serial",
            ForKind.PARALLEL: "parallel",
            ForKind.UNROLLED: "unroll",
            ForKind.VECTORIZED: f"vectorize({self.text(node.extent)})",
        }
        kind = kinds.get(node.kind)
        if kind is None:
            tag = node.thread_binding.thread_tag if node.thread_binding is not None else ""
            kind = f"thread_bind[{tag}]"
        end = self.text(add(node.min, node.extent))
        self.line(f"{kind} for ({node.loop_var.name}, {self.text(node.min)}, {end})")
        self.braces(node.body)

    def condition(self, node: IfThenElse) -> None:
        self.line(f"if ({_bare(self.text(node.condition))})")
        self.braces(node.then_case)
        if node.else_case is not None:
            self.line("else")
            self.braces(node.else_case)

    def store(self, node: BufferStore) -> None:
        self.line(f"{node.buffer.name}[{self.texts(node.indices)}] = {self.text(node.value)}")

    def realize(self, node: BlockRealize) -> None:
        if is_true(node.predicate):
            self.schedule_block(node.block, node.iter_values)
            return
        self.line(f"if ({_bare(self.text(node.predicate))})")
        self.line("{")
        self.open()
        self.schedule_block(node.block, node.iter_values)
        self.close()

    def schedule_block(self, block: Block, values: Any = ()) -> None:
        self.line(f"ScheduleBlock({block.name_hint})")
        self.line("{")
        self.open()
        self.domains.update({v.var: v.dom for v in block.iter_vars})
        if block.iter_vars and values:
            names = ", ".join([v.var.name for v in block.iter_vars])
            self.line(f"{names} = axis.bind({self.texts(values)})")
        self.regions("read_buffers", block.reads)
        self.regions("write_buffers", block.writes)
        if block.annotations:
            attrs = ", ".join([f"{k}:{self.text(v)}" for k, v in sorted(block.annotations.items())])
            self.line(f"attrs({attrs})")
        if block.init is not None:
            self.line("init")
            self.braces(block.init)
        in_braces = self.with_lists and isinstance(block.body, (For, BlockRealize))
        if isinstance(block.body, SeqStmt) or in_braces:
            self.braces(block.body)
        else:
            self.stmt(block.body)
        self.close()

    def function(self, node: PrimFunc) -> None:
        body = node.body
        if isinstance(body, BlockRealize):
            self.stmt(body)
        else:
            self.braces(body)

    def module(self, node: IRModule) -> None:
        for var, function in node.functions_items:
            self.line(f"function {var.name_hint}")
            self.function(function)


def _bare(text: str) -> str:
    """A text without the parentheses around all of it."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text


_Cinn.HANDLERS = {
    Var: lambda p, n: n.name,
    IterVar: lambda p, n: n.var.name,
    Buffer: lambda p, n: n.name,
    str: lambda p, n: quoted(n),
    StringImm: lambda p, n: quoted(n.value),
    IntImm: _Cinn.int,
    FloatImm: _Cinn.float,
    Add: infix(" + "),
    Sub: infix(" - "),
    Mul: infix(" * "),
    Div: infix(" / "),
    Mod: infix(" % "),
    FloorDiv: infix(" / "),
    FloorMod: infix(" % "),
    Min: prefix("cinn_min", "a", "b"),
    Max: prefix("cinn_max", "a", "b"),
    EQ: infix(" == "),
    NE: infix(" != "),
    LT: infix(" < "),
    LE: infix(" <= "),
    GT: infix(" > "),
    GE: infix(" >= "),
    And: infix(" and "),
    Or: infix(" or "),
    Not: lambda p, n: f"(!{p.text(n.a)})",
    Select: prefix("select", "condition", "true_value", "false_value"),
    Cast: lambda p, n: f"{n.dtype}({p.text(n.value)})",
    Call: _Cinn.call,
    Let: lambda p, n: f"(let {n.var.name} = {p.text(n.value)} in {p.text(n.body)})",
    Ramp: lambda p, n: f"Ramp({p.text(n.base)},{p.text(n.stride)},{n.dtype.lanes})",
    Broadcast: lambda p, n: f"Broadcast({p.text(n.value)},{n.dtype.lanes})",
    BufferLoad: lambda p, n: f"{n.buffer.name}[{p.texts(n.indices)}]",
    SeqStmt: lambda p, n: p.braces(n),
    Evaluate: lambda p, n: p.line(p.text(n.value)),
    BufferStore: _Cinn.store,
    For: _Cinn.loop,
    IfThenElse: _Cinn.condition,
    LetStmt: lambda p, n: p.line(f"{n.var.name} = {p.text(n.value)}") or n.body,
    AssertStmt: lambda p, n: p.line(f"assert({p.text(n.condition)}, {p.text(n.message)})") or n.body,
    While: lambda p, n: p.line(f"while ({_bare(p.text(n.condition))})") or p.braces(n.body),
    AttrStmt: lambda p, n: n.body,
    Allocate: lambda p, n: n.body,
    AllocateConst: lambda p, n: n.body,
    BufferRealize: lambda p, n: n.body,
    DeclBuffer: lambda p, n: n.body,
    BlockRealize: _Cinn.realize,
    Block: _Cinn.schedule_block,
    PrimFunc: _Cinn.function,
    IRModule: _Cinn.module,
}


def is_true(predicate: Any) -> bool:
    return isinstance(predicate, IntImm) and predicate.value == 1


def cinn_text(node: Any, *, regions: bool = True, lists: bool = False) -> str:
    """The text of a function, statement or expression as CINN prints it.

    Parameters
    ----------
    regions: whether to print what blocks read and write.
    lists: whether a block that holds one statement with blocks has it in braces of its own, as CINN
        prints a list of statements that is left with one.
    """
    if isinstance(node, (PrimFunc, IRModule, Stmt)):
        return "\n".join(cinn_with_nodes(node, regions, lists)[0])
    return _Cinn(regions, lists).text(node)


def cinn_with_nodes(
    node: PrimFunc | IRModule | Stmt, regions: bool = True, lists: bool = False
) -> tuple[list[str], list[Any]]:
    """The lines of `cinn_text`, and for each the statement that it is of."""
    printer = _Cinn(regions, lists)
    printer.stmt(node)
    return printer.lines, printer.nodes
