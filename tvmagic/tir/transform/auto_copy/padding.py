"""Rows of shared memory made longer, so that the threads of a warp access different banks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.ir.memory_scope import StorageRank
from tvmagic.ir.query import callee
from tvmagic.tir.transform.auto_copy.copies import Copy, rank_of

_BANKS, _BANK_BITS, _WARP = 32, 32, 32
_MOST = 0.25  # of a row's size: more is not added to it

# For each access of a warp, the values of each index; empty for an index of another form.
_Values = list[list[int]]


class Padding:
    """What the copies of a function access in shared memory, and how its rows are padded for it."""

    def __init__(self) -> None:
        self.accesses: dict[ir.Buffer, list[_Values]] = {}
        self.steps: dict[ir.Buffer, int] = {}
        self.padded: dict[ir.Buffer, ir.Buffer] = {}

    def at_least(self, buffer: ir.Buffer, step: int) -> None:
        """What is added to rows of the buffer is a multiple of `step` elements, or of more."""
        self.steps[buffer] = max(self.steps.get(buffer, 1), step)

    def look_at(self, stmt: ir.Stmt, copy: Copy) -> None:
        """Note the accesses of a warp in a copy."""
        finder = _WarpAccesses(self, {loop.loop_var: loop.min for loop in copy.outer}, _warp(copy.threads))
        finder.visit(stmt)

    def pad(self, buffers: Sequence[ir.Buffer]) -> tuple[ir.Buffer, ...]:
        """The buffers with longer rows, if they are in shared memory and copies access them."""
        return tuple(self._padded(buffer) for buffer in buffers)

    def _padded(self, buffer: ir.Buffer) -> ir.Buffer:
        accesses = self.accesses.get(buffer)
        if rank_of(buffer) is not StorageRank.SHARED or not accesses:
            return buffer
        sizes = [size.value for size in buffer.shape if isinstance(size, ir.IntImm)]
        if len(sizes) != len(buffer.shape):
            return buffer
        strides = _strides(sizes, buffer.dtype.bits, self.steps.get(buffer, 1), accesses)
        self.padded[buffer] = buffer.replace(strides=tuple(ir.IntImm(buffer.shape[0].dtype, s) for s in strides))
        return self.padded[buffer]


def _warp(threads: dict[str, int]) -> dict[str, int]:
    """How many threads of each tag are in the first warp."""
    found: dict[str, int] = {}
    left = _WARP
    for tag in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
        found[tag] = min(threads.get(tag, 1), left)
        if threads.get(tag, 1) >= left:
            break
        left //= found[tag]
    return found


def _strides(sizes: Sequence[int], bits: int, step: int, accesses: Sequence[_Values]) -> list[int]:
    """The stride of each dimension, with the padding that has the fewest conflicts, from the last dimension on."""
    row = _BANKS * _BANK_BITS // bits  # elements in one row of all banks
    low = [access[-1] for access in accesses]
    strides, stride = [1], 1
    for k in range(len(sizes) - 2, -1, -1):
        size = stride * sizes[k + 1]
        best = min(
            range(0, min(int(_MOST * size), row) + 1, step),
            key=lambda pad: max(
                _conflicts(access[k], values, (size + pad) % row, bits) for access, values in zip(accesses, low)
            ),
        )
        by = (size + best) % row
        # the places within a row of banks, as TVM has them: modulo its elements, in bits
        low = [
            [(v * by + w) * bits % row for v in access[k] for w in values] if access[k] else values
            for access, values in zip(accesses, low)
        ]
        stride = size + best
        strides.insert(0, stride)
    return strides


def _conflicts(high: Sequence[int], low: Sequence[int], stride: int, bits: int) -> int:
    """The number of accesses to the bank that gets most of them."""
    banks = [0] * _BANKS
    for v, w in itertools.product(high, low):
        banks[(v * stride + w) * bits // _BANK_BITS % _BANKS] += 1
    return max(banks)


# ---------------------------------------------------------------------------- the accesses of a warp


class _WarpAccesses(ir.Visitor):
    """Notes the indices that the threads of a warp take in the first iteration of all loops."""

    def __init__(self, padding: Padding, first: dict[ir.Var, ir.PrimExpr], warp: dict[str, int]) -> None:
        self.padding, self.first, self.warp = padding, first, warp
        self.ranges: dict[ir.Var, int] = {}
        self.lanes: ir.For | None = None

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        if node.kind is ir.ForKind.THREAD_BINDING and node.thread_binding is not None:
            self.ranges[node.loop_var] = self.warp.get(node.thread_binding.thread_tag, 1)
            self.visit_children(node)
            return
        self.first[node.loop_var] = node.min
        lanes, self.lanes = self.lanes, node if node.kind is ir.ForKind.VECTORIZED else self.lanes
        self.visit_children(node)
        self.lanes = lanes
        del self.first[node.loop_var]

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self._note(node.buffer, node.indices)
        if (
            self.lanes is not None
            and isinstance(self.lanes.extent, ir.IntImm)
            and self._is_contiguous(node.indices[-1])
        ):
            self.padding.at_least(node.buffer, self.lanes.extent.value)
        self.visit_children(node)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self._note(node.buffer, node.indices)
        self.visit_children(node)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        """What an intrinsic of WMMA accesses: a whole tile. In other blocks, threads have their own views."""
        body = node.body
        if not isinstance(body, ir.Evaluate) or callee(body.value) not in (
            "tir.tvm_load_matrix_sync",
            "tir.tvm_store_matrix_sync",
        ):
            return
        for view in node.match_buffers:
            source = view.source
            axes = [ir.Var(f"region{i}", r.extent.dtype) for i, r in enumerate(source.region)]
            for axis, r in zip(axes, source.region):
                self.ranges[axis] = r.extent.value if isinstance(r.extent, ir.IntImm) else 1
            self._note(source.buffer, [r.min + axis for r, axis in zip(source.region, axes)])

    def _note(self, buffer: ir.Buffer, indices: Sequence[ir.PrimExpr]) -> None:
        if rank_of(buffer) is not StorageRank.SHARED or not indices:
            return
        simplify = Analyzer().simplify
        reader = _Steps(self.ranges)
        values = [reader.values(simplify(ir.substitute(index, self.first))) for index in indices]
        self.padding.accesses.setdefault(buffer, []).append(values)

    def _is_contiguous(self, index: ir.PrimExpr) -> bool:
        """Whether neighbouring lanes access neighbouring elements (unless the opposite is proved)."""
        assert self.lanes is not None
        var = self.lanes.loop_var
        step = ir.substitute(index, {var: ir.IntImm(var.dtype, 1)}) - ir.substitute(
            index, {var: ir.IntImm(var.dtype, 0)}
        )
        return not Analyzer().can_prove(ir.substitute(step, self.first) != 1)


class _Step(NamedTuple):
    """`scale` times a value from 0 up to before `extent`."""

    extent: int
    scale: int


class _Steps:
    """An index as a sum of steps. After one index of another form no further one is read, as in TVM."""

    def __init__(self, ranges: dict[ir.Var, int]) -> None:
        self.ranges, self.failed = ranges, False

    def values(self, index: ir.PrimExpr) -> list[int]:
        """The values of an index for the threads in order; empty if it is of another form, or constant."""
        steps = self._steps(index) if not isinstance(index, ir.IntImm) else None
        if self.failed or steps is None:
            return []
        return [
            sum(value * step.scale for value, step in zip(point, steps))
            for point in itertools.product(*(range(step.extent) for step in steps))
        ]

    def _steps(self, node: ir.PrimExpr) -> list[_Step]:
        if isinstance(node, ir.Var) and node in self.ranges:
            extent = self.ranges[node]
            return [_Step(extent, 1)] if extent > 1 else []
        if isinstance(node, ir.Add):
            return _merged([*self._steps(node.a), *self._steps(node.b)])
        if isinstance(node, ir.IntImm):
            return []
        if isinstance(node, (ir.Mul, ir.FloorDiv, ir.FloorMod)) and isinstance(node.b, ir.IntImm) and node.b.value > 0:
            inner, by = self._steps(node.a), node.b.value
            if isinstance(node, ir.Mul):
                return [_Step(s.extent, s.scale * by) for s in inner]
            return self._quotients(inner, by) if isinstance(node, ir.FloorDiv) else self._remainders(inner, by)
        self.failed = True
        return []

    def _quotients(self, inner: list[_Step], by: int) -> list[_Step]:
        found: list[_Step] = []
        for extent, scale in inner:
            if scale >= by:
                self.failed = self.failed or scale % by != 0
                found.append(_Step(extent, scale // by))
            elif scale * extent > by:
                self.failed = self.failed or scale * extent % by != 0
                found.append(_Step(extent * scale // by, 1))
        return found

    def _remainders(self, inner: list[_Step], by: int) -> list[_Step]:
        found: list[_Step] = []
        for extent, scale in inner:
            if scale < by:
                self.failed = self.failed or by % scale != 0
                found.append(_Step(min(extent, by // scale), scale))
        return found


def _merged(steps: list[_Step]) -> list[_Step]:
    """The first step, joined with those that it repeats; others are left out, as in TVM."""
    merged = steps[:1]
    for step in steps:
        if step.extent * step.scale == merged[-1].scale:
            merged[-1] = _Step(merged[-1].extent * step.extent, step.scale)
    return merged
