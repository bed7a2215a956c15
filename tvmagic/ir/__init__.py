"""The program as data: types, expressions, statements, buffers, functions, modules, and walks.

Nothing here prints, proves or compiles; the packages above do. `str(node)` reaches the printer
through `hooks`.
"""

# pyright: reportUnusedImport=false
# What is imported here is what the package offers.

import importlib
from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.ir import base, container, diagnostics, global_vars, module, operator_methods, ops, pickling
from tvmagic.ir.attrs import Attrs, DictAttrs
from tvmagic.ir.buffer import Buffer, BufferRegion, MatchBufferRegion, data_pointer, decl_buffer
from tvmagic.ir.container import Array, Map
from tvmagic.ir.deep_equal import expr_deep_equal
from tvmagic.ir.dtype import DataType, DataTypeCode, dtype_of
from tvmagic.ir.equal import (
    ObjectPathPair,
    StructuralMismatch,
    assert_structural_equal,
    get_first_structural_mismatch,
    structural_equal,
)
from tvmagic.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpOp,
    CommReducer,
    ConstExpr,
    DataProducer,
    Div,
    EqualOp,
    ExprOp,
    FloatImm,
    FloorDiv,
    FloorMod,
    FuncType,
    GlobalVar,
    IntImm,
    IterVar,
    Let,
    LogicalOp,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    NotEqualOp,
    Or,
    PointerType,
    PrimExpr,
    PrimType,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    TupleType,
    Type,
    Var,
    attr_value,
    convert,
    expr,
    exprs,
)
from tvmagic.ir.function import CallingConv, IRModule, PrimFunc, TensorIntrin, pointer_var
from tvmagic.ir.functor import (
    BufferRemapper,
    Mutator,
    StmtMutator,
    StmtVisitor,
    Visitor,
    handles,
    ir_transform,
    mutate_all,
    post_order_visit,
    pre_order_visit,
    substitute,
)
from tvmagic.ir.global_info import DummyGlobalInfo, GlobalInfo, VDevice
from tvmagic.ir.hash import structural_hash
from tvmagic.ir.json import load_json, make_node, register_json, save_json
from tvmagic.ir.memory_scope import MemoryInfo
from tvmagic.ir.node import NODE_CLASSES, Field, Identified, Kind, Node, Span
from tvmagic.ir.op import CallEffect, CallEffectKind, Op, register_intrin_lowering, register_op_attr
from tvmagic.ir.path import ObjectPath
from tvmagic.ir.registry import EnvFunc
from tvmagic.ir.specialize import specialize
from tvmagic.ir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
    loop_nest,
    stmt_list,
    stmt_seq,
    within_loops,
)
from tvmagic.ir.store_merging import stored_together
from tvmagic.ir.unknown import Any
from tvmagic.ir.wellformed import Problem, WellFormednessError, find_problems, verify_well_formed


def __getattr__(name: str) -> _Any:
    return _find_name("tvmagic.ir", name)


__all__ = [name for name in dir() if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]
