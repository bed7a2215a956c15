"""Arithmetic on vectors as LLVM text, for the math functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.codegen.math.math_library import lane_loop, library_function
from tvmagic.codegen.text.types import constant, llvm_type, suffix
from tvmagic.ir import DataType


class MathText:
    """Instructions on values of `dtype` (`f`) and the integers of the same width (`i`)."""

    def __init__(self, context: Any, dtype: DataType) -> None:
        self.context = context
        self.dtype = dtype
        self.int_dtype = DataType(f"int{dtype.bits}").with_lanes(dtype.lanes)
        self.f, self.i = llvm_type(dtype), llvm_type(self.int_dtype)
        self.flags = "i1" if dtype.lanes == 1 else f"<{dtype.lanes} x i1>"
        self.lines: list[str] = []
        self.block = ""

    def wider(self) -> MathText:
        """The same function's arithmetic in float64."""
        other = MathText(self.context, DataType("float64").with_lanes(self.dtype.lanes))
        other.lines = self.lines
        return other

    def widen(self, other: MathText, x: str) -> str:
        """The value `x` of `other`'s type in this wider one."""
        return self.op(f"fpext {other.f} {x} to {self.f}")

    def narrow(self, other: MathText, x: str) -> str:
        """The value `x` of `other`'s wider type, rounded to this one."""
        return self.op(f"fptrunc {other.f} {x} to {self.f}")

    def where_any(self, flag: str, result: str, x: str, name: str) -> str:
        """`result`, with C's function `name` of `x` in the lanes of `flag`, if any is on."""
        lanes, mark = self.dtype.lanes, len(self.lines)
        some = flag
        if lanes > 1:
            some = self.op(f"icmp ne i{lanes} {self.op(f'bitcast {self.flags} {flag} to i{lanes}')}, 0")
        self.lines.append(f"  br i1 {some}, label %slow{mark}, label %fast{mark}")
        self.lines.append(f"fast{mark}:\n  br label %end{mark}\nslow{mark}:")
        other = self._library(name, x)
        mixed = self.select(flag, other, result)
        self.lines.append(f"  br label %end{mark}\nend{mark}:")
        return self.op(f"phi {self.f} [ {result}, %fast{mark} ], [ {mixed}, %slow{mark} ]")

    def _library(self, name: str, x: str) -> str:
        """C's function `name` of every lane, which is seldom needed."""
        scalar = self.dtype.element_of
        if self.dtype.lanes == 1:
            return self.op(f"call {self.f} {library_function(self.context.text, name, scalar)}({self.f} {x})")
        loop = lane_loop(self.context.text, name, scalar)
        to, source = (f"%{word}{len(self.lines)}" for word in ("to", "from"))
        self.lines[:0] = [f"  {slot} = alloca {self.f}, align 64" for slot in (to, source)]
        self.lines.append(f"  store {self.f} {x}, ptr {source}, align 64")
        self.lines.append(f"  call void {loop}(ptr {to}, ptr {source}, i64 {self.dtype.lanes}) cold")
        return self.op(f"load {self.f}, ptr {to}, align 64")

    def op(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def value(self, x: str | float) -> str:
        """A float constant, or the name of a value as it is."""
        return x if isinstance(x, str) else constant(self.dtype, float(x))

    def number(self, x: str | int) -> str:
        """An integer constant, or the name of a value as it is."""
        return x if isinstance(x, str) else constant(self.int_dtype, x)

    def add(self, a: str | float, b: str | float) -> str:
        return self.op(f"fadd {self.f} {self.value(a)}, {self.value(b)}")

    def sub(self, a: str | float, b: str | float) -> str:
        return self.op(f"fsub {self.f} {self.value(a)}, {self.value(b)}")

    def mul(self, a: str | float, b: str | float) -> str:
        return self.op(f"fmul {self.f} {self.value(a)}, {self.value(b)}")

    def div(self, a: str | float, b: str | float) -> str:
        return self.op(f"fdiv {self.f} {self.value(a)}, {self.value(b)}")

    def neg(self, a: str) -> str:
        return self.op(f"fneg {self.f} {a}")

    def call(self, name: str, *args: str | float) -> str:
        """LLVM's intrinsic `name` on floats."""
        values = ", ".join(f"{self.f} {self.value(a)}" for a in args)
        function = self.context.text.declare(
            f"llvm.{name}.{suffix(self.dtype)}", self.f, ", ".join([self.f] * len(args))
        )
        return self.op(f"call {self.f} {function}({values})")

    def fma(self, a: str | float, b: str | float, c: str | float) -> str:
        """a b + c: rounded once if the machine has an instruction for it, as a C function for each lane takes a hundred times
        as long."""
        return self.call("fma" if self.context.has_fma else "fmuladd", a, b, c)

    def abs(self, a: str) -> str:
        return self.call("fabs", a)

    def copysign(self, a: str | float, sign: str) -> str:
        return self.call("copysign", a, sign)

    def rint(self, a: str) -> str:
        return self.call("rint", a)

    def horner(self, x: str, coefficients: Sequence[float]) -> str:
        """The polynomial with `coefficients`, the highest power first."""
        result: str | float = coefficients[0]
        for c in coefficients[1:]:
            result = self.fma(result, x, c)
        return self.value(result)

    def own(self, name: str, *args: str) -> str:
        """Another of our functions."""
        function = self.context.vector_math(name, self.dtype)
        return self.op(f"call {self.f} {function}({', '.join(f'{self.f} {a}' for a in args)})")

    # ------------------------------------------------------------------ comparisons

    def compare(self, word: str, a: str | float, b: str | float) -> str:
        """`word` is LLVM's: `olt`, `ogt`, `oeq`, `uno`, ..."""
        return self.op(f"fcmp {word} {self.f} {self.value(a)}, {self.value(b)}")

    def int_compare(self, word: str, a: str | int, b: str | int) -> str:
        return self.op(f"icmp {word} {self.i} {self.number(a)}, {self.number(b)}")

    def select(self, flag: str, a: str | float, b: str | float) -> str:
        return self.op(f"select {self.flags} {flag}, {self.f} {self.value(a)}, {self.f} {self.value(b)}")

    def int_select(self, flag: str, a: str | int, b: str | int) -> str:
        return self.op(f"select {self.flags} {flag}, {self.i} {self.number(a)}, {self.i} {self.number(b)}")

    def both(self, a: str, b: str) -> str:
        return self.op(f"and {self.flags} {a}, {b}")

    # ------------------------------------------------------------------ bits

    def bits(self, a: str) -> str:
        return self.op(f"bitcast {self.f} {a} to {self.i}")

    def floats(self, a: str) -> str:
        return self.op(f"bitcast {self.i} {a} to {self.f}")

    def int_op(self, word: str, a: str | int, b: str | int) -> str:
        return self.op(f"{word} {self.i} {self.number(a)}, {self.number(b)}")

    def to_int(self, a: str) -> str:
        """The integer that `a` holds; any integer where it holds none."""
        return self.op(f"freeze {self.i} {self.op(f'fptosi {self.f} {a} to {self.i}')}")

    def to_float(self, a: str) -> str:
        return self.op(f"sitofp {self.i} {a} to {self.f}")

    # ------------------------------------------------------------------ scaling by powers of two

    def power_of_two(self, n: str) -> str:
        """2 to the integer `n`, which lies between the exponents of normal numbers."""
        mantissa, bias = (23, 127) if self.dtype.bits == 32 else (52, 1023)
        return self.floats(self.int_op("shl", self.int_op("add", n, bias), mantissa))

    def scale(self, x: str, n: str) -> str:
        """`x` times 2 to the integral float `n`, rounded once; infinite or zero if it goes beyond."""
        if self.dtype.bits == 32 and self.dtype.lanes % 16 == 0 and self.context.has_avx512:
            return self._scalef(x, n)
        k = self.to_int(n)
        half = self.int_op("ashr", k, 1)
        return self.mul(self.mul(x, self.power_of_two(half)), self.power_of_two(self.int_op("sub", k, half)))

    def _scalef(self, x: str, n: str) -> str:
        """The machine's own instruction on 16 lanes at a time."""
        part = "<16 x float>"
        function = self.context.text.declare(
            "llvm.x86.avx512.mask.scalef.ps.512", part, f"{part}, {part}, {part}, i16, i32"
        )
        lanes, results = self.dtype.lanes, []
        for first in range(0, lanes, 16):
            places = ", ".join(f"i32 {first + i}" for i in range(16))
            cut = [
                v if lanes == 16 else self.op(f"shufflevector {self.f} {v}, {self.f} poison, <16 x i32> <{places}>")
                for v in (x, n)
            ]
            results.append(
                self.op(
                    f"call {part} {function}({part} {cut[0]}, {part} {cut[1]}, {part} zeroinitializer, i16 -1, i32 4)"
                )
            )
        return self._concatenate(results)

    def _concatenate(self, parts: list[str]) -> str:
        """One vector of the parts of 16 lanes: joined in pairs, what is missing to a power of two left open."""
        width, lanes = 16, self.dtype.lanes
        while len(parts) > 1:
            kind = f"<{width} x float>"
            places = ", ".join(f"i32 {i}" for i in range(2 * width))
            pairs = zip(parts[::2], [*parts[1::2], "poison"])
            parts = [self.op(f"shufflevector {kind} {a}, {kind} {b}, <{2 * width} x i32> <{places}>") for a, b in pairs]
            width *= 2
        if width == lanes:
            return parts[0]
        places = ", ".join(f"i32 {i}" for i in range(lanes))
        kind = f"<{width} x float>"
        return self.op(f"shufflevector {kind} {parts[0]}, {kind} poison, <{lanes} x i32> <{places}>")
