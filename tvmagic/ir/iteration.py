"""What programs iterate over and reduce: ranges, iteration variables, reductions; functions' names."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

from tvmagic.errors import TVMagicError
from tvmagic.ir.derive import node
from tvmagic.ir.dtype import DataType
from tvmagic.ir.node import Node, Span
from tvmagic.ir.operators import Call
from tvmagic.ir.prim_expr import SEQUENCES, IntImm, PrimExpr, PrimType, StandsFor, Type, Var, expr
from tvmagic.ir.views import viewed


@node
class Range(Node):
    """The integers from `min` to `min + extent`, the end left out.

    `Range(end)`, `Range(begin, end)`; `Range.from_min_extent(min, extent)`.
    """

    min: PrimExpr
    extent: PrimExpr

    def __init__(self, begin: Any, end: Any = None, span: Span | None = None) -> None:
        if end is None:
            self.extent = expr(begin)
            self.min = IntImm(self.extent.dtype, 0)
        else:
            self.min = expr(begin)
            end = expr(end)
            if isinstance(self.min, IntImm) and self.min.value == 0:
                self.min = IntImm(end.dtype, 0)
                self.extent = end
            else:
                self.extent = end - self.min
        self.span = span

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: Span | None = None) -> Range:
        """The range of `extent` integers from `min_value` on."""
        new = Range.__new__(Range)
        new.min, new.extent, new.span = expr(min_value), expr(extent), span
        return new

    __hash__ = Node.__hash__


@viewed("iteration variable")
@node
class IterVar(StandsFor):
    """An iteration variable: `var` over `dom`, of a kind `iter_type`.

    `iter_type` is one of the numbers named on the class; `dom` is None if it follows from
    others. It stands for `var` in expressions.
    """

    DataPar: ClassVar[int] = 0
    ThreadIndex: ClassVar[int] = 1
    CommReduce: ClassVar[int] = 2
    Ordered: ClassVar[int] = 3
    DimInfo: ClassVar[int] = 4
    Opaque: ClassVar[int] = 4
    Unrolled: ClassVar[int] = 5
    Vectorized: ClassVar[int] = 6
    Parallelized: ClassVar[int] = 7
    Tensorized: ClassVar[int] = 8

    dom: Range | None
    var: Var
    iter_type: int
    thread_tag: str

    def __init__(
        self,
        dom: Any,
        var: Any,
        iter_type: int = 0,
        thread_tag: str = "",
        span: Span | None = None,
    ) -> None:
        if dom is not None and not isinstance(dom, Range):
            if not isinstance(dom, SEQUENCES) or len(dom) != 2:
                raise TVMagicError(
                    "the domain of an iteration variable is a Range or a pair of ends", code="iter_var.wrong_domain"
                )
            dom = Range(dom[0], dom[1])
        if not isinstance(var, Var):
            var = Var(str(var), dom.extent.dtype if dom is not None else "int32")
        self.dom, self.var = dom, var
        self.iter_type, self.thread_tag = int(iter_type), thread_tag
        self.span = Span.nowhere() if span is None else span if span.origin else span.born()

    @property
    def dtype(self) -> DataType:
        """The type of its variable."""
        return self.var.dtype

    def asobject(self) -> Var:
        return self.var


@node
class CommReducer(Node):
    """A commutative, associative way to combine values, with its neutral elements.

    `lhs`, `rhs`: the variables of the two sides; `result`: the combined values;
    `identity_element`: what changes nothing. `attrs["associative"]`: whether the user declares
    that it is associative and commutative, so that a schedule need not prove it. `attrs["nonempty"]`: whether a
    reduction of no elements has no value.
    """

    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]
    attrs: dict[str, Any]


@node(walk="combiner axis source init condition value_index")
class Reduce(PrimExpr):
    """The reduction of `source` over `axis`; element `value_index` of a tuple reduction.

    A `combiner` of None is a placeholder of tools: such a reduction can be built, not computed.
    """

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int
    init: tuple[PrimExpr, ...] = ()

    def retype(self) -> None:
        self.dtype = self.source[self.value_index].dtype


@node
class GlobalVar(Node):
    """The name of a function in a module; it is what it is by identity.

    Calling it builds the call of that function, of the type that the function returns.
    """

    name_hint: str

    @property
    def ret_type(self) -> Type | None:
        """What the function returns; None if that is not known."""
        return _returned.get(self)

    def returns(self, ret_type: Type | None) -> None:
        """Let it be known what the function returns."""
        if ret_type is not None:
            _returned[self] = ret_type

    def __call__(self, *args: Any) -> Call:
        return Call(self.ret_type.dtype if isinstance(self.ret_type, PrimType) else "void", self, args)


_returned: weakref.WeakKeyDictionary[GlobalVar, Type] = weakref.WeakKeyDictionary()
