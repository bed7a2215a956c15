"""Statements, at the place where TVM has them."""

from typing import Any as _Any

from tvmagic._places import neighbour as _neighbour
from tvmagic.ir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
    stmt_list,
    stmt_seq,
)

__all__ = [
    "Allocate",
    "AllocateConst",
    "AssertStmt",
    "AttrStmt",
    "Block",
    "BlockRealize",
    "BufferRealize",
    "BufferRegion",
    "BufferStore",
    "DeclBuffer",
    "Evaluate",
    "For",
    "ForKind",
    "IfThenElse",
    "LetStmt",
    "MatchBufferRegion",
    "Prefetch",
    "ProducerRealize",
    "ProducerStore",
    "SeqStmt",
    "Stmt",
    "While",
    "stmt_list",
    "stmt_seq",
]


def __getattr__(name: str) -> _Any:
    return _neighbour("tvmagic.tir.stmt", "tvmagic.tir", name)
