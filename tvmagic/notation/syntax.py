"""What statements of the index notation look like: questions about their syntax."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Mapping
from typing import Any

from tvmagic import te
from tvmagic.notation.expressions import DTYPES, REDUCING, REDUCTIONS, fail_at, index_items
from tvmagic.notation.source import Source


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
        case ast.Assert():
            return _is_assertion(statement, namespace, own)
    return False


def _is_assertion(statement: ast.Assert, namespace: Mapping[str, Any], own: Container[str]) -> bool:
    """Whether an `assert` is about elements of tensors or symbolic sizes; one about names of Python alone is Python's."""
    for node in ast.walk(statement.test):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if isinstance(namespace.get(node.value.id), te.Tensor):
                return True
        if isinstance(node, ast.Name) and node.id not in own and not hasattr(builtins, node.id):
            value: Any = namespace.get(node.id)
            if node.id not in namespace or isinstance(value, te.Tensor) and not len(value.shape):
                return True
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


def reduction_name(call: ast.Call) -> str | None:
    """`max` of `max(..., over=k)`; None for a call that reduces nothing."""
    is_reduction = isinstance(call.func, ast.Name) and call.func.id in REDUCTIONS
    return call.func.id if is_reduction and any(k.arg == "over" for k in call.keywords) else None  # type: ignore[union-attr]


def reduces(call: ast.Call) -> bool:
    """Whether the call has one value for all of the indices that follow its `over=`."""
    return isinstance(call.func, ast.Name) and call.func.id in REDUCING


def over_names(call: ast.Call, source: Source) -> set[str]:
    """The index names after `over=` of a call."""
    names: set[str] = set()
    for keyword in call.keywords:
        if keyword.arg != "over":
            continue
        items = keyword.value.elts if isinstance(keyword.value, (ast.Tuple, ast.List)) else [keyword.value]
        for item in items:
            if not isinstance(item, ast.Name):
                fail_at(
                    source,
                    item,
                    f"`over=` takes index names, not `{ast.unparse(item)}`",
                    _over_hint(item),
                    code="notation.over_not_indices",
                )
            names.add(item.id)
    return names


def _over_hint(item: ast.expr) -> str:
    """A hint for `item` after `over=`, which is not an index name."""
    match item:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.In()], comparators=[ast.Call() as within]):
            return f"write `{name}: {ast.unparse(within)}` above, and `over={name}`"
        case ast.Compare(left=ast.Name(id=name), ops=[ast.In()], comparators=[ast.Constant(value=int(n))]):
            return f"write `{name}: range({n})` above, and `over={name}`"
        case ast.Constant(value=int()):
            return "an axis has no number here: name the index that is reduced, as in `max(X[i, k], over=k)`"
    return "write `over=k`, or `over=(k, l)` for several"


def as_read(target: ast.Subscript) -> ast.Subscript:
    """The element that a statement assigns, as what its right side reads."""
    return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)


def is_number(value: ast.expr) -> bool:
    """Whether the value is a number as it is written, perhaps with a sign."""
    inner = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub) else value
    return (
        isinstance(inner, ast.Constant) and isinstance(inner.value, (int, float)) and not isinstance(inner.value, bool)
    )


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
