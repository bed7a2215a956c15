"""CommonSubexprElimTIR: what is computed twice or more is computed once, into a variable.

Equal expressions get equal keys (small numbers), so that comparing and counting are lookups. A
computation is introduced at the outermost statement where it is sure to be done at least twice and
all its variables are defined. Largest computations come first; if one is not introduced its
direct parts are tried.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import (
    Broadcast,
    BufferLoad,
    Call,
    ConstExpr,
    For,
    IfThenElse,
    Let,
    LetStmt,
    Mutator,
    PrimExpr,
    PrimFunc,
    ProducerLoad,
    Ramp,
    Span,
    Stmt,
    Var,
    Visitor,
    While,
    handles,
    post_order_visit,
    pre_order_visit,
)
from tvmagic.ir.node import Kind, Node
from tvmagic.passes import is_recording, note
from tvmagic.tir.transform.declaration import tir_pass

_WALKED = (Kind.EXPR, Kind.STMT, Kind.NODE)
_WALKED_MANY = (Kind.EXPRS, Kind.STMTS, Kind.NODES)
_FORBIDDEN = (Call, BufferLoad, ProducerLoad)
_ATOMS = (ConstExpr, Var)
# How often each computation is done, by key.
Table = dict[int, int]
_EMPTY: Table = {}


def children(node: Node) -> Iterator[Any]:
    """The expressions and statements directly inside `node`."""
    for field in node.FIELDS:
        if field.kind in _WALKED:
            value = getattr(node, field.name)
            if value is not None:
                yield value
        elif field.kind in _WALKED_MANY:
            yield from getattr(node, field.name)


class _Keys:
    """Numbers for expressions: equal numbers for equal expressions."""

    def __init__(self, analyzer: Analyzer | None) -> None:
        self.analyzer = analyzer
        self.numbers: dict[Any, int] = {}
        self.of_node: dict[PrimExpr, int] = {}
        self.normal: dict[int, int] = {}
        self.example: list[PrimExpr] = []
        self.size: list[int] = []
        self.allowed: list[bool] = []
        self.parts: list[list[int]] = []

    def key(self, node: PrimExpr) -> int:
        found = self.of_node.get(node)
        if found is None:
            found = self.of_node[node] = self._value_number(node)
        return found

    def _value_number(self, node: PrimExpr) -> int:
        """The number of a node; with an analyzer that of its simplified form."""
        number = self._by_structure(node)
        if self.analyzer is None or not self.allowed[number] or isinstance(node, _ATOMS):
            return number
        normal = self.normal.get(number)
        if normal is None:
            simple = self.analyzer.simplify(node)
            kept, self.analyzer = self.analyzer, None
            normal = self.normal[number] = number if simple is node else self._value_number(simple)
            self.analyzer = kept
            if self.size[number] > self.size[normal]:  # of equal terms the distributed one is kept, as in TVM
                for table in (self.example, self.size, self.parts):
                    table[normal] = table[number]  # type: ignore[assignment]
        return normal

    def _by_structure(self, node: PrimExpr) -> int:
        """The number of a node's class, type and fields; a new one has its entries in the tables."""
        parts: list[Any] = [type(node), node.dtype]
        inside: list[int] = []
        size, allowed = 1, not isinstance(node, _FORBIDDEN)
        for field in () if isinstance(node, Var) else node.FIELDS:
            value = getattr(node, field.name)
            if isinstance(value, PrimExpr):
                value = self.key(value)
                inside.append(value)
                size, allowed = size + self.size[value], allowed and self.allowed[value]
            elif field.kind is Kind.EXPRS:
                keys = tuple([self.key(v) if isinstance(v, PrimExpr) else id(v) for v in value])
                inside += [k for k, v in zip(keys, value) if isinstance(v, PrimExpr)]
                size += sum([self.size[k] for k, v in zip(keys, value) if isinstance(v, PrimExpr)])
                value = keys
            elif isinstance(value, Node) or field.kind in _WALKED_MANY:
                value = id(value)
            elif isinstance(value, float):
                value = (value, str(value))  # 0.0 and -0.0 are two
            parts.append(value)
        structure = (id(node),) if isinstance(node, Var) else tuple(parts)
        number = self.numbers.get(structure)
        if number is None:
            number = self.numbers[structure] = len(self.example)
            self.example.append(node)
            self.size.append(size)
            self.allowed.append(allowed)
            self.parts.append(inside)
        return number

    def eligible(self, node: PrimExpr, key: int) -> bool:
        """Whether the computation may be kept in a variable: no atom, nothing read or called."""
        return self.allowed[key] and not isinstance(node, (*_ATOMS, Ramp, Broadcast))


class _Occurrences(Visitor):
    """How often each computation is in a program."""

    def __init__(self, keys: _Keys) -> None:
        self.keys = keys
        self.count: dict[int, int] = {}

    @handles(PrimExpr)
    def expression(self, node: PrimExpr) -> None:
        if not isinstance(node, _ATOMS):
            key = self.keys.key(node)
            self.count[key] = self.count.get(key, 0) + 1
            self.visit_children(node)


