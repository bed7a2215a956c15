"""Loads and stores: addresses, alignment, alias information, gathers, masks.

Contiguous lanes are one vector access; a constant small stride is one wide load and a shuffle; other
affine lanes are scalar accesses; lanes at unrelated places gather and scatter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from tvmagic import ir
from tvmagic.codegen.emit.expressions import ExpressionEmitter
from tvmagic.codegen.emit.lane_masks import BOOL
from tvmagic.codegen.late.legalize_masks import require_legal_mask
from tvmagic.codegen.text.types import (
    constant,
    flags_type,
    lanes_name,
    llvm_type,
    memory_type,
    place_type,
    suffix,
    vector_type,
)
from tvmagic.codegen.text.writer import ModuleText
from tvmagic.errors import BuildError
from tvmagic.target import Machine
from tvmagic.tir.transform.use_def import loads_memory

INT64 = ir.DataType("int64")
# Each scope lists all others, and LLVM compares these lists for each pair of accesses: with 800 arrays that is half of
# the time to compile.
MOST_SCOPES = 64


class AliasScopes:
    """The alias scopes of one function: one for each piece of memory known to be apart from others.

    An access belongs to the scope of its memory and is declared apart from all other scopes.
    What a pointer that the program computed points to is in no scope, nor is what comes after `MOST_SCOPES` others.
    """

    def __init__(self, module: ModuleText) -> None:
        self.module = module
        self.domain: str | None = None
        self.group_of: dict[ir.Var, object] = {}
        self.nodes: dict[object, tuple[str, str, str]] = {}

    def add(self, pointer: ir.Var, group: object = None) -> None:
        """The memory behind `pointer` is apart from that of other groups (its own by default)."""
        self.group_of[pointer] = pointer if group is None else group

    def metadata(self, pointer: ir.Var) -> str:
        """What to append to an access behind `pointer`."""
        group = self.group_of.get(pointer)
        if group is None or (group not in self.nodes and len(self.nodes) >= MOST_SCOPES):
            return ""
        nodes = self.nodes.get(group)
        if nodes is None:
            if self.domain is None:
                self.domain = self.module.node()
                self.module.define_node(self.domain, f"distinct !{{{self.domain}}}")
            scope, own, others = self.module.node(), self.module.node(), self.module.node()
            self.module.define_node(scope, f"distinct !{{{scope}, {self.domain}}}")
            self.module.define_node(own, f"!{{{scope}}}")
            nodes = self.nodes[group] = scope, own, others
        return f", !alias.scope {nodes[1]}, !noalias {nodes[2]}"

    def finish(self) -> None:
        """Write down the scopes that each is apart from, once all are known."""
        scopes = [scope for scope, _, _ in self.nodes.values()]
        for scope, _, others in self.nodes.values():
            self.module.define_node(others, "!{" + ", ".join(s for s in scopes if s != scope) + "}")


def _in_flat_memory(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...], strided: bool) -> ir.PrimExpr:
    """The offset of an element. A CPU's memory is flat: groups of axes that are apart lie row after row.

    `strided`: the indices are, or will be, multiplied by strides, which count elements of the whole memory.
    """
    groups = buffer.unsimplified_offset_of(indices)
    offset = groups[0]
    for group, size in zip(groups[1:], buffer.get_flattened_buffer().shape[1:]):
        offset = offset + group if strided else offset * size + group
    return offset


def flat_index(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...], argument: ir.Buffer | None) -> ir.PrimExpr:
    """The index into the memory of `buffer` in elements; a Ramp where the lanes are affine.

    A single index counts from the pointer: the passes that make accesses flat add the buffer's offset, and leave
    it in the buffer. `argument` is the buffer of the argument that the memory is, if it is one.
    """
    if not indices:
        return buffer.elem_offset
    if len(indices) == 1 and not buffer.strides:
        return indices[0]
    strided = bool(buffer.strides) or (argument is not None and bool(argument.strides))
    last = indices[-1]
    if isinstance(last, ir.Ramp):
        base = _in_flat_memory(buffer, (*indices[:-1], last.base), strided)
        stride = last.stride * buffer.strides[-1] if buffer.strides else last.stride
        return ir.Ramp(base, stride, last.lanes)
    return _in_flat_memory(buffer, indices, strided)


class MemoryEmitter(ExpressionEmitter):
    """Emits accesses of buffers; `scopes` knows the alias scope of the memory behind a pointer."""

    scopes: AliasScopes

    # ------------------------------------------------------------------ addresses

    def flat_index(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> ir.PrimExpr:
        """The index into the memory of `buffer` in elements; a Ramp where the lanes are affine."""
        argument = self.context.sizes.get(buffer.data)
        return flat_index(buffer, indices, argument if isinstance(argument, ir.Buffer) else None)

    def wide_index(self, index: ir.PrimExpr) -> str:
        """A scalar index as i64."""
        name = self.visit(index)
        if index.dtype.bits == 64:
            return name
        if name[0] not in "%@":
            return name
        if not index.dtype.is_int:
            widened = "zext"
        elif self.intervals.of(index)[0] >= 0 and not self.context.check_bounds:
            widened = "zext nneg"  # of a type with a sign: to LLVM, the highest bit of any other is one, too
        else:
            widened = "sext"
        return self.out.op(f"{widened} {llvm_type(index.dtype)} {name} to i64")

    def checked_indices(self, node: ir.BufferLoad | ir.BufferStore, predicate: str | None) -> tuple[ir.PrimExpr, ...]:
        """The indices of an access, behind the check that they are inside, if accesses are checked.

        Those that read memory are computed once, for the check and the access: the code would double with each level
        of nested ones.
        """
        if not self.context.check_bounds:
            return node.indices
        indices = tuple([self._computed(index) for index in node.indices])
        self.context.check_access(self, node, indices, predicate)
        return indices

    def _computed(self, index: ir.PrimExpr) -> ir.PrimExpr:
        """The index with variables for its parts that read memory."""
        if not loads_memory(index):
            return index
        if isinstance(index, ir.Ramp):
            return ir.Ramp(self._computed(index.base), self._computed(index.stride), index.lanes, index.span)
        if isinstance(index, ir.Broadcast):
            return ir.Broadcast(self._computed(index.value), index.lanes, index.span)
        var = ir.Var("index", index.dtype)
        self.bind(var, self.visit(index), index)
        return var

    def address(self, buffer: ir.Buffer, index: str) -> str:
        """The address of the element at the i64 `index`."""
        base = self.visit(buffer.data)
        if index == "0":
            return base
        return self.out.op(f"getelementptr inbounds {place_type(buffer.dtype)}, ptr {base}, i64 {index}")

    def alias(self, buffer: ir.Buffer) -> str:
        """The metadata that says which other memory an access of `buffer` cannot touch."""
        return self.scopes.metadata(buffer.data)

    # ------------------------------------------------------------------ loads

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> str:
        require_legal_mask(node)
        buffer = node.buffer
        predicate = self._lane_mask(
            node.predicate, node.dtype.lane_code // buffer.dtype.lane_code, buffer.dtype.lane_code
        )
        location = self.out.location
        self.context.at(self, node)
        value = self._load(node, predicate)
        self.out.location = location
        return value

    def volatile(self, buffer: ir.Buffer, word: str, predicate: str | None) -> str:
        """The word for an access of volatile memory, which has no predicate; empty for others."""
        if buffer.data not in self.context.volatile:
            return ""
        if predicate is not None:
            raise BuildError(
                f"The masked {word} intrinsic does not support declaring {word} as volatile.",
                code="codegen.masked_volatile",
            )
        return "volatile "

    def _load(self, node: ir.BufferLoad, predicate: str | None) -> str:
        buffer = node.buffer
        self.volatile(buffer, "load", predicate)
        indices = self.checked_indices(node, predicate)
        index = self.flat_index(buffer, indices)
        lanes = index.dtype.lane_code
        if lanes == 1:
            if self.mask is not None:
                some = self.some_lane(self.mask, self.mask_lanes)
                return self._guarded(
                    some, lambda: self._contiguous_load(buffer, self.wide_index(index), 1), buffer.dtype
                )
            return self._contiguous_load(buffer, self.wide_index(index), 1)
        if isinstance(index, ir.Broadcast) and predicate is None:
            value = self._contiguous_load(buffer, self.wide_index(index.value), 1)
            return self.splat(value, buffer.dtype, lanes)
        stride = _constant_stride(index)
        if stride == 1:
            assert isinstance(index, ir.Ramp)
            base = self.wide_index(index.base)
            if predicate is not None:
                return self._masked_load(buffer, base, lanes, predicate)
            return self._contiguous_load(buffer, base, lanes)
        if buffer.dtype.lane_code != 1:
            return self._each_lane_load(buffer, index, predicate)
        if stride is not None and predicate is None and lanes > 0:
            return self._strided_load(buffer, index, stride)  # type: ignore[arg-type]
        return self._gather(buffer, index, predicate)

    def _lane_mask(self, predicate: ir.PrimExpr | None, lanes: int, each: int = 1) -> str | None:
        """The mask of an access of `lanes` elements, which have `each` lanes."""
        own = self.visit(predicate) if predicate is not None else None
        if self.mask is None or lanes == 1:
            return own
        outer = self.mask_of_elements(lanes, each)
        return outer if own is None else self.out.op(f"and {vector_type('i1', lanes)} {outer}, {own}")

    def _guarded(self, holds: str, emit: Callable[[], str], dtype: ir.DataType) -> str:
        """The load of an element that is done only if the condition `holds` does; 0 otherwise."""
        taken, done = self.out.new_block("guarded"), self.out.new_block("done")
        first = self.out.block
        self.out.branch(holds, taken, done)
        self.out.start(taken)
        value = emit()
        last = self.out.block
        self.out.jump(done)
        self.out.start(done)
        return self.out.op(f"phi {llvm_type(dtype)} [ {constant(dtype, 0)}, %{first} ], [ {value}, %{last} ]")

    def _contiguous_load(self, buffer: ir.Buffer, base: str, lanes: int, held: ir.DataType | None = None) -> str:
        """`held`: the type of a register for elements, if it is not that of the buffer."""
        dtype = (held or buffer.dtype).with_lane_code(buffer.dtype.lane_code * lanes)
        align = buffer.dtype.element_of.bytes
        value = self.out.op(
            f"load {self.volatile(buffer, 'load', None)}{memory_type(dtype)}, ptr {self.address(buffer, base)}, align {align}{self.alias(buffer)}"
        )
        return self.from_memory(value, dtype)

    def from_memory(self, value: str, dtype: ir.DataType) -> str:
        """A loaded value as it is in a register."""
        if not dtype.is_bool:
            return value
        kind = memory_type(dtype)
        return self.out.op(f"icmp ne {kind} {value}, {'0' if dtype.lane_code == 1 else 'zeroinitializer'}")

    def to_memory(self, value: str, dtype: ir.DataType) -> str:
        """A value of a register as it is stored."""
        if not dtype.is_bool:
            return value
        return self.out.op(f"zext {llvm_type(dtype)} {value} to {memory_type(dtype)}")

    def _strided_load(self, buffer: ir.Buffer, index: ir.Ramp, stride: int) -> str:
        lanes, dtype = index.dtype.lane_code, buffer.dtype
        if abs(stride) > Machine.widest_shuffle or stride == 0:
            return self._each_lane_load(buffer, index)
        step, span = abs(stride), (lanes - 1) * abs(stride) + 1
        base, places = self.wide_index(index.base), [step * lane for lane in range(lanes)]
        if stride < 0:
            base = self.out.op(f"add i64 {base}, {(lanes - 1) * stride}")
            places.reverse()
        # whole vectors: one of `span` lanes LLVM takes apart; the last one ends with the last element, as memory may
        starts = [*(n * lanes for n in range(step - 1)), span - lanes]
        vectors = [
            self._contiguous_load(buffer, self.out.op(f"add i64 {base}, {n}") if n else base, lanes) for n in starts
        ]
        return self._picked(vectors, starts, places, dtype)

    def _picked(self, vectors: list[str], starts: list[int], places: list[int], dtype: ir.DataType) -> str:
        """The elements at `places`, of vectors with as many lanes that begin at `starts`."""
        lanes = len(places)
        kind, found = llvm_type(dtype.with_lane_code(lanes)), "poison"
        owners = [max(n for n, start in enumerate(starts) if start <= place) for place in places]
        for number, (vector, start) in enumerate(zip(vectors, starts)):
            picks = [
                lane if owner < number else lanes + place - start if owner == number else "poison"
                for lane, (owner, place) in enumerate(zip(owners, places))
            ]
            text = ", ".join(f"i32 {pick}" for pick in picks)
            found = self.out.op(f"shufflevector {kind} {found}, {kind} {vector}, <{lanes} x i32> <{text}>")
        return found

    def _each_lane_load(self, buffer: ir.Buffer, index: ir.PrimExpr, predicate: str | None = None) -> str:
        values: list[str] = []
        held = _held_alone(buffer.dtype)
        flags = BOOL.with_lane_code(index.dtype.lane_code)
        for lane, position in enumerate(self._lane_indices(index)):
            load = functools.partial(self._contiguous_load, buffer, position, 1, held)
            value = load() if predicate is None else self._guarded(self.lane(predicate, flags, lane), load, held)
            if buffer.dtype.lane_code == 1:
                values.append(value)
            else:
                values += [self.lane(value, held, i) for i in range(buffer.dtype.lane_code)]
        return self._as_type(self.join(values, held.element_of), held.element_of, buffer.dtype.element_of, len(values))

    def _as_type(self, value: str, held: ir.DataType, dtype: ir.DataType, lanes: int) -> str:
        """A vector of lanes of `held` as one of lanes of `dtype`, bit by bit."""
        if held == dtype:
            return value
        return self.out.op(
            f"bitcast {llvm_type(held.with_lane_code(lanes))} {value} to {llvm_type(dtype.with_lane_code(lanes))}"
        )

    def _lane_indices(self, index: ir.PrimExpr) -> list[str]:
        """The i64 index of each lane."""
        if isinstance(index, ir.Ramp) and isinstance(index.stride, ir.IntImm):
            base, stride = self.wide_index(index.base), index.stride.value
            return [self.out.op(f"add i64 {base}, {lane * stride}") for lane in range(index.dtype.lane_code)]
        vector = self._wide_vector(index)
        return [
            self.out.op(f"extractelement {vector_type('i64', index.dtype.lane_code)} {vector}, i32 {i}")
            for i in range(index.dtype.lane_code)
        ]

    def _wide_vector(self, index: ir.PrimExpr) -> str:
        name, dtype = self.visit(index), index.dtype
        if dtype.bits == 64:
            return name
        word = "sext" if dtype.is_int else "zext"
        return self.out.op(f"{word} {llvm_type(dtype)} {name} to {vector_type('i64', dtype.lane_code)}")

    def _pointers(self, buffer: ir.Buffer, index: ir.PrimExpr) -> str:
        vector, base = self._wide_vector(index), self.visit(buffer.data)
        lanes = index.dtype.lane_code
        return self.out.op(
            f"getelementptr {place_type(buffer.dtype)}, ptr {base}, {vector_type('i64', lanes)} {vector}"
        )

    def _gather(self, buffer: ir.Buffer, index: ir.PrimExpr, predicate: str | None) -> str:
        dtype = buffer.dtype.with_lane_code(index.dtype.lane_code)
        kind, lanes = memory_type(dtype), dtype.lane_code
        flags = flags_type(lanes)
        name = self.context.text.declare(
            f"llvm.masked.gather.{_suffix_in_memory(dtype)}.{lanes_name(lanes)}p0",
            kind,
            f"{vector_type('ptr', lanes)}, i32, {flags}, {kind}",
        )
        pointers, align = self._pointers(buffer, index), buffer.dtype.bytes
        value = self.out.op(
            f"call {kind} {name}({vector_type('ptr', lanes)} {pointers}, i32 {align}, {flags} {predicate or 'splat (i1 true)'}, "
            f"{kind} zeroinitializer){self.alias(buffer)}"
        )
        return self.from_memory(value, dtype)

    def _masked_load(self, buffer: ir.Buffer, base: str, lanes: int, predicate: str) -> str:
        dtype = buffer.dtype.with_lane_code(buffer.dtype.lane_code * lanes)
        kind, flags = memory_type(dtype), flags_type(dtype.lane_code)
        predicate = self._repeat_lanes(predicate, lanes, buffer.dtype.lane_code)
        name = self.context.text.declare(
            f"llvm.masked.load.{_suffix_in_memory(dtype)}.p0", kind, f"ptr, i32, {flags}, {kind}"
        )
        value = self.out.op(
            f"call {kind} {name}(ptr {self.address(buffer, base)}, i32 {buffer.dtype.element_of.bytes}, "
            f"{flags} {predicate}, {kind} zeroinitializer){self.alias(buffer)}"
        )
        return self.from_memory(value, dtype)

    def _repeat_lanes(self, predicate: str, lanes: int, times: int) -> str:
        if times == 1:
            return predicate
        places = ", ".join(f"i32 {i // times}" for i in range(lanes * times))
        flags = flags_type(lanes)
        return self.out.op(f"shufflevector {flags} {predicate}, {flags} poison, <{lanes * times} x i32> <{places}>")

    # ------------------------------------------------------------------ stores

    def store_value(
        self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...], value: str, predicate: str | None
    ) -> None:
        """Store the value called `value` at `indices`, in the lanes of `predicate`."""
        self.volatile(buffer, "store", predicate)
        index = self.flat_index(buffer, indices)
        lanes = index.dtype.lane_code
        if lanes == 1:
            self._contiguous_store(buffer, self.wide_index(index), 1, value)
            return
        stride = _constant_stride(index)
        if stride == 1:
            assert isinstance(index, ir.Ramp)
            base = self.wide_index(index.base)
            if predicate is None:
                self._contiguous_store(buffer, base, lanes, value)
            else:
                self._masked_store(buffer, base, lanes, value, predicate)
        elif predicate is None and lanes > 0:
            self._each_lane_store(buffer, index, value)
        else:
            self._scatter(buffer, index, value, predicate)

    def _contiguous_store(
        self, buffer: ir.Buffer, base: str, lanes: int, value: str, held: ir.DataType | None = None
    ) -> None:
        dtype = (held or buffer.dtype).with_lane_code(buffer.dtype.lane_code * lanes)
        place = self.address(buffer, base)
        value = self.to_memory(value, dtype)
        align = buffer.dtype.element_of.bytes
        word = f"store {self.volatile(buffer, 'store', None)}"
        self.out.do(f"{word}{memory_type(dtype)} {value}, ptr {place}, align {align}{self.alias(buffer)}")

    def _each_lane_store(self, buffer: ir.Buffer, index: ir.PrimExpr, value: str) -> None:
        """One store a lane, the last lane last: where lanes share a place, it wins."""
        each = buffer.dtype.lane_code
        held = _held_alone(buffer.dtype).element_of
        lanes = each * index.dtype.lane_code
        value, dtype = self._as_type(value, buffer.dtype.element_of, held, lanes), held.with_lane_code(lanes)
        for lane, position in enumerate(self._lane_indices(index)):
            parts = [self.lane(value, dtype, lane * each + i) for i in range(each)]
            self._contiguous_store(buffer, position, 1, self.join(parts, held), held)

    def _masked_store(self, buffer: ir.Buffer, base: str, lanes: int, value: str, predicate: str) -> None:
        dtype = buffer.dtype.with_lane_code(buffer.dtype.lane_code * lanes)
        kind, flags = memory_type(dtype), flags_type(dtype.lane_code)
        predicate = self._repeat_lanes(predicate, lanes, buffer.dtype.lane_code)
        name = self.context.text.declare(
            f"llvm.masked.store.{_suffix_in_memory(dtype)}.p0", "void", f"{kind}, ptr, i32, {flags}"
        )
        value = self.to_memory(value, dtype)
        self.out.do(
            f"call void {name}({kind} {value}, ptr {self.address(buffer, base)}, "
            f"i32 {buffer.dtype.element_of.bytes}, {flags} {predicate}){self.alias(buffer)}"
        )

    def _scatter(self, buffer: ir.Buffer, index: ir.PrimExpr, value: str, predicate: str | None) -> None:
        if buffer.dtype.lane_code != 1:
            raise BuildError(
                f"buffer `{buffer.name}` of vectors cannot be stored to with a mask at scattered places",
                code="codegen.scattered_vectors",
            )
        dtype = buffer.dtype.with_lane_code(index.dtype.lane_code)
        kind, lanes = memory_type(dtype), dtype.lane_code
        name = self.context.text.declare(
            f"llvm.masked.scatter.{_suffix_in_memory(dtype)}.{lanes_name(lanes)}p0",
            "void",
            f"{kind}, {vector_type('ptr', lanes)}, i32, {vector_type('i1', lanes)}",
        )
        value = self.to_memory(value, dtype)
        self.out.do(
            f"call void {name}({kind} {value}, {vector_type('ptr', lanes)} {self._pointers(buffer, index)}, "
            f"i32 {buffer.dtype.bytes}, {flags_type(lanes)} {predicate or 'splat (i1 true)'}){self.alias(buffer)}"
        )


def _held_alone(dtype: ir.DataType) -> ir.DataType:
    """The type of an element that is loaded or stored by itself for a lane of a vector.

    A float of 16 bits is held as an integer: LLVM keeps each in a vector register, and joins them by several shuffles.
    """
    return ir.DataType("uint16").with_lane_code(dtype.lane_code) if llvm_type(dtype.element_of) == "half" else dtype


def _suffix_in_memory(dtype: ir.DataType) -> str:
    """What LLVM's intrinsics on memory are called for a type: a bool takes a byte there."""
    return suffix(ir.DataType("uint8").with_lane_code(dtype.lane_code) if dtype.is_bool else dtype)


def _constant_stride(index: ir.PrimExpr) -> int | None:
    if isinstance(index, ir.Ramp) and isinstance(index.stride, ir.IntImm):
        return index.stride.value
    return None
