"""Dependencies between blocks, at the place where TVM has them."""

from tvmagic.tir.blocks.scope import BlockScope, Dependency, DepKind
from tvmagic.tir.blocks.sref import StmtSRef

__all__ = ["BlockScope", "DepKind", "Dependency", "StmtSRef"]
