"""The loops of a version's stages or blocks as calls name them, and the calls that rearrange them as text.

A `View` is a stage of a TE schedule or a block of a TensorIR schedule with its loops; a `Writer` collects calls on it. A
loop that the user's cell has a name for is called by that name.
"""

from __future__ import annotations

import contextlib
import itertools
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir, te
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir.query import variables_in
from tvmagic.model.nests import Linear
from tvmagic.operators import Version
from tvmagic.te.schedule.relations import Fuse, Rebase, Split
from tvmagic.te.schedule.stage import AttachType
from tvmagic.tir.schedule import LoopRV, Schedule

_KINDS = {ir.IterVar.Vectorized: "vectorized", ir.IterVar.Unrolled: "unrolled", ir.IterVar.Parallelized: "parallel"}
_LOOP_KINDS = {ir.ForKind.VECTORIZED: "vectorized", ir.ForKind.UNROLLED: "unrolled", ir.ForKind.PARALLEL: "parallel"}


@dataclass(eq=False)
class Leaf:
    """A loop: the `text` that names it, its extent, the axes of the result that it runs over (-1 for a reduction).

    `step`: by how much it moves along its axis; 1 for the innermost part of a split axis. `kind` is how it runs.
    """

    text: str
    name: str
    extent: int
    axes: tuple[int, ...]
    step: int
    kind: str = ""

    @property
    def reduced(self) -> bool:
        """Whether it runs over what is reduced."""
        return -1 in self.axes


@dataclass(eq=False)
class View:
    """A stage or block: the buffer that it writes, how calls name it, its loops from the outermost, its last axis."""

    name: str
    text: str
    leaves: list[Leaf]
    axes: int
    readers: list[str] = field(default_factory=list)
    is_output: bool = False
    is_te: bool = True
    attached: str = ""  # the stage that it runs inside
    shape: tuple[int, ...] = ()  # extents of its axes, 0 if symbolic
    line: int = 0  # of the cell that it is written in
    begins: bool = False  # a block that stores what its sums begin with, too
    taken: set[str] = field(default_factory=set)

    @property
    def spatial(self) -> list[Leaf]:
        """The loops over the result."""
        return [leaf for leaf in self.leaves if not leaf.reduced]

    def unit(self) -> Leaf | None:
        """The loop along which the result lies without gaps, as far as it is one loop's: of the last axis, or fused with it."""
        found = [leaf for leaf in self.spatial if leaf.axes[-1:] == (self.axes - 1,) and leaf.step == 1]
        return found[-1] if found else None


def plain_name(name: str) -> str:
    """The name of a buffer without what lowering changes in it."""
    return re.sub(r"[^\w]", "_", name)


def views_of(version: Version, sizes: int = 256) -> dict[str, View]:
    """The stages or blocks of a version by the plain names of what they write; empty if their calls are not known.

    Symbolic sizes are `sizes`.
    """
    schedule = version.schedule
    if schedule is None:
        schedule = version.operator.te_schedule() if version.operator.prim_func is None else version.operator.schedule()
    try:
        if isinstance(schedule, te.schedule.Schedule):
            return _stages(version, schedule, sizes)
        return (
            _blocks(version, schedule, sizes) if isinstance(schedule, Schedule) else {}
        )  # else a program, without calls
    except TVMagicError:
        return {}


# ---------------------------------------------------------------------------- stages


def _stages(version: Version, sch: Any, sizes: int) -> dict[str, View]:
    normalized = sch.normalize()
    ranges = te.schedule.InferBound(normalized)
    found: dict[str, View] = {}
    for stage, twin in zip(sch.stages, normalized.stages):
        if not hasattr(stage.op, "axis") or stage.attach_type in (AttachType.INLINE, AttachType.INLINED_ALREADY):
            continue
        text = _tensor_text(version, sch, stage)
        steps = _steps(twin, ranges, sizes)
        leaves: list[Leaf] = []
        for number, (iv, other) in enumerate(zip(stage.leaf_iter_vars, twin.leaf_iter_vars)):
            axes, step = steps.get(other, ((0,), 0))
            attr = stage.iter_var_attrs.get(iv)
            kind = _KINDS.get(attr.iter_type, "") if attr is not None else ""
            size = _size(ranges[other].extent, sizes) if other in ranges else 0
            leaves.append(Leaf(_leaf_text(version, stage, iv, text, number), iv.var.name, size, axes, step, kind))
        view = View(stage.name, text, leaves, len(stage.op.axis), is_output=stage.is_output, taken=set(version.scope))
        view.readers = [o.name for o in sch.stages if o.op is not None and any(t.op is stage.op for t in o.op.input_tensors)]  # fmt: skip
        view.attached = stage.attach_stage.name if stage.attach_stage is not None else ""
        view.line = stage.op.span.line if stage.op.span is not None else 0
        every = (*stage.op.axis, *getattr(stage.op, "reduce_axis", ()))
        view.shape = tuple(_size(iv.dom.extent, 0) for iv in every if iv.dom is not None)
        found[plain_name(stage.name)] = view
    return found


