"""TensorIR: the nodes and operators under TVM's names, schedules, passes and analyses."""

# pyright: reportUnusedImport=false
# What is imported here is what the package offers.

from __future__ import annotations

import importlib
from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.errors import ScheduleError
from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Allocate,
    AllocateConst,
    And,
    Any,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferRegion,
    BufferStore,
    Call,
    CallEffectKind,
    Cast,
    CommReducer,
    DataProducer,
    DeclBuffer,
    Div,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    Let,
    LetStmt,
    MatchBufferRegion,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Prefetch,
    PrimExpr,
    PrimFunc,
    ProducerLoad,
    ProducerRealize,
    ProducerStore,
    Ramp,
    Reduce,
    Select,
    SeqStmt,
    Shuffle,
    SizeVar,
    Stmt,
    StringImm,
    Sub,
    TensorIntrin,
    Var,
    While,
    convert,
    decl_buffer,
    stmt_list,
    stmt_seq,
)
from tvmagic.ir.ops import (
    abs,
    acos,
    acosh,
    address_of,
    all,
    any,
    asin,
    asinh,
    assume,
    atan,
    atan2,
    atanh,
    atomic_add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    broadcast,
    call_extern,
    call_intrin,
    call_llvm_intrin,
    call_llvm_pure_intrin,
    call_packed,
    call_pure_extern,
    call_tir,
    ceil,
    ceildiv,
    clz,
    const,
    copysign,
    cos,
    cosh,
    div,
    erf,
    exp,
    exp2,
    exp10,
    fabs,
    floor,
    floordiv,
    floormod,
    fma,
    fmod,
    get_vscale_expr,
    hypot,
    if_then_else,
    indexdiv,
    indexmod,
    infinity,
    isfinite,
    isinf,
    isnan,
    isnullptr,
    ldexp,
    likely,
    llvm_lookup_intrinsic_id,
    log,
    log1p,
    log2,
    log10,
    max_value,
    min_value,
    nearbyint,
    nextafter,
    popcount,
    pow,
    power,
    reinterpret,
    ret,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trace,
    trunc,
    truncdiv,
    truncmod,
    type_annotation,
    undef,
    vscale,
)

# Loaded when first asked for: these packages are above the ones that need the names here.
_LAZY = {
    "Schedule": "tvmagic.tir.schedule",
    "ScheduleState": "tvmagic.tir.schedule",
    "StmtSRef": "tvmagic.tir.schedule",
    "BlockScope": "tvmagic.tir.schedule",
    "IndexMap": "tvmagic.arith.index_map",
    **dict.fromkeys(("add", "multiply", "subtract"), "tvmagic.ir.ops"),
}
# TVM has these here, too; the finder in `tvmagic/__init__.py` knows where they are.
_FOUND = ("comm_reducer", "max", "min", "sum")


def __getattr__(name: str) -> _Any:
    if name in _FOUND:
        return _find_name("tvmagic.tir", name)
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    from tvmagic.script.ir_builder.tir.intrin import OPERATORS

    if name in OPERATORS:  # operators that are mostly written in scripts
        return OPERATORS[name]
    return _find_name("tvmagic.tir", name)


__all__ = (
    [name for name in dir() if not name.startswith("_")] + [*_LAZY, *_FOUND] + ["schedule", "transform", "analysis"]
)  # pyright: ignore[reportUnsupportedDunderAll]
