"""Statements, at the place where TVM has them."""

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


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence, those of sequences inside it in their places."""
    if not isinstance(stmt, SeqStmt):
        return [stmt]
    return [part for s in stmt.seq for part in stmt_list(s)]
