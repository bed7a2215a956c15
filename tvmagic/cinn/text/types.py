"""The types in CINN's text, which names none: found from literals, casts and declared buffers.

Every expression, tensor and variable has a cell; what must be of one type shares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvmagic.cinn.text.functions import EXTERNAL
from tvmagic.cinn.text.numbers import number_type
from tvmagic.cinn.text.syntax import TYPE_NAME, Expr, Statement, Text
from tvmagic.ir import DataType, dtype_of
from tvmagic.ir.operators import COMPARISON_SIGNS

_LITERAL, _DECLARED = 1, 2
_BOOLEAN = {"isnan", "isfinite", "isinf"}
# calls whose arguments have types of their own
_FREE = {"call_extern", "call_pure_extern", "call_packed", "call_cpacked", "reinterpret"}


@dataclass(eq=False)
class Cell:
    """A type that is being found: the strongest word on it so far, or the cell it was joined with."""

    dtype: DataType | None = None
    strength: int = 0
    is_index: bool = False
    joined: Cell | None = None

    def root(self) -> Cell:
        cell = self
        while cell.joined is not None:
            cell = cell.joined
        return cell

    def result(self) -> DataType:
        """The type found; by default int32 for an index, and float32 for all else."""
        root = self.root()
        return root.dtype if root.dtype is not None else dtype_of("int32" if root.is_index else "float32")


def cast_type(name: str) -> DataType | None:
    """The type that a call `float32(x)` or `float32x4(x)` casts to, or None if the name is not a type."""
    head, _, lanes = name.partition("x")
    if TYPE_NAME.match(head) and head not in ("void", "string") and (not lanes or lanes.isdigit()):
        return dtype_of(name)
    return None


def _literal(text: str) -> Cell:
    """The cell of a number: one with its type written is of that type, `inf` and `nan` are of any float's."""
    if text.lstrip("-").removesuffix("f") in ("in", "inf", "nan"):
        return Cell()
    return Cell(number_type(text), _DECLARED if text.startswith(("(", "cinn")) else _LITERAL)


