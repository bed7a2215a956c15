"""Which integers may wrap around.

Indices and sizes are computed from loop variables and sizes and do not overflow in a program that is right; TVM's
rules (`x < x + 1`, `x * 2 // 2` is `x`) rest on that. What is loaded from an array, and what is computed from it, is
data: it wraps around as NumPy's integers do, and so do all integers other than int32 and int64. So does what is seen to
leave its type: a hash such as `i * 1103515245 + 12345` where `i` is known to reach 2. Rules and bounds ask here, and
only here, which of the two they have before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.arith.interval_arithmetic import ENDS_OF
from tvmagic.ir import (
    Add,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    CallEffect,
    Cast,
    IntImm,
    Let,
    Mul,
    Not,
    Op,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Sub,
    Var,
)
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.query import is_call

Bound = tuple[int, int]
POS_INF = (1 << 63) - 1  # as an end: nothing is known. So is its negative
# A call of any of these gives what somebody else computed, whatever its declared effect.
_FOREIGN = frozenset(
    ("tir.call_pure_extern", "tir.call_llvm_pure_intrin", "tir.call_spirv_pure_glsl450", "tir.undef", "tir.reinterpret")
)
_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    Not: lambda e: (e.a,),
    Cast: lambda e: (e.value,),
    Broadcast: lambda e: (e.value,),
    Ramp: lambda e: (e.base, e.stride),
    Select: lambda e: (e.true_value, e.false_value),
    Let: lambda e: (e.value, e.body),
    Call: lambda e: tuple([a for a in e.args if isinstance(a, PrimExpr)]),
    Shuffle: lambda e: e.vectors,
}


def parts_of_value(e: PrimExpr) -> tuple[Any, ...]:
    """The expressions that the value of `e` is computed from; a condition only chooses between values."""
    if isinstance(e, BinaryOp):
        return e.a, e.b
    parts = _PARTS.get(type(e))
    if parts is None:
        return ()
    found = parts(e)
    return found[1:] if is_call(e, "tir.if_then_else") else found


def _reads_data(e: PrimExpr) -> bool:
    """Whether `e` itself, its parts aside, is a value from memory, of foreign code, or of a type that wraps early."""
    if isinstance(e, Call):
        if not isinstance(e.op, Op) or e.op.effect > CallEffect.PURE or e.op.name in _FOREIGN:
            return True
    elif isinstance(e, (BufferLoad, ProducerLoad, Reduce)):
        return True
    dtype = e.dtype
    return (dtype.is_uint and not dtype.is_bool) or (dtype.is_int and dtype.bits < 32)


class FromParts:
    """`has(e)`: whether `e` or something that its value is computed from has a property, remembered for each node."""

    def __init__(self) -> None:
        self.memo: dict[int, tuple[PrimExpr, bool]] = {}

    def has(self, node: PrimExpr) -> bool:
        """Whether `node` itself has the property, its parts aside."""
        raise NotImplementedError

    def __call__(self, e: PrimExpr) -> bool:
        """Whether `e` has it. Each node is looked at once, the parts before the whole, without recursion."""
        memo = self.memo
        known = memo.get(id(e))
        if known is not None:
            return known[1]
        todo = [e]
        while todo:
            node = todo[-1]
            if id(node) in memo:
                todo.pop()
                continue
            parts = parts_of_value(node)
            unknown = [p for p in parts if id(p) not in memo]
            if unknown:
                todo += unknown
                continue
            memo[id(node)] = node, any(memo[id(p)][1] for p in parts) or self.has(node)
            todo.pop()
        return memo[id(e)][1]


# Whether values leave their type is only asked where a number of this size is added or multiplied with.
_LARGE = 1 << 20


class Wrapping(FromParts):
    """`wraps(e)`: whether the integer `e` may wrap around.

    A variable is an index or a size unless `define` told that its value is data. `bound` gives the ends between which
    an expression is known to lie.
    """

    def __init__(self, bound: Callable[[PrimExpr], Bound]) -> None:
        super().__init__()
        self.data: set[Var] = set()
        self.bound = bound
        self.asked = False  # whether something remembered rests on bounds

    def define(self, var: Var, value: PrimExpr | None = None) -> None:
        """Let `var` be data where `value` is; without a value it is."""
        if var not in self.data and (value is None or self(value)):
            self.data.add(var)
            self.memo = {}

    def forget(self) -> None:
        """Other bounds are known now."""
        if self.asked:
            self.memo, self.asked = {}, False

    def has(self, node: PrimExpr) -> bool:
        """Whether `node` is data that its parts are not."""
        return (isinstance(node, Var) and node in self.data) or _reads_data(node) or self._leaves_type(node)

    def _leaves_type(self, node: PrimExpr) -> bool:
        return isinstance(node, (Add, Sub, Mul, Ramp)) and leaves_type(node, self._bound_of)

    def _bound_of(self, e: PrimExpr) -> Bound:
        self.asked = True
        return self.bound(e)


def leaves_type(node: BinaryOp | Ramp, bound: Callable[[PrimExpr], Bound]) -> bool:
    """Whether a sum, a product or a ramp with a large number has, by what `bound` knows of its parts, values outside its
    type."""
    is_ramp = isinstance(node, Ramp)
    other, second = (node.base, node.stride) if is_ramp else (node.a, node.b)
    number, turned = _int_value(second), False
    if number is None and not is_ramp:
        number, other, turned = _int_value(other), second, True
    if number is None or abs(number) < _LARGE:
        return False
    limits = integer_limits(node.dtype.element_of)
    ends = _if_known(bound(other), limits)
    if ends is None:
        return False
    op = type(node)
    if is_ramp:  # its first lane is the base, which is in the type
        op, number = Add, number * (node.dtype.lanes - 1)
    numbers = (number, number)
    low, high = ENDS_OF[op](*((numbers, ends) if turned else (ends, numbers)))
    return low < limits[0] or high > limits[1]


def stays_in_type(e: PrimExpr, bound: Callable[[PrimExpr], Bound]) -> bool:
    """Whether a sum of products with numbers has, by what `bound` knows of its terms, no values outside its type; if it
    knows nothing of one, too."""
    ends, limits = _ends_of_sum(e, bound), integer_limits(e.dtype)
    return ends is None or (limits[0] <= ends[0] and ends[1] <= limits[1])


def _ends_of_sum(e: PrimExpr, bound: Callable[[PrimExpr], Bound]) -> Bound | None:
    """The ends of sums of products with numbers, computed without end; None if nothing is known of a term."""
    if isinstance(e, IntImm):
        return e.value, e.value
    if isinstance(e, Add) or (isinstance(e, Mul) and isinstance(e.b, IntImm)):
        a, b = _ends_of_sum(e.a, bound), _ends_of_sum(e.b, bound)
        return None if a is None or b is None else ENDS_OF[type(e)](a, b)
    return _if_known(bound(e), integer_limits(e.dtype))


def _if_known(ends: Bound, limits: Bound) -> Bound | None:
    """The ends of a value; None if one is that of its type, so that nothing is known."""
    return None if ends[0] <= max(limits[0], -POS_INF) or ends[1] >= limits[1] else ends


def _int_value(e: PrimExpr) -> int | None:
    """The value of a number, or of a vector of one."""
    e = e.value if isinstance(e, Broadcast) else e
    return e.value if isinstance(e, IntImm) else None


def fit(bound: Bound, limits: Bound) -> Bound:
    """The bound of a value computed without end, after it wrapped around into `limits`.

    An end of 64 bits, `POS_INF` or its negative, says that nothing is known: a value that may be there may be anywhere.
    """
    low, high = limits[0] + (limits[0] == -POS_INF), limits[1] - (limits[1] == POS_INF)
    return bound if low <= bound[0] and bound[1] <= high else limits
