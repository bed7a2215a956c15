"""The text in which CINN prints scheduled programs.

    ScheduleBlock(C)
    {
      i0 = axis.bind(i)
      C[i0] = ((A[i0] * 2.00000000f) + 1.00000000f)
    }

A body is in braces on lines of their own, two columns a level. A block's body is in braces once more if it is a
list: several statements, or a list of one, which is a `SeqStmt` with one statement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet
from tvmagic.cinn.cinn_form import (
    FOR_TYPE,
    VECTOR_LENGTH,
    accesses_in_order,
    buffer_name,
    has_outer_braces,
    holds_blocks,
    in_order,
    init_block_of,
    with_schedule_blocks,
)
from tvmagic.cinn.text.functions import CINN_NAMES, EXTERNAL
from tvmagic.cinn.text.non_negative import at_least_0, never_negative
from tvmagic.cinn.text.numbers import float_text, int_text, plain_float
from tvmagic.ir.operators import COMPARISON_SIGNS
from tvmagic.ir.ops import add
from tvmagic.ir.query import is_call
from tvmagic.script.printer.braces import BracesPrinter, infix, prefix
from tvmagic.script.printer.buffers import producer_name
from tvmagic.script.printer.literals import quoted

__all__ = ["CinnPrinter", "cinn_text", "cinn_with_nodes", "memory_statement", "type_name"]


class CinnPrinter(BracesPrinter):
    def __init__(self, regions: bool, lists: bool) -> None:
        super().__init__(2)
        self.domains: dict[ir.Var, ir.Range | IntSet | None] = {}  # the values of variables of the text
        self.with_regions, self.with_lists = regions, lists
        self.init_block = ""  # the name of the block `B__reduce_init` whose body is printed
        self.flat: ir.Var | None = None  # the variable of a block whose loops were flattened

    # ------------------------------------------------------------------ expressions

    def call(self, node: ir.Call) -> str:
        if is_call(node, "tir.tvm_storage_sync"):
            return "__syncthreads()"
        kind = memory_statement(node)
        if kind is not None:
            return f"{kind}({', '.join([_unquoted(a, self) for a in node.args[1:]])})"
        if is_call(node, "tir.call_pure_extern") and str(getattr(node.args[0], "value", "")).startswith(EXTERNAL):
            return f"{node.args[0].value}({self.texts(node.args[1:])})"  # type: ignore[attr-defined]
        name = node.op.name_hint if isinstance(node.op, ir.GlobalVar) else node.op.script_name
        return f"{CINN_NAMES.get(name, name)}({self.texts(node.args)})"

    def reduction(self, node: ir.Reduce) -> str:
        """`Reduce(sum, body,init)`: the axes are not named."""
        place, combiner = node.value_index, node.combiner
        name = _REDUCED.get(type(combiner.result[place]), "sum")
        init = node.init[place] if node.init else combiner.identity_element[place]
        return f"Reduce({name}, {self.text(node.source[place])},{self.text(init)})"

    def difference(self, node: ir.Sub) -> str:
        """`-(x)` is the difference of x from zero, for floats from -0.0: its value is -x to the bit."""
        if node.a.span:  # a zero of the text
            return f"({self.text(node.a)} - {self.text(node.b)})"
        zero = isinstance(node.a, ir.IntImm) and node.a.value == 0
        minus_zero = isinstance(node.a, ir.FloatImm) and node.a.value == 0 and math.copysign(1, node.a.value) < 0
        if zero or minus_zero:
            return f"-({self.text(node.b)})"
        return f"({self.text(node.a)} - {self.text(node.b)})"

    def rounded_down(self, node: ir.FloorDiv | ir.FloorMod) -> str:
        """`/` and `%` are C's, which differ from those that round down if a number is negative."""
        quotient = isinstance(node, ir.FloorDiv)
        if never_negative(node.a, self.domains) and never_negative(node.b, self.domains):
            return f"({self.text(node.a)} {'/' if quotient else '%'} {self.text(node.b)})"
        return f"{'floordiv' if quotient else 'floormod'}({self.text(node.a)}, {self.text(node.b)})"

    # ------------------------------------------------------------------ regions

    def regions(self, word: str, found: Sequence[ir.BufferLoad | ir.BufferStore]) -> None:
        """The line of what a block loads or stores, an entry for each access in the order of the text."""
        if found and self.with_regions:
            self.line(f"{word}({', '.join([self.region(a) for a in found])})")

    def region(self, access: ir.BufferLoad | ir.BufferStore) -> str:
        """`_A[i0(0:8)]`: the indices that are plain variables, each with its bounds."""
        if self.flat is not None and len(access.indices) > 1:
            plain: list[Any] = [i for i in [flat_index(access, self.flat)] if isinstance(i, ir.Var)]
        else:
            plain = [index for index in access.indices if isinstance(index, ir.Var)]
        return f"{buffer_name(access.buffer)}[{', '.join([self.bounds(v) for v in plain])}]"

    def bounds(self, var: ir.Var) -> str:
        domain = self.domains.get(var)
        if not isinstance(domain, ir.Range):
            return f"{var.name}(undefined:undefined)"
        return f"{var.name}({self.text(domain.min)}:{self.text(add(domain.min, domain.extent))})"

    # ------------------------------------------------------------------ statements

    def braces(self, body: Any) -> None:
        self.line("{")
        self.open()
        for part in body.seq if isinstance(body, ir.SeqStmt) else (body,):
            self.stmt(part)
        self.close()

    def kind(self, node: ir.For) -> str:
        """The word in front of `for`, with the blank after it; empty for a kind that CINN has no word for."""
        mark = node.annotations.get(FOR_TYPE)
        if mark is not None:
            name = str(getattr(mark, "value", mark))
            return {"Default": "default ", "Invalid": "thread_bind[invalid info] "}.get(name, "")
        if node.kind is ir.ForKind.VECTORIZED:
            return f"vectorize[{self.text(node.annotations.get(VECTOR_LENGTH, node.extent))}] "
        if node.kind is ir.ForKind.THREAD_BINDING:
            tag = node.thread_binding.thread_tag if node.thread_binding is not None else ""
            return f"thread_bind[{tag or 'invalid info'}] "
        return _KINDS[node.kind] + " "

    def loop(self, node: ir.For) -> None:
        low, extent = self.text(node.min), self.text(node.extent)
        self.domains[node.loop_var] = ir.Range.from_min_extent(node.min, node.extent)
        self.line(f"{self.kind(node)}for ({node.loop_var.name}, {low}, {extent})")
        self.braces(node.body)

    def part(self, body: ir.Stmt) -> None:
        """A part of a condition: a list has its own braces, one level deeper."""
        self.open()
        if isinstance(body, ir.SeqStmt):
            self.braces(body)
        else:
            self.stmt(body)
        self.level -= 1

    def guard(self, condition: Any, then_case: ir.Stmt, else_case: ir.Stmt | None = None) -> None:
        self.line(f"if ({self.text(condition)}) {{")
        self.part(then_case)
        if else_case is not None:
            self.line("} else {")
            self.part(else_case)
        self.line("}")

    def store(self, node: ir.BufferStore) -> None:
        name = self.init_block or node.buffer.name
        self.line(f"{name}[{self.places(node)}] = {self.text(node.value)}")

    def places(self, access: ir.BufferLoad | ir.BufferStore) -> str:
        """The indices of an access; in a block that FlattenLoops gave one variable, one flat index."""
        if self.flat is None or len(access.indices) < 2:
            return self.texts(access.indices)
        return self.text(flat_index(access, self.flat))

    def let(self, node: ir.LetStmt) -> ir.Stmt:
        value = "" if is_call(node.value, "tir.undef") else f" = {self.text(node.value)}"
        self.line(f"{type_name(node.var.dtype)} {node.var.name}{value}")
        self.assign(node.var, node.value)
        return node.body

    def let_value(self, node: ir.Let) -> str:
        value = self.text(node.value)
        self.assign(node.var, node.value)
        return f"(let {node.var.name} = {value} in {self.text(node.body)})"

    def assign(self, var: ir.Var, value: ir.PrimExpr) -> None:
        """Keep whether a variable that gets a value can be negative."""
        positive = not value.dtype.is_float and never_negative(value, self.domains)
        self.domains[var] = at_least_0() if positive else IntSet.everything()

    def allocation(self, node: ir.Allocate) -> ir.Stmt:
        self.line(f"alloc(_{node.buffer_var.name}{''.join([', ' + self.text(e) for e in node.extents])})")
        return node.body

    def realize(self, node: ir.BlockRealize) -> None:
        if is_true(node.predicate):
            self.schedule_block(node.block, node.iter_values)
        else:
            self.guard(node.predicate, node.replace(predicate=_TRUE))

    def schedule_block(self, block: ir.Block, values: Any = ()) -> None:
        self.line(f"ScheduleBlock({block.name_hint})")
        self.line("{")
        self.open()
        self.domains.update({v.var: v.dom for v in block.iter_vars})
        if block.iter_vars and values:
            names = ", ".join([v.var.name for v in block.iter_vars])
            self.line(f"{names} = axis.bind({self.texts(values)})")
        outer, self.init_block = (self.init_block, self.flat), init_block_of(block)
        alone = [v.var for v in block.iter_vars if v.var.name == "_flat_i"]
        self.flat = alone[0] if len(alone) == len(block.iter_vars) == 1 else None
        if self.with_regions and not holds_blocks(block):
            loads, stores = accesses_in_order(block)
            self.regions("read_buffers", loads)
            self.regions("write_buffers", stores)
        if block.annotations:
            attrs = ", ".join([f"{k}:{attribute(v)}" for k, v in sorted(block.annotations.items())])
            self.line(f"attrs({attrs})")
        if block.init is not None:
            self.line("init")
            self.braces(block.init)
        if self.with_lists and isinstance(block.body, (ir.For, ir.BlockRealize)):
            self.braces(block.body)
        else:
            self.stmt(block.body)
        self.init_block, self.flat = outer
        self.close()

    def function(self, node: ir.PrimFunc) -> None:
        """The body of a function, in the braces of the list that holds its root."""
        if isinstance(node.body, ir.BlockRealize) and has_outer_braces(node):
            self.braces(node.body)
        elif isinstance(node.body, ir.BlockRealize):
            self.stmt(node.body)
        else:
            self.braces(node.body)

    def head(self, node: ir.PrimFunc, name: str) -> None:
        params = [buffer_name(node.buffer_map[p]) if p in node.buffer_map else p.name for p in node.params]
        self.line(f"function {name} ({', '.join(params)})")

    def whole(self, node: ir.PrimFunc) -> None:
        symbol = node.attrs.get("global_symbol", "main") if node.attrs else "main"
        self.head(node, str(getattr(symbol, "value", symbol)))
        self.function(node)

    def module(self, node: ir.IRModule) -> None:
        for number, (var, function) in enumerate(node.functions_items()):
            self.node = function
            self.head(function, var.name_hint)
            self.function(numbered_root(function, number))


