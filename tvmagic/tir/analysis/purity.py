"""Whether a function has an effect on what is outside it, and how much memory it allocates."""

from __future__ import annotations

from tvmagic.errors import AssertionFailedError
from tvmagic.ir import (
    Allocate,
    AllocateConst,
    Block,
    BufferStore,
    Call,
    CallEffect,
    IntImm,
    IRModule,
    Node,
    Op,
    PrimFunc,
    Var,
    Visitor,
    handles,
)
from tvmagic.ir.query import nodes_of
from tvmagic.ir.values import scope_of

__all__ = [
    "assert_pure_function",
    "calculate_allocated_bytes",
    "calculate_constant_bytes",
    "calculate_workspace_bytes",
    "is_pure_function",
]


class _Effects(Visitor):
    """Finds the first part that changes something outside, and why."""

    def __init__(self) -> None:
        self.own: set[Var] = set()
        self.found: tuple[Node, str] | None = None

    def _note(self, node: Node, reason: str) -> None:
        if self.found is None:
            self.found = node, reason

    @handles(Allocate)
    def allocate(self, node: Allocate) -> None:
        self.own.add(node.buffer_var)
        self.visit_children(node)

    @handles(Block)
    def block(self, node: Block) -> None:
        self.own.update(buffer.data for buffer in node.alloc_buffers)
        self.visit_children(node)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        self.visit_children(node)
        if node.buffer.data not in self.own:
            self._note(node, f"Pure functions must not write to buffers, but this one stores to `{node.buffer.name}`")

    @handles(Call)
    def call(self, node: Call) -> None:
        self.visit_children(node)
        effect = node.op.effect if isinstance(node.op, Op) else CallEffect.OPAQUE
        if effect in (CallEffect.UPDATE_STATE, CallEffect.OPAQUE):
            name = getattr(node.op, "name", getattr(node.op, "name_hint", ""))
            self._note(node, f"Pure functions must not contain calls to impure operators, but this one calls `{name}`")


def is_pure_function(func: PrimFunc, assert_on_error: bool = False) -> bool:
    """Whether a function does nothing but give a value: it stores to memory that it allocates alone, and calls no
    operator with an effect."""
    effects = _Effects()
    effects.visit(func.body)
    if effects.found is not None and assert_on_error:
        node, reason = effects.found
        raise AssertionFailedError(reason, node=node, root=func)
    return effects.found is None


def assert_pure_function(func: PrimFunc) -> bool:
    """True; an AssertionError that says why if the function is not pure."""
    return is_pure_function(func, assert_on_error=True)


class _Memory(Visitor):
    """The bytes that are allocated at one time, by memory: now, and at most. What is of unknown size counts as none."""

    def __init__(self, alignment: int = 1) -> None:
        self.alignment = alignment
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}

    @handles(Allocate)
    def allocate(self, node: Allocate) -> None:
        size = aligned(known_bytes(node), self.alignment)
        scope = scope_of(node.buffer_var)
        self.now[scope] = self.now.get(scope, 0) + size
        self.most[scope] = max(self.most.get(scope, 0), self.now[scope])
        self.visit_children(node)
        self.now[scope] -= size


def known_bytes(node: Allocate | AllocateConst) -> int:
    """The bytes of an allocation; 0 if its size is not known."""
    size = node.dtype.bytes
    for extent in node.extents:
        size *= extent.value if isinstance(extent, IntImm) else 0
    return size


def aligned(size: int, alignment: int) -> int:
    """`size` rounded up to a multiple of `alignment`."""
    return -(-size // alignment) * alignment


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int) -> int:
    """The bytes that the allocations of a function take at most at one time, each rounded up to the alignment."""
    memory = _Memory(int(workspace_byte_alignment))
    memory.visit(func.body)
    return sum(memory.most.values())


def calculate_constant_bytes(func: PrimFunc, constant_byte_alignment: int) -> int:
    """The bytes of the constants of a function, each rounded up to the alignment."""
    constants = nodes_of(func.body, AllocateConst)
    return sum(aligned(known_bytes(constant), int(constant_byte_alignment)) for constant in constants)


def calculate_allocated_bytes(func_or_mod: PrimFunc | IRModule) -> dict[str, dict[str, int]]:
    """For each function the bytes that its allocations take at most at one time, by memory; of a function alone as `main`.

    Allocations of unknown size are left out.
    """
    if isinstance(func_or_mod, PrimFunc):
        return {"main": _allocated(func_or_mod)}
    return {var.name_hint: _allocated(func) for var, func in func_or_mod.functions_items()}


def _allocated(func: PrimFunc) -> dict[str, int]:
    memory = _Memory()
    memory.visit(func.body)
    return memory.most
