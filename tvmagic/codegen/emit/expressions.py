"""Expressions as LLVM instructions.

Arithmetic is that of NumPy: integers wrap, `floordiv` and `floormod` round down, division of an
integer by zero gives zero, shifts by too much give zero (or the sign), floats follow IEEE 754
(`ir/semantics.py` has the whole table).
The one liberty is `contract`: a product that is added becomes one fused multiply-add, which
rounds once instead of twice. No flag lets LLVM assume that NaN, infinities or the sign of zero
do not matter, nor reorder sums, unless a loop is annotated with `pragma_any_order`: below it the
terms of a sum, and the values of an extremum, are taken in whatever order is fastest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from tvmagic import ir
from tvmagic.arith.intervals import Intervals
from tvmagic.arith.overflow import leaves_type
from tvmagic.codegen.emit.conversions import CONVERSIONS, family
from tvmagic.codegen.emit.divisions import float_division, integer_division, low_bits, unseen
from tvmagic.codegen.emit.lane_masks import LaneMasks
from tvmagic.codegen.emit.signatures import check_call
from tvmagic.codegen.text.rules import RULES
from tvmagic.codegen.text.types import constant, flags_type, llvm_type, splat, suffix
from tvmagic.codegen.text.writer import FunctionText
from tvmagic.errors import BuildError
from tvmagic.ir.expr import INT32
from tvmagic.ir.query import contains
from tvmagic.ir.semantics import plain

if TYPE_CHECKING:
    from tvmagic.codegen.emit.module import ModuleContext

_ARITHMETIC = {ir.Add: "add", ir.Sub: "sub", ir.Mul: "mul"}
_OF_BOOLS = {ir.Add: "or", ir.Sub: "xor", ir.Mul: "and"}
_COMPARISON = {  # signed, unsigned, float (NE holds for NaN, as in C and NumPy)
    ir.EQ: ("eq", "eq", "oeq"), ir.NE: ("ne", "ne", "une"), ir.LT: ("slt", "ult", "olt"),
    ir.LE: ("sle", "ule", "ole"), ir.GT: ("sgt", "ugt", "ogt"), ir.GE: ("sge", "uge", "oge"),
}  # fmt: skip


def _counts(node: ir.PrimExpr) -> bool:
    """Whether an expression is made of variables and numbers alone, as indices are."""
    return not contains(node, ir.BufferLoad, ir.Call)


# Scalars that are put into a vector one after the other; LLVM's time for a chain grows with the third power of its length.
_JOINED = 16

# The numbers 0, 1, 2, ... in the lanes of a scalable vector.
STEPVECTOR = "llvm.stepvector"


class ExpressionEmitter(LaneMasks, ir.Visitor):
    """Emits the instructions of expressions into one function.

    `visit(expr)` gives the name of the value. `values` holds what each variable is; `index_values`
    the names of values made of loop variables and sizes only, which never overflow (the
    simplifier relies on that too) and so are computed with `nsw`.
    """

    def __init__(self, context: ModuleContext, text: FunctionText) -> None:
        self.context = context
        self.out = text
        self.values: dict[ir.Var, str] = {}
        self.index_values: set[str] = set()
        self.intervals = Intervals()
        LaneMasks.__init__(self)
        self.any_order = False

    # ------------------------------------------------------------------ leaves

    @ir.handles(ir.Node)
    def unknown(self, node: ir.Node) -> str:
        raise BuildError(
            f"there is no machine code for `{type(node).__name__}`",
            node=node,
            hint="lower the function first: `tvmagic.lower`",
            code="codegen.unsupported_expression",
        )

    @ir.handles(ir.IntImm, ir.FloatImm)
    def number(self, imm: ir.IntImm | ir.FloatImm) -> str:
        return constant(imm.dtype, plain(imm.value))

    @ir.handles(ir.StringImm)
    def string(self, imm: ir.StringImm) -> str:
        return self.context.text_constant(imm.value)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> str:
        found = self.values.get(var)
        return found if found is not None else self.missing(var)

    def missing(self, var: ir.Var) -> str:
        """What a variable is that this function does not define."""
        raise BuildError(
            f"the variable `{var.name}` is used where it is not defined", node=var, code="codegen.undefined_variable"
        )

    @ir.handles(ir.Let)
    def let(self, let: ir.Let) -> str:
        self.bind(let.var, self.visit(let.value), let.value)
        return self.visit(let.body)

    def bind(self, var: ir.Var, name: str, value: ir.PrimExpr) -> None:
        """Let `var` stand for the value called `name`."""
        self.values[var] = name
        if value.dtype.is_index:
            self.intervals.define(var, value)

    # ------------------------------------------------------------------ vectors

    @ir.handles(ir.Broadcast)
    def broadcast(self, broadcast: ir.Broadcast) -> str:
        return self.splat(self.visit(broadcast.value), broadcast.value.dtype, broadcast.dtype.lane_code)

    def splat(self, value: str, dtype: ir.DataType, lanes: int) -> str:
        """The scalar `value` in `lanes` lanes; a negative number is a lane code."""
        if lanes == 1:
            return value
        vector = dtype.with_lane_code(lanes)
        if not value.startswith(("%", "@")):
            return splat(value, vector)
        kind = llvm_type(vector)
        first = self.out.op(f"insertelement {kind} poison, {llvm_type(dtype)} {value}, i32 0")
        return self.out.op(
            f"shufflevector {kind} {first}, {kind} poison, {llvm_type(INT32.with_lane_code(lanes))} zeroinitializer"
        )

    @ir.handles(ir.Ramp)
    def ramp(self, ramp: ir.Ramp) -> str:
        base, stride = self.visit(ramp.base), self.visit(ramp.stride)
        scalar, kind = llvm_type(ramp.base.dtype), llvm_type(ramp.dtype)
        if ramp.dtype.is_scalable:
            return self._scalable_ramp(ramp, base, stride, kind)
        lanes = ramp.dtype.lanes
        if isinstance(ramp.stride, ir.IntImm):
            steps = "<" + ", ".join(f"{scalar} {i * ramp.stride.value}" for i in range(lanes)) + ">"
        else:
            numbers = "<" + ", ".join(f"{scalar} {i}" for i in range(lanes)) + ">"
            steps = self.out.op(f"mul {kind} {self.splat(stride, ramp.stride.dtype, lanes)}, {numbers}")
        return self._mark(self.out.op(f"add {kind} {self.splat(base, ramp.base.dtype, lanes)}, {steps}"), base)

    def _scalable_ramp(self, ramp: ir.Ramp, base: str, stride: str, kind: str) -> str:
        code = ramp.dtype.lane_code
        name = f"{STEPVECTOR}.{suffix(ramp.dtype)}"
        steps = self.out.op(f"call {kind} {self.context.text.declare(name, kind, '')}()")
        steps = self.out.op(f"mul {kind} {self.splat(stride, ramp.stride.dtype, code)}, {steps}")
        return self._mark(self.out.op(f"add {kind} {self.splat(base, ramp.base.dtype, code)}, {steps}"), base)

    def _mark(self, name: str, *operands: str) -> str:
        if all(self.is_index(o) for o in operands):
            self.index_values.add(name)
        return name

    def is_index(self, name: str) -> bool:
        """Whether a value is made of loop variables, sizes and constants only."""
        return name in self.index_values or name[0] not in "%@"

    @ir.handles(ir.Shuffle)
    def shuffle(self, shuffle: ir.Shuffle) -> str:
        lanes: list[tuple[str, ir.DataType, int]] = []
        code = shuffle.vectors[0].dtype.lane_code
        if self.mask is None and code > 1 and all(v.dtype.lane_code == code for v in shuffle.vectors):
            return self._shuffled([self.visit(v) for v in shuffle.vectors], code, shuffle)
        for vector in shuffle.vectors:
            code = vector.dtype.lane_code
            with self.masked(self.mask_of_picked(shuffle, len(lanes), code), code):
                name = self.visit(vector)
            lanes += [(name, vector.dtype, lane) for lane in range(vector.dtype.lane_code)]
        picked = []
        for place in _places(shuffle, len(lanes)):
            name, dtype, lane = lanes[place]
            picked.append(name if dtype.lane_code == 1 else self.lane(name, dtype, lane))
        return self.join(picked, shuffle.vectors[0].dtype.element_of)

    def _shuffled(self, vectors: list[str], lanes: int, shuffle: ir.Shuffle) -> str:
        """What a shuffle picks of vectors of `lanes` lanes, as one shuffle of all of them side by side."""
        total, dtype = lanes * len(vectors), shuffle.vectors[0].dtype.element_of
        places = _places(shuffle, total)
        wide, kind = self._side_by_side(vectors, dtype, lanes, total), llvm_type(dtype.with_lane_code(total))
        if len(places) == 1:
            return self.lane(wide, dtype.with_lane_code(total), places[0])
        picks = ", ".join(f"i32 {place}" for place in places)
        return self.out.op(f"shufflevector {kind} {wide}, {kind} poison, <{len(places)} x i32> <{picks}>")

    def lane(self, vector: str, dtype: ir.DataType, lane: int) -> str:
        """One lane of a vector."""
        return self.out.op(f"extractelement {llvm_type(dtype)} {vector}, i32 {lane}")

    def join(self, scalars: list[str], dtype: ir.DataType) -> str:
        """The vector of the scalars; the scalar itself if there is one."""
        if len(scalars) == 1:
            return scalars[0]
        lanes = min(_JOINED, len(scalars))
        parts = [self._inserted(scalars[i : i + lanes], dtype, lanes) for i in range(0, len(scalars), lanes)]
        return self._side_by_side(parts, dtype, lanes, len(scalars))

    def _side_by_side(self, parts: list[str], dtype: ir.DataType, lanes: int, total: int) -> str:
        """The first `total` lanes of vectors of `lanes` lanes, one behind the other."""
        while len(parts) > 1:
            pairs = itertools.zip_longest(parts[::2], parts[1::2], fillvalue="poison")
            kept = min(2 * lanes, total)  # of the last pair, what is beyond them is left out
            parts = [self._concatenate(a, b, dtype, lanes, kept) for a, b in pairs]
            lanes *= 2
        return parts[0]

    def _inserted(self, scalars: list[str], dtype: ir.DataType, lanes: int) -> str:
        """The vector of `lanes` lanes whose first are the scalars."""
        kind, vector = llvm_type(dtype.with_lane_code(lanes)), "poison"
        for i, scalar in enumerate(scalars):
            vector = self.out.op(f"insertelement {kind} {vector}, {llvm_type(dtype)} {scalar}, i32 {i}")
        return vector

    def _concatenate(self, a: str, b: str, dtype: ir.DataType, lanes: int, kept: int) -> str:
        """The first `kept` lanes of two vectors of `lanes` lanes, one behind the other."""
        kind, places = llvm_type(dtype.with_lane_code(lanes)), ", ".join(f"i32 {i}" for i in range(kept))
        return self.out.op(f"shufflevector {kind} {a}, {kind} {b}, <{kept} x i32> <{places}>")

    # ------------------------------------------------------------------ arithmetic

    @ir.handles(ir.Add, ir.Sub, ir.Mul)
    def arithmetic(self, node: ir.BinaryOp) -> str:
        a, b = self.visit(node.a), self.visit(node.b)
        dtype, name = node.dtype, _ARITHMETIC[type(node)]
        kind = llvm_type(dtype)
        if dtype.code == "bfloat":
            return self._by_float32(dtype, [a, b], lambda k, x, y: f"f{name} {k} {x}, {y}")
        if dtype.is_float:
            order = "reassoc " if self.any_order else ""
            return self.out.op(f"f{name} {order}contract {kind} {a}, {b}")
        if dtype.is_bool:
            return self.out.op(f"{_OF_BOOLS[type(node)]} {kind} {a}, {b}")
        is_index = dtype.is_int and dtype.bits >= 32 and self.is_index(a) and self.is_index(b)
        if is_index and not leaves_type(node, self.intervals.of):
            flag = "" if self.context.check_bounds else " nsw"
            result = self.out.op(f"{name}{flag} {kind} {a}, {b}")
            self.index_values.add(result)
            return result
        counted = isinstance(node, ir.Mul) and isinstance(node.b, ir.IntImm) and _counts(node.a)
        if counted and leaves_type(node, self.intervals.of):
            b = unseen(self, dtype, a, b)
        return self.out.op(f"{name} {kind} {a}, {b}")

    def _by_float32(self, dtype: ir.DataType, values: list[str], text: Callable[..., str]) -> str:
        """An operation of bfloat16, computed in float32 and rounded once."""
        wide = ir.DataType("float32").with_lane_code(dtype.lane_code)
        result = self.out.op(text(llvm_type(wide), *[self.convert(v, dtype, wide) for v in values]))
        return self.convert(result, wide, dtype)

    @ir.handles(ir.Min, ir.Max)
    def extreme(self, node: ir.BinaryOp) -> str:
        a, b = self.visit(node.a), self.visit(node.b)
        word = "min" if isinstance(node, ir.Min) else "max"
        if node.dtype.is_bool:
            return self.out.op(f"{'and' if word == 'min' else 'or'} {llvm_type(node.dtype)} {a}, {b}")
        if not node.dtype.is_float:
            return self._mark(self.intrinsic(f"{'s' if node.dtype.is_int else 'u'}{word}", node.dtype, a, b), a, b)
        wide = node.dtype.bits > 16 or self.any_order  # one by one, halves are better compared as they are
        if not self.context.family.launches and node.dtype.code == "float" and wide and node.dtype.bits <= 64:
            # NumPy lets NaN through, as this does: an instruction of its own, or on x86 one for the extreme, and two for a NaN of
            # one side. LLVM knows it to be the same in any order; of two zeros any will do.
            return self.intrinsic(f"{word}imum", node.dtype, a, b, flags="nsz ")
        # The comparison gives `b` where either side is NaN; `a` is chosen where it is NaN. A constant is not.
        for side, name in ((node.a, a), (node.b, b)):
            number = side.value if isinstance(side, ir.Broadcast) else side
            if isinstance(number, ir.FloatImm) and number.value != number.value:
                return name
        kind, flags = llvm_type(node.dtype), self.condition_type(node.dtype)
        if b[0] not in "%@":
            a, b = b, a
        order = self.float_comparison("olt" if word == "min" else "ogt", node.dtype, a, b)
        chosen = self.out.op(f"select {flags} {order}, {kind} {a}, {kind} {b}")
        if a[0] not in "%@":
            return chosen
        unordered = self.float_comparison("uno", node.dtype, a, a)
        return self.out.op(f"select {flags} {unordered}, {kind} {a}, {kind} {chosen}")

    def float_comparison(self, word: str, dtype: ir.DataType, a: str, b: str) -> str:
        """LLVM's comparison `word` of floats; those of bfloat16 are compared as float32."""
        if dtype.code == "bfloat" or dtype.bits == 16 and self.context.family.widens_half:
            wide = ir.DataType("float32").with_lane_code(dtype.lane_code)
            x = self.convert(a, dtype, wide)
            return self.float_comparison(word, wide, x, x if a == b else self.convert(b, dtype, wide))
        return self.out.op(f"fcmp {word} {llvm_type(dtype)} {a}, {b}")

    @staticmethod
    def condition_type(dtype: ir.DataType) -> str:
        """The type of a condition on every lane of `dtype`."""
        return flags_type(dtype.lane_code)

    def intrinsic(self, name: str, dtype: ir.DataType, *args: str, extra: str = "", flags: str = "") -> str:
        """A call of LLVM's intrinsic `name` on values of type `dtype`, with fast-math `flags`; `extra` goes after the
        arguments."""
        kind = llvm_type(dtype)
        types = ", ".join([kind] * len(args) + ([extra.split()[0]] if extra else []))
        function = self.context.text.declare(f"llvm.{name}.{suffix(dtype)}", kind, types)
        values = ", ".join([f"{kind} {a}" for a in args] + ([extra] if extra else []))
        return self.out.op(f"call {flags}{kind} {function}({values})")

    @ir.handles(ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)
    def division(self, node: ir.BinaryOp) -> str:
        if node.dtype.is_float:
            return float_division(self, node)
        a, b = self.visit(node.a), self.visit(node.b)
        if node.dtype.is_bool:
            return self._bool_division(node, a, b)
        return self._mark(integer_division(self, node, a, b), a, b)

    def _bool_division(self, node: ir.BinaryOp, a: str, b: str) -> str:
        kind = llvm_type(node.dtype)
        if isinstance(node, (ir.Mod, ir.FloorMod)):
            return constant(node.dtype, 0)
        return self.out.op(f"and {kind} {a}, {b}")

    # ------------------------------------------------------------------ conditions

    @ir.handles(ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE)
    def comparison(self, node: ir.BinaryOp) -> str:
        a, b = self.visit(node.a), self.visit(node.b)
        dtype = node.a.dtype
        signed, unsigned, ordered = _COMPARISON[type(node)]
        if dtype.is_float:
            return self.float_comparison(ordered, dtype, a, b)
        word = signed if dtype.is_int else unsigned
        return self._mark(self.out.op(f"icmp {word} {llvm_type(dtype)} {a}, {b}"), a, b)

    @ir.handles(ir.And, ir.Or)
    def logical(self, node: ir.BinaryOp) -> str:
        word = "and" if isinstance(node, ir.And) else "or"
        a = self.visit(node.a)
        if node.dtype.lane_code == 1 and self.context.is_guarded(node.b):
            return self._short_circuit(word, a, node.b)
        b = self.visit(node.b)
        return self._mark(self.out.op(f"{word} {llvm_type(node.dtype)} {a}, {b}"), a, b)

    def _in_lanes(self, lane: str, node: ir.PrimExpr, lanes: int) -> str:
        """The value of `node`, which reads memory in the lanes that `lane` holds for only."""
        with self.masked(self.also_masked(lane, lanes), lanes):
            return self.visit(node)

    def _short_circuit(self, word: str, a: str, right: ir.PrimExpr) -> str:
        """The right side may read memory that is there only if the left side says so."""
        more, done = self.out.new_block("more"), self.out.new_block("done")
        first = self.out.block
        self.out.branch(a, *((more, done) if word == "and" else (done, more)))
        self.out.start(more)
        b = self.visit(right)
        last = self.out.block
        self.out.jump(done)
        self.out.start(done)
        short = "false" if word == "and" else "true"
        return self.out.op(f"phi i1 [ {short}, %{first} ], [ {b}, %{last} ]")

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> str:
        return self.out.op(f"xor {llvm_type(node.dtype)} {self.visit(node.a)}, {constant(node.dtype, 1)}")

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> str:
        condition = self.visit(node.condition)
        lanes = node.condition.dtype.lane_code
        then, other = self.visit(node.true_value), self.visit(node.false_value)
        kind = llvm_type(node.dtype)
        name = self.out.op(f"select {flags_type(lanes)} {condition}, {kind} {then}, {kind} {other}")
        return self._mark(name, condition, then, other)

    def conditional(self, condition: ir.PrimExpr, then: ir.PrimExpr, other: ir.PrimExpr) -> str:
        """`if_then_else`: only the side that is taken is computed."""
        chosen = self.visit(condition)
        kind = llvm_type(then.dtype)
        lanes = condition.dtype.lane_code
        if lanes != 1:
            return self._masked_sides(chosen, then, other, lanes)
        if self.mask is None and not self.context.is_guarded(then) and not self.context.is_guarded(other):
            first, second = self.visit(then), self.visit(other)
            return self._mark(
                self.out.op(f"select i1 {chosen}, {kind} {first}, {kind} {second}"), chosen, first, second
            )
        blocks = [self.out.new_block(hint) for hint in ("then", "else", "join")]
        self.out.branch(chosen, blocks[0], blocks[1])
        sides = []
        for block, side in zip(blocks, (then, other)):
            self.out.start(block)
            value = self.visit(side)
            sides.append(f"[ {value}, %{self.out.block} ]")
            self.out.jump(blocks[2])
        self.out.start(blocks[2])
        return self.out.op(f"phi {kind} {', '.join(sides)}")

    def _masked_sides(self, chosen: str, then: ir.PrimExpr, other: ir.PrimExpr, lanes: int) -> str:
        flags = flags_type(lanes)
        inverse = self.out.op(f"xor {flags} {chosen}, splat (i1 true)")
        sides = [self._in_lanes(chosen, then, lanes), self._in_lanes(inverse, other, lanes)]
        kind = llvm_type(then.dtype)
        return self.out.op(f"select {flags} {chosen}, {kind} {sides[0]}, {kind} {sides[1]}")

    # ------------------------------------------------------------------ conversions

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> str:
        value = self.visit(node.value)
        source, target = node.value.dtype, node.dtype
        if not source.is_float and not target.is_float and 8 <= target.bits < source.bits and _counts(node.value):
            value = low_bits(self, source, value, (1 << target.bits) - 1)
        return self._mark(self.convert(value, node.value.dtype, node.dtype), value)

    def convert(self, value: str, source: ir.DataType, target: ir.DataType) -> str:
        """`value` of type `source` converted to `target`, as C and NumPy convert."""
        if source is target:
            return value
        if source.is_scalar and target.is_vector:
            scalar = target.element_of
            return self.splat(self.convert(value, source, scalar), scalar, target.lane_code)
        rule = CONVERSIONS.get((family(source), family(target)))
        if rule is None:
            raise BuildError(
                f"there is no conversion from `{source}` to `{target}`", code="codegen.unsupported_conversion"
            )
        return rule(self, value, source, target)

    @ir.handles(ir.Call)
    def call(self, call: ir.Call) -> str:
        if isinstance(call.op, ir.GlobalVar):
            return self.context.call_function(self, call)
        rule = RULES.get(call.op.name)
        if rule is None:
            raise BuildError(
                f"there is no machine code for the operator `{call.op.name}`",
                node=call,
                code="codegen.unsupported_operator",
            )
        check_call(call)
        if self.mask is None or all(arg.dtype.lane_code in (1, call.dtype.lane_code) for arg in call.args):
            return rule(self, call)
        with self.masked(self.mask_of(1), 1):  # lanes of such arguments are not those of the result
            return rule(self, call)


def _places(shuffle: ir.Shuffle, lanes: int) -> list[int]:
    """The lanes that a shuffle picks of the `lanes` lanes of its vectors."""
    places = [index.value for index in shuffle.indices if isinstance(index, ir.IntImm) and 0 <= index.value < lanes]
    if len(places) < len(shuffle.indices):
        raise BuildError(
            "the lanes that `Shuffle` picks are constants within its vectors",
            node=shuffle,
            code="codegen.shuffle_not_constant",
        )
    return places