_KINDS = {ir.ForKind.SERIAL: "serial", ir.ForKind.PARALLEL: "parallel", ir.ForKind.UNROLLED: "unroll"}
_REDUCED: dict[type, str] = {
    ir.Add: "sum", ir.Sub: "sub", ir.Div: "Div", ir.Mul: "Mul", ir.Max: "Max", ir.Min: "Min", ir.And: "&&", ir.Or: "||"
}  # fmt: skip
_TRUE = ir.IntImm("bool", 1)


def memory_statement(node: Any) -> str | None:
    """`alloc` or `free` if a call is one of these statements of CINN's text, which do nothing here."""
    if is_call(node, "tir.call_pure_extern") and isinstance(node.args[0], ir.StringImm):
        return node.args[0].value if node.args[0].value in ("alloc", "free") else None
    return None


def _unquoted(node: Any, printer: CinnPrinter) -> str:
    return node.value if isinstance(node, ir.StringImm) else printer.text(node)


def flat_index(access: ir.BufferLoad | ir.BufferStore, var: ir.Var) -> ir.PrimExpr:
    """The number of the element that an access touches: `var` itself if the indices are its digits by the shape."""
    shape = access.buffer.shape
    written = _by_digits(access.indices, shape)
    if written is not None:
        return written
    whole: ir.PrimExpr = ir.IntImm(var.dtype, 0)
    for index, size in zip(access.indices, shape):
        whole = whole * size + index
    domain = ir.Range.from_min_extent(
        ir.IntImm(var.dtype, 0), math.prod([s.value for s in shape if isinstance(s, ir.IntImm)])
    )
    return in_order(Analyzer({var: domain}).simplify(whole))


