"""Which axis of one graph each dimension of some tensor expressions is.

Tensor expressions give every operation iteration variables of its own; a HintGraph has one set of
axes. A dimension and the variable that indexes it are one axis. Dimensions of size 1 are not axes,
nor are those that are read at indices. What is read in a part of an axis is of that axis, but shorter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tvmagic import ir, te
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.te_accesses import (
    Part,
    Parts,
    Read,
    gathered_place,
    reads,
    reads_something,
    refuse,
    shifted,
    size_of,
)


class Dimension:
    """A dimension of a tensor or a reduction axis; those that are equally long and one axis have one `root`.

    `whole`: the dimension of which the root's are a part. `gathered`: it is read at indices.
    """

    def __init__(
        self, owner: te.Operation | None, name: str, size: Size, whole: Dimension | None = None, gathered: bool = False
    ) -> None:
        self.name, self.size, self.whole, self.gathered = name, size, whole, gathered
        self.owners = set() if owner is None else {id(owner)}
        self._parent: Dimension | None = None

    @property
    def root(self) -> Dimension:
        """The dimension that represents all that are one axis with this and as long."""
        found = self
        while found._parent is not None:
            found = found._parent
        if found is not self:
            self._parent = found  # the next way is short
        return found

    @property
    def axis(self) -> Dimension:
        """The dimension that represents the axis; of parts, that of the whole."""
        found = self.root
        while found.whole is not None:
            found = found.whole.root
        return found

    @property
    def is_part(self) -> bool:
        """Whether it is shorter than its axis."""
        return self.root.whole is not None

    def join(self, other: Dimension) -> bool:
        """Make both one axis; False if that would make one of two dimensions of an operation."""
        a, b = self.root, other.root
        if a is b:
            return True
        if a.owners & b.owners or not _join_wholes(a, b):
            return False
        if len(a.owners) < len(b.owners):
            a, b = b, a
        a.owners |= b.owners
        a.whole = a.whole or b.whole
        b._parent = a
        return True


def _join_wholes(a: Dimension, b: Dimension) -> bool:
    """Whether two roots are parts of one axis, or none of any, or one becomes part of the other's."""
    if a.whole is None and b.whole is None:
        return True
    if a.whole is not None and b.whole is not None:
        return a.axis is b.axis
    axis, free = (a.axis, b) if b.whole is None else (b.axis, a)
    if axis is free or axis.owners & free.owners:
        return False
    axis.owners |= free.owners
    return True


def _check_kinds(order: Sequence[te.Operation]) -> None:
    """Refuse operations without an expression for each element: the steps of a scan, before their parts, and statements."""
    for op in order:
        if isinstance(op, (te.PlaceholderOp, te.ComputeOp)):
            continue
        hint = "take `te.compute` with one node's meaning"
        if isinstance(op, te.ScanOp):
            hint = "its elements follow from earlier ones: compute it elsewhere, and give it as an input"
        raise refuse(op, op.name, f"is made by `{op.kind}`, which a HintGraph has no node for", hint)


