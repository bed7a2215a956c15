"""What the names of an unfinished cell are, while somebody is still writing it.

The statements above the cursor run on a fresh schedule, which is then forgotten. Only those run whose text says that
they change nothing else and end soon: calls of primitives, and what unpacks their results. The others are left out,
and with them the names that they define.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tvmagic.notation.expressions import DTYPES
from tvmagic.operators.cell import cell_names
from tvmagic.operators.knobs import plain_knob
from tvmagic.operators.operator import Operator
from tvmagic.operators.scheduling import SCHEDULE_CALLS, STAGE_CALLS, block_names

SECONDS = 0.5  # of processor time, after which no further statement is tried
_FUNCTIONS = {"range": range, "len": len, "zip": zip, "reversed": reversed, "min": min, "max": max, "knob": plain_knob}
_MODULE_CALLS = {"thread_axis"}
_LARGEST = 1 << 16  # of a number in a statement that is tried
_NODES = (
    ast.Assign, ast.Expr, ast.For, ast.If, ast.Pass, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred,
    ast.Tuple, ast.List, ast.Dict, ast.Constant, ast.Call, ast.keyword, ast.Lambda, ast.arguments, ast.arg, ast.BinOp,
    ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.JoinedStr, ast.FormattedValue, ast.operator, ast.unaryop,
    ast.cmpop, ast.boolop, ast.expr_context,
)  # fmt: skip


class _TooLong(Exception):
    """A statement that was tried takes too long."""


def schedule_names(op: Operator, text: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The names of a `%%schedule` cell of `op` after the lines `text`, with their values.

    `s` and `sch`, the tensors and the blocks are among them; a block's name has the block if the cell uses `sch`.
    """
    from tvmagic.cinn import IRSchedule
    from tvmagic.tir.schedule import Schedule

    statements = list(complete_statements(text))
    used = {n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)}
    names: dict[str, Any] = {**cell_names(ast.Module(statements, [])), "knob": plain_knob, **op.tensors}
    if op.prim_func is None:
        names["s"] = op.te_schedule()
    names["sch"] = sch = op.schedule()
    if "ir_sch" in used or op.notation == "cinn":
        names["ir_sch"] = IRSchedule(op.schedule())
    if op.prim_func is not None or "sch" in used:
        names.update({name: sch.get_block(name) for name in block_names(sch) if name.isidentifier()})
    _try(statements, names, {*STAGE_CALLS, *SCHEDULE_CALLS, *_public(Schedule), *_public(IRSchedule)}, namespace)
    return names


def _public(kind: type) -> Iterator[str]:
    return (name for name in dir(kind) if not name.startswith("_") and name not in ("show", "work_on"))


def tensor_names(text: str) -> dict[str, Any]:
    """The names of a `%%tensor` cell after `text`: modules with their values, tensors and indices with the line that
    names them first."""
    found: dict[str, Any] = dict(cell_names(ast.parse("T, I")))
    for line in text.split("\n"):
        code = line.split("#", 1)[0]
        declared = re.match(r"\s*(\w+)\s*:", code)
        words = [declared[1]] if declared else re.findall(r"\b([A-Za-z_]\w*)\s*\[", code)
        inside = re.findall(r"\[([^\[\]]*)\]", code)
        for name in [*words, *re.findall(r"\b[A-Za-z_]\w*\b(?!\s*[\[(.])", " ".join(inside))]:
            if name not in DTYPES:
                found.setdefault(name, line.strip())
    return found


def complete_statements(text: str) -> Iterator[ast.stmt]:
    """The statements in `text` that can be read; one that is not finished is left out."""
    lines = text.split("\n")
    for _ in range(len(lines)):
        try:
            yield from ast.parse("\n".join(lines)).body
            return
        except SyntaxError as error:
            at = min(error.lineno or len(lines), len(lines)) - 1
            while at > 0 and not lines[at].strip():
                at -= 1
            lines[at] = ""
        except (ValueError, RecursionError, MemoryError):
            return


def evaluated(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression without calls, such as `s[Y]` or `z.axis[0]`; None if it has none."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
        if not _is_harmless(tree.body, set(), names):
            return None
        return eval(compile(tree, "<unfinished>", "eval"), {**_FUNCTIONS, **names})
    except Exception:  # whatever an unfinished text does
        return None


def _try(statements: list[ast.stmt], names: dict[str, Any], calls: set[str], namespace: Mapping[str, Any]) -> None:
    """Run the statements that are harmless; `names` gets what they define."""
    outer = {k: v for k, v in namespace.items() if not k.startswith("_") and k not in names}
    scope = {**outer, **_FUNCTIONS, **names}
    end = time.thread_time() + SECONDS

    def tick() -> None:
        if time.thread_time() > end:
            raise _TooLong

    scope["_tick"] = tick
    for statement in statements:
        defined = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        try:
            tick()
            if not _is_harmless(statement, calls, scope):
                raise _TooLong
            tree = ast.fix_missing_locations(ast.Module([_Ticking().visit(statement)], []))
            exec(compile(tree, "<unfinished>", "exec"), scope)
        except Exception:  # an unfinished cell may fail in any way; the names stay unknown
            for name in defined:
                scope.pop(name, None)
                names.pop(name, None)
            continue
        names.update({name: scope[name] for name in defined if name in scope})


class _Ticking(ast.NodeTransformer):
    """Lets each turn of a loop ask whether there is time left."""

    def visit_For(self, node: ast.For) -> ast.For:
        node = self.generic_visit(node)  # type: ignore[assignment]
        call = ast.Expr(ast.Call(ast.Name("_tick", ast.Load()), [], []))
        return ast.For(node.target, node.iter, [call, *node.body], node.orelse, node.type_comment)


def _is_harmless(tree: ast.AST, calls: set[str], scope: Mapping[str, Any]) -> bool:
    """Whether the text says that a statement changes nothing but the schedule on which it is tried, and ends."""
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            return False
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and abs(node.value) > _LARGEST:
            return False
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift, ast.Mult)):
            if not isinstance(node.op, ast.Mult) or not all(_is_number(n, scope) for n in (node.left, node.right)):
                return False
        if isinstance(node, ast.Call) and not _is_known_call(node.func, calls, scope):
            return False
    return True


def _is_number(node: ast.expr, scope: Mapping[str, Any]) -> bool:
    value = node.value if isinstance(node, ast.Constant) else scope.get(node.id) if isinstance(node, ast.Name) else None
    return isinstance(value, (int, float))


def _is_known_call(func: ast.expr, calls: set[str], scope: Mapping[str, Any]) -> bool:
    if isinstance(func, ast.Name):
        return func.id in _FUNCTIONS and scope.get(func.id, _FUNCTIONS[func.id]) is _FUNCTIONS[func.id]
    if not isinstance(func, ast.Attribute):
        return False
    if func.attr not in calls:
        return func.attr in _MODULE_CALLS and isinstance(func.value, ast.Name) and func.value.id in ("te", "tvm")
    root: ast.expr = func.value
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
        root = root.func if isinstance(root, ast.Call) else root.value
    owner = scope.get(root.id) if isinstance(root, ast.Name) else None
    return type(owner).__module__.partition(".")[0] == "tvmagic"
