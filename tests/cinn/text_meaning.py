"""What a program in CINN's text means, without the compiler: its lines as Python, run element by element on NumPy's scalars.

Nothing of the package reads the text here, so that a mistake of the reader and one of a pass are seen alike.
"""

from __future__ import annotations

import ast
import math
import re
from typing import Any

import numpy as np

_NUMBER = r"\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+"
_LITERALS = [
    (r"\((u?int\d+)_t\)(-?\d+)", r"np.\1(\2)"),
    (r"\(float16\)(-?[\d.e+-]+)f", r"np.float16(\1)"),
    (r"(?<![\w.])(\d+)ll", r"np.int64(\1)"),
    (rf"(?<![\w.])({_NUMBER})f", r"np.float32(\1)"),
    (rf"(?<![\w.(])({_NUMBER})(?![\w)])", r"np.float64(\1)"),
    (r"!(?!=)", "~"),
    (r"\btrue\b", "np.True_"),
    (r"\bfalse\b", "np.False_"),
    (r"(?<!np\.)\b(float\d+|u?int\d+)\(", r"np.\1("),
    (r"\bbool\(", "np.bool_("),
]


def _expression(text: str) -> str:
    for pattern, new in _LITERALS:
        text = re.sub(pattern, new, text)
    return text


def _statement(line: str) -> str:
    """A line of a block as Python."""
    if bound := re.match(r"(.*) = axis\.bind\((.*)\)$", line):
        return f"{bound[1]}, = {_expression(bound[2])},"
    if own := re.match(r"(float\d+|u?int\d+|bool) (\w+)(?: = (.*))?$", line):
        return f"{own[2]} = {_expression(own[3]) if own[3] else 0}"
    target, value = re.match(r"(\w+\[.*?\]) = (.*)$", line).groups()  # type: ignore[union-attr]
    return f"{target} = {_expression(value)}"


def _python(text: str) -> str:
    """The program as Python: each pair of braces is a part of its own."""
    lines: list[str] = []
    depth, header = 0, ""
    for line in (raw.strip() for raw in text.replace("__reduce_init", "").splitlines()):
        if loop := re.match(r".*\bfor \((\w+), (.*), ([^,]*)\)$", line):
            header = f"for {loop[1]} in steps({_expression(loop[2])}, {_expression(loop[3])}):"
        elif line == "{" or line.endswith(" {"):
            if line.endswith("else {"):
                depth, header = depth - 1, "else:"
            elif condition := re.match(r"if \((.*)\) \{$", line):
                header = f"if ({_expression(condition[1])}):"
            lines.append("  " * depth + (header or "if True:"))
            depth, header = depth + 1, ""
            lines.append("  " * depth + "pass")
        elif line == "}":
            depth -= 1
        elif line and not line.startswith(("ScheduleBlock(", "attrs(", "__syncthreads(")):
            lines.append("  " * depth + _statement(line))
    return "\n".join(lines)


class _AsInC(ast.NodeTransformer):
    """Divides as C does, whose quotients of whole numbers are rounded towards zero."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        name = {ast.Div: "quotient", ast.Mod: "remainder"}.get(type(node.op))
        self.generic_visit(node)
        return node if name is None else ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])


def _quotient(a: Any, b: Any) -> Any:
    return a / b if isinstance(a + b, np.floating) else (a - np.fmod(a, b)) // b


def _steps(first: Any, end: Any) -> list[np.int32]:
    return [np.int32(n) for n in range(int(first), int(end))]


def _names() -> dict[str, Any]:
    """What the text calls: CINN's functions on NumPy's scalars."""
    same = "exp exp2 log log2 log10 sqrt tanh tan sin cos sinh cosh floor ceil trunc abs bitwise_and bitwise_or bitwise_xor"
    found: dict[str, Any] = {name: getattr(np, name) for name in (same + " left_shift right_shift").split()}
    found |= {f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
    return found | {
        "np": np,
        "steps": _steps,
        "quotient": _quotient,
        "remainder": np.fmod,
        "select": lambda condition, a, b: a if condition else b,
        "cinn_min": np.minimum,
        "cinn_max": np.maximum,
        "pow": np.power,
        "round": np.round,
        "nearbyint": np.rint,
        "exp10": lambda x: type(x)(10) ** x,
        "rsqrt": lambda x: type(x)(1) / np.sqrt(x),
        "sigmoid": lambda x: type(x)(1) / (type(x)(1) + np.exp(-x)),
        "erf": lambda x: type(x)(math.erf(float(x))),
    }


def run(text: str, arrays: dict[str, np.ndarray]) -> None:
    """Run a program of one data type on its arrays, which it changes; tensors that are not given are zeros at first."""
    dtype = next(iter(arrays.values())).dtype
    tensors = dict(arrays)
    for name, indices in re.findall(r"\b([TR]\d+)(?:__reduce_init)?\[([^\[\]]*)\] = ", text):
        tensors.setdefault(name, np.zeros((8,) * len(indices.split(",")), dtype))
    with np.errstate(all="ignore"):
        program = ast.fix_missing_locations(_AsInC().visit(ast.parse(_python(text))))
        exec(compile(program, "the text", "exec"), {**_names(), **tensors})
