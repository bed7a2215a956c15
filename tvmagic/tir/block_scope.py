"""Dependencies between blocks, at the place where TVM has them."""

from tvmagic.tir.schedule.scope import BlockScope, Dependency, DepKind
from tvmagic.tir.schedule.sref import StmtSRef

__all__ = ["BlockScope", "DepKind", "Dependency", "StmtSRef"]
