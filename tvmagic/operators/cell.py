"""A `%%tensor` cell: index notation, calls of `te`, and `@T.prim_func` functions, also mixed; or CINN's text."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Container, Mapping
from typing import Any

import numpy as np

import tvmagic
from tvmagic import te, tir
from tvmagic.cinn.cinn_form import to_tensorir
from tvmagic.cinn.text.parser import from_cinn, is_cinn_text
from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, IterVar, PrimExpr, PrimFunc, Span, Var
from tvmagic.notation.line_hints import syntax_meant
from tvmagic.notation.source import Source
from tvmagic.notation.statements import Notation
from tvmagic.notation.suggestions import meant, meant_function
from tvmagic.notation.syntax import is_notation, python_names
from tvmagic.notation.wide_sums import result_of, stage_of
from tvmagic.operators.cell_execution import run_python
from tvmagic.operators.operator import Operator
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order


def operator(name: str, text: str, namespace: Mapping[str, Any] | None = None, dtype: str = "float32") -> Operator:
    """The operator that `text` describes, in any of the forms of a `%%tensor` cell.

    `namespace` gives names defined outside, such as numbers for sizes; `dtype` is that of declarations without one.
    """
    return operator_from_cell(Source(f"tensor {name}", f"%%tensor {name}\n{text}"), name, namespace or {}, dtype)


def cell_names(tree: ast.AST) -> dict[str, Any]:
    """The names that every cell has without an import; the parser is loaded if `T` or `I` is used."""
    names: dict[str, Any] = {"te": te, "tir": tir, "np": np, "tvmagic": tvmagic, "tvm": tvmagic}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name, module in (("T", "tir"), ("I", "ir")):
        if name in used:
            names[name] = importlib.import_module(f"tvmagic.script.{module}")
    return names


def operator_from_cell(source: Source, name: str, namespace: Mapping[str, Any], dtype: str = "float32") -> Operator:
    """Run the cell and make the operator of what it defines; `dtype` is that of declarations such as `X: [8, 8]`.

    Raises
    ------
    NotationError: a statement of the index notation means nothing; its place is given.
    TVMagicError: the cell defines no tensor and no function, or Python code in it failed.
    """
    source.remember()
    if is_cinn_text(source.python):
        written = from_cinn(source.python, name=name, source=source.name)
        if isinstance(written, IRModule):
            raise TVMagicError(
                f"the cell has {len(written.functions)} functions: {', '.join(v.name_hint for v in written.functions)}",
                hint="give each a cell of its own, or join them by `cinn.IRSchedule(text).merge_exprs()`",
                code="cell.several_functions",
            )
        op = Operator.from_prim_func(name, to_tensorir(written), source)
        op.notation = "cinn"
        return op
    tree = parse(source)
    scope = _Scope(namespace, cell_names(tree))
    notation = Notation(source, scope.tensors, scope, dtype)
    own = python_names(tree)
    notation.prepare([s for s in tree.body if is_notation(s, scope, own)])
    for statement in tree.body:
        if is_notation(statement, scope, own):
            _run_notation(statement, source, notation)
        elif isinstance(statement, ast.Return):
            if statement.value is None:
                raise TVMagicError(
                    "`return` names no tensor",
                    span=source.span(statement),
                    hint="write `return Y`",
                    code="cell.returns_no_tensor",
                )
            return _operator_of(name, source, scope, notation, _returned(statement.value, scope, source))
        else:
            run_statement(statement, source, scope)
            _note_numbers(statement, scope, notation)
    return _operator_of(name, source, scope, notation, None)


def _run_notation(statement: ast.stmt, source: Source, notation: Notation) -> None:
    """Read one statement of the index notation; an error without a place of its own is at the statement."""
    try:
        notation.run(statement)
    except TVMagicError as error:
        error.span = error.span or source.span(statement)
        raise


def parse(source: Source) -> ast.Module:
    """The cell's syntax tree; a syntax error becomes one of ours, with its place."""
    if "\0" in source.text:  # which some versions of Python refuse without a place
        line = source.text[: source.text.index("\0")].count("\n") + 1
        message = "the cell is not valid Python syntax: it cannot contain null bytes"
        raise TVMagicError(message, span=Span(source.name, line, 1), hint=syntax_meant("\0"), code="cell.syntax_error")
    try:
        tree = source.parse()
        _check_nesting(tree, source)
        return tree
    except (RecursionError, MemoryError):
        raise TVMagicError(
            "the cell is nested too deeply to be read", span=Span(source.name, 1, 1), code="cell.nested_too_deeply"
        ) from None
    except UnicodeError as error:
        raise TVMagicError(
            f"the cell is not Unicode text: {error}", span=Span(source.name, 1, 1), code="cell.not_unicode"
        ) from None
    except SyntaxError as error:
        line, column = error.lineno or 1, error.offset or 1
        span = Span(source.name, line, column, error.end_lineno or line, error.end_offset or column + 1)
        text = source.lines[line - 1] if line <= len(source.lines) else ""
        message = f"the cell is not valid Python syntax: {error.msg}"
        hint = "begin the line without blanks" if error.msg == "unexpected indent" else syntax_meant(text)
        raise TVMagicError(message, span=span, hint=hint, code="cell.syntax_error") from None


