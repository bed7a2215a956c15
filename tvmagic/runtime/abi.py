"""How a compiled function is called, and where it may stop: what code generation tells those who run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvmagic.ir import Buffer, BufferStore, DataType, Var

# Records of failures in a module, and the slots of each: the first says where the failure was, the others hold values for
# the message. Calls that fail at the same time have different records; the status of a call is the number of its record,
# counted from 1. A counter, behind the last record, says which one is next (see `codegen/emit/ll/fail.ll`).
ERROR_SLOTS, ERROR_RECORDS = 16, 512

TOO_NARROW = -2  # the status of a call for whose sizes the int32 indices of the code are too small; nothing has run


@dataclass(frozen=True)
class Param:
    """One machine parameter: `var` of `dtype`, with the `buffer` it points to, if it does."""

    var: Var
    dtype: DataType
    buffer: Buffer | None = None


@dataclass(frozen=True)
class ABI:
    """The machine parameters of one function.

    `symbol` is the function's name for the linker. `params` are those that the function names; `sizes` are the variables that its buffers'
    shapes, strides and offsets name, which come after them; `written` are the buffers that it
    stores to. With `result`, a pointer to where the result goes comes last.
    """

    name: str
    symbol: str
    params: tuple[Param, ...]
    sizes: tuple[Var, ...]
    written: frozenset[Var]
    result: DataType | None
    noalias: bool


@dataclass
class Site:
    """A place where compiled code may stop with an error, and what is to be said then.

    `kind`: `bounds`, `index`, `region`, `assert`, `zero`, `memory`, `packed` or `vectors`; `values` says what the recorded values are.
    A saved module has no nodes: it keeps whether the node was a `store`.
    """

    kind: str
    node: Any
    message: str = ""
    buffer: Any = None
    function: str = ""
    values: tuple[Any, ...] = ()
    line: int = 0
    store: bool = False

    @property
    def is_store(self) -> bool:
        """Whether the code stops at a store."""
        return self.store or isinstance(self.node, BufferStore)