def _by_digits(indices: Sequence[ir.PrimExpr], shape: Sequence[ir.PrimExpr]) -> ir.PrimExpr | None:
    """The number of which the indices are the digits as the reader writes them: `n // 11` and `n % 11`, say."""
    last = indices[-1]
    if not isinstance(last, ir.FloorMod):
        return None
    digits, rest = [], last.a
    for size in reversed(shape[1:]):
        digits.append(ir.FloorMod(rest, size))
        rest = ir.FloorDiv(rest, size)
    digits.append(rest)
    return last.a if all(ir.structural_equal(a, b) for a, b in zip(reversed(digits), indices)) else None


def type_name(dtype: ir.DataType) -> str:
    """A type as CINN names it: `float32`, a vector `float32<4>`."""
    if dtype.lanes > 1:
        return f"{dtype.with_lanes(1)}<{dtype.lanes}>"
    return str(dtype)


def attribute(value: Any) -> str:
    """The value of an attribute: numbers and strings without quotes."""
    if isinstance(value, ir.FloatImm):
        return plain_float(value.value)
    if isinstance(value, ir.IntImm):
        return str(int(value.value))
    if isinstance(value, (ir.StringImm, str)):
        return value if isinstance(value, str) else value.value
    return str(value)


def numbered_root(function: ir.PrimFunc, number: int) -> ir.PrimFunc:
    """The function with its root called `root`, `root_0`, `root_1`, ..., as roots of a module are."""
    body = function.body
    name = "root" if number == 0 else f"root_{number - 1}"
    if not isinstance(body, ir.BlockRealize) or body.block.name_hint in (name, "") or number == 0:
        return function
    return function.with_body(body.replace(block=body.block.replace(name_hint=name)))


