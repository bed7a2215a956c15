"""Calls of kernels on small arrays: the checks of `arguments.py` as machine code.

Checking three arrays in Python takes longer than many kernels. Where all parameters are arrays of
constant shape, the checks read the fields of NumPy's array objects directly: their layout
(`PyArrayObject_fields`) is part of NumPy's stable binary interface, and is tried on an array of
known fields before it is relied on. Arguments that do not pass are checked again in
Python, which tells what is wrong, or takes what is not a plain array.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["NOT_CHECKED", "fast_call"]

NOT_CHECKED = -1000
_MOST_ARRAYS, _MOST_DIMS = 8, 8
_HEAD, _RECORD = 3, 5 + _MOST_DIMS
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
# Offsets in bytes of an array object's fields.
_TYPE, _DATA, _NDIM, _DIMS, _DTYPE, _FLAGS = 8, 16, 24, 32, 56, 64

_CHECK = f"""
define internal i1 @check(ptr %desc, i64 %count, ptr %objects, ptr %out) {{
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
  %w.dims = getelementptr inbounds i64, ptr %record, i64 5
  br label %dim
dim:
  %d = phi i64 [ 0, %shape ], [ %d1, %same ]
  %all = icmp eq i64 %d, %ndim
  br i1 %all, label %data, label %size
size:
  %p.size = getelementptr inbounds i64, ptr %dims, i64 %d
  %has.size = load i64, ptr %p.size, align 8
  %w.size = getelementptr inbounds i64, ptr %w.dims, i64 %d
  %size.wanted = load i64, ptr %w.size, align 8
  %ok.size = icmp eq i64 %has.size, %size.wanted
  br i1 %ok.size, label %same, label %no
same:
  %d1 = add i64 %d, 1
  br label %dim
data:
  %p.data = getelementptr inbounds i8, ptr %object, i64 {_DATA}
  %pointer = load i64, ptr %p.data, align 8
  %o = getelementptr inbounds i64, ptr %out, i64 %i
  store i64 %pointer, ptr %o, align 8
  %w.bytes = getelementptr inbounds i64, ptr %record, i64 3
  %bytes = load i64, ptr %w.bytes, align 8
  %end = add i64 %pointer, %bytes
  %w.written = getelementptr inbounds i64, ptr %record, i64 4
  %written = load i64, ptr %w.written, align 8
  br label %earlier
earlier:
  %j = phi i64 [ 0, %data ], [ %j1, %apart ]
  %none = icmp eq i64 %j, %i
  br i1 %none, label %clear, label %compare
compare:
  %o.j = getelementptr inbounds i64, ptr %out, i64 %j
  %pointer.j = load i64, ptr %o.j, align 8
  %skip.j = mul i64 %j, {_RECORD}
  %first.j = add i64 %skip.j, {_HEAD + 3}
  %w.bytes.j = getelementptr inbounds i64, ptr %desc, i64 %first.j
  %bytes.j = load i64, ptr %w.bytes.j, align 8
  %end.j = add i64 %pointer.j, %bytes.j
  %w.written.j = getelementptr inbounds i64, ptr %w.bytes.j, i64 1
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


def _entry(count: int) -> str:
    """The function that checks `count` arrays and calls the kernel."""
    objects = ", ".join(f"ptr %o{i}" for i in range(count))
    lines = [f"define i32 @call{count}(ptr %desc, {objects}) {{"]
    lines += [f"  %objects = alloca [{count} x ptr], align 8", f"  %out = alloca [{count} x ptr], align 8"]
    for i in range(count):
        lines.append(f"  %s{i} = getelementptr inbounds ptr, ptr %objects, i64 {i}")
        lines.append(f"  store ptr %o{i}, ptr %s{i}, align 8")
    lines.append(f"  %ok = call i1 @check(ptr %desc, i64 {count}, ptr %objects, ptr %out)")
    lines += ["  br i1 %ok, label %run, label %no", "run:", "  %slot = getelementptr inbounds i64, ptr %desc, i64 1"]
    lines.append("  %kernel = load ptr, ptr %slot, align 8")
    for i in range(count):
        lines.append(f"  %g{i} = getelementptr inbounds ptr, ptr %out, i64 {i}")
        lines.append(f"  %p{i} = load ptr, ptr %g{i}, align 8")
    values = ", ".join(f"ptr %p{i}" for i in range(count))
    lines += [f"  %r = call i32 %kernel({values})", "  ret i32 %r", "no:", f"  ret i32 {NOT_CHECKED}", "}"]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=1)
def _code() -> Any:
    """The compiled entries, or None where arrays are not laid out as expected."""
    if not _layout_is_known():
        return None
    import llvmlite.binding as llvm

    from tvmagic.runtime.jit import LoadedObject, support

    support()
    triple = llvm.get_process_triple()
    text = f'target triple = "{triple}"\n' + _CHECK + "".join(_entry(n) for n in range(1, _MOST_ARRAYS + 1))
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic")
    code = machine.emit_object(llvm.parse_assembly(text))
    return LoadedObject(code, [f"call{n}" for n in range(1, _MOST_ARRAYS + 1)]).immortal()


def _layout_is_known() -> bool:
    if ctypes.sizeof(ctypes.c_void_p) != 8 or object.__basicsize__ != 16:
        return False
    array = np.zeros((3, 5), "float32")
    here = id(array)

    def word(offset: int) -> int:
        return ctypes.c_int64.from_address(here + offset).value

    flags, dims = ctypes.c_int32.from_address(here + _FLAGS).value, (ctypes.c_int64 * 2).from_address(word(_DIMS))
    return (
        word(_TYPE) == id(np.ndarray)
        and word(_DATA) == array.__array_interface__["data"][0]
        and ctypes.c_int32.from_address(here + _NDIM).value == 2
        and list(dims) == [3, 5]
        and word(_DTYPE) == id(np.dtype("float32"))
        and flags & 0xFFF == array.flags.num & 0xFFF
    )


def fast_call(address: int, params: list[Any], noalias: bool) -> Any:
    """A function of the arrays of a kernel at `address`, and the description to pass before them.

    It gives the kernel's status, or `NOT_CHECKED`, without having run it. None where the
    parameters are not arrays of constant shape.
    """
    if not 0 < len(params) <= _MOST_ARRAYS or any(getattr(p, "static", None) is None for p in params):
        return None
    if any(len(p.static) > _MOST_DIMS for p in params):
        return None
    code = _code()
    if code is None:
        return None
    description = (ctypes.c_int64 * (_HEAD + _RECORD * len(params)))()
    description[0], description[1] = id(np.ndarray), address
    for i, param in enumerate(params):
        start = _HEAD + i * _RECORD
        flags = _CONTIGUOUS | _ALIGNED | (_WRITEABLE if param.written else 0)
        size = int(np.prod(param.static, dtype=np.int64)) * param.dtype.itemsize
        written = int(param.written and noalias)
        description[start : start + 5] = [id(param.dtype), len(param.static), flags, size, written]
        for axis, extent in enumerate(param.static):
            description[start + 5 + axis] = extent
    types = [ctypes.c_void_p] + [ctypes.py_object] * len(params)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(code.address(f"call{len(params)}"))
    return function, description
