"""Descriptors of arrays: DLPack's `DLTensor` on the stack, by which registered functions get buffers.

The fields have the numbers by which `tvm_struct_get` and `tvm_struct_set` name them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tvmagic.codegen.text.rules import rule
from tvmagic.codegen.text.types import llvm_type
from tvmagic.errors import BuildError
from tvmagic.ir import Call, DataType, IntImm, StringImm

SIZE = 48  # bytes of a descriptor
_INT64 = DataType("int64")
# DLPack's codes of types, with those that TVM adds.
_TYPE_CODES = {"int": 0, "uint": 1, "bool": 1, "float": 2, "handle": 3, "bfloat": 4, "e4m3_float": 6, "e5m2_float": 7}


class _Field(NamedTuple):
    """A field of a descriptor: its place in bytes and its type in memory."""

    offset: int
    dtype: DataType


_FIELDS = {
    1: _Field(0, DataType("handle")),  # data
    2: _Field(24, DataType("handle")),  # shape
    3: _Field(32, DataType("handle")),  # strides
    4: _Field(16, DataType("int32")),  # ndim
    5: _Field(20, DataType("uint8")),  # the code of the type
    6: _Field(21, DataType("uint8")),  # its bits
    7: _Field(22, DataType("uint16")),  # its lanes
    8: _Field(40, DataType("uint64")),  # byte_offset
    9: _Field(12, DataType("int32")),  # device_id
    10: _Field(8, DataType("int32")),  # device_type
}
_ADDRESS, _CONTENT = 0, 12
_STACK_SIZES = {"shape": 8, "array": SIZE, "arg_value": 8, "arg_tcode": 4}


@rule("tvm_stack_make_shape")
def _make_shape(emitter: Any, call: Call) -> str:
    out = emitter.out
    place = out.at_entry(f"alloca [{max(1, len(call.args))} x i64], align 8")
    for i, size in enumerate(call.args):
        value = emitter.convert(emitter.visit(size), size.dtype, _INT64)
        out.do(f"store i64 {value}, ptr {out.op(f'getelementptr inbounds i64, ptr {place}, i64 {i}')}, align 8")
    return place


@rule("tvm_stack_make_array")
def _make_array(emitter: Any, call: Call) -> str:
    """`tvm_stack_make_array(data, shape, strides, ndim, a zero of the type, elem_offset)`"""
    data, shape, strides, ndim, zero, offset = call.args
    dtype: DataType = zero.dtype
    place = emitter.out.at_entry(f"alloca [{SIZE} x i8], align 8")
    elements = emitter.convert(emitter.visit(offset), offset.dtype, _INT64)
    values = {
        1: emitter.visit(data),
        2: emitter.visit(shape),
        3: "null" if isinstance(strides, IntImm) else emitter.visit(strides),
        4: emitter.visit(ndim),
        5: str(_TYPE_CODES[dtype.code]),
        6: str(8 if dtype.is_bool else dtype.bits),
        7: str(dtype.lanes),
        8: emitter.out.op(f"mul i64 {elements}, {dtype.bytes}"),
        9: "0",
        10: "1",
    }
    for field, value in values.items():
        _store(emitter, place, _FIELDS[field], value)
    return place


@rule("tvm_stack_alloca")
def _stack_alloca(emitter: Any, call: Call) -> str:
    kind, count = call.args
    if not isinstance(kind, StringImm) or kind.value not in _STACK_SIZES or not isinstance(count, IntImm):
        known = ", ".join(f"`{k}`" for k in _STACK_SIZES)
        raise BuildError(
            f"`tvm_stack_alloca` takes one of {known} and a constant number",
            node=call,
            code="codegen.wrong_stack_alloca",
        )
    return emitter.out.at_entry(f"alloca [{max(1, count.value) * _STACK_SIZES[kind.value]} x i8], align 8")


def _address(emitter: Any, call: Call) -> tuple[str, int]:
    """The address of the descriptor (or of the argument value) that a call names, and the number of the field."""
    array, index, field = call.args[:3]
    if not isinstance(field, IntImm) or field.value not in (*_FIELDS, _ADDRESS, _CONTENT):
        raise BuildError(
            f"there is no field `{field}` of a descriptor", node=call, code="codegen.unknown_descriptor_field"
        )
    size = 8 if field.value == _CONTENT else SIZE
    number = emitter.convert(emitter.visit(index), index.dtype, _INT64)
    offset = emitter.out.op(f"mul i64 {number}, {size}")
    return emitter.out.op(f"getelementptr inbounds i8, ptr {emitter.visit(array)}, i64 {offset}"), field.value


def _in_place(emitter: Any, place: str, field: _Field) -> str:
    return emitter.out.op(f"getelementptr inbounds i8, ptr {place}, i64 {field.offset}")


def _store(emitter: Any, place: str, field: _Field, value: str) -> None:
    emitter.out.do(f"store {llvm_type(field.dtype)} {value}, ptr {_in_place(emitter, place, field)}")


@rule("tvm_struct_get")
def _struct_get(emitter: Any, call: Call) -> str:
    place, number = _address(emitter, call)
    if number == _ADDRESS:
        return place
    field = _Field(0, call.dtype) if number == _CONTENT else _FIELDS[number]
    value = emitter.out.op(f"load {llvm_type(field.dtype)}, ptr {_in_place(emitter, place, field)}")
    return emitter.convert(value, field.dtype, call.dtype)


@rule("tvm_struct_set")
def _struct_set(emitter: Any, call: Call) -> str:
    place, number = _address(emitter, call)
    value = call.args[3]
    if number == _ADDRESS:
        raise BuildError("the address of a descriptor cannot be set", node=call, code="codegen.descriptor_address_set")
    name = emitter.visit(value)
    if number == _CONTENT:  # integers as 64 bits, floats as doubles
        dtype = value.dtype
        wide = dtype if dtype.is_handle else DataType("float64") if dtype.is_float else _INT64
        field = _Field(0, wide)
    else:
        field = _FIELDS[number]
    _store(emitter, place, field, emitter.convert(name, value.dtype, field.dtype))
    return "0"
