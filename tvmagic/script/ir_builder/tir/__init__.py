"""The names that build TensorIR statement by statement; `tvmagic.script.tir` adds the decorators."""

from __future__ import annotations

from typing import Any as _Any

from tvmagic.ir import (
    Any,
    Buffer,
    BufferLoad,
    BufferRegion,
    CommReducer,
    FloatImm,
    IntImm,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    SizeVar,
    StringImm,
    Var,
)
from tvmagic.script.ir_builder.tir import frame, loops, stmts, values
from tvmagic.script.ir_builder.tir.intrin import NODES, OPERATORS, further_name

_STATEMENTS = """prim_func arg func_name func_attr func_ret match_buffer block init where reads writes block_attr
alloc_buffer Assert LetStmt let realize allocate
allocate_const decl_buffer attr launch_thread env_thread While If Then Else buffer_store evaluate prefetch""".split()
_LOOPS = "axis serial parallel vectorized unroll thread_binding grid".split()
_VALUES = """handle buffer boolean cast const ptr buffer_var var comm_reducer reduce iter_var index_map target
meta_var""".split()
_RENAMED = {
    "Buffer": values.buffer,
    "Ptr": values.ptr,
    "Cast": values.make_cast,
    "Let": values.make_let,
    "Range": values.make_range,
    "Tuple": values.tuple_type,
    "min": values.minimum,
    "max": values.maximum,
    "buffer_decl": values.buffer,
    "broadcast": NODES["Broadcast"],
    "ramp": NODES["Ramp"],
}
_CLASSES = (
    Any,
    Var,
    SizeVar,
    IterVar,
    CommReducer,
    Reduce,
    FloatImm,
    IntImm,
    StringImm,
    BufferLoad,
    BufferRegion,
    ProducerLoad,
)


def _names() -> dict[str, _Any]:
    table: dict[str, _Any] = {"frame": frame}
    table.update({name: values.dtype_function(name) for name in values.SCALAR_DTYPES})
    for base in (
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "e4m3_float8",
        "e5m2_float8",
    ):
        table.update({f"{base}x{n}": values.dtype_function(f"{base}x{n}") for n in (4, 8, 16, 32, 64)})
    table.update(OPERATORS)
    table.update(NODES)
    table.update({name: getattr(stmts, name) for name in _STATEMENTS})
    table.update({name: getattr(loops, name) for name in _LOOPS})
    table.update({name: getattr(values, name) for name in _VALUES})
    table.update({cls.__name__: cls for cls in _CLASSES})
    table.update(_RENAMED)
    return table


NAMES = _names()
globals().update(NAMES)
__all__ = [*NAMES, "NAMES"]


def __getattr__(name: str) -> _Any:
    found = further_name(name)
    if found is None:
        raise AttributeError(f"there is no `T.{name}`")
    return found