class _Users(Visitor):
    """Collects the statements that use a variable in their own expressions."""

    def __init__(self, var: Var) -> None:
        self.var = var
        self.stmt: Stmt | None = None
        self.found: list[Stmt] = []

    @handles(Stmt)
    def statement(self, node: Stmt) -> None:
        outer, self.stmt = self.stmt, node
        self.visit_children(node)
        self.stmt = outer

    @handles(Var)
    def use(self, node: Var) -> None:
        if node is self.var and self.stmt is not None and self.stmt not in self.found[-1:]:
            self.found.append(self.stmt)


class _Replacer(Mutator):
    """Puts variables in the place of the computations with given keys; `uses` is how often each was met."""

    def __init__(self, keys: _Keys, variables: dict[int, Var]) -> None:
        self.keys, self.variables = keys, variables
        self.uses: dict[int, int] = {}

    @handles(PrimExpr)
    def expression(self, node: PrimExpr) -> PrimExpr:
        if isinstance(node, _ATOMS):
            return node
        key = self.keys.key(node)
        if key in self.variables and self.keys.eligible(node, key):
            self.uses[key] = self.uses.get(key, 0) + 1
            return self.variables[key]
        return self.visit_children(node)


class _Eliminator(Mutator):
    def __init__(self, func: PrimFunc, equivalent: bool) -> None:
        self.keys = _Keys(Analyzer() if equivalent else None)
        self.tables: dict[Any, Table] = {}
        self.defined: set[Var] = set(func.params)
        # variables that hold a computation already, innermost last
        self.held: dict[int, list[Var]] = {}
        self.used_names: set[str] = set()
        post_order_visit(func.body, lambda n: self.used_names.add(n.name) if isinstance(n, Var) else None)
        self.count = 0
        self.occurrences = _Occurrences(self.keys)
        self.occurrences.visit(func.body)
        self.shared: dict[int, bool] = {}

    def may_share(self, key: int) -> bool:
        """Whether the computation or a part of it may be in a second place."""
        found = self.shared.get(key)
        if found is None:
            times = self.occurrences.count.get(key)
            found = times is None or times >= 2  # it is not known of what a replacement made
            found = found or any(self.may_share(p) for p in self.keys.parts[key])
            if isinstance(self.keys.example[key], _ATOMS):
                found = False
            self.shared[key] = found
        return found

    def new_var(self, dtype: Any) -> Var:
        self.count += 1
        while f"cse_var_{self.count}" in self.used_names:
            self.count += 1
        return Var(f"cse_var_{self.count}", dtype)

    # ------------------------------------------------------------------ counting

    def table(self, node: Any) -> Table:
        """How often each largest computation in `node` is done, whatever path is taken."""
        if isinstance(node, _ATOMS):
            return _EMPTY
        found = self.tables.get(node)
        if found is None:
            found = self.tables[node] = self._counted(node)
        return found

    def _counted(self, node: Any) -> Table:
        if isinstance(node, PrimExpr):
            key = self.keys.key(node)
            if self.keys.eligible(node, key):
                return {key: 1} if self.may_share(key) else _EMPTY
        parts = [self.table(c) for c in self._operands(node)]
        if isinstance(node, (For, IfThenElse, While)):
            return _in_two(parts)
        parts = [p for p in parts if p]
        if len(parts) < 2:
            return parts[0] if parts else _EMPTY
        total: Table = {}
        for part in parts:
            for key, count in part.items():
                total[key] = total.get(key, 0) + count
        return total

    @staticmethod
    def _operands(node: Any) -> Iterator[Any]:
        return iter((node.min, node.extent, node.body)) if isinstance(node, For) else children(node)

    def candidates(self, node: Any) -> dict[int, Var | None]:
        """The computations of `node` to replace, each with the variable that holds it (None: a new one)."""
        table = self.table(node)
        if not table:
            return {}
        size = self.keys.size
        chosen = self._chosen(table, sorted(table, key=lambda k: -size[k]))
        new = [size[k] for k, held in chosen.items() if held is None]
        if len(set(new)) < len(new):
            # the order of computations of one size names the variables
            chosen = self._chosen(table, self._by_size(table))
        return chosen

    def _chosen(self, table: Table, order: list[int]) -> dict[int, Var | None]:
        size = self.keys.size
        sizes = [-size[k] for k in order]
        counts = dict(table)
        chosen: dict[int, Var | None] = {}
        position = 0
        while position < len(order):
            key = order[position]
            position += 1
            held = self.held.get(key)
            if held:
                chosen[key] = held[0]
                continue
            if counts[key] >= 2 and self._is_defined(key):
                chosen[key] = None
                continue
            for part in self._direct_parts(self.keys.example[key]):
                if part in counts:
                    counts[part] += 1
                    continue
                counts[part] = 1
                place = bisect.bisect_right(sizes, -size[part])
                order.insert(place, part)
                sizes.insert(place, -size[part])
        return chosen

    def _by_size(self, table: Table) -> list[int]:
        """The computations, largest first; those of one size by their text."""
        size, example = self.keys.size, self.keys.example
        alike: dict[int, list[int]] = {}
        for key in table:
            alike.setdefault(size[key], []).append(key)
        order: list[int] = []
        for _, keys in sorted(alike.items(), reverse=True):
            order += keys if len(keys) == 1 else sorted(keys, key=lambda k: _text(example[k]))
        return order

    def _is_defined(self, key: int) -> bool:
        found: list[Var] = []
        post_order_visit(self.keys.example[key], lambda n: found.append(n) if isinstance(n, Var) else None)
        return all(var in self.defined for var in found)

    def _direct_parts(self, node: PrimExpr) -> list[int]:
        parts: list[int] = []
        for child in children(node):
            if not isinstance(child, PrimExpr) or isinstance(child, _ATOMS):
                continue
            key = self.keys.key(child)
            if self.keys.eligible(child, key):
                parts.append(key)
            else:
                parts += self._direct_parts(child)
        return parts

    # ------------------------------------------------------------------ rewriting

    def _met(self, node: Any, found: dict[int, Var | None]) -> dict[int, Var | None]:
        """Of the computations to replace, those that a variable holds and those that `node` has twice or more.

        What was counted as a part of a term may be a part of an equal one that is not in the program.
        """
        while True:
            replacer = _Replacer(self.keys, {key: var or self._any_var(key) for key, var in found.items()})
            replacer.visit(node)
            for key in found:
                if key in replacer.uses:
                    replacer.visit_children(self.keys.example[key])
            kept = {key: var for key, var in found.items() if var is not None or replacer.uses.get(key, 0) >= 2}
            if len(kept) == len(found):
                return found
            found = kept

    def _any_var(self, key: int) -> Var:
        return Var("held", self.keys.example[key].dtype)

    def visit(self, node: Any) -> Any:
        if isinstance(node, _ATOMS):
            return node
        found = self.candidates(node) if isinstance(node, (Stmt, PrimExpr)) else {}
        found = self._met(node, found) if found and self.keys.analyzer is not None else found
        if not found:
            return super().visit(node)
        held = {key: var for key, var in found.items() if var is not None}
        introduced = [(k, self.new_var(self.keys.example[k].dtype)) for k, var in found.items() if var is None]
        replacer = _Replacer(self.keys, {**held, **dict(introduced)})
        result = replacer.visit(node)
        make: Any = LetStmt if isinstance(node, Stmt) else Let
        for key, var in introduced:
            # smaller computations, introduced around this one, hold its parts
            value = replacer.visit_children(self.keys.example[key])
            span = getattr(node, "span", None)
            if is_recording() and isinstance(node, Stmt):
                users = _Users(var)
                users.visit(result)
                span = Span.made_of(*users.found) or span
            result = make(var, value, result, span)
            if is_recording():
                note("cse", f"`{var.name}` is computed once in place of twice or more", node=value, variable=var.name)
        # the definitions of new variables may have parts in common with the rest
        return self.visit(result) if introduced else super().visit(result)

    @handles(Let, LetStmt)
    def let(self, node: Any) -> Any:
        value = self.visit(node.value)
        key = self.keys.key(node.value)
        holds = not isinstance(node.value, _ATOMS)
        self.defined.add(node.var)
        if holds:
            self.held.setdefault(key, []).append(node.var)
        body = self.visit(node.body)
        if holds:
            self.held[key].pop()
        self.defined.discard(node.var)
        return node.with_(value=value, body=body)

    @handles(For)
    def loop(self, node: For) -> Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        self.defined.add(node.loop_var)
        body = self.visit(node.body)
        self.defined.discard(node.loop_var)
        return node.with_(min=low, extent=extent, body=body)


def _text(value: PrimExpr) -> str:
    """The text of `value` after the definitions of its variables, by which TVM orders computations."""
    names: dict[str, None] = {}
    pre_order_visit(value, lambda n: names.setdefault(n.name) if isinstance(n, Var) else None)
    return "".join(f"{name}\n" for name in names) + str(value)


def _in_two(parts: list[Table]) -> Table:
    """What is done in at least two of the parts."""
    result: Table = {}
    for i, part in enumerate(parts):
        for key in part:
            if key not in result and any(key in other for other in parts[i + 1 :]):
                result[key] = sum(p.get(key, 0) for p in parts)
    return result


@tir_pass("tir.CommonSubexprElimTIR")
def CommonSubexprElimTIR(func: PrimFunc, enable_cse_tir: bool = True, identify_equiv_terms: bool = False) -> PrimFunc:
    """Compute common subexpressions once, into variables `cse_var_1`, `cse_var_2`, ...

    Loads and calls are left alone. With `identify_equiv_terms` terms count as equal that are
    equal after simplification.
    """
    if not enable_cse_tir:
        return func
    return func.with_body(_Eliminator(func, identify_equiv_terms).visit(func.body))
