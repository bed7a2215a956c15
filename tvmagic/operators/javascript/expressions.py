"""Expressions as JavaScript.

Integers of up to 32 bits, and wider ones that are provably small (indices), are numbers; other 64-bit integers are
BigInt. Bools are booleans. Each operation on floats rounds to its type.

With bounds, each value has a second one: how far what another order of the same operations gives may be from it. Floats
are then computed in float64. Comparisons that the bound leaves open have 1 as their error, and what they choose
has the distance of both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.arith.intervals import Intervals
from tvmagic.errors import TVMagicError
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.operators import COMPARISON_SIGNS
from tvmagic.ir.query import callee
from tvmagic.ir.semantics import plain, round_float
from tvmagic.te.error_bound import FORMATS, format_of
from tvmagic.te.error_functions import units_of

EXACT = "0"
_SMALL = 1 << 52
# What rounds to a type that float64 is wider than, in arithmetic.js.
_NUMBER = {"float32": "fround", "float16": "half", "bfloat16": "brain"}
_LEAST = 1e-44  # what `err` in arithmetic.js takes by default
_COMPARE = {**COMPARISON_SIGNS, ir.EQ: "===", ir.NE: "!=="}
# Functions of one float that rise or fall all the way.
_MONOTONE = frozenset(
    {"exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf", "sqrt", "rsqrt", "sinh",
     "asin", "acos", "atan", "asinh", "atanh", "acosh"}
)  # fmt: skip
_WAVES = {"sin": 16, "cos": 16}
_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "nearbyint": "rint"}
_BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


@dataclass(frozen=True)
class Value:
    """A value as JavaScript: its text, the text of its error, and whether it is a BigInt."""

    text: str
    error: str = EXACT
    big: bool = False


class ExpressionWriter(ir.Visitor):
    """Writes expressions: `visit` gives a `Value`, and adds the lines that it needs to `lines`.

    `env` has the values of variables; `bounds`: write errors too.
    """

    def __init__(self, bounds: bool) -> None:
        self.bounds = bounds
        self.lines: list[str] = []
        self.env: dict[ir.Var, Value] = {}
        self.intervals = Intervals()
        self._known: dict[int, tuple[ir.PrimExpr, Value]] = {}
        self._count = 0

    # ------------------------------------------------------------------ lines

    def name(self, base: str = "v") -> str:
        """A new name."""
        self._count += 1
        return f"{base}{self._count}"

    def value(self, expr: ir.PrimExpr) -> Value:
        """`expr`, written once in each scope."""
        known = self._known.get(id(expr))
        if known is not None:
            return known[1]
        result = self.visit(expr)
        self._known[id(expr)] = (expr, result)
        return result

    def number(self, expr: ir.PrimExpr) -> str:
        """`expr`, an index or a size, as a number."""
        value = self.value(expr)
        return f"Number({value.text})" if value.big else value.text

    def scope(self) -> Scope:
        """`with writer.scope():` for lines inside braces: what is written there is not known behind them."""
        return Scope(self)

    def bind(self, dtype: ir.DataType, text: str, error: str = EXACT, big: bool = False) -> Value:
        """A new constant of type `dtype`."""
        if dtype.is_float and not self.bounds:
            text = self.rounded(dtype, text)
        name = self.name()
        self.lines.append(f"{'let' if self._may_overflow(dtype) else 'const'} {name} = {text};")
        if error == EXACT or not self.bounds:
            return Value(name, EXACT, big)
        self.lines.append(f"const e{name} = {error};")
        return Value(name, f"e{name}", big)

    @staticmethod
    def rounded(dtype: ir.DataType, text: str) -> str:
        """The float `text` rounded to `dtype`."""
        return text if dtype.bits == 64 else f"{_NUMBER[str(dtype)]}({text})"

    def _may_overflow(self, dtype: ir.DataType) -> bool:
        """Whether what is infinite in `dtype` may be a number here."""
        return self.bounds and dtype.is_float and dtype.bits < 64

    # ------------------------------------------------------------------ errors

    @staticmethod
    def relative(dtype: ir.DataType, times: float) -> float:
        """The relative error of so many roundings, with a rest for what comes of errors of errors."""
        return format_of(dtype).unit * times

    def unit(self, dtype: ir.DataType, times: float) -> str:
        """The last arguments of `err` and of what calls it: the relative error of so many roundings, and the absolute one
        that they have among subnormal numbers, unless it is that of a few float32."""
        least = format_of(dtype).tiny / 2 * times
        return f"{self.relative(dtype, times)!r}{f', {least!r}' if least > _LEAST else ''}"

    def rounding(self, dtype: ir.DataType, text: str, times: float = 2) -> str:
        """The error of rounding the value `text`."""
        return f"err({text}, {self.unit(dtype, times)})"

    @staticmethod
    def edge(dtype: ir.DataType) -> str:
        """The least number that `dtype` rounds to infinity."""
        return f"edges.{_NUMBER[str(dtype)]}"

    def unknown(self, *values: Value) -> str:
        """The error of what nothing is known of unless the values are exact."""
        error = self.both(*[v.error for v in values])
        return EXACT if error == EXACT else f"({error} > 0 ? Infinity : 0)"

    @staticmethod
    def either(*errors: str) -> str:
        """The larger of errors."""
        some = list(dict.fromkeys([e for e in errors if e != EXACT]))
        return EXACT if not some else some[0] if len(some) == 1 else f"Math.max({', '.join(some)})"

    @staticmethod
    def both(*errors: str) -> str:
        """The sum of errors."""
        return " + ".join([e for e in errors if e != EXACT]) or EXACT

    # ------------------------------------------------------------------ leaves

    @ir.handles(ir.Node)
    def other(self, node: ir.Node) -> Value:
        raise TVMagicError(
            f"`{type(node).__name__}` has no form in JavaScript", node=node, code="javascript.unsupported_expression"
        )

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> Value:
        if var not in self.env:
            raise TVMagicError(f"`{var.name}` has no value", node=var, code="javascript.variable_without_value")
        return self.env[var]

    @ir.handles(ir.IntImm)
    def integer(self, node: ir.IntImm) -> Value:
        if node.dtype.is_bool:
            return Value("true" if node.value else "false")
        big = node.dtype.bits > 32 and abs(node.value) > _SMALL
        return Value(f"{node.value}n" if big else f"({node.value})" if node.value < 0 else str(node.value), EXACT, big)

    @ir.handles(ir.FloatImm)
    def float_constant(self, node: ir.FloatImm) -> Value:
        check_type(node.dtype, node)
        value = round_float(plain(node.value), node.dtype)
        if math.isnan(value) or math.isinf(value):
            return Value("NaN" if math.isnan(value) else "Infinity" if value > 0 else "(-Infinity)")
        return Value(repr(value) if math.copysign(1, value) > 0 else f"({value!r})")

    # ------------------------------------------------------------------ arithmetic

    @ir.handles(ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max)
    def arithmetic(self, node: ir.BinaryOp) -> Value:
        check_type(node.dtype, node)
        a, b = self.value(node.a), self.value(node.b)
        if node.dtype.is_float:
            return self.float_operation(type(node), node.dtype, a, b)
        if node.dtype.is_bool:
            return self._bool_operation(node, a, b)
        error = self.unknown(a, b)
        if isinstance(node, (ir.Add, ir.Sub)):
            error = self.both(a.error, b.error)
        elif isinstance(node, (ir.Min, ir.Max)):
            error = self.either(a.error, b.error)
        elif isinstance(node, ir.Mul) and error != EXACT:
            parts = [f"apart({x.text}, 0) * {y.error}" for x, y in ((a, b), (b, a)) if y.error != EXACT]
            error = self.both(*parts, f"{a.error} * {b.error}" if len(parts) == 2 else EXACT)
        return self.integer_operation(node, a, b, error)

    def float_operation(self, op: type, dtype: ir.DataType, a: Value, b: Value) -> Value:
        """An operation on floats of type `dtype`."""
        x, y = a.text, b.text
        if op in (ir.Min, ir.Max):
            return self.bind(dtype, f"Math.{'min' if op is ir.Min else 'max'}({x}, {y})", self.either(a.error, b.error))
        if op in (ir.Add, ir.Sub):
            result = self.bind(dtype, f"{x} {'+' if op is ir.Add else '-'} {y}")
            return self._erring(dtype, result, self.both(a.error, b.error, self.rounding(dtype, result.text)))
        if op is ir.Mul:
            result = self.bind(dtype, f"{x} * {y}")
            parts = [f"Math.abs({x}) * {b.error}"] if b.error != EXACT else []
            parts += [f"Math.abs({y}) * {a.error}"] if a.error != EXACT else []
            parts += [f"{a.error} * {b.error}"] if len(parts) == 2 else []
            return self._erring(dtype, result, self.both(*parts, self.rounding(dtype, result.text)))
        word = {ir.Div: "divide", ir.Mod: "remain", ir.FloorDiv: "floorDivide", ir.FloorMod: "floorRemain"}[op]
        result = self.bind(dtype, f"{x} / {y}" if op is ir.Div else f"{word}({x}, {y})")
        return self._erring(dtype, result, f"{word}Error({x}, {y}, {a.error}, {b.error}, {self.unit(dtype, 4)})")

    def with_error(self, value: Value, error: str) -> Value:
        """`value` with its error as a name."""
        if not self.bounds or error == EXACT:
            return value
        self.lines.append(f"let e{value.text} = {error};")
        return Value(value.text, f"e{value.text}", value.big)

    def _erring(self, dtype: ir.DataType, value: Value, error: str) -> Value:
        """`value`, which `bind` made of floats of type `dtype`, with its error; infinite if it has to be so in that type."""
        value = self.with_error(value, error)
        if value.error != EXACT and self._may_overflow(dtype):
            x, ex, edge = value.text, value.error, self.edge(dtype)
            self.lines.append(f"if (!(Math.abs({x}) + {ex} < {edge})) [{x}, {ex}] = beyond({x}, {ex}, {edge});")
        return value

    def _bool_operation(self, node: ir.BinaryOp, a: Value, b: Value) -> Value:
        word = {
            ir.Add: "||",
            ir.Max: "||",
            ir.Sub: "!==",
            ir.Mul: "&&",
            ir.Min: "&&",
            ir.Div: "&&",
            ir.FloorDiv: "&&",
        }.get(type(node))
        text = "false" if word is None else f"{a.text} {word} {b.text}"
        return self.bind(node.dtype, text, self.either(a.error, b.error))

    def integer_operation(self, node: ir.BinaryOp, a: Value, b: Value, error: str) -> Value:
        """An operation on integers, whose result wraps around."""
        dtype, op = node.dtype, type(node)
        low, high = self.intervals.of(node)
        if a.big or b.big or max(-low, high) > _SMALL:
            return self.bind(dtype, _wrapped_big(dtype, _big_operation(op, as_big(a), as_big(b))), error, True)
        x, y = a.text, b.text
        positive = isinstance(node.b, ir.IntImm) and node.b.value > 0
        if op is ir.Mul and dtype.bits == 32:
            text = f"Math.imul({x}, {y})"
        elif op in (ir.Add, ir.Sub, ir.Mul):
            text = f"{x} {'+' if op is ir.Add else '-' if op is ir.Sub else '*'} {y}"
        elif op in (ir.Min, ir.Max):
            text = f"Math.{'min' if op is ir.Min else 'max'}({x}, {y})"
        elif op is ir.FloorDiv:
            text = f"Math.floor({x} / {y})" if positive else f"wholeFloorDivide({x}, {y})"
        elif op is ir.FloorMod:
            text = f"{x} % {y}" if positive and self.intervals.of(node.a)[0] >= 0 else f"wholeFloorRemain({x}, {y})"
        else:
            text = f"{'wholeDivide' if op is ir.Div else 'wholeRemain'}({x}, {y})"
        return self.bind(dtype, wrapped(dtype, text), error)

    # ------------------------------------------------------------------ conditions

    @ir.handles(ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE)
    def comparison(self, node: ir.BinaryOp) -> Value:
        a, b = self.value(node.a), self.value(node.b)
        x, y = (as_big(a), as_big(b)) if a.big or b.big else (a.text, b.text)
        error = self.both(a.error, b.error)
        open_ = EXACT if error == EXACT else f"(apart({x}, {y}) <= {error} ? 1 : 0)"
        return self.bind(node.dtype, f"{x} {_COMPARE[type(node)]} {y}", open_)

    @ir.handles(ir.And, ir.Or)
    def logical(self, node: ir.BinaryOp) -> Value:
        a = self.value(node.a)
        needed = a if isinstance(node, ir.And) else Value(f"!{a.text}", a.error)
        name = self.name()
        self.lines.append(f"let {name} = {a.text}, e{name} = {a.error};")
        self.lines.append(f"if ({needed.text}{f' || {a.error}' if a.error != EXACT else ''}) {{")
        with self.scope():
            b = self.value(node.b)
            self.lines.append(f"{name} = {a.text} {'&&' if isinstance(node, ir.And) else '||'} {b.text};")
            self.lines.append(f"e{name} = {self.either(a.error, b.error)};")
        self.lines.append("}")
        exact = not self.bounds or a.error == b.error == EXACT
        return Value(name, EXACT if exact else f"e{name}")

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> Value:
        a = self.value(node.a)
        return self.bind(node.dtype, f"!{a.text}", a.error)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> Value:
        return self.conditional(node.condition, node.true_value, node.false_value)

    def conditional(self, condition: ir.PrimExpr, then: ir.PrimExpr, other: ir.PrimExpr) -> Value:
        """The side that a condition chooses; the other one is computed only if it might be chosen as well."""
        chosen, dtype = self.value(condition), then.dtype
        name, both = self.name(), chosen.error != EXACT
        self.lines.append(f"let {name}, e{name} = 0;")
        head, sides, places = len(self.lines), [], []
        for text, side in ((chosen.text, then), (f"!{chosen.text}", other)):
            self.lines.append(f"if ({text}{f' || {chosen.error}' if both else ''}) {{")
            with self.scope():
                sides.append(self.value(side))
                places.append(len(self.lines))
            self.lines.append("}")
        big = any(s.big for s in sides)
        texts = [as_big(s) if big else s.text for s in sides]
        if not both:
            for place, text, side in reversed(list(zip(places, texts, sides))):
                self.lines.insert(place, f"{name} = {text}; e{name} = {side.error};")
            exact = all(s.error == EXACT for s in sides)
            return Value(name, EXACT if exact or not self.bounds else f"e{name}", big)
        slots = [f"{name}{letter}" for letter in "ab"]
        for slot, place, text, side in reversed(list(zip(slots, places, texts, sides))):
            self.lines.insert(place, f"{slot} = {text}; e{slot} = {side.error};")
        a, b = slots
        self.lines.insert(head, f"let {a}, {b}, e{a} = 0, e{b} = 0;")
        error = f"{chosen.error} ? Math.max(e{a}, e{b}) + apart({a}, {b}) : {chosen.text} ? e{a} : e{b}"
        self.lines.append(f"{name} = {chosen.text} ? {a} : {b}; e{name} = {error};")
        check_type(dtype, then)
        return Value(name, f"e{name}", big)

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> Value:
        self.let_be(node.var, node.value)
        return self.value(node.body)

    def let_be(self, var: ir.Var, value: ir.PrimExpr) -> None:
        """Give a variable the value of an expression."""
        self.env[var] = self.value(value)
        if not var.dtype.is_float:
            self.intervals.known[var] = self.intervals.of(value)

    # ------------------------------------------------------------------ conversions

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> Value:
        check_type(node.dtype, node)
        a, source, target = self.value(node.value), node.value.dtype, node.dtype
        if target.is_bool:
            text = a.text if source.is_bool else f"{a.text} != 0"
            return self.bind(target, text, EXACT if a.error == EXACT else f"(apart({a.text}, 0) <= {a.error} ? 1 : 0)")
        if source.is_bool:
            a, source = Value(f"({a.text} ? 1 : 0)", a.error), ir.DataType("int32")
        if target.is_float:
            result = self.bind(target, f"Number({a.text})" if a.big else a.text)
            exact = source.is_float and target.bits >= source.bits and target.code == source.code
            exact = exact or not source.is_float and source.bits < target.bits - 8
            return self._erring(
                target, result, self.both(a.error, EXACT if exact else self.rounding(target, result.text))
            )
        if source.is_float:
            return self._to_integer(target, a)
        big = target.bits > 32 and (a.big or max(map(abs, self.intervals.of(node))) > _SMALL)
        if target.bits > 32:
            return self.bind(target, _wrapped_big(target, as_big(a)), a.error, True) if big else a
        text = f"Number(BigInt.asIntN(64, {a.text}) & 0xffffffffn)" if a.big else a.text
        return self.bind(target, wrapped(target, text, always=True), a.error)

    def _to_integer(self, target: ir.DataType, a: Value) -> Value:
        low, high = integer_limits(target)
        error = EXACT if a.error == EXACT else f"stepError(Math.trunc, {a.text}, {a.error})"
        if target.bits > 32:
            return self.bind(target, f"toBig({a.text}, {low}n, {high}n)", error, True)
        return self.bind(target, f"toWhole({a.text}, {low}, {high})", error)

    # ------------------------------------------------------------------ functions

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> Value:
        name = callee(node).removeprefix("tir.")
        if name == "if_then_else":
            return self.conditional(*node.args)
        if name in ("likely", "tvm_thread_invariant", "checked_index"):
            return self.value(node.args[0])
        check_type(node.dtype, node)
        args = [self.value(a) for a in node.args]
        result = self._float_call(name, node, args) if node.args and node.args[0].dtype.is_float else None
        if result is None:
            result = self._integer_call(name, node, args)
        if result is None:
            raise TVMagicError(f"`{name}` has no form in JavaScript", node=node, code="javascript.unsupported_call")
        return result

    def _float_call(self, name: str, node: ir.Call, args: Sequence[Value]) -> Value | None:
        dtype, a = node.args[0].dtype, args[0]
        if name in _MONOTONE:
            result = self.bind(dtype, f"functions.{name}({a.text})")
            unit = self.unit(dtype, units_of(name, dtype) + 1)
            return self._erring(dtype, result, f"riseError(functions.{name}, {a.text}, {a.error}, {unit})")
        if name in _WAVES:
            result = self.bind(dtype, f"Math.{name}({a.text})")
            return self._erring(dtype, result, self.both(a.error, repr(self.relative(dtype, _WAVES[name]))))
        if name in ("tan", "cosh"):
            result = self.bind(dtype, f"Math.{name}({a.text})")
            return self._erring(dtype, result, f"{name}Error({a.text}, {a.error}, {self.unit(dtype, 16)})")
        if name in _ROUNDINGS:
            function = _ROUNDINGS[name] if name in ("round", "nearbyint") else f"Math.{_ROUNDINGS[name]}"
            error = EXACT if a.error == EXACT else f"stepError({function}, {a.text}, {a.error})"
            return self.bind(dtype, f"{function}({a.text})", error)
        if name == "fabs":
            return self.bind(dtype, f"Math.abs({a.text})", a.error)
        if name in ("isnan", "isinf", "isfinite"):
            test = {"isnan": "Number.isNaN(X)", "isinf": "Math.abs(X) === Infinity", "isfinite": "Number.isFinite(X)"}
            return self.bind(node.dtype, test[name].replace("X", a.text))
        if name == "fma":
            return self._fused(dtype, *args)
        return self._float_call_of_two(name, dtype, args) if len(args) == 2 else None

    def _fused(self, dtype: ir.DataType, a: Value, b: Value, c: Value) -> Value:
        """A product and a sum; nothing is known if the product alone is rounded to infinity and `c` takes away from it."""
        product = self.float_operation(ir.Mul, dtype, a, b)
        result = self.float_operation(ir.Add, dtype, product, c)
        if result.error != EXACT:
            test = f"Math.abs({product.text}) === Infinity && Number.isFinite({a.text}) && Number.isFinite({b.text})"
            self.lines.append(f"if ({test} && {product.text} * {c.text} < 0) {result.error} = Infinity;")
        return result

    def _float_call_of_two(self, name: str, dtype: ir.DataType, args: Sequence[Value]) -> Value | None:
        a, b = args
        if name == "pow":
            result = self.bind(dtype, f"functions.pow({a.text}, {b.text})")
            return self._erring(
                dtype, result, f"powError({a.text}, {b.text}, {a.error}, {b.error}, {self.unit(dtype, 16)})"
            )
        if name == "hypot":
            result = self.bind(dtype, f"Math.hypot({a.text}, {b.text})")
            return self._erring(dtype, result, self.both(a.error, b.error, self.rounding(dtype, result.text, 8)))
        if name == "atan2":
            result = self.bind(dtype, f"Math.atan2({a.text}, {b.text})")
            return self._erring(
                dtype, result, f"atan2Error({a.text}, {b.text}, {a.error}, {b.error}, {self.unit(dtype, 8)})"
            )
        if name == "copysign":
            error = self.both(a.error, self.unknown(b))
            return self.bind(dtype, f"copySign({a.text}, {b.text})", error)
        return None

    def _integer_call(self, name: str, node: ir.Call, args: Sequence[Value]) -> Value | None:
        dtype = node.dtype
        error = self.unknown(*args)
        big = any(a.big for a in args) or dtype.bits > 32
        x = [as_big(a) if big else a.text for a in args]
        if name in _BITWISE and dtype.is_bool:
            word = {"&": "&&", "|": "||", "^": "!=="}[_BITWISE[name]]
            return self.bind(dtype, f"{x[0]} {word} {x[1]}", error)
        text = None
        if name in _BITWISE:
            text = f"{x[0]} {_BITWISE[name]} {x[1]}"
        elif name == "bitwise_not":
            text = f"~{x[0]}"
        elif name in ("shift_left", "shift_right"):
            word = "Left" if name == "shift_left" else "Right"
            text = f"shift{word}{'Big' if big else ''}({x[0]}, {x[1]}, {dtype.bits})"
        elif name == "fabs":
            text = f"({x[0]} < 0 ? -{x[0]} : {x[0]})"
        elif name in ("clz", "popcount"):
            bits = node.args[0].dtype.bits
            return self.bind(dtype, f"{'leadingZeros' if name == 'clz' else 'onBits'}({args[0].text}, {bits})", error)
        if text is None:
            return None
        return self.bind(dtype, _wrapped_big(dtype, text) if big else wrapped(dtype, text, always=True), error, big)


class Scope:
    """What is written inside braces: values that are made there are forgotten behind them."""

    def __init__(self, writer: ExpressionWriter) -> None:
        self.writer = writer

    def __enter__(self) -> None:
        self.known = dict(self.writer._known)

    def __exit__(self, *exc: object) -> None:
        self.writer._known = self.known


def check_type(dtype: ir.DataType, node: Any) -> None:
    """Refuse values that JavaScript has no numbers for."""
    known = str(dtype) in FORMATS or dtype.is_bool
    if dtype.lanes != 1 or not (known or (dtype.is_int or dtype.is_uint) and dtype.bits in (8, 16, 32, 64)):
        raise TVMagicError(
            f"values of type `{dtype}` have no form in JavaScript", node=node, code="javascript.unsupported_dtype"
        )


def as_big(value: Value) -> str:
    """A value as a BigInt."""
    if value.big:
        return value.text
    return f"{value.text.strip('()')}n" if value.text.strip("()-").isdigit() else f"BigInt({value.text})"


def wrapped(dtype: ir.DataType, text: str, always: bool = False) -> str:
    """The number `text` as an integer of at most 32 bits holds it; wider ones are small and stay."""
    if dtype.bits > 32:
        return text
    if dtype.bits == 32:
        return f"({text}) {'| 0' if dtype.is_int else '>>> 0'}"
    shift = 32 - dtype.bits
    return f"({text}) << {shift} >> {shift}" if dtype.is_int else f"({text}) & {(1 << dtype.bits) - 1}"


def _wrapped_big(dtype: ir.DataType, text: str) -> str:
    return f"BigInt.as{'Int' if dtype.is_int else 'Uint'}N({dtype.bits}, {text})"


def _big_operation(op: type, x: str, y: str) -> str:
    plain_word = {ir.Add: "+", ir.Sub: "-", ir.Mul: "*"}.get(op)
    if plain_word is not None:
        return f"{x} {plain_word} {y}"
    names = {ir.Div: "bigDivide", ir.Mod: "bigRemain", ir.FloorDiv: "bigFloorDivide", ir.FloorMod: "bigFloorRemain", ir.Min: "bigMin", ir.Max: "bigMax"}  # fmt: skip
    return f"{names[op]}({x}, {y})"
