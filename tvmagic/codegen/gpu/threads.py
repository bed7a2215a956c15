"""What comes before code is made for functions that launch threads: barriers, reductions over threads, loops."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.target import Target

_CHAINED = (ir.LetStmt, ir.AttrStmt, ir.AssertStmt, ir.Allocate, ir.AllocateConst, ir.DeclBuffer)


class _Threads(ir.Visitor):
    """Whether threads or blocks are launched, whether threads reduce together, and whether they share memory or wait."""

    def __init__(self) -> None:
        self.threads = self.blocks = self.reduce = self.meet = False

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> None:
        pass

    @ir.handles(*_CHAINED)
    def chain(self, node: Any) -> None:
        while isinstance(node, _CHAINED):
            if isinstance(node, ir.AttrStmt) and node.attr_key == "thread_extent" and isinstance(node.node, ir.IterVar):
                self.threads = self.threads or node.node.thread_tag.startswith("threadIdx")
                self.blocks = self.blocks or node.node.thread_tag.startswith("blockIdx")
            elif isinstance(node, ir.Allocate):
                kind = node.buffer_var.type_annotation
                self.meet = self.meet or (isinstance(kind, ir.PointerType) and kind.storage_scope.startswith("shared"))
            node = node.body
        self.visit(node)

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> None:
        name = getattr(getattr(node.value, "op", None), "name", "")
        self.reduce = self.reduce or name == "tir.tvm_thread_allreduce"
        self.meet = self.meet or name == "tir.tvm_storage_sync"


def prepare_threads(mod: ir.IRModule, target: Target) -> ir.IRModule:
    """`mod` with barriers where threads share memory, and with reductions over threads in steps.

    For a GPU, all threads of a kernel are launched at its head. For a CPU, kernels with barriers become loops over the
    threads from barrier to barrier; there threads also
    wait for what others of their block wrote to global memory. Raises `TVMagicError` where a barrier would be
    in a branch, unless the threads of a CPU may run one after another there, which the launch checks.
    """
    found = _Threads()
    for func in mod.functions.values():
        found.visit(func.body)
    if not found.threads and not found.blocks:
        return mod
    if target.has_kernels:
        return _kernels(mod, found.reduce)
    from tvmagic.tir.transform import ThreadsAsLoops

    if not found.threads:
        return ThreadsAsLoops()(mod)  # which refuses memory of a block that ends before it is read
    shared = ("shared", "shared.dyn") if found.meet or found.reduce else ()

    for scopes, last in ((("global", *shared), False), (shared, True)):
        try:
            return ThreadsAsLoops()(_synchronized(mod, scopes, found.reduce))
        except BuildError:
            raise
        except TVMagicError:
            if last and found.reduce:
                raise
    return mod


def _kernels(mod: ir.IRModule, reduce: bool) -> ir.IRModule:
    """`mod` as a GPU runs it: threads of a block wait for each other, and each kernel is launched once."""
    from tvmagic.tir.transform import KernelMemory, KernelThreads

    return KernelThreads()(_synchronized(KernelMemory()(mod), ("global", "shared", "shared.dyn"), reduce))


def _synchronized(mod: ir.IRModule, scopes: tuple[str, ...], reduce: bool) -> ir.IRModule:
    """`mod` with barriers for memory of the scopes, and with the steps of what threads reduce together."""
    from tvmagic.tir.transform import GuardRepeatedStores, LowerThreadAllreduce, ThreadSync

    mod = GuardRepeatedStores()(mod)
    for scope in scopes:
        mod = ThreadSync(scope)(mod)
    # one thread a warp: no two are taken to run in step
    return LowerThreadAllreduce(warp_size=1)(mod) if reduce else mod
