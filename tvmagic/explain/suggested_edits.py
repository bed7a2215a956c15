"""Edits of a version's cell that may speed up a stage or block. The trial decides which of them do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tvmagic.explain.schedule_writer import Leaf, View, Writer
from tvmagic.explain.trial import Edit, Number
from tvmagic.target.machine import Machine


def _edit(writer: Writer) -> list[Edit]:
    return [Edit(writer.text)] if writer.lines else []


def _divisor(extent: int, most: int) -> int:
    """The largest divisor of an extent up to `most`."""
    return next((n for n in range(min(most, extent), 0, -1) if extent % n == 0), 1)


def _columns(extent: int, vectors: int, lanes: int) -> int:
    """Elements of a row of a tile: whole vectors that divide the extent, up to so many; else what divides it."""
    whole = next((n for n in range(vectors, 0, -1) if extent % (n * lanes) == 0), 0)
    return whole * lanes or _divisor(extent, vectors * lanes)


def _inner_first(leaves: Sequence[Leaf], last: Sequence[Leaf]) -> list[Leaf]:
    """Loops in their order, with some of them moved to the end, as given."""
    return [leaf for leaf in leaves if all(leaf is not other for other in last)] + list(last)


def _inner_iterations(writer: Writer, leaf: Leaf, size: int) -> Leaf:
    """The innermost `size` iterations of a loop, as a loop of their own; threads share the rest, if they shared the loop."""
    if leaf.extent == size:
        return leaf
    outer, inner = writer.split(leaf, size)
    if leaf.kind == "parallel":
        writer.mark("parallel", outer)
    return inner


def vectorized(view: View, lanes: int) -> list[Edit]:
    """The loop along which the result is contiguous, innermost and as vectors; what was vectors before is unrolled."""
    leaf = view.unit()
    if leaf is None or leaf.extent < 2 or leaf.kind == "vectorized" or (leaf.kind and leaf.extent <= lanes):
        return []
    writer = Writer(view)
    for other in view.leaves:
        if other.kind == "vectorized":
            writer.mark("unroll", other)
    part = _inner_iterations(writer, leaf, _columns(leaf.extent, 1, lanes) if leaf.extent > lanes else leaf.extent)
    writer.reorder(_inner_first(writer.leaves, [part]))
    writer.mark("vectorize", part)
    return _edit(writer)


def tiled(view: View, machine: Machine, lanes: int, shapes: Sequence[tuple[int, int]]) -> list[Edit]:
    """Tiles of `rows` times `vectors` sums in registers, for each shape, inside the loops that are reduced over."""
    unit = view.unit()
    if unit is None or not any(leaf.reduced for leaf in view.leaves):
        return []
    rows = [leaf for leaf in view.spatial if leaf is not unit and leaf.kind != "vectorized" and leaf.extent > 1]
    found: list[Edit] = []
    for count, vectors in shapes:
        row = max(rows, key=lambda leaf: (2 * _divisor(leaf.extent, count) > count, leaf.extent), default=None)
        writer = Writer(view)
        inner: list[Leaf] = []
        if row is not None and (size := _divisor(row.extent, count)) > 1:
            inner.append(_inner_iterations(writer, row, size))
        elif count > 1 and row is not None:
            continue
        inner.append(_inner_iterations(writer, unit, _columns(unit.extent, vectors, lanes)))
        if any(leaf.kind == "parallel" for leaf in inner):
            continue  # threads would share what is to be a tile
        reduced = [leaf for leaf in writer.leaves if leaf.reduced]
        writer.reorder(_inner_first(writer.leaves, [*reduced, *inner]))
        if len(inner) == 2:
            writer.mark("unroll", inner[0])
        if inner[-1].kind != "vectorized":
            writer.mark("vectorize", inner[-1])
        writer.begin_apart()
        found += _edit(writer)
    return found


def fewer_rows(view: View, sums: int) -> list[Edit]:
    """Unrolled loops inside the reduction in parts, so that no more than `sums` stay in registers."""
    place = next((n for n, leaf in enumerate(view.leaves) if leaf.reduced), None)
    if place is None:
        return []
    found: list[Edit] = []
    inside = [leaf for leaf in view.leaves[place:] if not leaf.reduced and leaf.kind in ("", "unrolled")]
    for leaf in sorted(inside, key=lambda leaf: -leaf.extent):
        for size in sorted({n for n in range(2, min(leaf.extent, sums) + 1) if leaf.extent % n == 0}, reverse=True)[:3]:
            if size == leaf.extent:
                continue
            writer = Writer(view)
            outer, inner = writer.split(leaf, size)
            first = [x for x in writer.leaves if x is not outer]
            at = next(n for n, x in enumerate(first) if x.reduced)
            writer.reorder([*first[:at], outer, *first[at:]])
            writer.mark("unroll", inner)
            found += _edit(writer)
    return found


def other_sizes(numbers: Sequence[Number], choices: Sequence[int]) -> list[Edit]:
    """Each size of the cell's `split` and `tile` calls replaced by each choice, those nearest to it first."""
    found: list[tuple[float, Edit]] = []
    for number in numbers:
        for choice in choices:
            if choice != number.value:
                far = max(choice, number.value) / min(choice, number.value)
                found.append((far, number.edit(choice)))
    return [edit for _, edit in sorted(found, key=lambda item: item[0])]