CinnPrinter.HANDLERS = {
    ir.Var: lambda p, n: n.name,
    ir.IterVar: lambda p, n: n.var.name,
    ir.Buffer: lambda p, n: n.name,
    str: lambda p, n: quoted(n),
    ir.StringImm: lambda p, n: quoted(n.value),
    ir.IntImm: lambda p, n: int_text(n),
    ir.FloatImm: lambda p, n: float_text(n),
    ir.Add: infix(" + "),
    ir.Sub: CinnPrinter.difference,
    ir.Mul: infix(" * "),
    ir.Div: infix(" / "),
    ir.Mod: infix(" % "),
    ir.FloorDiv: CinnPrinter.rounded_down,
    ir.FloorMod: CinnPrinter.rounded_down,
    ir.Min: prefix("cinn_min", "a", "b"),
    ir.Max: prefix("cinn_max", "a", "b"),
    **{op: infix(f" {sign} ") for op, sign in COMPARISON_SIGNS.items()},
    ir.And: infix(" and "),
    ir.Or: infix(" or "),
    ir.Not: lambda p, n: f"!{p.text(n.a)}",
    ir.Select: prefix("select", "condition", "true_value", "false_value"),
    ir.Cast: lambda p, n: f"{type_name(n.dtype)}({p.text(n.value)})",
    ir.Call: CinnPrinter.call,
    ir.Reduce: CinnPrinter.reduction,
    ir.Let: CinnPrinter.let_value,
    ir.Ramp: lambda p, n: f"Ramp({p.text(n.base)},{p.text(n.stride)},{n.dtype.lanes})",
    ir.Broadcast: lambda p, n: f"Broadcast({p.text(n.value)},{n.dtype.lanes})",
    ir.BufferLoad: lambda p, n: f"{n.buffer.name}[{p.places(n)}]",
    ir.ProducerLoad: lambda p, n: f"{producer_name(n.producer)}[{p.texts(n.indices)}]",
    ir.ProducerStore: lambda p, n: p.line(f"{producer_name(n.producer)}[{p.texts(n.indices)}] = {p.text(n.value)}"),
    ir.ProducerRealize: lambda p, n: n.body,
    ir.SeqStmt: lambda p, n: p.braces(n),
    ir.Evaluate: lambda p, n: (
        None if isinstance(n.value, ir.IntImm) else p.line(p.text(n.value))
    ),  # a number does nothing
    ir.BufferStore: CinnPrinter.store,
    ir.For: CinnPrinter.loop,
    ir.IfThenElse: lambda p, n: p.guard(n.condition, n.then_case, n.else_case),
    ir.LetStmt: CinnPrinter.let,
    ir.AssertStmt: lambda p, n: p.line(f"assert({p.text(n.condition)}, {p.text(n.message)})") or n.body,
    ir.While: lambda p, n: p.line(f"while ({p.text(n.condition)})") or p.braces(n.body),
    ir.AttrStmt: lambda p, n: n.body,
    ir.Allocate: CinnPrinter.allocation,
    ir.AllocateConst: lambda p, n: n.body,
    ir.BufferRealize: lambda p, n: n.body,
    ir.DeclBuffer: lambda p, n: n.body,
    ir.BlockRealize: CinnPrinter.realize,
    ir.Block: CinnPrinter.schedule_block,
    ir.PrimFunc: CinnPrinter.whole,
    ir.IRModule: CinnPrinter.module,
}


