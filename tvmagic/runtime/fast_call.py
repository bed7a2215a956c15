"""Calls of kernels on small arrays: the checks of `arguments.py` as machine code.

Checking three arrays in Python takes longer than many kernels. Where all parameters are arrays whose
sizes and strides are constants or variables, the checks read the fields of NumPy's array objects directly: their layout
(`PyArrayObject_fields`) is part of NumPy's stable binary interface, and is tried on an array of
known fields before it is relied on. Arguments that do not pass are checked again in
Python, which tells what is wrong, or takes what is not a plain array.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from tvmagic.interrupts import deferring_interrupts
from tvmagic.ir import IntImm
from tvmagic.ir.constants import largest_integer

NOT_CHECKED = -1000
_MOST_ARGUMENTS, _MOST_DIMS = 16, 6
# A description is the type of arrays, the kernel's address, and a record for each array: dtype, number of
# dimensions, flags, bytes of an element, whether it is written, whether strides are given (2: and broadcast), the
# elements that its indices reach, sizes, strides.
# Sizes and strides (in elements) below zero stand for variables: -1 for the first.
_HEAD, _FIXED = 2, 7
_RECORD = _FIXED + 2 * _MOST_DIMS
_FAR = 2**62
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
# Offsets in bytes of an array object's fields.
_TYPE, _DATA, _NDIM, _DIMS, _STRIDES, _DTYPE, _FLAGS = 8, 16, 24, 32, 40, 56, 64

_CHECK = f"""
define internal i1 @agrees(i64 %wanted, i64 %has, ptr %variables) {{
  %variable = icmp slt i64 %wanted, 0
  br i1 %variable, label %named, label %constant
constant:
  %equal = icmp eq i64 %wanted, %has
  ret i1 %equal
named:
  %number = xor i64 %wanted, -1
  %slot = getelementptr inbounds i64, ptr %variables, i64 %number
  %known = load i64, ptr %slot, align 8
  %free = icmp eq i64 %known, -1
  br i1 %free, label %bind, label %compare
bind:
  store i64 %has, ptr %slot, align 8
  ret i1 true
compare:
  %same = icmp eq i64 %known, %has
  ret i1 %same
}}

