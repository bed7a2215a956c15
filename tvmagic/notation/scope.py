"""What the statements of a cell have said so far: its tensors, numbers, sizes and ranges by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from tvmagic.ir import PrimExpr
from tvmagic.notation.sizes import Sizes
from tvmagic.notation.source import Source


class Scope:
    """The names of one cell.

    `tensors` are the tensors by name, which Python statements of the same cell share; `values` gives numbers by name;
    `dtype` is that of declarations without one.
    """

    def __init__(
        self, source: Source, tensors: dict[str, Any], values: Mapping[str, Any], dtype: str = "float32"
    ) -> None:
        self.source, self.tensors, self.values, self.dtype = source, tensors, values, dtype
        self.numbers: dict[str, int] = {}
        self.sizes = Sizes(source, self.numbers, values)
        self.ranges: dict[str, tuple[Any, Any]] = {}
        self.range_lines: dict[
            str, int
        ] = {}  # the lines of the cell that say `j: range(5)`, also those not reached yet
        self.declared: dict[str, tuple[Any, str]] = {}
        self.assigned: set[str] = set()  # by any statement of the cell
        self.assignments: list[ast.Assign] = []  # all of the cell
        self.defined: set[str] = set()  # by the statements so far
        self.read: set[str] = set()
        self.left: set[str] = set()  # the index names of all left sides
        self.reduced: set[str] = set()  # the index names that statements so far reduce over
        self.ran: dict[str, tuple[Any, int]] = {}  # extents of index names in statements so far, and their lines
        self.made: set[str] = set()  # the names of stages that statements need besides their own
        self.assertions: list[Any] = []  # the preconditions of the statements so far
        self.remarks: list[str] = []  # what may be meant otherwise, in sentences
        self.carried: set[str] = set()  # tensors that are read before they are assigned: inputs that get a new value


class Layered(Mapping[str, Any]):
    """Names looked up in several mappings, the first that has one; only numbers and sizes count."""

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self.layers = layers

    def __getitem__(self, name: str) -> Any:
        for layer in self.layers:
            value: Any = layer.get(name)
            if isinstance(value, (int, float, PrimExpr)) and not callable(value):
                return value
            item = getattr(value, "item", None)
            if item is not None and hasattr(value, "dtype") and getattr(value, "shape", None) == ():
                return item()
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(n for layer in self.layers for n in layer if n in self))

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]
        except KeyError:
            return False
        return True

    def __len__(self) -> int:
        return sum(1 for _ in self)