def is_true(predicate: Any) -> bool:
    return isinstance(predicate, ir.IntImm) and predicate.value == 1


def cinn_text(node: Any, *, regions: bool = True, lists: bool = False, head: bool = True) -> str:
    """The text of a module, function, statement or expression as CINN prints it.

    Parameters
    ----------
    regions: whether to print what blocks read and write.
    lists: whether a block that holds one statement with blocks has it in braces of its own. Lists of one that are
        part of the program, such as one that lost its other statements, are printed so in any case.
    head: whether the text of a function begins with the line `function NAME (_A, _B)`.

    The first values of a reduction are printed as the block `B__reduce_init`, also of functions that have them as
    an init, and predicates as conditions.
    """
    if isinstance(node, (ir.PrimFunc, ir.IRModule, ir.Stmt)):
        return "\n".join(cinn_with_nodes(node, regions, lists, head)[0])
    return CinnPrinter(regions, lists).text(node)


def cinn_with_nodes(
    node: ir.PrimFunc | ir.IRModule | ir.Stmt, regions: bool = True, lists: bool = False, head: bool = True
) -> tuple[list[str], list[Any]]:
    """The lines of `cinn_text`, and for each the statement that it is of."""
    printer = CinnPrinter(regions, lists)
    node = with_schedule_blocks(node)
    if isinstance(node, ir.PrimFunc) and not head:
        printer.function(node)
    else:
        printer.stmt(node)
    return printer.lines, printer.nodes