class Dimensions:
    """The dimensions of operations, joined by the accesses of their bodies.

    `of(tensor)`: the dimension along each axis of a tensor, None if its size is 1. `reduced(op)`:
    those that it reduces. `variables`: the dimension of each iteration variable. `reads(op)`: what it reads.
    `gathers`: of each input that is read at indices, the iteration variables of the first such indices.

    Raises AscendError, with the expression named, if an access is not plain indexing.
    """

    def __init__(self, order: Sequence[te.Operation]) -> None:
        _check_kinds(order)
        self._of: dict[te.Operation, list[Dimension | None]] = {}
        self._reduced: dict[te.Operation, list[Dimension]] = {}
        self.variables: dict[ir.Var, Dimension | None] = {}
        self.gathers: dict[te.Operation, list[Dimension]] = {}
        self._reads: dict[te.Operation, list[Read]] = {
            op: list(reads(op)) for op in order if isinstance(op, te.ComputeOp)
        }
        gathered = {
            (r.load.producer.op, place)
            for found in self._reads.values() for r in found if (place := gathered_place(r.load)) is not None
        }  # fmt: skip
        for op in order:
            if isinstance(op, te.PlaceholderOp):
                self._of[op] = [self._new(op, f"{op.name}.{i}", s, (op, i) in gathered) for i, s in enumerate(op.shape)]
            elif isinstance(op, te.ComputeOp):
                self._compute(op)
        for op, dims in self._reduced.items():
            part = next((d for d in dims if d.is_part), None)
            if part is not None:
                raise refuse(op, op.name, f"reduces `{part.name}`, a part of a longer axis", "reduce whole axes")

    def of(self, tensor: te.Tensor) -> list[Dimension | None]:
        """The dimension that each dimension of a tensor is."""
        return self._of[tensor.op]

    def reduced(self, op: te.Operation) -> list[Dimension]:
        """The dimensions that an operation reduces."""
        return self._reduced.get(op, [])

    def reads(self, op: te.Operation) -> list[Read]:
        """What an operation reads."""
        return self._reads.get(op, [])

    def ordered(self, tensors: Iterable[te.Tensor]) -> list[Dimension]:
        """All axes in an order that most of `tensors` keep: of those of the most dimensions, then of the others.

        Reduced axes come after the others if no tensor says otherwise.
        """
        lists = [self._axes(self._with_indices(t.op)) for t in tensors]
        votes = Counter(map(tuple, lists))
        lists.sort(key=lambda dims: (len(dims), votes[tuple(dims)]), reverse=True)
        lists += [self._axes([*self._of[op], *self.reduced(op)]) for op in self._of]
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

    def _with_indices(self, op: te.Operation) -> list[Dimension | None]:
        """The dimensions of an operation; for one that is read at indices, that of the indices."""
        dims = self._of[op]
        near = next(iter(self.gathers.get(op, ())), None)
        known = near is None or any(d is not None and not d.gathered and d.axis is near.axis for d in dims)
        return dims if known else [near if d is not None and d.gathered else d for d in dims]

    def _axes(self, dims: Iterable[Dimension | None]) -> list[Dimension]:
        return [d.axis for d in dims if d is not None and not d.gathered]

    # ------------------------------------------------------------------ one operation

    def _new(self, op: te.Operation, name: str, size: ir.PrimExpr, gathered: bool = False) -> Dimension | None:
        if isinstance(size, ir.IntImm) and size.value == 1 and not gathered:
            return None
        return Dimension(op, name, size_of(op, size), None, gathered)

    def _compute(self, op: te.ComputeOp) -> None:
        for iv in (*op.axis, *op.reduce_axis):
            self.variables[iv.var] = self._iterated(op, iv)
        self._of[op] = [self.variables[iv.var] for iv in op.axis]
        self._reduced[op] = [d for iv in op.reduce_axis if (d := self.variables[iv.var]) is not None]
        for read in self._reads[op]:
            place = gathered_place(read.load)
            if place is not None:
                self._gather(op, read, place)
            for i, (index, dimension) in enumerate(
                zip(read.load.indices, self._of[read.load.producer.op], strict=True)
            ):
                if i != place:
                    self._access(op, read.load, i, index, dimension, read.parts)

    def _iterated(self, op: te.ComputeOp, iv: ir.IterVar) -> Dimension | None:
        assert iv.dom is not None
        if not (isinstance(iv.dom.min, ir.IntImm) and iv.dom.min.value == 0):
            raise refuse(
                op,
                iv.var,
                f"runs from {iv.dom.min}; an axis begins at 0",
                "let it begin at 0, and add the number in the indices",
            )
        return self._new(op, iv.var.name, iv.dom.extent)

    def _gather(self, op: te.ComputeOp, read: Read, place: int) -> None:
        table = read.load.producer
        if not isinstance(table.op, te.PlaceholderOp):
            raise refuse(
                op, read.load, f"reads `{table.name}` at indices, which is computed", "a Gather reads an input"
            )
        found: list[ir.PrimExpr] = []
        ir.post_order_visit(read.load.indices[place], found.append)
        axes = [d for n in found if isinstance(n, ir.Var) and (d := self.variables.get(n)) is not None]
        self.gathers.setdefault(table.op, axes)

    def _access(
        self,
        op: te.ComputeOp,
        load: ir.ProducerLoad,
        place: int,
        index: ir.PrimExpr,
        dimension: Dimension | None,
        parts: Parts,
    ) -> None:
        name, size = load.producer.name, load.producer.shape[place]
        if isinstance(index, ir.IntImm) and index.value == 0 and dimension is None:
            return
        if reads_something(index):
            raise refuse(op, load, f"reads `{name}` at indices in two dimensions", "a Gather has one such axis")
        if dimension is not None and dimension.gathered:
            raise refuse(
                op, load, f"reads `{name}` along a dimension in which another expression reads it at indices",
                f"give the array of `{name}` twice, as two inputs",
            )  # fmt: skip
        found = shifted(index)
        if found is None or found[0] not in parts or (found[1] != 0 and found[1] != parts[found[0]].start * -1):
            raise refuse(
                op, load, f"reads at `{index}`, which is not an axis of the graph", "index by iteration variables alone"
            )
        var, part = found[0], parts[found[0]]
        if part.start + found[1] != 0 or part.size != (dimension.size if dimension else Size.of(1)):
            raise refuse(
                op,
                load,
                f"reads {part.size} of {size} elements along `{var}`, not a whole dimension",
                "read whole dimensions",
            )
        mine = self._slice(self.variables[var], part)
        if mine is not None and dimension is not None and not mine.join(dimension):
            raise refuse(
                op, load, f"reads `{name}` along other axes than another expression does",
                f"in a HintGraph every tensor has one set of axes: give the array of `{name}` twice, as two inputs",
            )  # fmt: skip

    def _slice(self, whole: Dimension | None, part: Part) -> Dimension | None:
        if whole is None or part.size == whole.size:
            return whole
        return Dimension(None, whole.name, part.size, whole)


def _reached(after: dict[Dimension, list[Dimension]], start: Dimension) -> set[Dimension]:
    found, pending = {start}, [start]
    while pending:
        for dimension in after[pending.pop()]:
            if dimension not in found:
                found.add(dimension)
                pending.append(dimension)
    return found
