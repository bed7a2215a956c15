"""Whether a function fits a device: its memory is accessed by threads alone, and a GPU's limits hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AttrStmt,
    BufferLoad,
    BufferStore,
    IntImm,
    LetStmt,
    Node,
    PrimFunc,
    Ramp,
    Var,
    Visitor,
    handles,
)
from tvmagic.ir.query import launches_thread, variables_in
from tvmagic.ir.values import scope_of
from tvmagic.tir.analysis.purity import known_bytes

__all__ = ["host_accesses", "verify_gpu_code", "verify_memory"]

# ---------------------------------------------------------------------------- memory


class _HostAccesses(Visitor):
    """Accesses of a function's arguments outside all threads."""

    def __init__(self, arguments: set[Var]) -> None:
        self.arguments = arguments
        self.found: dict[Var, Node] = {}

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        if node.attr_key not in ("thread_extent", "pipeline_exec_scope"):  # inside threads the device computes
            self.visit_children(node)

    @handles(LetStmt)
    def let(self, node: LetStmt) -> None:
        if node.var.dtype.is_handle and not self.arguments.isdisjoint(variables_in(node.value)):
            self.arguments.add(node.var)
        self.visit_children(node)

    @handles(BufferLoad, BufferStore)
    def access(self, node: BufferLoad | BufferStore) -> None:
        data = node.buffer.data
        if data in self.arguments:
            self.found.setdefault(data, node)
        self.visit_children(node)


def host_accesses(func: PrimFunc) -> dict[Var, Node]:
    """The arguments that a function for a GPU accesses outside its threads, each with the first access.

    Raises TVMagicError for a function without target.
    """
    target: Any = func.attrs.get("target")
    if target is None:
        raise TVMagicError("the attribute `target` says whose memory is meant, and the function has none")
    if "gpu" not in target.keys or int(func.attrs.get("calling_conv", 0)):
        return {}
    arguments = set(func.params) | {buffer.data for buffer in func.buffer_map.values()}
    accesses = _HostAccesses(arguments)
    accesses.visit(func.body)
    return accesses.found


def verify_memory(func: PrimFunc) -> bool:
    """Whether a function leaves its arguments, which are on its target's device, to the device's threads.

    On a CPU both are one memory, and this is always so.
    """
    return not host_accesses(func)


# ---------------------------------------------------------------------------- limits of GPUs

_LIMITS = (
    "max_local_memory_per_block", "max_shared_memory_per_block", "max_threads_per_block", "max_thread_x",
    "max_thread_y", "max_thread_z", "max_vthread", "max_vector_bytes", "max_kernels",
)  # fmt: skip


class _Kernels(Visitor):
    """What each kernel of a function takes, compared with the limits at its end."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = limits
        self.broken: list[str] = []
        self.kernels = 0
        self.around: list[AttrStmt] = []
        self._begin()

    def _begin(self) -> None:
        self.memory = {"local": 0, "shared": 0}
        self.extents: dict[str, int] = {}
        self.threads: set[str] = set()

    def _limit(self, name: str, value: int, what: str) -> None:
        most = self.limits.get(name)
        if most is not None and value > most:
            self.broken.append(f"{what} is {value}, more than {most} ({name})")

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        if not launches_thread(node):
            self.visit_children(node)
            return
        if not self.around:
            self.kernels += 1
            self._begin()
        self._launch(node)
        self.around.append(node)
        self.visit_children(node)
        self.around.pop()
        if not self.around:
            self._end()

    def _launch(self, node: AttrStmt) -> None:
        tag = node.node.thread_tag
        if not isinstance(node.value, IntImm):
            return self.broken.append(f"the extent of {tag} is not known")
        extent = node.value.value
        if tag.startswith("vthread"):
            self._limit("max_vthread", extent, f"the extent of {tag}")
        elif tag.startswith("threadIdx"):
            self._limit(f"max_thread_{tag[-1]}", extent, f"the extent of {tag}")
        known = self.extents.setdefault(tag, extent)
        if known != extent and not tag.startswith("vthread"):
            self.broken.append(f"{tag} has the extents {known} and {extent}")
        return None

    def _end(self) -> None:
        threads = 1
        for tag, extent in self.extents.items():
            threads *= extent if tag.startswith("threadIdx") else 1
        self._limit("max_threads_per_block", threads, "the number of threads of a block")
        for scope, size in self.memory.items():
            self._limit(f"max_{scope}_memory_per_block", size, f"the {scope} memory of a block in bytes")

    @handles(Allocate)
    def allocate(self, node: Allocate) -> None:
        scope = scope_of(node.buffer_var).partition(".")[0]
        if scope in self.memory:
            self.memory[scope] += known_bytes(node)
        self._vector(node.dtype)
        self.visit_children(node)

    def _vector(self, dtype: Any) -> None:
        if dtype.is_vector:
            self._limit("max_vector_bytes", dtype.bytes, f"the size of {dtype} in bytes")

    @handles(BufferLoad, BufferStore)
    def access(self, node: BufferLoad | BufferStore) -> None:
        dtype = node.dtype if isinstance(node, BufferLoad) else node.value.dtype
        index = node.indices[-1] if node.indices else None
        if not (isinstance(index, Ramp) and not (isinstance(index.stride, IntImm) and index.stride.value == 1)):
            self._vector(dtype)  # scattered lanes are accessed one by one
        self.visit_children(node)


def verify_gpu_code(func: PrimFunc, constraints: Mapping[str, Any]) -> bool:
    """Whether the kernels of a function keep to a GPU's limits.

    constraints: the limits by name: `max_local_memory_per_block`, `max_shared_memory_per_block` and `max_vector_bytes`
    in bytes, `max_threads_per_block`, `max_thread_x` to `max_thread_z`, `max_vthread`, and `max_kernels`. What is
    not named has no limit. Raises TVMagicError for another name.
    """
    unknown = [name for name in constraints if name not in _LIMITS]
    if unknown:
        raise TVMagicError(f"there is no limit `{unknown[0]}`", hint="the limits are " + ", ".join(_LIMITS))
    kernels = _Kernels({name: int(value) for name, value in constraints.items()})
    kernels.visit(func.body)
    most = kernels.limits.get("max_kernels")
    return not kernels.broken and (most is None or kernels.kernels <= most)
