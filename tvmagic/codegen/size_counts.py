"""How many elements and iterations symbolic sizes come to: counted in 64 bits, and refused if indices do not reach them.

The index of an element, and the variable of a fused loop, is computed in the type of the sizes, and would wrap. A product
that 64 bits do not hold either counts as the largest number that they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvmagic.ir import Add, Allocate, BinaryOp, Cast, DataType, IntImm, Mul, PrimExpr, Sub, Var
from tvmagic.ir.constants import largest_integer
from tvmagic.ir.query import variables_in

if TYPE_CHECKING:
    from tvmagic.codegen.statements import FunctionEmitter

__all__ = ["allocated_bytes", "check_loop_counts"]

_INT64 = DataType("int64")
_MOST = largest_integer(_INT64)
_SATURATING = {Add: "sadd.sat", Sub: "ssub.sat"}


def allocated_bytes(emitter: FunctionEmitter, stmt: Allocate) -> str:
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
    """Stop if a loop over several sizes has more iterations than its variable counts. Asked once, at the beginning of the
    function: what its extents are made of is known there."""
    seen: set[str] = set()
    for loop in emitter.context.work.symbolic:
        for product in _products(emitter, loop.extent):
            wide = _widened(emitter, product)
            if str(wide) in seen or not emitter.values.keys() >= set(variables_in(wide)):
                continue
            seen.add(str(wide))
            count = _count(emitter, wide)
            fits = emitter.out.op(f"icmp sle i64 {count}, {min(largest_integer(product.dtype), _MOST - 1)}")
            emitter.fail_unless(fits, emitter.context.site("count", None, loop.loop_var.name), [count])


def _products(emitter: FunctionEmitter, size: PrimExpr) -> list[PrimExpr]:
    """The products in a size, those in another one left out."""
    if isinstance(size, Mul):
        return [size]
    if isinstance(size, BinaryOp):
        return [*_products(emitter, size.a), *_products(emitter, size.b)]
    value = emitter.context.work.lets.get(size) if isinstance(size, Var) else None
    return _products(emitter, value) if value is not None else []


def _widened(emitter: FunctionEmitter, size: PrimExpr) -> PrimExpr:
    """A size in 64 bits, from its variables on."""
    if isinstance(size, IntImm):
        return IntImm(_INT64, size.value)
    if isinstance(size, BinaryOp):
        return type(size)(_widened(emitter, size.a), _widened(emitter, size.b))
    if isinstance(size, Var) and size in emitter.context.work.lets:
        return _widened(emitter, emitter.context.work.lets[size])
    return size if size.dtype.bits == 64 else Cast(_INT64, size)


def _count(emitter: FunctionEmitter, size: PrimExpr) -> str:
    """A size of 64 bits as a number, the largest one if it is more."""
    if not isinstance(size, BinaryOp):
        return emitter.visit(size)
    a, b = _count(emitter, size.a), _count(emitter, size.b)
    if isinstance(size, Mul):
        return _product(emitter, a, b)
    if type(size) in _SATURATING:
        return emitter.intrinsic(_SATURATING[type(size)], _INT64, a, b)
    return emitter.visit(type(size)(_known(emitter, a), _known(emitter, b)))


def _known(emitter: FunctionEmitter, value: str) -> PrimExpr:
    """An expression for a value that is computed."""
    if value[0] != "%":
        return IntImm(_INT64, int(value))
    var = Var("count", _INT64)
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
