"""Functions that kernels call for what C leaves open, or does otherwise than `tvmagic/ir/semantics.py` says."""

from __future__ import annotations

from tvmagic.codegen.gpu.opencl.types import register_type, unsigned
from tvmagic.ir import DataType

_INTEGER = {
    "truncdiv": "return b == 0 ? 0 : {minus}a / b;",
    "truncmod": "return b == 0 {or_minus} ? 0 : a % b;",
    "floordiv": "if (b == 0) return 0; {minus_floor}T q = a / b; return {down}q;",
    "floormod": "if (b == 0 {or_minus}) return 0; T r = a % b; return {up}r;",
    "min": "return a < b ? a : b;",
    "max": "return a > b ? a : b;",
    "shift_left": "return {outside} ? 0 : (T)((U)a << b);",
    "shift_right": "return {outside} ? {signs} : (T)(a >> b);",
    "add": "return (T)((U)a + (U)b);",
    "sub": "return (T)((U)a - (U)b);",
    "mul": "return (T)((U)a * (U)b);",
}
_FLOAT = {
    "min": "return a != a ? a : b != b ? b : a < b ? a : b;",
    "max": "return a != a ? a : b != b ? b : a > b ? a : b;",
    "truncmod": "return fmod(a, b);",
    "floormod": ("T r = fmod(a, b); if (r != 0 && (r < 0) != (b < 0)) r += b; return r == 0 ? copysign((T)0, b) : r;"),
    "floordiv": (
        "T q = a / b; if (b == 0) return q; T r = fmod(a, b), n = (a - r) / b; "
        "if ((r < 0) != (b < 0) && r != 0) n -= (T)1; T w = floor(n); if (n - w > (T)0.5) w += (T)1; "
        "return n == 0 ? copysign((T)0, q) : w;"
    ),
}
# Functions of one float.
_OF_ONE_FLOAT = {"sigmoid": "T e = exp(-fabs(a)); return (a < 0 ? e : (T)1) / ((T)1 + e);"}  # never exp(a) / inf
# What has no operands of one type: the whole text.
_OTHERS = {
    "from_half": "float {name}(ushort h) {{ return vload_half(0, (const __private half*)&h); }}",
    "to_half": "ushort {name}(float x) {{ ushort h; vstore_half_rte(x, 0, (__private half*)&h); return h; }}",
    "from_bfloat": "float {name}(ushort h) {{ return as_float((uint)h << 16); }}",
    "to_bfloat": (
        "ushort {name}(float x) {{ uint u = as_uint(x); "
        "return x != x ? (u >> 16) | 0x40 : (u + 0x7fff + ((u >> 16) & 1)) >> 16; }}"
    ),
    "to_odd": (
        "float {name}(double x) {{ float f = (float)x; if ((double)f == x || x != x) return f; "
        "uint u = as_uint(f) - (fabs((double)f) > fabs(x)); return as_float(u | 1); }}"
    ),
}


def helper_text(name: str, dtype: DataType) -> tuple[str, str]:
    """The name and the text of a helper for values of one lane of a type."""
    if name in _OTHERS:
        symbol = f"tvm_{name}"
        return symbol, f"static inline {_OTHERS[name].format(name=symbol)}"
    kind = register_type(dtype)
    symbol = f"tvm_{name}_{kind}"
    operands = "T a" if name in _OF_ONE_FLOAT else "T a, T b"
    if dtype.is_float:
        body = _OF_ONE_FLOAT.get(name) or _FLOAT[name]
    else:
        body = _INTEGER[name].format(
            minus="b == -1 ? (T)(-(U)a) : " if dtype.is_int else "",
            minus_floor="if (b == -1) return (T)(-(U)a); " if dtype.is_int else "",
            or_minus="|| b == -1" if dtype.is_int else "",
            down="(T)(q * b != a && (a < 0) != (b < 0)) ? q - 1 : " if dtype.is_int else "",
            up="r != 0 && (r < 0) != (b < 0) ? r + b : " if dtype.is_int else "",
            outside=f"b < 0 || b >= {dtype.bits}" if dtype.is_int else f"b >= {dtype.bits}",
            signs="(a < 0 ? -1 : 0)" if dtype.is_int else "0",
        )
        body = body.replace("(U)", f"({unsigned(dtype)})")
    return symbol, f"static inline T {symbol}({operands}) {{ {body} }}".replace("(T)", f"({kind})").replace(
        "T ", f"{kind} "
    )
