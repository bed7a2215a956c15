"""What comes before code is made for functions that launch threads: barriers, reductions over threads, loops."""

from __future__ import annotations

from tvmagic.codegen.chains import ChainVisitor
from tvmagic.codegen.target import Target
from tvmagic.errors import TVMagicError
from tvmagic.ir import Allocate, AttrStmt, Evaluate, IRModule, IterVar, PointerType, PrimExpr, handles

__all__ = ["prepare_threads"]


class _Threads(ChainVisitor):
    """Whether threads are launched, whether they reduce together, and whether they share memory or wait."""

    def __init__(self) -> None:
        self.launched = self.reduce = self.meet = False

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> None:
        pass

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        self.launched = self.launched or (node.attr_key == "thread_extent" and isinstance(node.node, IterVar))
        self.visit(node.body)

    @handles(Allocate)
    def allocate(self, node: Allocate) -> None:
        kind = node.buffer_var.type_annotation
        self.meet = self.meet or (isinstance(kind, PointerType) and kind.storage_scope.startswith("shared"))
        self.visit(node.body)

    @handles(Evaluate)
    def evaluate(self, node: Evaluate) -> None:
        name = getattr(getattr(node.value, "op", None), "name", "")
        self.reduce = self.reduce or name == "tir.tvm_thread_allreduce"
        self.meet = self.meet or name == "tir.tvm_storage_sync"


def prepare_threads(mod: IRModule, target: Target) -> IRModule:
    """`mod` with barriers where threads share memory, and with reductions over threads in steps.

    For a CPU, kernels with barriers become loops over the threads from barrier to barrier.
    """
    from tvmagic.tir.transform import LowerThreadAllreduce, ThreadsAsLoops, ThreadSync

    found = _Threads()
    for func in mod.functions.values():
        found.visit(func.body)
    if not found.launched or not (found.reduce or found.meet):
        return mod
    try:
        for scope in ("shared", "shared.dyn"):
            mod = ThreadSync(scope)(mod)
    except TVMagicError:
        if found.reduce or target.is_nvptx:
            raise
        return mod  # here its threads may still run one after another, which the launch checks
    # one thread a warp: no two are taken to run in step
    mod = LowerThreadAllreduce(warp_size=1)(mod)
    return mod if target.is_nvptx else ThreadsAsLoops()(mod)