def unrolled(view: View, leaf: Leaf | None) -> list[Edit]:
    """A short loop unrolled."""
    if leaf is None or leaf.extent > 16 or leaf.kind:
        return []
    writer = Writer(view)
    writer.mark("unroll", leaf)
    return _edit(writer)


def longest_inside(view: View) -> list[Edit]:
    """The loop over the last axis made innermost."""
    unit = view.unit()
    if unit is None or unit.kind or view.leaves[-1] is unit:
        return []
    writer = Writer(view)
    writer.reorder(_inner_first(writer.leaves, [unit]))
    return _edit(writer)


def parallel(view: View, cores: int) -> list[Edit]:
    """The outermost loop over the result on several threads; with the next one if it is too short."""
    outer = view.leaves[0] if view.leaves else None
    if outer is None or outer.reduced or outer.kind or outer.extent < 2 or view.attached:
        return []
    writer = Writer(view)
    if outer.extent % cores and outer.extent < 4 * cores and len(view.leaves) > 1:
        second = view.leaves[1]
        if not second.reduced and not second.kind:
            outer = writer.fuse(outer, second)
    writer.mark("parallel", outer)
    return _edit(writer)


def parallel_rows(view: View | None, lanes: int) -> list[Edit]:
    """Another loop over the result on several threads; the loop that was parallel becomes vectors or is unrolled."""
    unit = view.unit() if view is not None else None
    leaf = next((x for x in view.leaves if x.kind == "parallel"), None) if view is not None else None
    if view is None or unit is None or leaf is None or (leaf is not unit and leaf.extent > 16):
        return []
    others = [x for x in view.spatial if x is not unit and not x.kind]
    if not others:
        return []
    other = max(others, key=lambda x: x.extent)
    writer = Writer(view)
    last: list[Leaf] = []
    if leaf is unit:
        last = [_inner_iterations(writer, leaf, lanes) if leaf.extent > lanes else leaf]
        writer.mark("vectorize", last[0])
    else:
        writer.mark("unroll", leaf)
    rest = [x for x in writer.leaves if x is not other and x not in last]
    reduced = [x for x in rest if x.reduced]
    writer.reorder([other, *(x for x in rest if x not in reduced), *reduced, *last] if last else [other, *rest])
    writer.mark("parallel", other)
    return _edit(writer)


