"""Checks of symbolic sizes in 64 bits: whether int32 holds the indices of a call, and the bytes of allocations.

Arithmetic saturates: a value that 64 bits do not hold counts as the largest number that they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.codegen.text.types import llvm_type
from tvmagic.codegen.text.writer import FunctionText
from tvmagic.ir.constants import largest_integer
from tvmagic.ir.query import operands, variables_in
from tvmagic.runtime.abi import TOO_NARROW

if TYPE_CHECKING:
    from tvmagic.codegen.emit.statements import FunctionEmitter

_INT64 = ir.DataType("int64")
_MOST = largest_integer(_INT64)
_SATURATING = {ir.Add: "sadd.sat", ir.Sub: "ssub.sat"}
_DOUBLE = ir.DataType("float64")
_ON_DOUBLES = {ir.Add: "fadd", ir.Sub: "fsub", ir.Mul: "fmul", ir.FloorDiv: "fdiv"}
_COMPARED = {ir.Min: "olt", ir.Max: "ogt"}


def allocated_bytes(emitter: FunctionEmitter, stmt: ir.Allocate) -> str:
    """The bytes of an allocation. It stops if there are more elements than its indices of 32 bits reach; for more than 64 bits
    count there is no memory."""
    count = "1"
    for extent in stmt.extents:  # of `n - 5` elements there are none for a small n
        size = emitter.intrinsic("smax", _INT64, _count(emitter, _widened(emitter, extent)), "0")
        count = _product(emitter, count, size)
    if all(extent.dtype.bits < 64 for extent in stmt.extents):
        reached = emitter.out.op(f"icmp sle i64 {count}, {largest_integer(stmt.extents[0].dtype)}")
        emitter.fail_unless(reached, emitter.context.site("reach", None, stmt.buffer_var.name), [count])
    count = emitter.intrinsic("smin", _INT64, count, str(_MOST // stmt.dtype.bytes))
    return emitter.out.op(f"mul i64 {count}, {stmt.dtype.bytes}")


def check_loop_counts(emitter: FunctionEmitter) -> None:
    """Stop if an int64 loop over several sizes has more iterations than its variable holds. Checked once, at the beginning of
    the function, where the sizes are known. `check_index_range` checks int32."""
    seen: set[str] = set()
    for loop in emitter.context.work.symbolic:
        for product in _products(emitter, loop.extent):
            wide = _widened(emitter, product)
            if product.dtype.bits < 64 or str(wide) in seen or not emitter.values.keys() >= set(variables_in(wide)):
                continue
            seen.add(str(wide))
            count = _count(emitter, wide)
            fits = emitter.out.op(f"icmp sle i64 {count}, {_MOST - 1}")
            emitter.fail_unless(fits, emitter.context.site("count", None, loop.loop_var.name), [count])


def _products(emitter: FunctionEmitter, size: ir.PrimExpr) -> list[ir.PrimExpr]:
    """The products in a size, those in another one left out."""
    if isinstance(size, ir.Mul):
        return [size]
    if isinstance(size, ir.BinaryOp):
        return [*_products(emitter, size.a), *_products(emitter, size.b)]
    value = emitter.context.work.lets.get(size) if isinstance(size, ir.Var) else None
    return _products(emitter, value) if value is not None else []


def check_index_range(emitter: FunctionEmitter, fits: ir.PrimExpr) -> None:
    """Return `TOO_NARROW` unless `fits` holds: a comparison that is cheap, or comparisons of bounds with constants."""
    assert isinstance(fits, ir.Or)
    out = emitter.out
    large, narrow, go_on = (out.new_block(hint) for hint in ("large", "narrow", "on"))
    out.branch(emitter.visit(fits.a), go_on, large, emitter.context.likely())
    out.start(large)
    sizes = list(dict.fromkeys(variables_in(fits.b)))
    name = _emit_comparisons(emitter, fits.b, sizes)
    arguments = ", ".join([f"{llvm_type(size.dtype)} {emitter.visit(size)}" for size in sizes])
    out.branch(out.op(f"call i1 @{name}({arguments})"), go_on, narrow)
    out.start(narrow)
    emitter.leave(str(TOO_NARROW))
    out.start(go_on)


def _emit_comparisons(emitter: FunctionEmitter, comparisons: ir.PrimExpr, sizes: list[ir.Var]) -> str:
    """Emit a function that returns whether all comparisons hold, and return its name. LLVM does not optimize it: it is short
    for a call with large sizes, and its optimization would take 10% of the time to build a small function."""
    context = emitter.context
    name = context.new_name("fits_int32")
    heads = ", ".join([f"{llvm_type(size.dtype)} %s{number}" for number, size in enumerate(sizes)])
    head = f"define internal i1 @{name}({heads}) noinline optnone {context.attributes()}"
    child = emitter.child(FunctionText(context.text, head))
    child.values.update({size: f"%s{number}" for number, size in enumerate(sizes)})
    counted: dict[Any, str] = {}
    holds = "true"
    for part in operands(comparisons, ir.And):
        assert isinstance(part, ir.LE) and isinstance(part.b, ir.IntImm)
        ok = child.out.op(f"fcmp ole double {_estimate(child, part.a, counted)}, {part.b.value}.0")
        holds = ok if holds == "true" else child.out.op(f"and i1 {holds}, {ok}")
    child.out.do(f"ret i1 {holds}")
    context.text.functions.append(child.out.text())
    return name


def _estimate(emitter: FunctionEmitter, size: ir.PrimExpr, counted: dict[Any, str]) -> str:
    """Return a bound as a double, which does not wrap and needs fewer instructions than saturating integers.

    `counted` has the value of each operation on values that was emitted before.
    """
    if isinstance(size, ir.IntImm):
        return f"{size.value}.0"
    out = emitter.out
    if not isinstance(size, ir.BinaryOp):
        value = size.value if isinstance(size, ir.Cast) else size
        key: Any = value
        if key not in counted:
            counted[key] = out.op(f"sitofp i{value.dtype.bits} {emitter.visit(value)} to double")
        return counted[key]
    a, b = _estimate(emitter, size.a, counted), _estimate(emitter, size.b, counted)
    key = type(size), a, b
    if key not in counted:
        if type(size) in _COMPARED:
            chosen = out.op(f"fcmp {_COMPARED[type(size)]} double {a}, {b}")
            counted[key] = out.op(f"select i1 {chosen}, double {a}, double {b}")
        else:
            counted[key] = out.op(f"{_ON_DOUBLES[type(size)]} double {a}, {b}")
        if isinstance(size, ir.FloorDiv):
            counted[key] = emitter.intrinsic("floor", _DOUBLE, counted[key])
    return counted[key]


def _widened(emitter: FunctionEmitter, size: ir.PrimExpr) -> ir.PrimExpr:
    """A size in 64 bits, from its variables on."""
    if isinstance(size, ir.IntImm):
        return ir.IntImm(_INT64, size.value)
    if isinstance(size, ir.BinaryOp):
        return type(size)(_widened(emitter, size.a), _widened(emitter, size.b))
    if isinstance(size, ir.Var) and size in emitter.context.work.lets:
        return _widened(emitter, emitter.context.work.lets[size])
    return size if size.dtype.bits == 64 else ir.Cast(_INT64, size)


def _count(emitter: FunctionEmitter, size: ir.PrimExpr) -> str:
    """A size of 64 bits as a number, the largest one if it is more."""
    if not isinstance(size, ir.BinaryOp):
        return emitter.visit(size)
    a, b = _count(emitter, size.a), _count(emitter, size.b)
    if isinstance(size, ir.Mul):
        return _product(emitter, a, b)
    if type(size) in _SATURATING:
        return emitter.intrinsic(_SATURATING[type(size)], _INT64, a, b)
    return emitter.visit(type(size)(_as_computed(emitter, a), _as_computed(emitter, b)))


def _as_computed(emitter: FunctionEmitter, value: str) -> ir.PrimExpr:
    """An expression for a value that is computed."""
    if value[0] != "%":
        return ir.IntImm(_INT64, int(value))
    var = ir.Var("count", _INT64)
    emitter.values[var] = value
    return var


def _product(emitter: FunctionEmitter, a: str, b: str) -> str:
    if a == "1":
        return b
    out, both = emitter.out, "{ i64, i1 }"
    function = emitter.context.text.declare("llvm.smul.with.overflow.i64", both, "i64, i64")
    pair = out.op(f"call {both} {function}(i64 {a}, i64 {b})")
    value, beyond = (out.op(f"extractvalue {both} {pair}, {part}") for part in (0, 1))
    return out.op(f"select i1 {beyond}, i64 {_MOST}, i64 {value}")
