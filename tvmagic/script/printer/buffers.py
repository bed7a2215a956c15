"""How buffers are declared and accessed in TVMScript."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.ir.ops import add, multiply
from tvmagic.script.printer.core import ATOM, Printer, Text, prints
from tvmagic.script.printer.exprs import slice_text, var_creation
from tvmagic.script.printer.literals import quoted
from tvmagic.script.printer.scope import Frame

ALLOC_ALIGNMENT = 64


class _Declaration:
    """The texts of the fields of a buffer that is declared now.

    Variables that occur first in its fields are defined with it: one used once as its pointer, a
    stride or its offset becomes a part of the buffer (`A.strides[0]`), others get lines of their
    own before it.
    """

    def __init__(self, printer: Printer, buffer: ir.Buffer, frame: Frame, defines_data: bool) -> None:
        self.printer = printer
        self.buffer = buffer
        self.frame = frame
        self.new_names: list[str] = []
        self.new_values: list[str] = []
        self.uses = _uses(buffer)
        self.shape = self._shape()
        self.keywords: list[str] = []
        self._add_data(defines_data)
        self._add_strides()
        self._add_offset_and_traits()
        if self.new_names:
            frame.items.append(f"{', '.join(self.new_names)} = {', '.join(self.new_values)}")

    def _is_new(self, item: Any) -> bool:
        return isinstance(item, ir.Var) and not self.printer.is_defined(item)

    def _define_before(self, var: ir.Var) -> None:
        self.new_names.append(self.printer.define_var(var, self.frame))
        self.new_values.append(var_creation(self.printer, var))

    def _define_as_part(self, var: ir.Var, suffix: str) -> bool:
        if self.uses.get(id(var), 0) > 1:
            self._define_before(var)
            return False
        printer, buffer = self.printer, self.buffer
        printer.define_inline(var, lambda: printer.text(buffer) + suffix, self.frame)
        return True

    def _shape(self) -> str:
        for size in self.buffer.shape:
            if self._is_new(size):
                self._define_before(size)  # type: ignore[arg-type]
        return self.printer.tuple_of(self.buffer.shape)

    def _add_data(self, defines_data: bool) -> None:
        data = self.buffer.data
        if self._is_new(data):
            if defines_data and self._define_as_part(data, ".data"):
                return
            if not defines_data:
                self._define_before(data)
        self.keywords.append(f"data={self.printer.text(data)}")

    def _add_strides(self) -> None:
        strides = self.buffer.strides
        if not strides:
            return
        texts: list[str] = []
        for i, stride in enumerate(strides):
            if self._is_new(stride) and self._define_as_part(stride, f".strides[{i}]"):  # type: ignore[arg-type]
                texts.append(quoted(stride.name))  # type: ignore[attr-defined]
            else:
                texts.append(self.printer.text(stride))
        self.keywords.append(f"strides=({texts[0]},)" if len(texts) == 1 else f"strides=({', '.join(texts)})")

    def _add_offset_and_traits(self) -> None:
        buffer, printer = self.buffer, self.printer
        offset = buffer.elem_offset
        new_offset = self._is_new(offset)
        if new_offset:
            self._define_as_part(offset, ".elem_offset")  # type: ignore[arg-type]
        elif not isinstance(offset, ir.IntImm) or offset.value != 0:
            self.keywords.append(f"elem_offset={printer.text(offset)}")
        if buffer.scope() != "global":
            self.keywords.append(f"scope={quoted(buffer.scope())}")
        if buffer.data_alignment != ALLOC_ALIGNMENT:
            self.keywords.append(f"align={buffer.data_alignment}")
        if new_offset or buffer.offset_factor != 1:
            self.keywords.append(f"offset_factor={buffer.offset_factor}")
        if buffer.buffer_type:
            self.keywords.append('buffer_type="auto"')
        if buffer.axis_separators:
            self.keywords.append(f"axis_separators=[{printer.values(buffer.axis_separators)}]")


def _uses(buffer: ir.Buffer) -> dict[int, int]:
    """How often each variable occurs in the fields of a buffer."""
    uses: dict[int, int] = {}

    def count(node: Any) -> None:
        if isinstance(node, ir.Var):
            uses[id(node)] = uses.get(id(node), 0) + 1

    for part in (buffer.elem_offset, buffer.data, *buffer.strides, *buffer.shape):
        if isinstance(part, ir.Var):
            count(part)
        elif not isinstance(part, ir.IntImm):
            ir.post_order_visit(part, count)
    return uses


def declaration(
    printer: Printer,
    buffer: ir.Buffer,
    method: str,
    frame: Frame,
    arguments: tuple[str, ...] = (),
    defines_data: bool = True,
) -> str:
    """`T.method(arguments, shape, dtype, ...)` for a buffer; defaults are left out.

    `defines_data`: the pointer is defined with the buffer.
    """
    parts = _Declaration(printer, buffer, frame, defines_data)
    texts = [*arguments, parts.shape]
    if buffer.dtype != printer.config.buffer_dtype:
        texts.append(quoted(buffer.dtype))
    return f"{printer.tir(method)}({', '.join(texts + parts.keywords)})"


def buffer_annotation(printer: Printer, buffer: ir.Buffer, frame: Frame) -> str:
    """`T.Buffer(shape, dtype)`, the type of a parameter."""
    parts = _Declaration(printer, buffer, frame, True)
    return f"{printer.tir('Buffer')}({parts.shape}, {quoted(buffer.dtype)})"


@prints(ir.Buffer)
def _buffer(printer: Printer, buffer: ir.Buffer) -> Text:
    made = printer.known_or(
        buffer, buffer.name or "buffer", lambda frame: declaration(printer, buffer, "Buffer", frame)
    )
    return made, ATOM


# ---------------------------------------------------------------------------- accesses


def indices_text(printer: Printer, indices: tuple[ir.PrimExpr, ...]) -> str:
    """What is in the brackets of an access; a ramp is a slice."""
    if not indices:
        return "()"
    texts: list[str] = []
    for index in indices:
        if isinstance(index, ir.Ramp) and isinstance(index.stride, ir.IntImm) and _is_slice(index, index.stride):
            texts.append(_ramp_slice(printer, index, index.stride))
        else:
            texts.append(printer.text(index))
    return ", ".join(texts)


def _is_slice(ramp: ir.Ramp, stride: ir.IntImm) -> bool:
    """Whether the parser finds the number of lanes by `stop - start`."""
    return stride.value == 1 or not ramp.dtype.is_scalable


def _ramp_slice(printer: Printer, ramp: ir.Ramp, stride: ir.IntImm) -> str:
    start = printer.text(ramp.base)
    stop = printer.text(add(ramp.base, multiply(ramp.lanes, stride)))
    return f"{start}:{stop}" if stride.value == 1 else f"{start}:{stop}:{printer.text(stride)}"


def region_text(printer: Printer, region: Any) -> str:
    """What is in the brackets of a region."""
    return ", ".join([slice_text(printer, r.min, r.extent) for r in region]) if region else "()"


@prints(ir.BufferRegion)
def _buffer_region(printer: Printer, node: ir.BufferRegion) -> Text:
    buffer = printer.text(node.buffer)
    return f"{buffer}[{region_text(printer, node.region)}]", ATOM


@prints(ir.BufferLoad)
def _buffer_load(printer: Printer, node: ir.BufferLoad) -> Text:
    buffer = printer.text(node.buffer)
    if node.predicate is not None:
        indices = printer.values(node.indices)
        return f"{buffer}.vload([{indices}], predicate={printer.text(node.predicate)})", ATOM
    return f"{buffer}[{indices_text(printer, node.indices)}]", ATOM


@prints(ir.BufferStore)
def _buffer_store(printer: Printer, node: ir.BufferStore) -> str:
    buffer = printer.text(node.buffer)
    value = printer.text(node.value)
    if node.predicate is not None:
        indices, predicate = printer.values(node.indices), printer.text(node.predicate)
        return f"{buffer}.vstore([{indices}], {value}, predicate={predicate})"
    return f"{buffer}[{indices_text(printer, node.indices)}] = {value}"


@prints(ir.MatchBufferRegion)
def _match_buffer_region(printer: Printer, node: ir.MatchBufferRegion) -> str:
    frame = printer.frames[-1]
    name = printer.define_buffer(node.buffer, frame)
    source = printer.text(node.source)
    return f"{name} = {declaration(printer, node.buffer, 'match_buffer', frame, (source,))}"


@prints(ir.Prefetch)
def _prefetch(printer: Printer, node: ir.Prefetch) -> str:
    return f"{printer.tir('prefetch')}({printer.text(node.buffer)}, [{printer.values(node.bounds)}])"


@prints(ir.ProducerLoad)
def _producer_load(printer: Printer, node: ir.ProducerLoad) -> Text:
    return f"{producer_name(node.producer)}[{indices_text(printer, node.indices)}]", ATOM


@prints(ir.ProducerStore)
def _producer_store(printer: Printer, node: ir.ProducerStore) -> str:
    left = f"{producer_name(node.producer)}[{indices_text(printer, node.indices)}]"
    return f"{left} = {printer.text(node.value)}"


def producer_name(producer: Any) -> str:
    """The name of a tensor (`name` or that of its operation)."""
    name = getattr(producer, "name_hint", None) or getattr(producer, "name", None)
    if name is None:
        name = producer.op.name
    return str(name)
