"""What statements of the index notation look like: questions about their syntax."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Mapping
from typing import Any

from tvmagic import te
from tvmagic.notation.expressions import DTYPES, OVER, REDUCTIONS, fail_at, index_items
from tvmagic.notation.source import Source

__all__ = [
    "cast_types",
    "declaration",
    "is_dtype",
    "is_fraction",
    "is_notation",
    "meant",
    "over_names",
    "python_names",
    "reduction_name",
    "syntax_meant",
]


def python_names(tree: ast.Module) -> set[str]:
    """The names that statements at the top of a cell assign as a whole."""
    targets = [t for s in tree.body if isinstance(s, ast.Assign) for t in s.targets]
    return {node.id for target in targets for node in ast.walk(target) if _is_stored(node)}  # type: ignore[union-attr]


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def is_notation(statement: ast.stmt, namespace: Mapping[str, Any], own: Container[str]) -> bool:
    """Whether a statement of a cell is index notation (else it is Python, to be run).

    `own` are the names that the cell itself assigns as Python: an assignment to an element of one of them is
    Python. Names from outside are hidden by tensors: `Y[i] = ...` makes a tensor whatever `Y` is outside.
    """
    match statement:
        case ast.AnnAssign(target=ast.Name(), annotation=annotation, value=value):
            return value is None or declaration(annotation) is not None
        case ast.Assign(targets=[ast.Subscript() as target]) | ast.AugAssign(target=ast.Subscript() as target):
            return _is_tensor(target, namespace, own)
        case ast.For(target=ast.Name(), iter=ast.Call(func=ast.Name(id="range")), body=body):
            return all(is_notation(s, namespace, own) for s in body)
    return False


def _is_tensor(target: ast.Subscript, namespace: Mapping[str, Any], own: Container[str]) -> bool:
    """Whether an element that is assigned is one of a tensor."""
    if not isinstance(target.value, ast.Name):
        return False
    name = target.value.id
    if name not in namespace or isinstance(namespace[name], te.Tensor):
        return name not in own or name in namespace
    return name not in own and all(isinstance(item, (ast.Name, ast.Tuple)) for item in index_items(target))


def declaration(annotation: ast.expr) -> str | None:
    """`tensor`, `range` or None: what an annotation declares."""
    match annotation:
        case ast.Subscript(value=ast.Name()) | ast.Name(id="float") | ast.List():
            return "tensor"
        case ast.Name(id=name):
            return "tensor" if name in DTYPES else None
        case ast.Call(func=ast.Name(id="range")):
            return "range"
    return None


def meant(statement: ast.stmt, tensors: Container[str]) -> str | None:
    """What index notation would say where a statement that is not index notation failed as Python."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=ast.Name(id=dtype)) as declared):
            if is_dtype(dtype):
                return f"declare an input as `{name}: {ast.unparse(declared)}`"
        case ast.Expr(value=ast.Compare(left=ast.Subscript() as left, ops=[ast.Eq()], comparators=[right])):
            return f"a tensor is defined by one `=`: `{ast.unparse(left)} = {ast.unparse(right)}`"
        case ast.Assign(targets=[ast.Subscript(), *_] | [ast.Tuple(elts=[ast.Subscript(), *_])]):
            return "write a statement for each tensor"
        case ast.If() | ast.While() | ast.With() | ast.For() | ast.Try():
            if any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in ast.walk(statement)):
                return "index notation belongs at the top of a cell or in `for i in range(...):`, beside nothing else"
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            if _indexed(name, value, tensors):
                return f"a single value has an empty index: `{ast.unparse(statement).replace(name, f'{name}[()]', 1)}`"
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return _indexed(statement.targets[0].id, statement.value, tensors)
    return None


def syntax_meant(line: str) -> str | None:
    """What a line that is not Python's syntax would be in the index notation."""
    reduced = re.match(r"\s*(\w+\s*\[.*?\])\s*(max|min|sum|prod)\s*=", line)
    if reduced:
        return f"a reduction by name is `{reduced[1]} = {reduced[2]}(..., over=k)`"
    if re.match(r"\s*\w+\s*\[.*\]\s*[+*]?=.*\sif\s(?!.*\belse\b)", line):
        return f"say what it is otherwise: `{line.strip()} else 0`"
    if re.match(r"\s*\w+\s*:[^#]*\],\s*\w+\s*:", line):
        return "write a line for each declaration"
    return None