def _steps(stage: Any, ranges: Any, sizes: int) -> dict[Any, tuple[tuple[int, ...], int]]:
    """For each iteration variable its axes, and by how much it moves along them."""
    found: dict[Any, tuple[tuple[int, ...], int]] = {iv: ((n,), 1) for n, iv in enumerate(stage.op.axis)}
    found |= dict.fromkeys(getattr(stage.op, "reduce_axis", ()), ((-1,), 1))
    for relation in stage.relations:
        if isinstance(relation, Split) and relation.parent in found:
            axes, step = found[relation.parent]
            found[relation.inner] = axes, step
            found[relation.outer] = axes, step * (_size(ranges[relation.inner].extent, sizes) if relation.inner in ranges else 2)  # fmt: skip
        elif isinstance(relation, Fuse) and relation.outer in found and relation.inner in found:
            found[relation.fused] = (found[relation.outer][0] + found[relation.inner][0], found[relation.inner][1])
        elif isinstance(relation, Rebase) and relation.parent in found:
            found[relation.rebased] = found[relation.parent]
    return found


def _tensor_text(version: Version, sch: Any, stage: Any) -> str:
    known = {**version.operator.tensors, **version.scope}
    for name, value in known.items():
        if isinstance(value, te.Tensor) and sch.stage_map.get(value.op) is stage:
            return f"s[{name}]"
    return f"s.stages[{sch.stages.index(stage)}]"


def _leaf_text(version: Version, stage: Any, iv: Any, text: str, number: int) -> str:
    for name, value in version.scope.items():
        if value is iv and not name.startswith("_"):
            return name
    for name in ("axis", "reduce_axis"):
        for place, root in enumerate(getattr(stage.op, name, ())):
            if root is iv:
                return f"{text}.op.{name}[{place}]"
    return f"{text}.leaf_iter_vars[{number}]"


# ---------------------------------------------------------------------------- blocks


def _blocks(version: Version, sch: Any, sizes: int) -> dict[str, View]:
    found: dict[str, View] = {}
    func = next(iter(sch.mod.functions.values()))
    realizes: list[ir.BlockRealize] = []
    ir.post_order_visit(func.body, lambda n: realizes.append(n) if isinstance(n, ir.BlockRealize) else None)
    read: dict[str, list[str]] = {}
    for realize in realizes:
        for region in realize.block.reads:
            read.setdefault(region.buffer.name, []).append(realize.block.name_hint)
    outputs = {b.name for b in func.buffer_map.values()}
    names = _loop_names(version, sch)
    around = {r.block.name_hint: [sch.get(x) for x in sch.get_loops(sch.get_block(r.block.name_hint))] for r in realizes if r.block.iter_vars}  # fmt: skip
    for realize in realizes:
        name = realize.block.name_hint
        if not realize.block.writes or not realize.block.iter_vars or name.endswith("_init"):
            continue
        loops = around[name]
        steps = _block_steps(realize, loops, sizes)
        leaves = [
            Leaf(
                names.get(loop, f"{plain_name(name)}_loops[{n}]"),
                loop.loop_var.name,
                _size(loop.extent, sizes),
                *steps[n],
                _LOOP_KINDS.get(loop.kind, ""),
            )  # fmt: skip
            for n, loop in enumerate(loops)
        ]
        buffer = realize.block.writes[0].buffer.name
        spatial = [iv for iv in realize.block.iter_vars if iv.iter_type != ir.IterVar.CommReduce]
        view = View(name, f'sch.get_block("{name}")', leaves, len(spatial), is_te=False, taken=set(version.scope))
        view.readers, view.is_output = read.get(buffer, []), buffer in outputs
        view.readers = [r for r in view.readers if r != name]
        shared = {r: sum(a is b for a, b in zip(loops, around.get(r, ()))) for r in view.readers}
        view.attached = max(shared, key=lambda r: shared[r], default="") if any(shared.values()) else ""
        view.leaves = leaves[shared.get(view.attached, 0) :]
        view.line = realize.block.span.line if realize.block.span else 0
        view.shape = tuple(_size(iv.dom.extent, 0) for iv in realize.block.iter_vars if iv.dom is not None)
        view.begins = realize.block.init is not None
        found[plain_name(buffer)] = view
    return found


def _loop_names(version: Version, sch: Any) -> dict[ir.For, str]:
    """The loops that the cell has names for."""
    found: dict[ir.For, str] = {}
    for name, value in version.scope.items():
        if isinstance(value, LoopRV) and not name.startswith("_"):
            with contextlib.suppress(TVMagicError):  # loops that were split are gone
                found[sch.get(value)] = name
    return found


def _size(extent: Any, sizes: int) -> int:
    """An extent as a number, with symbolic sizes of `sizes`."""
    if isinstance(extent, ir.IntImm):
        return extent.value
    try:
        return int(evaluate(extent, dict.fromkeys(variables_in(extent), sizes)))
    except TVMagicError:
        return sizes