class CinnTypes:
    """The types of a text's expressions, tensors and variables.

    `declared` gives the types of tensors that are known from elsewhere.
    """

    def __init__(self, text: Text, declared: Mapping[str, DataType]) -> None:
        self.text = text
        self.tensors: dict[str, Cell] = {n: Cell(d, _DECLARED) for n, d in declared.items()}
        self.symbols: dict[str, Cell] = {}
        self.cells: dict[Expr, Cell] = {}
        self.variables: dict[tuple[Statement, str], Cell] = {}

    def of(self, node: Expr) -> DataType:
        """The type of an expression."""
        return self.cells[node].result()

    def of_variable(self, owner: Statement, name: str) -> DataType:
        """The type of a variable that a loop, a block or an assignment brings in."""
        return self.variables[owner, name].result()

    # ------------------------------------------------------------------ statements

    def run(self, statements: list[Statement], env: dict[str, Cell]) -> None:
        """Find the types in statements; `env` has the cells of the variables that are in scope."""
        for node in statements:
            env = self.statement(node, env)

    def statement(self, node: Statement, env: dict[str, Cell]) -> dict[str, Cell]:
        if node.kind == "for":
            cell = self.index(node.exprs[0], env)
            self.join(cell, self.index(node.exprs[1], env), node.offset)
            if node.factor is not None:
                self.index(node.factor, env)
            self.run(node.body, {**env, node.name: self.bring(node, node.name, cell)})
        elif node.kind == "block":
            self.block(node, env)
        elif node.kind == "store":
            self.join(self.access(node.name, node.exprs[1:], env), self.cell(node.exprs[0], env), node.offset)
        elif node.kind == "let":
            cell = self.cell(node.exprs[0], env) if node.exprs else Cell()
            if node.word:
                self.join(cell, Cell(dtype_of(node.word), _DECLARED), node.offset)
            return {**env, node.name: self.bring(node, node.name, cell)}
        elif node.kind in ("list", "alloc", "free"):
            for value in node.exprs:
                self.index(value, env)
            self.run(node.body, env)
        else:
            for value in node.exprs:
                self.cell(value, env)
            self.run(node.body, env)
            self.run(node.otherwise, env)
        return env

    def block(self, node: Statement, env: dict[str, Cell]) -> None:
        inside = dict(env)
        for name, value in zip(node.variables, node.exprs):
            inside[name] = self.bring(node, name, self.index(value, env))
        for region in node.regions:
            for _, low, high in region.axes:
                cells = [self.index(end, inside) for end in (low, high) if end is not None]
                if len(cells) == 2:
                    self.join(cells[0], cells[1], node.offset)
        self.run(node.init, inside)
        self.run(node.body, inside)

    def bring(self, owner: Statement, name: str, cell: Cell) -> Cell:
        self.variables[owner, name] = cell
        return cell

    # ------------------------------------------------------------------ expressions

    def index(self, node: Expr, env: dict[str, Cell]) -> Cell:
        cell = self.cell(node, env)
        dtype = cell.root().dtype
        if dtype is not None and (dtype.is_bool or dtype.is_float):
            raise self.text.error(
                f"an index is an integer, not `{dtype}`",
                node.offset,
                len(node.text),
                code="cinn.text.index_not_integer",
            )
        cell.root().is_index = True
        return cell

    def access(self, name: str, indices: list[Expr], env: dict[str, Cell]) -> Cell:
        for index in indices:
            self.index(index, env)
        return self.tensors.setdefault(name, Cell())

    def cell(self, node: Expr, env: dict[str, Cell]) -> Cell:
        found = self.cells[node] = self._cell(node, env)
        return found

    def _cell(self, node: Expr, env: dict[str, Cell]) -> Cell:
        if node.kind == "number":
            return _literal(node.text)
        if node.kind == "string":
            return Cell(dtype_of("handle"), _DECLARED)
        if node.kind == "bool":
            return _bool()
        if node.kind == "name":
            return env[node.text] if node.text in env else self.symbols.setdefault(node.text, Cell(is_index=True))
        if node.kind == "access":
            return self.access(node.text, node.args, env)
        if node.kind == "let":
            value = self.cell(node.args[0], env)
            return self.cell(node.args[1], {**env, node.text: value})
        args = [self.cell(a, env) for a in node.args]
        if node.kind == "minus":
            return args[0]
        if node.kind == "reduce":
            self.join(args[0], args[1], node.offset)
            return args[0]
        if node.kind == "call":
            return self.call(node, args)
        if node.kind == "not" or node.text in ("and", "or"):
            for cell in args:
                self.join(cell, _bool(), node.offset)
            return _bool()
        self.join(args[0], args[1], node.offset)
        return _bool() if node.text in COMPARISON_SIGNS.values() else args[0]

    def call(self, node: Expr, args: list[Cell]) -> Cell:
        external = node.text.startswith(EXTERNAL) and node.text not in ("cinn_min", "cinn_max")
        if node.text in _FREE or external:
            return Cell()
        cast = cast_type(node.text)
        if cast is not None:
            return Cell(cast.with_lanes(1), _DECLARED)
        if node.text in ("Ramp", "Broadcast"):
            return args[0] if args else Cell()
        if node.text in ("select", "if_then_else") and len(args) == 3:
            self.join(args[0], _bool(), node.offset)
            args = args[1:]
        for other in args[1:]:
            self.join(args[0], other, node.offset)
        return _bool() if node.text in _BOOLEAN else (args[0] if args else Cell())

    # ------------------------------------------------------------------ joining

    def join(self, first: Cell, second: Cell, offset: int) -> None:
        """Say that two cells have one type."""
        a, b = first.root(), second.root()
        if a is b:
            return
        if b.strength > a.strength:
            a, b = b, a
        if a.dtype is not None and b.dtype is not None and a.dtype is not b.dtype:
            a.dtype = self.common(a, b, offset)
        b.joined = a
        a.is_index = a.is_index or b.is_index

    def common(self, a: Cell, b: Cell, offset: int) -> DataType:
        """The type of two that differ: a literal gives way to what is declared, int32 to int64."""
        assert a.dtype is not None and b.dtype is not None
        same_family = a.dtype.is_float == b.dtype.is_float and a.dtype.is_bool == b.dtype.is_bool
        if same_family and b.strength == _LITERAL and not a.dtype.is_float:
            return a.dtype if a.strength == _DECLARED or a.dtype == "int64" else b.dtype
        if same_family and b.strength == _LITERAL and a.strength == _DECLARED:
            return a.dtype
        raise self.text.error(
            f"`{a.dtype}` and `{b.dtype}` meet in one expression",
            offset,
            hint="write a literal of the other's type, or a cast such as `float32(x)`",
            code="cinn.text.types_differ",
        )


def _bool() -> Cell:
    return Cell(dtype_of("bool"), _DECLARED)
