"""A tensor expression as the NumPy calls that one would write for it: whole arrays, BLAS where it fits.

A product that is summed becomes `np.matmul` of views (BLAS for floats) or `np.einsum`; other sums, maxima and
minima become `np.sum`, `np.max`, `np.min`; what is elementwise becomes operators and functions on arrays that broadcast.
Shifted, strided and overlapping accesses are views. What has no such form is evaluated by `te.reference`, and named.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from tvmagic.eval.ops import CALLS, REDUCTIONS, convert
from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Call,
    Cast,
    DataType,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Select,
    Sub,
    Var,
    Visitor,
    handles,
    post_order_visit,
)
from tvmagic.ir.meaning import plain
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.te.reference import evaluate
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order
from tvmagic.te.tensor import ComputeOp, PlaceholderOp, Tensor

__all__ = ["NumpyCode", "numpy_code", "windows"]

_SIGNS: dict[type, str] = {Add: "+", Sub: "-", Mul: "*", EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}
_FUNCTIONS: dict[type, str] = {Min: "np.minimum", Max: "np.maximum", And: "np.logical_and", Or: "np.logical_or"}
_NAMES = {"add": "np.sum", "multiply": "np.prod", "minimum": "np.min", "maximum": "np.max"}
_REDUCTIONS: dict[type, str] = {op: _NAMES[function.__name__] for op, function in REDUCTIONS.items()}
_OF_NUMPY = {
    name: f"np.{call.__name__}"
    for name, call in CALLS.items()
    if isinstance(call, np.ufunc) and getattr(np, call.__name__, None) is call
}
_BY_SIGN = {"+": "np.add", "-": "np.subtract", "*": "np.multiply", "/": "np.divide"}
_SIGN_OF: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_TAKES_OUT = {"np.sum", "np.prod", "np.min", "np.max", "np.einsum"}
_ROOM = 1 << 26  # elements of an array that a reduction makes before it reduces
_LETTERS = "ijklmnopqrstuvwxyzabcdefgh"


def windows(array: np.ndarray, offset: Sequence[int], shape: Sequence[int], steps: Sequence[Sequence[int]]) -> Any:
    """A view of `array` from `offset` on; a step along axis k of the view is `steps[k]` in the array."""
    strides = [sum(c * s for c, s in zip(step, array.strides)) for step in steps]
    begin = array[tuple([slice(o, None) for o in offset])]
    return np.lib.stride_tricks.as_strided(begin, shape, strides, writeable=False)


@dataclass(frozen=True)
class NumpyCode:
    """NumPy's way of computing an operator for inputs of certain shapes.

    `lines` are its statements, `run` takes the inputs, then arrays for the outputs, which it may write into or not, and
    gives the output (a tuple where there are several). `elementwise` are the tensors that no NumPy call gives: the
    reference evaluates them from their expression.
    """

    lines: tuple[str, ...]
    elementwise: tuple[str, ...]
    run: Callable[..., Any]

    @property
    def words(self) -> str:
        """What is called, in a sentence."""
        parts = ["; ".join(self.lines)] if self.lines else []
        if self.elementwise:
            named = ", ".join(f"`{name}`" for name in self.elementwise)
            parts.append(f"{named} evaluated from the expression, as there is no NumPy call for it")
        return "; ".join(parts)


def numpy_code(inputs: Sequence[Tensor], outputs: Sequence[Tensor], sizes: Mapping[Var, int]) -> NumpyCode:
    """The NumPy code from `inputs` to `outputs`; `sizes` gives the value of every symbolic size."""
    roots = [t.op for t in outputs]
    names: dict[Tensor, str] = {}
    lines: list[str] = []
    slow: list[Tensor] = []
    for tensor in inputs:
        names[tensor] = _fresh(tensor.name, names.values())
    places = {t: "out" if len(outputs) == 1 else f"out_{k}" for k, t in enumerate(outputs)}
    arguments = ", ".join([*names.values(), *places.values()])
    for op in post_dfs_order(roots, create_read_graph(roots)):
        if isinstance(op, PlaceholderOp):
            continue
        for number, tensor in enumerate(op.outputs):
            text = _stage_text(op, number, names, sizes)
            before = dict(names)
            names[tensor] = _fresh(tensor.name, names.values())
            if text is None:
                known = ", ".join(f"tensors[{k}]: {name}" for k, name in enumerate(before.values()))
                text = f"evaluate(tensors[{len(before)}], {{{known}}})"
                slow.append(tensor)
            elif tensor in places:
                text = _into(
                    text, places[tensor], isinstance(op, ComputeOp) and isinstance(op.body[number], ProducerLoad)
                )
            lines.append(f"{names[tensor]} = {_bare(text)}")
    scope = {
        "np": np,
        "windows": windows,
        "evaluate": evaluate,
        "convert": lambda x, dtype: convert(x, DataType(dtype)),
        "tensors": list(names),
    }
    body = "".join(f"    {line}\n" for line in lines)
    exec(f"def run({arguments}):\n{body}    return {', '.join(names[t] for t in outputs)}\n", scope)
    shown = [line for line, tensor in zip(lines, list(names)[len(inputs) :]) if tensor not in slow]
    return NumpyCode(tuple(shown), tuple(t.name for t in slow), scope["run"])


def _fresh(name: str, taken: Any) -> str:
    """`name` where Python can use it and nothing else has it, or one like it."""
    base = name.replace(".", "_")
    base = base if base.isidentifier() and not keyword.iskeyword(base) else "t"
    base = f"t_{base}" if base.startswith("out") else base  # `out` is where the result goes
    known, result, number = {*taken, "np", "windows", "evaluate", "convert", "tensors", "run"}, base, 2
    while result in known:
        result, number = f"{base}_{number}", number + 1
    return result


class _NoText(Exception):
    """There is no NumPy call for a part of an expression."""


def _stage_text(op: Any, number: int, names: Mapping[Tensor, str], sizes: Mapping[Var, int]) -> str | None:
    if not isinstance(op, ComputeOp):
        return None
    try:
        return _Stage(op, names, sizes).text(number)
    except _NoText:
        return None


Piece = tuple[str, frozenset[Var]]
"""A text, and the index variables whose axes its array has; without any it is a scalar."""


class _Stage(Visitor):
    """The text of one operation. The array of an expression has its variables' axes in the order of `order`."""

    def __init__(self, op: ComputeOp, names: Mapping[Tensor, str], sizes: Mapping[Var, int]) -> None:
        self.op, self.names, self.sizes = op, names, sizes
        self.ranges: dict[Var, tuple[int, int]] = {}
        for iv in op.root_iter_vars():
            assert iv.dom is not None
            self.ranges[iv.var] = (self.number(iv.dom.min), self.number(iv.dom.extent))
        if any(extent < 1 for _, extent in self.ranges.values()):
            raise _NoText
        self.axes = [iv.var for iv in op.axis]
        self.order: list[Var] = self.axes
        self.guarded = False

    def number(self, value: PrimExpr) -> int:
        factors, constant = self.affine(value)
        if factors:
            raise _NoText
        return constant

    def text(self, number: int) -> str:
        """The text of an output of the operation, an array of its shape and dtype."""
        body = self.op.body[number]
        if isinstance(body, Reduce):
            return self.reduction(body)
        return self.whole(self.visit(body), self.axes, body.dtype)

    def whole(self, piece: Piece, axes: Sequence[Var], dtype: Any) -> str:
        """A text whose array has all `axes`."""
        text, has = piece
        shape = self.shape(axes)
        if not has:
            return f"np.full({shape}, {text}, np.{numpy_dtype(dtype).name})"
        return text if has == frozenset(axes) else f"np.broadcast_to({text}, {shape})"

    def shape(self, axes: Sequence[Var]) -> tuple[int, ...]:
        return tuple(self.ranges[v][1] for v in axes)

    # ------------------------------------------------------------------------ reductions

    def reduction(self, node: Reduce) -> str:
        combiner = node.combiner
        result = combiner.result[0]
        function = _REDUCTIONS.get(type(result)) if len(combiner.result) == 1 else None
        both = isinstance(result, BinaryOp) and result.a is combiner.lhs[0] and result.b is combiner.rhs[0]
        plain = isinstance(node.condition, IntImm) and bool(node.condition.value) and not node.init
        if function is None or not both or not plain:
            raise _NoText
        reduced = [iv.var for iv in self.op.reduce_axis]
        if function == "np.sum":
            product = self.product(node.source[0], reduced)
            if product is not None:
                return product
        self.order = [*self.axes, *reduced]
        if reduce(mul, self.shape(self.order)) > _ROOM:
            raise _NoText
        text = _bare(self.whole(self.visit(node.source[0]), self.order, node.source[0].dtype))
        axes = tuple(range(len(self.axes), len(self.order)))
        width = f", dtype=np.{node.dtype}" if function in ("np.sum", "np.prod") and not node.dtype.is_float else ""
        return f"{function}({text}, axis={axes[0] if len(axes) == 1 else axes}{width})"

    def product(self, source: PrimExpr, reduced: list[Var]) -> str | None:
        """A summed product as `np.matmul` or `np.einsum`; None where it is none."""
        parts = [(f, self.indices(f)) for f in _factors(source)]
        scalars = [f for f, has in parts if not has]
        factors = [(f, has) for f, has in parts if has]
        if len(factors) < 2 or frozenset().union(*[has for _, has in factors]) != {*self.axes, *reduced}:
            return None
        text = self.matmul(factors, reduced) if len(factors) == 2 else None
        text = text or self.einsum(factors)
        return " * ".join([text, *[self.visit(s)[0] for s in scalars]])

    def matmul(self, factors: list[tuple[PrimExpr, frozenset[Var]]], reduced: list[Var]) -> str | None:
        """Two factors as matrices: batch, rows, summed and batch, summed, columns."""
        (a, in_a), (b, in_b) = factors if self.axes and self.axes[0] in factors[0][1] else reversed(factors)
        batch = [v for v in self.axes if v in in_a and v in in_b]
        rows = [v for v in self.axes if v in in_a and v not in in_b]
        columns = [v for v in self.axes if v in in_b and v not in in_a]
        if any(v not in in_a or v not in in_b for v in reduced) or (batch and not (rows and columns)):
            return None
        left = self.matrix(a, [batch, rows, reduced])
        right = self.matrix(b, [batch, reduced, columns])
        text, made = f"np.matmul({left}, {right})", [*batch, *rows, *columns]
        if max(len(batch), len(rows), len(columns)) > 1:
            text += f".reshape({self.shape(made)})"
        return text + _transposed([made.index(v) for v in self.axes])

    def matrix(self, node: PrimExpr, groups: list[list[Var]]) -> str:
        """A factor with one axis for each group of variables that is not empty."""
        text = self.arranged(node, [v for group in groups for v in group])
        filled = [group for group in groups if group]
        if all(len(group) == 1 for group in filled):
            return text
        return f"{text}.reshape({tuple(reduce(mul, self.shape(group)) for group in filled)})"

    def einsum(self, factors: list[tuple[PrimExpr, frozenset[Var]]]) -> str:
        letters = dict(zip(self.ranges, _LETTERS))
        if len(self.ranges) > len(_LETTERS):
            raise _NoText
        order = list(self.ranges)
        terms = ["".join(letters[v] for v in order if v in has) for _, has in factors]
        texts = [self.arranged(f, [v for v in order if v in has]) for f, has in factors]
        out = "".join(letters[v] for v in self.axes)
        return f'np.einsum("{",".join(terms)}->{out}", {", ".join(texts)}, optimize=True)'

    def arranged(self, node: PrimExpr, order: list[Var]) -> str:
        """A text whose array has exactly the axes `order`."""
        before, self.order = self.order, order
        try:
            return self.whole(self.visit(node), order, node.dtype)
        finally:
            self.order = before

    def indices(self, node: PrimExpr) -> frozenset[Var]:
        """The index variables in an expression."""
        found: set[Var] = set()
        post_order_visit(node, lambda n: found.add(n) if isinstance(n, Var) and n in self.ranges else None)
        return frozenset(found)

    # ------------------------------------------------------------------------ accesses

    def affine(self, node: PrimExpr) -> tuple[dict[Var, int], int]:
        """An index as factors of variables, counted from their beginnings, and a constant."""
        if isinstance(node, IntImm):
            return {}, node.value
        if isinstance(node, Var) and node in self.sizes:
            return {}, int(self.sizes[node])
        if isinstance(node, Var) and node in self.ranges:
            return {node: 1}, self.ranges[node][0]
        if isinstance(node, Cast) and not node.dtype.is_float:
            return self.affine(node.value)
        if not isinstance(node, (Add, Sub, Mul)):
            raise _NoText
        (a, c), (b, d) = self.affine(node.a), self.affine(node.b)
        if isinstance(node, Mul):
            if a and b:
                raise _NoText
            return {v: f * (c if b else d) for v, f in (b or a).items()}, c * d
        sign = 1 if isinstance(node, Add) else -1
        factors = {v: a.get(v, 0) + sign * b.get(v, 0) for v in {**a, **b}}
        return {v: f for v, f in factors.items() if f}, c + sign * d

    @handles(ProducerLoad)
    def load(self, node: ProducerLoad) -> Piece:
        name = self.names.get(node.producer)
        if name is None:
            raise _NoText
        dims = [self.affine(index) for index in node.indices]
        sizes = [self.number(s) for s in node.producer.shape]
        name, dims = self.padded(name, dims, sizes)
        used = [v for v in self.order if any(v in factors for factors, _ in dims)]
        own = [next(iter(factors), None) for factors, _ in dims if len(factors) <= 1]
        variables = [v for v in own if v is not None]
        simple = len(own) == len(dims) and len(set(variables)) == len(variables) == len(used)
        if simple and all(f > 0 for factors, _ in dims for f in factors.values()):
            cuts = [self.cut(factors, constant, size) for (factors, constant), size in zip(dims, sizes)]
            text = name if set(cuts) <= {":"} else f"{name}[{', '.join(cuts)}]"
            text += _transposed([variables.index(v) for v in used])
        else:
            steps = tuple(tuple(factors.get(v, 0) for factors, _ in dims) for v in used)
            text = f"windows({name}, {tuple(c for _, c in dims)}, {self.shape(used)}, {steps})"
        return f"{text}{self.new_axes(used)}", frozenset(used)

    def padded(self, name: str, dims: list[Any], sizes: list[int]) -> tuple[str, list[Any]]:
        """The array with zeros around it where a condition guards accesses outside of it."""
        around: list[tuple[int, int]] = []
        for (factors, constant), size in zip(dims, sizes):
            far = [f * (self.ranges[v][1] - 1) for v, f in factors.items()]
            low, high = constant + sum(min(0, f) for f in far), constant + sum(max(0, f) for f in far)
            around.append((max(0, -low), max(0, high - size + 1)))
        if not any(a or b for a, b in around):
            return name, dims
        if not self.guarded:
            raise _NoText
        for k, (before, after) in enumerate(around):
            dims[k] = (dims[k][0], dims[k][1] + before)
            sizes[k] += before + after
        return f"np.pad({name}, {tuple(around)})", dims

    def cut(self, factors: dict[Var, int], constant: int, size: int) -> str:
        """The index or slice of one dimension."""
        if not factors:
            return str(constant)
        ((var, step),) = factors.items()
        end = constant + step * (self.ranges[var][1] - 1) + 1
        if (constant, end, step) == (0, size, 1):
            return ":"
        begin, end_text = str(constant or ""), str(end) if end < size else ""
        return f"{begin}:{end_text}" + (f":{step}" if step > 1 else "")

    def new_axes(self, used: list[Var]) -> str:
        """`[:, None]`: axes of length one for the variables of `order` after the first that is used."""
        if not used:
            return ""
        rest = self.order[self.order.index(used[0]) :]
        if rest == used:
            return ""
        return f"[{', '.join(':' if v in used else 'None' for v in rest)}]"

    # ------------------------------------------------------------------------ elementwise

    @handles(PrimExpr)
    def other(self, node: PrimExpr) -> Piece:
        raise _NoText

    @handles(Var)
    def var(self, var: Var) -> Piece:
        if var in self.sizes:
            return str(int(self.sizes[var])), frozenset()
        if var not in self.ranges:
            raise _NoText
        low, extent = self.ranges[var]
        text = f"np.arange({low}, {low + extent}, dtype=np.{var.dtype})"
        return f"{text}{self.new_axes([var])}", frozenset([var])

    @handles(IntImm, FloatImm)
    def constant(self, node: Any) -> Piece:
        if node.dtype.is_bool:
            return str(bool(node.value)), frozenset()
        value = plain(node.value)
        if not np.isfinite(value):
            return {"inf": "np.inf", "-inf": "-np.inf"}.get(str(value), "np.nan"), frozenset()
        return (f"({value!r})" if value < 0 else repr(value)), frozenset()

    @handles(BinaryOp)
    def binary(self, node: BinaryOp) -> Piece:
        (a, in_a), (b, in_b) = self.visit(node.a), self.visit(node.b)
        kind, has = type(node), in_a | in_b
        if node.a.dtype.is_bool and kind is Sub:
            raise _NoText  # NumPy has no difference of bools
        if not has and kind not in (Add, Sub, Mul):
            raise _NoText
        if kind in _SIGNS:
            return f"({a} {_SIGNS[kind]} {b})", has
        if kind in _FUNCTIONS:
            return f"{_FUNCTIONS[kind]}({_bare(a)}, {_bare(b)})", has
        if kind is Div and node.dtype.is_float:
            return f"({a} / {b})", has
        if kind in (FloorDiv, FloorMod) and isinstance(node.b, IntImm) and node.b.value > 0:
            return f"({a} {'//' if kind is FloorDiv else '%'} {b})", has
        raise _NoText

    @handles(Not)
    def negation(self, node: Not) -> Piece:
        text, has = self.visit(node.a)
        return f"np.logical_not({_bare(text)})", has

    @handles(Cast)
    def cast(self, node: Cast) -> Piece:
        text, has = self.visit(node.value)
        if not has:
            raise _NoText
        if node.dtype.is_bool:
            return f"({text} != 0)", has
        if node.value.dtype.is_float and not node.dtype.is_float:
            return f"convert({_bare(text)}, '{node.dtype}')", has
        return f"{text}.astype(np.{numpy_dtype(node.dtype).name})", has

    @handles(Select)
    def select(self, node: Select) -> Piece:
        return self.choose(node.condition, node.true_value, node.false_value)

    @handles(Call)
    def call(self, node: Call) -> Piece:
        name = getattr(node.op, "name", "")
        if name == "tir.if_then_else":
            return self.choose(*node.args)
        if name not in _OF_NUMPY:
            raise _NoText
        parts = [self.visit(a) for a in node.args]
        has = frozenset[Var]().union(*[h for _, h in parts])
        if not has:
            raise _NoText
        return f"{_OF_NUMPY[name]}({', '.join(_bare(t) for t, _ in parts)})", has

    def choose(self, condition: PrimExpr, then: PrimExpr, otherwise: PrimExpr) -> Piece:
        before = self.guarded
        holds = self.visit(condition)
        self.guarded = True
        branches = [self.visit(then), self.visit(otherwise)]
        self.guarded = before
        typed = [t if has else f"np.{numpy_dtype(then.dtype).name}({_bare(t)})" for t, has in branches]
        text = f"np.where({_bare(holds[0])}, {_bare(typed[0])}, {_bare(typed[1])})"
        return text, holds[1] | branches[0][1] | branches[1][1]