def _block_steps(realize: ir.BlockRealize, loops: Sequence[ir.For], sizes: int) -> list[tuple[tuple[int, ...], int]]:
    """For each loop the axes of the block that it runs over, and by how much it moves along them."""
    extents = {loop.loop_var: _size(loop.extent, sizes) for loop in loops}
    found: list[tuple[tuple[int, ...], int]] = [((), 0)] * len(loops)
    number = 0
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        axis = -1 if iv.iter_type == ir.IterVar.CommReduce else number
        number += axis >= 0
        address = Linear({}, extents).visit(value)
        for place, loop in enumerate(loops):
            if address.uses(loop.loop_var):
                axes, _ = found[place]
                found[place] = ((*axes, axis), abs(address.stride(loop.loop_var) or 0) or 1)
    return found


# ---------------------------------------------------------------------------- calls


class Writer:
    """Calls on one view as lines of a cell, each with new names for what it makes."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.lines: list[str] = []
        self.taken = set(view.taken)
        self.leaves = list(view.leaves)
        self.names: dict[str, str] = {}

    def _unique_name(self, leaf: Leaf, suffix: str) -> str:
        base = plain_name(leaf.text if leaf.text.isidentifier() else leaf.name)
        name, number = f"{base}_{suffix}", 1
        while name in self.taken or keyword.iskeyword(name):
            number += 1
            name = f"{base}_{suffix}{number}"
        self.taken.add(name)
        return name

    def _call(self, method: str, *arguments: str) -> str:
        owner = self.view.text if self.view.is_te else "sch"
        return f"{owner}.{method}({', '.join(arguments)})"

    def split(self, leaf: Leaf, factor: int) -> tuple[Leaf, Leaf]:
        """Split a loop into blocks of `factor`; gives the outer and the inner loop."""
        outer, inner = self._unique_name(leaf, "o"), self._unique_name(leaf, "i")
        if self.view.is_te:
            call = self._call("split", leaf.text, str(factor))
        else:
            call = self._call("split", leaf.text, f"[None, {factor}]")
        self.lines.append(f"{outer}, {inner} = {call}")
        first = Leaf(outer, outer, -(-leaf.extent // factor), leaf.axes, leaf.step * factor)
        second = Leaf(inner, inner, factor, leaf.axes, leaf.step)
        place = self.leaves.index(leaf)
        self.leaves[place : place + 1] = [first, second]
        return first, second

    def fuse(self, outer: Leaf, inner: Leaf) -> Leaf:
        """Make one loop of two that follow each other."""
        name = self._unique_name(outer, "f")
        self.lines.append(f"{name} = {self._call('fuse', outer.text, inner.text)}")
        made = Leaf(name, name, outer.extent * inner.extent, outer.axes + inner.axes, inner.step)
        place = self.leaves.index(outer)
        self.leaves[place : place + 2] = [made]
        return made

    def reorder(self, order: Sequence[Leaf]) -> None:
        """Put all loops in this order, if it is not theirs already."""
        if [id(leaf) for leaf in order] != [id(leaf) for leaf in self.leaves]:
            first = next(n for n, (a, b) in enumerate(zip(order, self.leaves)) if a is not b)
            self.lines.append(self._call("reorder", *(leaf.text for leaf in order[first:])))
            self.leaves = list(order)

    def mark(self, method: str, leaf: Leaf) -> None:
        """`vectorize`, `unroll` or `parallel` of a loop."""
        self.lines.append(self._call(method, leaf.text))

    def compute_at(self, producer: View, leaf: Leaf) -> None:
        """Run another stage inside a loop of this one."""
        if self.view.is_te:
            self.lines.append(f"{producer.text}.compute_at({self.view.text}, {leaf.text})")
        else:
            self.lines.append(f"sch.compute_at({producer.text}, {leaf.text})")

    def begin_apart(self) -> None:
        """Have a block of its own store what sums begin with, before the loops that add to them, if the block of the view does."""
        first = next((leaf for leaf in self.leaves if leaf.reduced), None)
        if self.view.begins and first is not None:
            self.lines.append(f"sch.decompose_reduction({self.view.text}, {first.text})")

    def inline(self) -> None:
        """Put the stage into what reads it."""
        self.lines.append(f"{self.view.text}.compute_inline()" if self.view.is_te else f"sch.compute_inline({self.view.text})")  # fmt: skip

    @property
    def text(self) -> str:
        """The calls."""
        head, lines = list[str](), self.lines
        if not self.view.is_te and any("_loops[" in line for line in lines):
            head = [f"{plain_name(self.view.name)}_loops = sch.get_loops({self.view.text})"]
        place = f"{self.view.text}.leaf_iter_vars["
        if len(lines) > 1 and any(place in line for line in lines):  # a call changes the places of the others
            name = next(n for n in (f"{'_' * k}loops" for k in itertools.count()) if n not in self.taken)
            head = [f"{name} = list({self.view.text}.leaf_iter_vars)"]
            lines = [line.replace(place, f"{name}[") for line in lines]
        return "\n".join([*head, *lines])
