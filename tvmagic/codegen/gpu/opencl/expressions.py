"""Expressions as OpenCL C: for each the texts of its lanes.

A text may be used several times and has no effect. What has to be computed before it is in `lines`, statements of the
block that is being written. The meaning is that of `tvmagic/ir/semantics.py`, as in machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.arith.intervals import Intervals
from tvmagic.codegen.emit.memory import flat_index
from tvmagic.codegen.emit.signatures import check_call
from tvmagic.codegen.gpu.opencl.helpers import helper_text
from tvmagic.codegen.gpu.opencl.operators import RULES
from tvmagic.codegen.gpu.opencl.types import Lanes, Plain, constant, memory_type, register_type
from tvmagic.errors import BuildError
from tvmagic.ir.operators import COMPARISON_SIGNS

_ARITHMETIC = {ir.Add: ("+", "|", "add"), ir.Sub: ("-", "^", "sub"), ir.Mul: ("*", "&", "mul")}
_DIVISION = {ir.Div: "truncdiv", ir.Mod: "truncmod", ir.FloorDiv: "floordiv", ir.FloorMod: "floormod"}
FLOAT32, FLOAT64 = ir.DataType("float32"), ir.DataType("float64")


class ExpressionWriter(ir.Visitor):
    """Writes expressions of one kernel. `helpers` holds the texts of what kernels call, by name."""

    def __init__(self, helpers: dict[str, str], arguments: dict[ir.Var, ir.Buffer]) -> None:
        self.helpers, self.arguments = helpers, arguments
        self.lines: list[str] = []
        self.values: dict[ir.Var, Lanes] = {}
        self.intervals = Intervals()
        self.names: set[str] = set()

    # ------------------------------------------------------------------ names and statements

    def name(self, base: str) -> str:
        """A new name, made of `base`."""
        text = "".join(c if c.isalnum() and c.isascii() else "_" for c in base) or "v"
        text = f"{text}_" if text[0].isdigit() or text in _RESERVED or text.startswith(("tvm_", "get_")) else text
        result, number = text, 0
        while result in self.names:
            number += 1
            result = f"{text}_{number}"
        self.names.add(result)
        return result

    def variable(self, dtype: ir.DataType, text: str = "", base: str = "t") -> str:
        """A new variable of one lane of a type, with a value if it is given."""
        name = self.name(base)
        self.lines.append(f"{register_type(dtype)} {name}{f' = {text}' if text else ''};")
        return name

    def helper(self, name: str, dtype: ir.DataType, *args: str) -> str:
        """A call of a helper."""
        symbol, text = helper_text(name, dtype.element_of)
        self.helpers.setdefault(symbol, text)
        return f"{symbol}({', '.join(args)})"

    def block(self, write: Callable[[], Any]) -> tuple[list[str], Any]:
        """The statements that `write` adds, apart from the others, and what it gives."""
        outer, self.lines = self.lines, []
        result = write()
        inner, self.lines = self.lines, outer
        return inner, result

    def indented(self, head: str, lines: list[str]) -> None:
        """Add `head { lines }`."""
        self.lines += [f"{head} {{", *(f"  {line}" for line in lines), "}"]

    # ------------------------------------------------------------------ leaves

    @ir.handles(ir.Node)
    def unknown(self, node: ir.Node) -> Lanes:
        raise BuildError(
            f"there is no OpenCL C for `{type(node).__name__}`",
            node=node,
            hint="lower the function first: `tvmagic.lower`",
            code="codegen.opencl.unsupported_expression",
        )

    @ir.handles(ir.IntImm, ir.FloatImm)
    def number(self, imm: ir.IntImm | ir.FloatImm) -> Lanes:
        return [constant(imm.dtype, imm.value)]

    @ir.handles(ir.StringImm)
    def string(self, imm: ir.StringImm) -> Lanes:
        raise BuildError(
            f"a kernel does nothing with the text `{imm.value}`", node=imm, code="codegen.opencl.unsupported_text"
        )

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> Lanes:
        found = self.values.get(var)
        return found if found is not None else self.missing(var)

    def missing(self, var: ir.Var) -> Lanes:
        """What a variable is that the kernel does not define."""
        raise BuildError(
            f"the variable `{var.name}` is used where it is not defined",
            node=var,
            code="codegen.opencl.undefined_variable",
        )

    @ir.handles(ir.Let)
    def let(self, let: ir.Let) -> Lanes:
        self.bind(let.var, let.value)
        return self.visit(let.body)

    def bind(self, var: ir.Var, value: ir.PrimExpr) -> None:
        """Let `var` be a variable of the kernel."""
        lanes = self.visit(value)
        kept = [self.variable(var.dtype, text, var.name) for text in lanes]
        self.values[var] = [Plain(k) if isinstance(t, Plain) else k for k, t in zip(kept, lanes)]
        if value.dtype.is_index:
            self.intervals.known[var] = self.intervals.of(value)

    # ------------------------------------------------------------------ vectors

    @ir.handles(ir.Broadcast)
    def broadcast(self, node: ir.Broadcast) -> Lanes:
        return self.visit(node.value) * _lanes(node.dtype)

    @ir.handles(ir.Ramp)
    def ramp(self, node: ir.Ramp) -> Lanes:
        dtype, numbers = node.dtype.element_of, range(1, _lanes(node.dtype))
        (base,), (stride,) = self.visit(node.base), self.visit(node.stride)
        if isinstance(node.stride, ir.IntImm):
            steps = [constant(dtype, n * node.stride.value) for n in numbers]
        else:
            steps = [self._computed(ir.Mul, dtype, constant(dtype, n), stride) for n in numbers]
        return [base, *(self._computed(ir.Add, dtype, base, step) for step in steps)]

    @ir.handles(ir.Shuffle)
    def shuffle(self, node: ir.Shuffle) -> Lanes:
        lanes = [lane for vector in node.vectors for lane in self.visit(vector)]
        if not all(isinstance(i, ir.IntImm) and 0 <= i.value < len(lanes) for i in node.indices):
            raise BuildError(
                "the lanes that `Shuffle` picks are constants within its vectors",
                node=node,
                code="codegen.opencl.shuffle_not_constant",
            )
        return [lanes[int(i)] for i in node.indices]  # type: ignore[call-overload]

    # ------------------------------------------------------------------ arithmetic

    def rounded(self, dtype: ir.DataType, text: str) -> str:
        """A float that was computed in the type of registers, as its own type holds it."""
        if not dtype.is_float or dtype.bits != 16:
            return text
        word = "bfloat" if dtype.code == "bfloat" else "half"
        return self.helper(f"from_{word}", dtype, self.helper(f"to_{word}", dtype, text))

    @ir.handles(ir.Add, ir.Sub, ir.Mul)
    def arithmetic(self, node: ir.BinaryOp) -> Lanes:
        return [self._computed(type(node), node.dtype, a, b) for a, b in zip(self.visit(node.a), self.visit(node.b))]

    def _computed(self, op: type[ir.BinaryOp], dtype: ir.DataType, a: str, b: str) -> str:
        """One lane of a sum, a difference or a product; integers wrap around."""
        sign, of_bools, word = _ARITHMETIC[op]
        if dtype.is_bool:
            return f"({a} {of_bools} {b})"
        if dtype.is_float:
            return self.rounded(dtype, f"({a} {sign} {b})")
        if isinstance(a, Plain) and isinstance(b, Plain) and dtype.bits >= 32:
            return Plain(f"({a} {sign} {b})")
        return f"({a} {sign} {b})" if dtype.is_uint and dtype.bits >= 32 else self.helper(word, dtype, a, b)

    @ir.handles(ir.Min, ir.Max)
    def extreme(self, node: ir.BinaryOp) -> Lanes:
        word = "min" if isinstance(node, ir.Min) else "max"
        if node.dtype.is_bool:
            sign = "&" if word == "min" else "|"
            return [f"({a} {sign} {b})" for a, b in zip(self.visit(node.a), self.visit(node.b))]
        return [
            _like(self.helper(word, node.dtype, a, b), a, b) for a, b in zip(self.visit(node.a), self.visit(node.b))
        ]

    @ir.handles(ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)
    def division(self, node: ir.BinaryOp) -> Lanes:
        return [self._quotient(node, a, b) for a, b in zip(self.visit(node.a), self.visit(node.b))]

    def _quotient(self, node: ir.BinaryOp, a: str, b: str) -> str:
        dtype, word = node.dtype, _DIVISION[type(node)]
        if dtype.is_bool:
            return "false" if word.endswith("mod") else f"({a} & {b})"
        if dtype.is_float:
            return self.rounded(dtype, f"({a} / {b})" if word == "truncdiv" else self.helper(word, dtype, a, b))
        if self.intervals.of(node.a)[0] >= 0 and self.intervals.of(node.b)[0] > 0:
            text = f"({a} {'%' if word.endswith('mod') else '/'} {b})"
            return _like(text if dtype.bits >= 32 else f"({register_type(dtype)}){text}", a, b)
        return _like(self.helper(word, dtype, a, b), a, b)

    # ------------------------------------------------------------------ conditions

    @ir.handles(ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE)
    def comparison(self, node: ir.CmpOp) -> Lanes:
        sign = COMPARISON_SIGNS[type(node)]
        return [_like(f"({a} {sign} {b})", a, b) for a, b in zip(self.visit(node.a), self.visit(node.b))]

    @ir.handles(ir.And, ir.Or)
    def logical(self, node: ir.BinaryOp) -> Lanes:
        is_and = isinstance(node, ir.And)
        a = self.visit(node.a)
        lines, b = self.block(lambda: self.visit(node.b))
        if not lines:
            return [_like(f"({x} {'&&' if is_and else '||'} {y})", x, y) for x, y in zip(a, b)]
        kept = [self.variable(node.dtype, text) for text in a]
        for name, value in zip(kept, b):
            self.indented(f"if ({name if is_and else f'!{name}'})", [*lines, f"{name} = {value};"])
        return kept

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> Lanes:
        return [_like(f"(!{a})", a) for a in self.visit(node.a)]

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> Lanes:
        return self.conditional(node.condition, node.true_value, node.false_value)

    def conditional(self, condition: ir.PrimExpr, then: ir.PrimExpr, other: ir.PrimExpr) -> Lanes:
        """The value of the side that is chosen; the other one is not computed."""
        conditions = self.visit(condition)
        first, a = self.block(lambda: self.visit(then))
        second, b = self.block(lambda: self.visit(other))
        if len(conditions) == 1:
            conditions = conditions * len(a)
        if not first and not second:
            return [_like(f"({c} ? {x} : {y})", c, x, y) for c, x, y in zip(conditions, a, b)]
        result: Lanes = []
        for chosen, x, y in zip(conditions, a, b):
            name = self.variable(then.dtype)
            self.indented(f"if ({chosen})", [*first, f"{name} = {x};"])
            self.indented("else", [*second, f"{name} = {y};"])
            result.append(name)
        return result

    # ------------------------------------------------------------------ conversions

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> Lanes:
        lanes = [self.convert(text, node.value.dtype, node.dtype) for text in self.visit(node.value)]
        return lanes * (_lanes(node.dtype) // len(lanes))

    def convert(self, text: str, source: ir.DataType, target: ir.DataType) -> str:
        """One lane converted as NumPy converts; what lies outside an integer type becomes its nearest end."""
        source, target = source.element_of, target.element_of
        if source is target:
            return text
        kind = register_type(target)
        if target.is_bool:
            return _like(f"({text} != 0)", text)
        if target.is_float:
            return self._to_float(text, source, target)
        if source.is_float:
            return f"({text} != {text} ? ({kind})0 : convert_{kind}_sat_rtz({text}))"
        return _like(f"(({kind}){text})", text) if target.bits >= 32 else f"(({kind}){text})"

    def _to_float(self, text: str, source: ir.DataType, target: ir.DataType) -> str:
        if target.bits != 16:
            return f"(({register_type(target)}){text})"
        if source.is_float and source.bits == 64 or not source.is_float and source.bits > 16:
            text = self.helper("to_odd", FLOAT64, f"((double){text})")
        return self.rounded(target, f"((float){text})")

    # ------------------------------------------------------------------ memory

    def element(self, buffer: ir.Buffer, index: str) -> str:
        """The element of a buffer at an index."""
        if buffer.dtype.lanes != 1:
            raise BuildError(
                f"there is no OpenCL C for buffers of vectors, as `{buffer.name}` is",
                code="codegen.opencl.buffer_of_vectors",
            )
        (pointer,) = self.visit(buffer.data)
        kind, known = memory_type(buffer.dtype), self.pointees.get(pointer)
        if known is not None and known != kind:
            space = self.spaces[pointer]
            return f"(({space} {kind}*){pointer})[{index}]"
        return f"{pointer}[{index}]"

    # by pointer: the type of its elements, and its address space
    pointees: dict[str, str]
    spaces: dict[str, str]

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> Lanes:
        buffer = node.buffer
        indices = self.visit(flat_index(buffer, node.indices, self.arguments.get(buffer.data)))
        loaded = [self.from_memory(buffer.dtype, self.element(buffer, index)) for index in indices]
        if node.predicate is None:
            return loaded
        zero = constant(buffer.dtype, 0)
        return [f"({p} ? {value} : {zero})" for p, value in zip(self.visit(node.predicate), loaded)]

    def from_memory(self, dtype: ir.DataType, text: str) -> str:
        """A loaded element as a value."""
        if dtype.is_bool:
            return f"({text} != 0)"
        if dtype.is_float and dtype.bits == 16:
            return self.helper("from_bfloat" if dtype.code == "bfloat" else "from_half", dtype, text)
        return text

    def to_memory(self, dtype: ir.DataType, text: str) -> str:
        """A value as it is stored."""
        if dtype.is_bool:
            return f"(uchar){text}"
        if dtype.is_float and dtype.bits == 16:
            return self.helper("to_bfloat" if dtype.code == "bfloat" else "to_half", dtype, text)
        return text

    # ------------------------------------------------------------------ operators

    @ir.handles(ir.Call)
    def call(self, call: ir.Call) -> Lanes:
        if isinstance(call.op, ir.GlobalVar):
            raise BuildError(
                f"a kernel cannot call the function `{call.op.name_hint}`",
                node=call,
                code="codegen.opencl.call_in_kernel",
            )
        rule = RULES.get(call.op.name)
        if rule is None:
            raise BuildError(
                f"there is no OpenCL C for the operator `{call.op.name}`",
                node=call,
                code="codegen.opencl.unsupported_operator",
            )
        check_call(call)
        return rule(self, call)


def _lanes(dtype: ir.DataType) -> int:
    if dtype.is_scalable:
        raise BuildError("there are no scalable vectors in OpenCL C", code="codegen.opencl.scalable_vectors")
    return dtype.lanes


def _like(text: str, *parts: str) -> str:
    """`text` as one of loop variables alone, if its parts are."""
    return Plain(text) if all(isinstance(p, Plain) for p in parts) else text


_RESERVED = frozenset(
    """auto bool break case char const continue default do double else enum extern float for goto half if image2d_t inline
    int long register return short signed sizeof static struct switch typedef uchar uint ulong union unsigned ushort void
    volatile while kernel global local constant private main min max abs sin cos exp log sqrt pow floor ceil round event_t
    sampler_t size_t uniform pipe generic exp2 exp10 log2 log10 tan tanh fabs fmod fma clamp mix step sign dot cross length
    distance normalize select any all true false barrier erf rint trunc isnan isinf popcount clz rotate hypot half_sqrt""".split()
)