def parallel_lines(view: View, extent: int, machine: Machine, lanes: int) -> list[Edit]:
    """The parallel loop in parts of whole cache lines, or of an equal share for each thread."""
    leaf = next((x for x in view.leaves if x.kind == "parallel"), None)
    if leaf is None:
        return []
    found: list[Edit] = []
    share = -(-extent // machine.cores)
    for size in dict.fromkeys([-(-share // lanes) * lanes, 4 * lanes, lanes]):
        if 1 < size < extent:
            writer = Writer(view)
            outer, _ = writer.split(leaf, size)
            writer.mark("parallel", outer)
            found += _edit(writer)
    return found


def parallel_outside(view: View, places: Mapping[str, tuple[int, int]]) -> list[Edit]:
    """The outermost loop parallel in the place of the cell's call, the loops outside the parallel one fused with it, or the parallel
    loop moved outermost. `places`: the lines of the cell's calls of `parallel`, and how many each has, by stage or loop."""
    leaf = next((x for x in view.leaves if x.kind == "parallel"), None)
    found: list[Edit] = []
    if leaf is None or view.leaves[0] is leaf:
        return []
    before = view.leaves[: view.leaves.index(leaf)]
    if any(x.reduced for x in before):
        return []
    if place := places.get(view.text if view.is_te else leaf.text):
        writer = Writer(view)
        writer.mark("parallel", before[0])
        found += in_place(_edit(writer), *place)
    writer = Writer(view)
    whole = before[0]
    for other in [*before[1:], leaf]:
        whole = writer.fuse(whole, other)
    writer.mark("parallel", whole)
    found += _edit(writer)
    writer = Writer(view)
    writer.reorder([leaf, *(x for x in view.leaves if x is not leaf)])
    return found + _edit(writer)


def fused_parallel(view: View, numbers: Sequence[Number], cores: int) -> list[Edit]:
    """More, or more even, iterations for the threads: the parallel loop fused with the next one, or other sizes."""
    found: list[Edit] = []
    leaf = view.leaves[0] if view.leaves else None
    if leaf is not None and leaf.kind == "parallel" and len(view.leaves) > 1:
        second = view.leaves[1]
        if not second.reduced and not second.kind:
            parts = range(2, min(second.extent, 16 * cores))
            even = (n for n in parts if second.extent % n == 0 and leaf.extent * n % cores == 0)
            for count in (next(even, 0), second.extent):
                if count:
                    writer = Writer(view)
                    part = second if count == second.extent else writer.split(second, second.extent // count)[0]
                    writer.mark("parallel", writer.fuse(leaf, part))
                    found += _edit(writer)
    sizes = [n.value // k for n in numbers for k in (2, 3, 4, 8) if n.value // k > 1] + [n.value * 2 for n in numbers]
    return found + other_sizes(numbers, sorted(set(sizes)))


def blocked(view: View) -> list[Edit]:
    """Outer loops in another order, and parts of a reduction or of an axis as blocks outside the others."""
    found: list[Edit] = []
    outer = [leaf for leaf in view.leaves if leaf.kind in ("", "parallel")]
    for leaf in outer[1:]:
        if not leaf.reduced and leaf.kind == "" and outer[0].kind == "":
            writer = Writer(view)
            writer.reorder([leaf, *(x for x in view.leaves if x is not leaf)])
            found += _edit(writer)
    for leaf in outer[1:]:
        for size in (64, 256, 16):
            if leaf.kind == "" and leaf.extent >= 2 * size:
                writer = Writer(view)
                first = writer.leaves[0]
                big, _ = writer.split(leaf, size)
                rest = [x for x in writer.leaves if x is not big]
                writer.reorder([rest[0], big, *rest[1:]] if first.kind == "parallel" else [big, *rest])
                found += _edit(writer)
    return found


def square(view: View) -> list[Edit]:
    """Blocks of two axes, so that what is read along either of them stays in the cache."""
    spatial = [leaf for leaf in view.spatial if leaf.kind in ("", "parallel")]
    if len(spatial) < 2 or any(leaf.reduced for leaf in view.leaves):
        return []
    first, second = spatial[-2:]
    found: list[Edit] = []
    for size in (16, 32, 8):
        if second.kind == "" and first.kind == "" and min(first.extent, second.extent) >= 2 * size:
            writer = Writer(view)
            _, inner = writer.split(first, size)
            _, last = writer.split(second, size)
            rest = [x for x in writer.leaves if x is not inner and x is not last]
            writer.reorder([*rest, inner, last])
            found += _edit(writer)
    return found


def compute_elsewhere(view: View, reader: View) -> Iterator[Edit]:
    """A stage inside each loop of the stage that reads it, and inside blocks of its rows; or inlined; or at the root."""
    if view.is_output:
        return
    spatial = [leaf for leaf in reader.leaves if not leaf.reduced and leaf.kind in ("", "parallel")]
    for size in (16, 32, 8, 64):
        if spatial and spatial[0].extent >= 2 * size and spatial[0].kind == "":
            writer = Writer(reader)
            outer, _ = writer.split(spatial[0], size)
            writer.compute_at(view, outer)
            yield from _edit(writer)
    for leaf in spatial:
        writer = Writer(reader)
        writer.compute_at(view, leaf)
        yield from _edit(writer)
    yield from inlined(view)
    if view.is_te:
        yield Edit(f"{view.text}.compute_root()")


def in_place(edits: Sequence[Edit], line: int, span: int) -> list[Edit]:
    """Calls in the place of lines of the cell; those that replace others already as they are."""
    return [edit if edit.line else Edit(edit.text, line, span) for edit in edits]


def attached(edit: Edit, block: str, reader: View) -> list[Edit]:
    """A block inside parts of the outermost loop of its reader, in the place of an edit."""
    loop = f"sch.get_loops({reader.text})[0]"
    calls = f"loop_o, loop_i = sch.split({loop}, [None, {{}}])\nsch.compute_at({block}, loop_o)"
    return [Edit(calls.format(size), edit.line, edit.span) for size in (16, 64)]


def inlined(view: View) -> list[Edit]:
    """A stage without reduction put into what reads it."""
    if view.is_output or any(leaf.reduced for leaf in view.leaves):
        return []
    writer = Writer(view)
    writer.inline()
    return _edit(writer)


def begun_apart(view: View) -> list[Edit]:
    """What a block's sums begin with stored by a block of its own, before the loops that add to them."""
    writer = Writer(view)
    writer.begin_apart()
    return _edit(writer)


def in_any_order(view: View) -> list[Edit]:
    """The innermost loop adds up its values in any order, alone or as one with the other loops that it is the innermost of."""
    place = next((n for n, leaf in enumerate(view.leaves) if leaf.reduced), None)
    if place is None or any(not x.reduced or x.kind for x in view.leaves[place:]):
        return []
    found: list[Edit] = []
    for together in dict.fromkeys((True, len(view.leaves) == place + 1)):
        writer = Writer(view)
        first = inner = writer.leaves[place]
        if together:
            for leaf in view.leaves[place + 1 :]:
                first = inner = writer.fuse(inner, leaf)
        else:
            inner = writer.leaves[-1]
        if view.is_te:
            writer.lines.append(f'{view.text}.pragma({inner.text}, "any_order")')
        else:
            writer.lines += [
                f"sch.decompose_reduction({view.text}, {first.text})",
                f'sch.annotate({inner.text}, "pragma_any_order", 1)',
            ]
        found += _edit(writer)
    return found


def partial_sums(view: View, lanes: int) -> list[Edit]:
    """A sum over one long axis in as many partial sums as vectors have lanes, times four."""
    reduced = [leaf for leaf in view.leaves if leaf.reduced]
    if len(reduced) != 1 or view.leaves[-1] is not reduced[0] or reduced[0].extent < 2 * lanes:
        return []
    found: list[Edit] = []
    for count in dict.fromkeys([4 * lanes, lanes, _divisor(reduced[0].extent, 4 * lanes)]):
        if reduced[0].extent % count or count < 4:
            continue
        writer = Writer(view)
        inner = _inner_iterations(writer, reduced[0], count)
        name = "partial"
        while name in writer.taken:
            name += "_"
        writer.lines += _stage_of_sums(view, inner, name) if view.is_te else _block_of_sums(view, inner, name)
        found += _edit(writer)
    return found


def _stage_of_sums(view: View, inner: Leaf, name: str) -> list[str]:
    """The calls that make a stage of the sums along a loop, as vectors, inside the rows of the stage that adds them up."""
    tensor = view.text.removeprefix("s[").removesuffix("]")
    if not tensor.isidentifier():
        return []
    lines = [
        f"{name} = s.rfactor({tensor}, {inner.text})",
        f"s[{name}].reorder(*s[{name}].op.axis[1:], s[{name}].op.reduce_axis[0], s[{name}].op.axis[0])",
        f"s[{name}].vectorize(s[{name}].op.axis[0])",
    ]
    return lines + [f"s[{name}].compute_at({view.text}, {view.spatial[-1].text})"] * (view.axes > 0)


def _block_of_sums(view: View, inner: Leaf, name: str) -> list[str]:
    """The same for a block."""
    lines = [f"{name} = sch.rfactor({inner.text}, {view.axes})", f"sch.vectorize(sch.get_loops({name})[-1])"]
    row = f"sch.get_loops({view.text})[{len(view.spatial) - 1}]"
    return lines + [f"sch.compute_at({name}, {row})"] * (view.axes > 0)