_DEEPEST = 1000  # expressions, each an operand of the one around it


def _check_nesting(tree: ast.Module, source: Source) -> None:
    """Refuse expressions that nest so deeply that no pass gets through them in time.

    A left operand counts as deep as its operator: the terms of a long sum are written side by side.
    """
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > _DEEPEST:
            raise TVMagicError(
                f"the expressions nest more than {_DEEPEST} deep here",
                span=source.span(node),
                hint="compute parts of a long expression in stages of their own",
                code="cell.nested_too_deeply",
            )
        beside = node.left if isinstance(node, ast.BinOp) else None
        for child in ast.iter_child_nodes(node):
            pending.append((child, depth + (isinstance(child, ast.expr) and child is not beside)))


class _Scope(dict[str, Any]):
    """The names of a cell: its own, then those given from outside, which it never changes."""

    def __init__(self, namespace: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        outer = {k: v for k, v in namespace.items() if not k.startswith("_")}
        super().__init__({**outer, **given})
        self.own: set[str] = set()
        self.tensors: dict[str, Any] = _TensorNames(self)

    def set_own(self, name: str, value: Any) -> None:
        self[name] = value
        self.own.add(name)


class _TensorNames(dict[str, Any]):
    """The tensors of the cell by name; what the notation defines is a Python name too."""

    def __init__(self, scope: _Scope) -> None:
        super().__init__()
        self.scope = scope

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.scope.set_own(name, result_of(value))


def run_statement(statement: ast.stmt, source: Source, scope: _Scope) -> None:
    """Run one statement of a cell as Python, with the cell's own line numbers.

    What fails in it becomes an error of ours with its place, and a hint where index notation was meant.
    """
    before = dict(scope)
    try:
        run_python(statement, source, scope)
    except TVMagicError as error:
        error.hint = meant(statement, scope.tensors) or error.hint
        raise
    for name, value in scope.items():
        if name not in before or before[name] is not value:
            scope.own.add(name)
            if isinstance(value, te.Tensor):
                dict.__setitem__(scope.tensors, name, value)


def _note_numbers(statement: ast.stmt, scope: _Scope, notation: Notation) -> None:
    """A whole number that the cell itself defines may be in indices and shapes."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name) and type(scope.get(target.id)) is int:
                notation.numbers[target.id] = scope[target.id]


def _returned(node: ast.expr, scope: _Scope, source: Source) -> list[Any]:
    items = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    values = [scope.get(i.id) if isinstance(i, ast.Name) else None for i in items]
    for item, value in zip(items, values):
        if not isinstance(value, (te.Tensor, PrimFunc)):
            raise TVMagicError(
                f"`{ast.unparse(item)}` is not a tensor of this cell", span=source.span(item),
                hint="give it a name in a line above, and return the name", code="cell.returned_not_a_tensor",
            )  # fmt: skip
    return values


def _single_value(scope: _Scope) -> str | None:
    """A hint for a cell whose Python made an expression of elements, and no tensor."""
    for name in scope.own:
        if isinstance(scope.get(name), PrimExpr) and not isinstance(scope.get(name), (Var, te.Tensor)):
            return f"`{name}` is an expression, which Python made; a tensor of a single value is `{name}[()] = ...`"
    return None


def _operator_of(name: str, source: Source, scope: _Scope, notation: Notation, outputs: list[Any] | None) -> Operator:
    functions = [f for n, v in scope.items() if n in scope.own for f in _functions(v)]
    tensors = {n: stage_of(t) for n, t in scope.tensors.items()}
    if outputs is None and functions and not tensors:
        try:
            return Operator.from_prim_func(name, functions[-1], source)
        except TVMagicError as error:
            error.span = error.span or functions[-1].span or Span(source.name, 1, 1)
            raise
    # an access may have been folded away (`X[i] * 0`); its tensor is an input all the same
    written = [t for n, t in tensors.items() if n in notation.read] if outputs is None else []
    if outputs is None:
        rounded = {id(stage_of(t)): t for t in scope.tensors.values()}
        results = _results(tensors, notation.carried.intersection(notation.declared))
        outputs = [result_of(rounded.get(id(t), t)) for t in results]
    computed = [t for t in outputs if not isinstance(t.op, te.PlaceholderOp)]
    if not computed:
        function = meant_function(parse(source).body)
        if function is not None:
            raise TVMagicError(
                f"the function `{function.name}` is never called: the cell of `{name}` defines no tensor that is computed",
                span=source.span(function),
                hint="write index notation at the top of the cell, each input as `A: float32[64, 64]`",
                code="cell.function_not_called",
            )
        raise TVMagicError(
            f"the cell of `{name}` defines no tensor that is computed",
            span=Span(source.name, 1, 1, 1, len(source.lines[0]) + 1 if source.lines else 1),
            hint=_single_value(scope)
            or "write for example `Y[i] = X[i] + 1`, a call of `te.compute`, or a `@T.prim_func` function",
            code="cell.no_tensor",
        )
    written = [*written, *(t for assertion in notation.assertions for t in assertion.tensors)]
    inputs = _inputs(computed, tensors, written)
    notation.sizes.check(name, inputs, computed)
    op = Operator(name, inputs, computed, source=source, tensors={**tensors, **_unnamed_tensors(computed, tensors)})
    op.axes = {n: scope[n] for n in scope.own if isinstance(scope.get(n), IterVar)}
    op.remarks = notation.remarks
    op.assertions = tuple(notation.assertions)
    return op


def _unnamed_tensors(outputs: list[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors that the cell has no name for, such as the sum in `mu[i] = sum(X[i, j], over=j) / n`, by their own names.

    A name that several tensors have stays out.
    """
    roots = [t.op for t in outputs]
    known = {id(t.op) for t in named.values()}
    made: dict[str, list[Any]] = {}
    for op in post_dfs_order(roots, create_read_graph(roots)):
        if id(op) not in known and not isinstance(op, te.PlaceholderOp):
            made.setdefault(op.name, []).append(op.output(0))
    return {name: found[0] for name, found in made.items() if len(found) == 1 and name not in named}


def _functions(value: Any) -> list[PrimFunc]:
    """The functions that a name of the cell stands for: one, or those of a module."""
    if isinstance(value, IRModule):
        return [f for f in value.functions.values() if isinstance(f, PrimFunc)]
    return [value] if isinstance(value, PrimFunc) else []


def _results(tensors: Mapping[str, Any], assigned_inputs: Container[str]) -> list[Any]:
    """The tensors that no other one reads and the inputs that have a new value, in the order of their definition."""
    read = {id(t.op) for t in _all_inputs(*tensors.values())}
    result: list[Any] = []
    for name, tensor in tensors.items():
        if (id(tensor.op) not in read or name in assigned_inputs) and all(tensor is not r for r in result):
            result.append(tensor)
    return result


def _all_inputs(*tensors: Any) -> list[Any]:
    """What the tensors read, and what that reads, each once."""
    found, pending, seen = [], [t for tensor in tensors for t in tensor.op.input_tensors], set()
    while pending:
        item = pending.pop()
        if id(item) not in seen:
            seen.add(id(item))
            found.append(item)
            pending.extend(item.op.input_tensors)
    return found


def _inputs(outputs: list[Any], tensors: Mapping[str, Any], written: list[Any]) -> list[Any]:
    """The placeholders that the outputs read, or that are among `written`, in the order in which the cell declares them.

    The states of a recurrence are not inputs: its own steps fill them.
    """
    read = [*(t for output in outputs for t in (output, *_all_inputs(output))), *written]
    own = {id(state.op) for t in read if isinstance(t.op, te.ScanOp) for state in t.op.state_placeholder}
    reached: list[Any] = []
    for tensor in read:
        is_input = isinstance(tensor.op, te.PlaceholderOp) and id(tensor.op) not in own
        if is_input and all(tensor.op is not r.op for r in reached):
            reached.append(tensor)
    order = {id(t.op): i for i, t in enumerate(tensors.values())}
    names = {name: i for i, name in enumerate(tensors)}  # an input that got a new value has its name only
    return sorted(reached, key=lambda t: order.get(id(t.op), names.get(t.name, len(order))))