define internal i1 @check(ptr %desc, i64 %count, ptr %objects, ptr %out, ptr %ends, ptr %variables) {{
entry:
  %type = load i64, ptr %desc, align 8
  br label %array
array:
  %i = phi i64 [ 0, %entry ], [ %i1, %clear ]
  %place = getelementptr inbounds i64, ptr %objects, i64 %i
  %object = load ptr, ptr %place, align 8
  %skip = mul i64 %i, {_RECORD}
  %first = add i64 %skip, {_HEAD}
  %record = getelementptr inbounds i64, ptr %desc, i64 %first
  %p.type = getelementptr inbounds i8, ptr %object, i64 {_TYPE}
  %has.type = load i64, ptr %p.type, align 8
  %ok.type = icmp eq i64 %has.type, %type
  br i1 %ok.type, label %plain, label %no
plain:
  %p.dtype = getelementptr inbounds i8, ptr %object, i64 {_DTYPE}
  %has.dtype = load i64, ptr %p.dtype, align 8
  %dtype = load i64, ptr %record, align 8
  %ok.dtype = icmp eq i64 %has.dtype, %dtype
  %p.ndim = getelementptr inbounds i8, ptr %object, i64 {_NDIM}
  %has.ndim32 = load i32, ptr %p.ndim, align 4
  %has.ndim = sext i32 %has.ndim32 to i64
  %w.ndim = getelementptr inbounds i64, ptr %record, i64 1
  %ndim = load i64, ptr %w.ndim, align 8
  %ok.ndim = icmp eq i64 %has.ndim, %ndim
  %p.flags = getelementptr inbounds i8, ptr %object, i64 {_FLAGS}
  %has.flags32 = load i32, ptr %p.flags, align 4
  %has.flags = zext i32 %has.flags32 to i64
  %w.flags = getelementptr inbounds i64, ptr %record, i64 2
  %flags = load i64, ptr %w.flags, align 8
  %common = and i64 %has.flags, %flags
  %ok.flags = icmp eq i64 %common, %flags
  %ok1 = and i1 %ok.dtype, %ok.ndim
  %ok2 = and i1 %ok1, %ok.flags
  br i1 %ok2, label %shape, label %no
shape:
  %p.dims = getelementptr inbounds i8, ptr %object, i64 {_DIMS}
  %dims = load ptr, ptr %p.dims, align 8
  %p.strides = getelementptr inbounds i8, ptr %object, i64 {_STRIDES}
  %strides = load ptr, ptr %p.strides, align 8
  %w.dims = getelementptr inbounds i64, ptr %record, i64 {_FIXED}
  %w.strides = getelementptr inbounds i64, ptr %record, i64 {_FIXED + _MOST_DIMS}
  %w.item = getelementptr inbounds i64, ptr %record, i64 3
  %item = load i64, ptr %w.item, align 8
  %w.reach = getelementptr inbounds i64, ptr %record, i64 6
  %most = load i64, ptr %w.reach, align 8
  %w.strided = getelementptr inbounds i64, ptr %record, i64 5
  %strided = load i64, ptr %w.strided, align 8
  br label %dim
dim:
  %d = phi i64 [ 0, %shape ], [ %d1, %same ]
  %span = phi i64 [ %item, %shape ], [ %span1, %same ]
  %all = icmp eq i64 %d, %ndim
  br i1 %all, label %data, label %size
size:
  %p.size = getelementptr inbounds i64, ptr %dims, i64 %d
  %has.size = load i64, ptr %p.size, align 8
  %w.size = getelementptr inbounds i64, ptr %w.dims, i64 %d
  %size.wanted = load i64, ptr %w.size, align 8
  %ok.size = call i1 @agrees(i64 %size.wanted, i64 %has.size, ptr %variables)
  %p.stride = getelementptr inbounds i64, ptr %strides, i64 %d
  %has.bytes = load i64, ptr %p.stride, align 8
  %forward = icmp sge i64 %has.bytes, 0
  %some = icmp sgt i64 %has.size, 0
  %ok3 = and i1 %ok.size, %forward
  %held = icmp ule i64 %has.size, %most
  %ok3.held = and i1 %ok3, %held
  %ok4 = and i1 %ok3.held, %some
  br i1 %ok4, label %stride, label %no
stride:
  %steps = sub i64 %has.size, 1
  %reach = mul i64 %steps, %has.bytes
  %span1 = add i64 %span, %reach
  %check.stride = icmp ne i64 %strided, 0
  br i1 %check.stride, label %compare.stride, label %same
compare.stride:
  %element.stride = udiv i64 %has.bytes, %item
  ; 2: a dimension of size 1 is broadcast
  %broadcasts = icmp eq i64 %strided, 2
  %single = icmp eq i64 %has.size, 1
  %same.element = and i1 %broadcasts, %single
  %has.stride = select i1 %same.element, i64 0, i64 %element.stride
  %rest = urem i64 %has.bytes, %item
  %whole = icmp eq i64 %rest, 0
  %w.stride = getelementptr inbounds i64, ptr %w.strides, i64 %d
  %stride.wanted = load i64, ptr %w.stride, align 8
  %ok.stride = call i1 @agrees(i64 %stride.wanted, i64 %has.stride, ptr %variables)
  %ok5 = and i1 %ok.stride, %whole
  br i1 %ok5, label %same, label %no
same:
  %d1 = add i64 %d, 1
  br label %dim
data:
  %p.data = getelementptr inbounds i8, ptr %object, i64 {_DATA}
  %pointer = load i64, ptr %p.data, align 8
  %o = getelementptr inbounds i64, ptr %out, i64 %i
  store i64 %pointer, ptr %o, align 8
  %reached = mul i64 %most, %item
  %inside = icmp ule i64 %span, %reached
  br i1 %inside, label %place.known, label %no
place.known:
  %end = add i64 %pointer, %span
  %o.end = getelementptr inbounds i64, ptr %ends, i64 %i
  store i64 %end, ptr %o.end, align 8
  %w.written = getelementptr inbounds i64, ptr %record, i64 4
  %written = load i64, ptr %w.written, align 8
  br label %earlier
earlier:
  %j = phi i64 [ 0, %place.known ], [ %j1, %apart ]
  %none = icmp eq i64 %j, %i
  br i1 %none, label %clear, label %compare
compare:
  %o.j = getelementptr inbounds i64, ptr %out, i64 %j
  %pointer.j = load i64, ptr %o.j, align 8
  %e.j = getelementptr inbounds i64, ptr %ends, i64 %j
  %end.j = load i64, ptr %e.j, align 8
  %skip.j = mul i64 %j, {_RECORD}
  %first.j = add i64 %skip.j, {_HEAD + 4}
  %w.written.j = getelementptr inbounds i64, ptr %desc, i64 %first.j
  %written.j = load i64, ptr %w.written.j, align 8
  %any = or i64 %written, %written.j
  %matters = icmp ne i64 %any, 0
  %before = icmp ult i64 %pointer, %end.j
  %after = icmp ult i64 %pointer.j, %end
  %overlap = and i1 %before, %after
  %bad = and i1 %overlap, %matters
  br i1 %bad, label %no, label %apart
apart:
  %j1 = add i64 %j, 1
  br label %earlier
clear:
  %i1 = add i64 %i, 1
  %done = icmp eq i64 %i1, %count
  br i1 %done, label %yes, label %array
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


def _entry(arrays: int, bits: tuple[int, ...]) -> str:
    """The function that checks the arrays and calls the kernel with their data and the variables, which have `bits`."""
    variables = len(bits)
    objects = ", ".join(f"ptr %o{i}" for i in range(arrays))
    lines = [f"define i32 @call(ptr %desc, {objects}) {{"]
    lines += [f"  %{name} = alloca [{arrays} x i64], align 8" for name in ("objects", "out", "ends")]
    lines.append(f"  %variables = alloca [{variables + 1} x i64], align 8")
    for i in range(arrays):
        lines.append(f"  %s{i} = getelementptr inbounds ptr, ptr %objects, i64 {i}")
        lines.append(f"  store ptr %o{i}, ptr %s{i}, align 8")
    for i in range(variables):
        lines.append(f"  %u{i} = getelementptr inbounds i64, ptr %variables, i64 {i}")
        lines.append(f"  store i64 -1, ptr %u{i}, align 8")
    passed = f"ptr %desc, i64 {arrays}, ptr %objects, ptr %out, ptr %ends, ptr %variables"
    lines.append(f"  %ok = call i1 @check({passed})")
    lines += ["  br i1 %ok, label %run, label %no", "run:", "  %slot = getelementptr inbounds i64, ptr %desc, i64 1"]
    lines.append("  %kernel = load ptr, ptr %slot, align 8")
    for i in range(arrays):
        lines.append(f"  %g{i} = getelementptr inbounds ptr, ptr %out, i64 {i}")
        lines.append(f"  %p{i} = load ptr, ptr %g{i}, align 8")
    for i, width in enumerate(bits):
        if width == 64:
            lines.append(f"  %v{i} = load i64, ptr %u{i}, align 8")
            continue
        lines.append(f"  %w{i} = load i64, ptr %u{i}, align 8")
        lines += [f"  %v{i} = trunc i64 %w{i} to i{width}", f"  %x{i} = sext i{width} %v{i} to i64"]
        lines.append(f"  %fits{i} = icmp eq i64 %x{i}, %w{i}")
        lines += [f"  br i1 %fits{i}, label %next{i}, label %no", f"next{i}:"]
    values = ", ".join([f"ptr %p{i}" for i in range(arrays)] + [f"i{width} %v{i}" for i, width in enumerate(bits)])
    lines += [f"  %r = call i32 %kernel({values})", "  ret i32 %r", "no:", f"  ret i32 {NOT_CHECKED}", "}"]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=64)
@deferring_interrupts
def _code(arrays: int, bits: tuple[int, ...]) -> Any:
    """The compiled entry, or None if arrays are not laid out as expected."""
    if not _layout_is_known():
        return None
    import llvmlite.binding as llvm

    from tvmagic.runtime.jit import LoadedObject, support

    support()
    triple = llvm.get_process_triple()
    text = f'target triple = "{triple}"\n' + _CHECK + _entry(arrays, bits)
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic")
    return LoadedObject(machine.emit_object(llvm.parse_assembly(text)), ["call"]).immortal()


@lru_cache(maxsize=1)
def _layout_is_known() -> bool:
    if ctypes.sizeof(ctypes.c_void_p) != 8 or object.__basicsize__ != 16:
        return False
    array = np.zeros((3, 5), "float32")
    here = id(array)

    def word(offset: int) -> int:
        return ctypes.c_int64.from_address(here + offset).value

    flags = ctypes.c_int32.from_address(here + _FLAGS).value
    dims, strides = ((ctypes.c_int64 * 2).from_address(word(at)) for at in (_DIMS, _STRIDES))
    return (
        word(_TYPE) == id(np.ndarray)
        and word(_DATA) == array.__array_interface__["data"][0]
        and ctypes.c_int32.from_address(here + _NDIM).value == 2
        and list(dims) == [3, 5]
        and list(strides) == [20, 4]
        and word(_DTYPE) == id(np.dtype("float32"))
        and flags & 0xFFF == array.flags.num & 0xFFF
    )


def fast_call(address: int, params: list[Any], sizes: tuple[Any, ...], noalias: bool) -> Any:
    """A function of the arrays of a kernel at `address`, and the description to pass before them.

    `sizes` are the variables that the kernel takes after its arrays. The function gives the kernel's
    status, or `NOT_CHECKED`, without having run it. None if a parameter is not an array, or a
    size neither a constant nor one of the variables.
    """
    if not params or len(params) + len(sizes) > _MOST_ARGUMENTS:
        return None
    numbers = {var: -1 - i for i, var in enumerate(sizes)}
    description = (ctypes.c_int64 * (_HEAD + _RECORD * len(params)))()
    description[0], description[1] = id(np.ndarray), address
    for i, param in enumerate(params):
        fields = _record(param, numbers, noalias)
        if fields is None:
            return None
        start = _HEAD + i * _RECORD
        description[start : start + _RECORD] = fields
    seen = {v for v in description[_HEAD:] if v < 0}
    code = _code(len(params), tuple(var.dtype.bits for var in sizes)) if seen >= set(numbers.values()) else None
    if code is None:
        return None
    types = [ctypes.c_void_p] + [ctypes.py_object] * len(params)
    return ctypes.CFUNCTYPE(ctypes.c_int32, *types)(code.address("call")), description


def _record(param: Any, numbers: dict[Any, int], noalias: bool) -> list[int] | None:
    if not hasattr(param, "shape") or len(param.shape) > _MOST_DIMS or param.offset is not None:
        return None
    rows = []
    for extents in (param.shape, param.strides):
        row = [e.value if isinstance(e, IntImm) else numbers.get(e) for e in extents]
        if None in row or any(isinstance(e, IntImm) and e.value < 0 for e in extents):
            return None
        rows.append(row + [0] * (_MOST_DIMS - len(row)))
    flags = _ALIGNED | (0 if param.strides else _CONTIGUOUS) | (_WRITEABLE if param.written else 0)
    fixed = [id(param.dtype), len(param.shape), flags, param.dtype.itemsize, int(param.written and noalias)]
    reach = min(largest_integer(param.index), _FAR // param.dtype.itemsize)
    return [*fixed, int(bool(param.strides)) + int(param.broadcasts), reach, *rows[0], *rows[1]]
