"""Which axis of one graph each dimension of some tensor expressions is.

Tensor expressions give every operation iteration variables of its own; a HintGraph has one set of
axes. A dimension and the variable that indexes it are one axis. Dimensions of size 1 are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tvmagic import te
from tvmagic.ascend.graph import AscendError
from tvmagic.ascend.sizes import Size, parse_size
from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, IterVar, PrimExpr, ProducerLoad, Var, post_order_visit

__all__ = ["Dimension", "Dimensions", "refuse"]

RULE = "te-expression"


def refuse(op: te.Operation, node: Any, why: str, hint: str | None = None) -> AscendError:
    """The error of an expression that a HintGraph has no node for; `why` goes on after its text."""
    span = getattr(node, "span", None) or op.span
    return AscendError(RULE, f"`{node}` of `{op.name}` {why}", span=span, hint=hint)


class Dimension:
    """A dimension of a tensor or a reduction axis; those that are one axis have one `root`."""

    def __init__(self, owner: te.Operation, name: str, size: Size) -> None:
        self.name, self.size = name, size
        self.owners = {id(owner)}
        self._parent: Dimension | None = None

    @property
    def root(self) -> Dimension:
        """The dimension that stands for all that are one axis with this."""
        found = self
        while found._parent is not None:
            found = found._parent
        if found is not self:
            self._parent = found  # the next way is short
        return found

    def join(self, other: Dimension) -> bool:
        """Make both one axis; False where that would make one of two dimensions of an operation."""
        a, b = self.root, other.root
        if a is b:
            return True
        if a.owners & b.owners:
            return False
        if len(a.owners) < len(b.owners):
            a, b = b, a
        a.owners |= b.owners
        b._parent = a
        return True


class Dimensions:
    """The dimensions of operations, joined by the accesses of their bodies.

    `of(tensor)`: the dimension along each axis of a tensor, None where its size is 1. `reduced(op)`:
    those that it reduces.

    Raises AscendError, with the expression named, where an access is no plain indexing.
    """

    def __init__(self, order: Sequence[te.Operation]) -> None:
        self._of: dict[te.Operation, list[Dimension | None]] = {}
        self._reduced: dict[te.Operation, list[Dimension]] = {}
        for op in order:
            if isinstance(op, te.PlaceholderOp):
                self._of[op] = [self._new(op, f"{op.name}.{i}", s) for i, s in enumerate(op.shape)]
            elif isinstance(op, te.ComputeOp):
                self._compute(op)
            else:
                raise AscendError(RULE, f"`{op.name}` is made by `{op.kind}`, which a HintGraph has no node for")

    def of(self, tensor: te.Tensor) -> list[Dimension | None]:
        """The axis that each dimension of a tensor is."""
        return [d and d.root for d in self._of[tensor.op]]

    def reduced(self, op: te.Operation) -> list[Dimension]:
        """The axes that an operation reduces."""
        return [d.root for d in self._reduced.get(op, [])]

    def ordered(self, tensors: Iterable[te.Tensor]) -> list[Dimension]:
        """All axes in an order that most of `tensors` keep: those of the most dimensions, then the first.

        Reduced axes stand behind the others where no tensor says otherwise.
        """
        lists = [[d for d in self.of(t) if d is not None] for t in tensors]
        lists.sort(key=len, reverse=True)
        lists += [[*(d.root for d in self._of[op] if d is not None), *self.reduced(op)] for op in self._of]
        after: dict[Dimension, list[Dimension]] = {d: [] for dims in lists for d in dims}
        for dims in lists:
            for first, second in zip(dims, dims[1:], strict=False):
                if second not in after[first] and first not in _reached(after, second):
                    after[first].append(second)
        done: list[Dimension] = []
        while len(done) < len(after):
            waiting = {d for a in after if a not in done for d in after[a]}
            done.append(next(d for d in after if d not in done and d not in waiting))
        return done

    # ------------------------------------------------------------------ one operation

    def _new(self, op: te.Operation, name: str, size: PrimExpr) -> Dimension | None:
        if isinstance(size, IntImm) and size.value == 1:
            return None
        return Dimension(op, name, _size(op, size))

    def _compute(self, op: te.ComputeOp) -> None:
        found: dict[Var, Dimension | None] = {}
        for iv in (*op.axis, *op.reduce_axis):
            found[iv.var] = self._iterated(op, iv)
        self._of[op] = [found[iv.var] for iv in op.axis]
        self._reduced[op] = [d for iv in op.reduce_axis if (d := found[iv.var]) is not None]
        loads: list[ProducerLoad] = []
        for body in op.body:
            post_order_visit(body, lambda n: loads.append(n) if isinstance(n, ProducerLoad) else None)
        for load in loads:
            for index, dimension, size in _accesses(load, self._of[load.producer.op]):
                self._access(op, load, index, dimension, size, found)

    def _iterated(self, op: te.ComputeOp, iv: IterVar) -> Dimension | None:
        assert iv.dom is not None
        if not (isinstance(iv.dom.min, IntImm) and iv.dom.min.value == 0):
            raise refuse(op, iv.var, f"runs from {iv.dom.min}; an axis begins at 0")
        return self._new(op, iv.var.name, iv.dom.extent)

    def _access(
        self, op: te.ComputeOp, load: ProducerLoad, index: PrimExpr, dimension: Dimension | None, size: PrimExpr,
        found: dict[Var, Dimension | None],
    ) -> None:  # fmt: skip
        if isinstance(index, IntImm) and index.value == 0 and dimension is None:
            return
        if not isinstance(index, Var) or index not in found:
            raise refuse(
                op, load, f"reads at `{index}`, which is no axis of the graph", "index by iteration variables alone"
            )
        mine = found[index]
        if (mine.size if mine else Size.of(1)) != (dimension.size if dimension else Size.of(1)):
            length = mine.size if mine else 1
            raise refuse(op, load, f"reads {length} of {size} elements along `{index}`, not a whole dimension")
        if mine is not None and dimension is not None and not mine.join(dimension):
            name = load.producer.name
            raise refuse(
                op, load, f"reads `{name}` along other axes than another expression does",
                f"in a HintGraph every tensor has one set of axes: give the array of `{name}` twice, as two inputs",
            )  # fmt: skip


def _accesses(
    load: ProducerLoad, dims: list[Dimension | None]
) -> Iterator[tuple[PrimExpr, Dimension | None, PrimExpr]]:
    return zip(load.indices, dims, load.producer.shape, strict=True)


def _reached(after: dict[Dimension, list[Dimension]], start: Dimension) -> set[Dimension]:
    found, pending = {start}, [start]
    while pending:
        for dimension in after[pending.pop()]:
            if dimension not in found:
                found.add(dimension)
                pending.append(dimension)
    return found


def _size(op: te.Operation, size: PrimExpr) -> Size:
    """The size of an expression: numbers, variables, sums and products of them."""
    try:
        return parse_size(str(size))
    except TVMagicError:
        raise refuse(op, size, "is no size of an axis", "a number, a variable, sums and products of them") from None
