"""Scopes of blocks and their dependencies, at the place where TVM has them."""

from tvmagic.tir.schedule.block_scope import BlockScope, Dependency, DepKind, StmtSRef

__all__ = ["BlockScope", "DepKind", "Dependency", "StmtSRef"]