def _factors(node: PrimExpr) -> Iterator[PrimExpr]:
    """The factors of a product."""
    if isinstance(node, Mul):
        yield from _factors(node.a)
        yield from _factors(node.b)
    else:
        yield node


def _transposed(places: list[int]) -> str:
    """The text that puts axis `places[k]` to place k."""
    if places == sorted(places):
        return ""
    return ".T" if places == [1, 0] else f".transpose({', '.join(map(str, places))})"


def _into(text: str, place: str, is_view: bool) -> str:
    """A text that writes the array `place` where its function can, and that makes an array of its own from a view."""
    if is_view:
        return f"{text}.copy()"
    name, opened, rest = text.partition("(")
    if opened and _bare(f"({rest}") != f"({rest}":
        if not name:
            tree = ast.parse(text, mode="eval").body
            sign = _BY_SIGN.get(_SIGN_OF.get(type(getattr(tree, "op", None)), ""))
            if sign is None or not isinstance(tree, ast.BinOp):
                return text
            return f"{sign}({ast.unparse(tree.left)}, {ast.unparse(tree.right)}, out={place})"
        if isinstance(getattr(np, name[3:], None), np.ufunc) or name in _TAKES_OUT:
            return f"{text[:-1]}, out={place})"
    return text


def _bare(text: str) -> str:
    """A text without parentheses around all of it."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for k, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]
