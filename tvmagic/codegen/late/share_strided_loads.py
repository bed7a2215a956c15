"""Load interleaved elements once for several strided vectors.

The real and the imaginary parts of complex numbers are two vectors of stride 2. Contiguous loads for one of them contain the elements of
the other.
"""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.codegen.late.common import StatementMutator, census, late_pass, unchecked
from tvmagic.ir import Buffer, BufferLoad, BufferStore, IntImm, Mutator, PrimExpr, PrimFunc, Ramp, Shuffle, handles
from tvmagic.ir.query import nodes_of
from tvmagic.passes import note
from tvmagic.target import Machine


@late_pass("ShareStridedLoads", when=unchecked)
def share_strided_loads(func: PrimFunc) -> PrimFunc:
    """Load elements once that several strided vectors of one value interleave in."""
    return func.with_body(_Sharer(func).visit(func.body)) if census(func.body).strided_loads else func


class _Sharer(StatementMutator):
    @handles(BufferStore)
    def store(self, node: BufferStore) -> BufferStore:
        if node.value.dtype.lane_code <= 1:
            return node
        made = node.with_(value=share_loads([node.value])[0])
        if made is not node:
            note("late", f"loaded contiguous vectors for the strided loads of a store to `{node.buffer.name}`", node)
        return made


def share_loads(values: list[PrimExpr]) -> list[PrimExpr]:
    """Return the values with shuffles of shared contiguous loads instead of strided loads that together read every element of a range."""
    groups: dict[tuple[Buffer, int, int], list[BufferLoad]] = {}
    for value in values:
        for load in nodes_of(value, BufferLoad):
            stride = _stride(load)
            if stride is not None:
                groups.setdefault((load.buffer, stride, load.dtype.lanes), []).append(load)
    shared: dict[BufferLoad, PrimExpr] = {}
    for (_, stride, lanes), loads in groups.items():
        offsets = offsets_of(loads, stride)
        if offsets is None:
            continue
        first = loads[offsets.index(min(offsets))]
        ramp = first.indices[0]
        assert isinstance(ramp, Ramp)
        whole: list[PrimExpr] = [contiguous(first, ramp.base + part * lanes, lanes) for part in range(stride)]
        for load, offset in zip(loads, offsets):
            picks = [IntImm("int32", offset - min(offsets) + stride * lane) for lane in range(lanes)]
            shared[load] = Shuffle(whole, picks)
    if not shared:
        return values
    replaced = _Replaced(shared)
    return [replaced.visit(value) for value in values]


def _stride(load: BufferLoad) -> int | None:
    """Return the stride of a load that is worth sharing, or None."""
    index = load.indices[0] if len(load.indices) == 1 and load.predicate is None else None
    if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or load.buffer.dtype.lane_code != 1:
        return None
    return index.stride.value if 2 <= index.stride.value <= Machine.widest_shuffle and load.dtype.is_vector else None


def offsets_of(loads: list[BufferLoad], stride: int) -> list[int] | None:
    """Return the offsets of strided loads from the first one, or None unless they together read every element of a range.

    They do if each begins less than `stride` elements after the first, one at each offset.
    """
    analyzer, offsets = Analyzer(), list[int]()
    first = loads[0].indices[0]
    for load in loads:
        index = load.indices[0]
        if (
            not isinstance(index, Ramp)
            or not isinstance(first, Ramp)
            or _stride(load) != stride
            or load.buffer is not loads[0].buffer
        ):
            return None
        offset = analyzer.canonical_simplify(index.base - first.base)
        if not isinstance(offset, IntImm):
            return None
        offsets.append(offset.value)
    return offsets if sorted(set(offsets)) == list(range(min(offsets), min(offsets) + stride)) else None


def contiguous(load: BufferLoad, base: PrimExpr, lanes: int) -> BufferLoad:
    """Return a load of `lanes` contiguous elements from `base` on, from the buffer of `load`."""
    return load.with_(indices=(Ramp(base, IntImm(base.dtype, 1), lanes),), dtype=load.buffer.dtype.with_lanes(lanes))


class _Replaced(Mutator):
    def __init__(self, instead: dict[BufferLoad, PrimExpr]) -> None:
        self.instead = instead

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        return self.instead.get(node, node)