def _indexed(name: str, value: ast.expr, tensors: Container[str]) -> str | None:
    """`Y = X[i] + 1` with the indices on its left side too."""
    outside = {id(n) for f in ast.walk(value) if isinstance(f, (ast.Lambda, ast.comprehension)) for n in ast.walk(f)}
    accesses = [n for n in ast.walk(value) if isinstance(n, ast.Subscript) and id(n) not in outside]
    accesses = [n for n in accesses if isinstance(n.value, ast.Name) and n.value.id in tensors]
    indices = dict.fromkeys(n.id for a in accesses for n in ast.walk(a.slice) if isinstance(n, ast.Name))
    over = {n.id for c in ast.walk(value) if isinstance(c, ast.keyword) for n in ast.walk(c) if isinstance(n, ast.Name)}
    if accesses:
        left = ", ".join(n for n in indices if n not in over) or "()"
        return f"index notation has the indices on the left too: `{name}[{left}] = {ast.unparse(value)}`"
    match value:
        case ast.Call(func=ast.Name(id=reduction), args=[ast.Name(id=whole)]):
            if reduction in {*REDUCTIONS, *OVER} and whole in tensors:
                return f"a reduction names its indices: `{name}[()] = {reduction}({whole}[i], over=i)`"
        case ast.BinOp(left=a, op=ast.MatMult(), right=b):
            left, right = _matrix(a, "i", "k", tensors), _matrix(b, "k", "j", tensors)
            if left and right:
                return f"a product of matrices is a sum with an index for each dimension: `{name}[i, j] += {left} * {right}`"
    if isinstance(value, ast.BinOp) and any(isinstance(n, ast.Name) and n.id in tensors for n in ast.walk(value)):
        return f"index notation has indices on both sides, such as `{name}[i] = X[i] + 1`"
    return None


def _matrix(operand: ast.expr, row: str, column: str, tensors: Container[str]) -> str | None:
    """A matrix or its transpose with its indices; None for what is neither."""
    match operand:
        case ast.Name(id=name) if name in tensors:
            return f"{name}[{row}, {column}]"
        case ast.Attribute(value=ast.Name(id=name), attr="T") if name in tensors:
            return f"{name}[{column}, {row}]"
    return None


def reduction_name(call: ast.Call) -> str | None:
    """`max` of `max(..., over=k)`; None for a call that reduces nothing."""
    is_reduction = isinstance(call.func, ast.Name) and call.func.id in REDUCTIONS
    return call.func.id if is_reduction and any(k.arg == "over" for k in call.keywords) else None  # type: ignore[union-attr]


def over_names(call: ast.Call, source: Source) -> set[str]:
    """The index names after `over=` of a call."""
    names: set[str] = set()
    for keyword in call.keywords:
        if keyword.arg != "over":
            continue
        items = keyword.value.elts if isinstance(keyword.value, (ast.Tuple, ast.List)) else [keyword.value]
        for item in items:
            if not isinstance(item, ast.Name):
                fail_at(source, item, f"`over=` takes index names, not `{ast.unparse(item)}`")
            names.add(item.id)
    return names


def is_fraction(item: ast.expr) -> bool:
    """Whether an index is plainly no whole number: it has a fraction or a true division outside calls and accesses."""
    match item:
        case ast.Constant(value=value):
            return isinstance(value, (float, bool))
        case ast.BinOp(left=left, op=op, right=right):
            return isinstance(op, ast.Div) or is_fraction(left) or is_fraction(right)
        case ast.UnaryOp(operand=operand):
            return is_fraction(operand)
    return False


def cast_types(value: ast.expr) -> dict[int, ast.Constant]:
    """The texts that stand where `cast(x, dtype)` and `x.astype(dtype)` take a data type, by identity."""
    found: dict[int, ast.Constant] = {}
    for node in ast.walk(value):
        match node:
            case ast.Call(func=ast.Name(id="cast"), args=[_, ast.Constant(value=str()) as dtype]):
                found[id(dtype)] = dtype
            case ast.Call(func=ast.Attribute(attr="astype"), args=[ast.Constant(value=str()) as dtype]):
                found[id(dtype)] = dtype
    return found


def is_dtype(text: str) -> bool:
    return text in DTYPES
