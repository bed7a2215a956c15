"""A tensor expression as the NumPy calls that one would write for it: whole arrays, BLAS where it fits.

A product that is summed becomes `np.matmul` of views (BLAS for floats) or `np.einsum`; other sums, maxima and
minima become `np.sum`, `np.max`, `np.min`; what is elementwise becomes operators and functions on arrays that broadcast.
Shifted, strided and overlapping accesses are views. What has no such form is evaluated by `te.reference`, and named.
"""

from __future__ import annotations

import ast
import keyword
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.eval.ops import CALLS, REDUCTIONS, convert
from tvmagic.ir.query import callee, contains, operands
from tvmagic.ir.semantics import plain
from tvmagic.operators.numpy_stages import Chosen, chosen, running_values, scan_parts
from tvmagic.operators.numpy_syntax import (
    call_of,
    dotted_name,
    dtype_code,
    is_of_ml_dtypes,
    is_view,
    is_whole,
    literal,
    method_of,
    subscript,
    times,
    transposed,
    with_names,
)
from tvmagic.te.reference import evaluate
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order
from tvmagic.te.tensor import ComputeOp, PlaceholderOp, ScanOp, Tensor

_SIGNS: dict[type, ast.operator] = {ir.Add: ast.Add(), ir.Sub: ast.Sub(), ir.Mul: ast.Mult()}
_COMPARISONS: dict[type, ast.cmpop] = {
    ir.EQ: ast.Eq(), ir.NE: ast.NotEq(), ir.LT: ast.Lt(), ir.LE: ast.LtE(), ir.GT: ast.Gt(), ir.GE: ast.GtE(),
}  # fmt: skip
_FUNCTIONS: dict[type, str] = {
    ir.Min: "np.minimum",
    ir.Max: "np.maximum",
    ir.And: "np.logical_and",
    ir.Or: "np.logical_or",
}
_NAMES = {"add": "np.sum", "multiply": "np.prod", "minimum": "np.min", "maximum": "np.max"}
_REDUCTIONS: dict[type, str] = {op: _NAMES[function.__name__] for op, function in REDUCTIONS.items()}
_OF_NUMPY = {
    name: f"np.{call.__name__}"
    for name, call in CALLS.items()
    if isinstance(call, np.ufunc) and getattr(np, call.__name__, None) is call
}
_WRITTEN_OUT = {"tir.sigmoid": "1 / (1 + np.exp(-x))", "tir.rsqrt": "1 / np.sqrt(x)", "tir.exp10": "10 ** x"}
_UFUNC_OF: dict[type, str] = {
    ast.Add: "np.add", ast.Sub: "np.subtract", ast.Mult: "np.multiply", ast.Div: "np.divide",
}  # fmt: skip
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
    gives the output (a tuple if there are several). `elementwise` are the tensors that no NumPy call gives: the
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


def numpy_code(inputs: Sequence[Tensor], outputs: Sequence[Tensor], sizes: Mapping[ir.Var, int]) -> NumpyCode:
    """The NumPy code from `inputs` to `outputs`; `sizes` gives the value of every symbolic size."""
    roots = [t.op for t in outputs]
    names: dict[Tensor, str] = {}
    body: list[ast.stmt] = []
    slow: list[ast.stmt] = []
    for tensor in inputs:
        names[tensor] = _unique_name(tensor.name, names.values())
    places = {t: "out" if len(outputs) == 1 else f"out_{k}" for k, t in enumerate(outputs)}
    arguments = [*names.values(), *places.values()]
    elementwise: list[str] = []
    graph = create_read_graph(roots)
    asked = {*outputs, *(t for read in graph.values() for t in read)}
    inside_scans = {o for scan in graph if isinstance(scan, ScanOp) for o in scan_parts(scan)} - set(roots)
    for op in post_dfs_order(roots, graph):
        if isinstance(op, PlaceholderOp) or op in inside_scans:
            continue
        for number, tensor in enumerate(op.outputs):
            if tensor not in asked:
                continue
            value = _stage(op, number, names, sizes)
            before = list(names.values())
            names[tensor] = _unique_name(tensor.name, before)
            if value is None:
                value = _evaluated(before)
                elementwise.append(tensor.name)
            elif tensor in places:
                value = method_of(value, "copy") if is_view(value) else _into(value, places[tensor])
            body.append(ast.Assign([ast.Name(names[tensor], ast.Store())], value))
            if len(elementwise) > len(slow):
                slow.append(body[-1])
    results = [dotted_name(names[t]) for t in outputs]
    body.append(ast.Return(results[0] if len(results) == 1 else ast.Tuple(results, ast.Load())))
    shown = [ast.unparse(ast.fix_missing_locations(line)) for line in body[:-1] if line not in slow]
    return NumpyCode(tuple(shown), tuple(elementwise), _function(arguments, body, list(names)))


def _function(arguments: Sequence[str], body: list[ast.stmt], tensors: list[Tensor]) -> Callable[..., Any]:
    """The function of statements; `tensors` are those that it may ask the reference for."""
    module = ast.parse(f"def run({', '.join(arguments)}): pass")
    function = module.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = body
    scope = {
        "np": np,
        "ml_dtypes": sys.modules.get("ml_dtypes"),  # loaded if some tensor is of its types
        "windows": windows,
        "evaluate": evaluate,
        "convert": lambda x, dtype: convert(x, ir.DataType(dtype)),
        "tensors": tensors,
    }
    exec(compile(ast.fix_missing_locations(module), "<NumPy code>", "exec"), scope)
    return scope["run"]  # type: ignore[return-value]


def _evaluated(names: Sequence[str]) -> ast.expr:
    """The call that asks the reference for the next tensor, given the arrays of those before it."""
    place = lambda k: ast.Subscript(dotted_name("tensors"), ast.Constant(k), ast.Load())  # noqa: E731
    known = ast.Dict([place(k) for k in range(len(names))], [dotted_name(n) for n in names])
    return call_of("evaluate", place(len(names)), known)


def _unique_name(name: str, taken: Any) -> str:
    """`name` where Python can use it and nothing else has it, or one like it."""
    base = name.replace(".", "_")
    base = base if base.isidentifier() and not keyword.iskeyword(base) else "t"
    base = f"t_{base}" if base.startswith("out") else base  # `out` is where the result goes
    known, result, number = {*taken, "np", "windows", "evaluate", "convert", "tensors", "run"}, base, 2
    while result in known:
        result, number = f"{base}_{number}", number + 1
    return result


class _NoCall(Exception):
    """There is no NumPy call for a part of an expression."""


def _stage(op: Any, number: int, names: Mapping[Tensor, str], sizes: Mapping[ir.Var, int]) -> ast.expr | None:
    if isinstance(op, ScanOp):
        return running_values(op, names)
    if not isinstance(op, ComputeOp):
        return None
    try:
        return _Stage(op, names, sizes).output(number)
    except _NoCall:
        return None


Piece = tuple[ast.expr, frozenset[ir.Var]]
"""Code, and the index variables whose axes its array has; without any it is a scalar."""


class _Stage(ir.Visitor):
    """The code of one operation. The array of an expression has its variables' axes in the order of `order`."""

    def __init__(self, op: ComputeOp, names: Mapping[Tensor, str], sizes: Mapping[ir.Var, int]) -> None:
        self.op, self.names, self.sizes = op, names, sizes
        self.ranges: dict[ir.Var, tuple[int, int]] = {}
        for iv in op.root_iter_vars():
            assert iv.dom is not None
            self.ranges[iv.var] = (self.number(iv.dom.min), self.number(iv.dom.extent))
        if any(extent < 1 for _, extent in self.ranges.values()):
            raise _NoCall
        self.axes = [iv.var for iv in op.axis]
        self.order: list[ir.Var] = self.axes
        self.guarded = False

    def number(self, value: ir.PrimExpr) -> int:
        factors, constant = self.affine(value)
        if factors:
            raise _NoCall
        return constant

    def output(self, number: int) -> ast.expr:
        """The code of an output of the operation, an array of its shape and dtype."""
        body = self.op.body[number]
        if isinstance(body, ir.Reduce):
            return self.reduction(body)
        return self.whole(self.visit(body), self.axes, body.dtype)

    def whole(self, piece: Piece, axes: Sequence[ir.Var], dtype: Any) -> ast.expr:
        """Code whose array has all `axes`."""
        code, has = piece
        shape = self.shape(axes)
        if not has:
            return call_of("np.full", literal(shape), code, dtype_code(dtype))
        return code if has == frozenset(axes) else call_of("np.broadcast_to", code, literal(shape))

    def shape(self, axes: Sequence[ir.Var]) -> tuple[int, ...]:
        return tuple(self.ranges[v][1] for v in axes)

    # ------------------------------------------------------------------------ reductions

    def reduction(self, node: ir.Reduce) -> ast.expr:
        combiner = node.combiner
        pair = chosen(node)
        if pair is not None:
            return self.choice(node, pair)
        result = combiner.result[0]
        function = _REDUCTIONS.get(type(result)) if len(combiner.result) == 1 else None
        both = isinstance(result, ir.BinaryOp) and result.a is combiner.lhs[0] and result.b is combiner.rhs[0]
        plain = isinstance(node.condition, ir.IntImm) and bool(node.condition.value) and not node.init
        if function is None or not both or not plain:
            raise _NoCall
        reduced = [iv.var for iv in self.op.reduce_axis]
        if function == "np.sum":
            product = self.product(node.source[0], reduced)
            if product is not None:
                return product
        self.order = [*self.axes, *reduced]
        if reduce(mul, self.shape(self.order)) > _ROOM:
            raise _NoCall
        source = self.whole(self.visit(node.source[0]), self.order, node.source[0].dtype)
        axes = tuple(range(len(self.axes), len(self.order)))
        options = {"axis": literal(axes[0] if len(axes) == 1 else axes)}
        if function in ("np.sum", "np.prod") and not node.dtype.is_float:
            options["dtype"] = dtype_code(node.dtype)
        return call_of(function, source, **options)

    def choice(self, node: ir.Reduce, pair: Chosen) -> ast.expr:
        """`np.argmax` or `np.max`: the place of the best value, or that value."""
        along = node.axis[0].var
        self.order = [*self.axes, along]
        if not (isinstance(node.condition, ir.IntImm) and node.condition.value) or node.init:
            raise _NoCall
        if self.affine(node.source[pair.place]) != ({along: 1}, 0) or self.ranges[along][0] != 0:
            raise _NoCall
        values = self.whole(self.visit(node.source[pair.value]), self.order, node.source[pair.value].dtype)
        axis = literal(len(self.axes))
        if node.value_index == pair.value:
            return call_of(pair.value_function, values, axis=axis)
        return method_of(call_of(pair.place_function, values, axis=axis), "astype", dtype_code(node.dtype))

    def product(self, source: ir.PrimExpr, reduced: list[ir.Var]) -> ast.expr | None:
        """A summed product as `np.matmul` or `np.einsum`; None if it is not one."""
        parts = [(f, self.indices(f)) for f in operands(source, ir.Mul)]
        scalars = [f for f, has in parts if not has]
        factors = [(f, has) for f, has in parts if has]
        if len(factors) < 2 or frozenset().union(*[has for _, has in factors]) != {*self.axes, *reduced}:
            return None
        code = self.matmul(factors, reduced) if len(factors) == 2 else None
        return reduce(times, [self.visit(s)[0] for s in scalars], code or self.einsum(factors))

    def matmul(self, factors: list[tuple[ir.PrimExpr, frozenset[ir.Var]]], reduced: list[ir.Var]) -> ast.expr | None:
        """Two factors as matrices: batch, rows, summed and batch, summed, columns."""
        (a, in_a), (b, in_b) = factors if self.axes and self.axes[0] in factors[0][1] else reversed(factors)
        batch = [v for v in self.axes if v in in_a and v in in_b]
        rows = [v for v in self.axes if v in in_a and v not in in_b]
        columns = [v for v in self.axes if v in in_b and v not in in_a]
        if any(v not in in_a or v not in in_b for v in reduced) or (batch and not (rows and columns)):
            return None
        left = self.matrix(a, [batch, rows, reduced])
        right = self.matrix(b, [batch, reduced, columns])
        code, made = call_of("np.matmul", left, right), [*batch, *rows, *columns]
        if max(len(batch), len(rows), len(columns)) > 1:
            code = method_of(code, "reshape", literal(self.shape(made)))
        return transposed(code, [made.index(v) for v in self.axes])

    def matrix(self, node: ir.PrimExpr, groups: list[list[ir.Var]]) -> ast.expr:
        """A factor with one axis for each group of variables that is not empty."""
        code = self.arranged(node, [v for group in groups for v in group])
        filled = [group for group in groups if group]
        if all(len(group) == 1 for group in filled):
            return code
        return method_of(code, "reshape", literal(tuple(reduce(mul, self.shape(group)) for group in filled)))

    def einsum(self, factors: list[tuple[ir.PrimExpr, frozenset[ir.Var]]]) -> ast.expr:
        letters = dict(zip(self.ranges, _LETTERS))
        if len(self.ranges) > len(_LETTERS):
            raise _NoCall
        order = list(self.ranges)
        terms = ["".join(letters[v] for v in order if v in has) for _, has in factors]
        arrays = [self.arranged(f, [v for v in order if v in has]) for f, has in factors]
        out = "".join(letters[v] for v in self.axes)
        return call_of("np.einsum", literal(f"{','.join(terms)}->{out}"), *arrays, optimize=literal(True))

    def arranged(self, node: ir.PrimExpr, order: list[ir.Var]) -> ast.expr:
        """Code whose array has exactly the axes `order`."""
        before, self.order = self.order, order
        try:
            return self.whole(self.visit(node), order, node.dtype)
        finally:
            self.order = before

    def indices(self, node: ir.PrimExpr) -> frozenset[ir.Var]:
        """The index variables in an expression."""
        found: set[ir.Var] = set()
        ir.post_order_visit(node, lambda n: found.add(n) if isinstance(n, ir.Var) and n in self.ranges else None)
        return frozenset(found)

    # ------------------------------------------------------------------------ accesses

    def affine(self, node: ir.PrimExpr) -> tuple[dict[ir.Var, int], int]:
        """An index as factors of variables, counted from their beginnings, and a constant."""
        if isinstance(node, ir.IntImm):
            return {}, node.value
        if isinstance(node, ir.Var) and node in self.sizes:
            return {}, int(self.sizes[node])
        if isinstance(node, ir.Var) and node in self.ranges:
            return {node: 1}, self.ranges[node][0]
        if isinstance(node, ir.Cast) and not node.dtype.is_float:
            return self.affine(node.value)
        if not isinstance(node, (ir.Add, ir.Sub, ir.Mul)):
            raise _NoCall
        (a, c), (b, d) = self.affine(node.a), self.affine(node.b)
        if isinstance(node, ir.Mul):
            if a and b:
                raise _NoCall
            return {v: f * (c if b else d) for v, f in (b or a).items()}, c * d
        sign = 1 if isinstance(node, ir.Add) else -1
        factors = {v: a.get(v, 0) + sign * b.get(v, 0) for v in {**a, **b}}
        return {v: f for v, f in factors.items() if f}, c + sign * d

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> Piece:
        name = self.names.get(node.producer)
        if name is None:
            raise _NoCall
        try:
            dims = [self.affine(index) for index in node.indices]
        except _NoCall:
            return self.gathered(dotted_name(name), node)
        sizes = [self.number(s) for s in node.producer.shape]
        array, dims = self.padded(dotted_name(name), dims, sizes)
        used = [v for v in self.order if any(v in factors for factors, _ in dims)]
        own = [next(iter(factors), None) for factors, _ in dims if len(factors) <= 1]
        variables = [v for v in own if v is not None]
        simple = len(own) == len(dims) and len(set(variables)) == len(variables) == len(used)
        if simple and all(f > 0 for factors, _ in dims for f in factors.values()):
            cuts = [self.cut(factors, constant, size) for (factors, constant), size in zip(dims, sizes)]
            array = array if all(map(is_whole, cuts)) else subscript(array, cuts)
            array = transposed(array, [variables.index(v) for v in used])
        else:
            steps = tuple(tuple(factors.get(v, 0) for factors, _ in dims) for v in used)
            begins = tuple(constant for _, constant in dims)
            array = call_of("windows", array, literal(begins), literal(self.shape(used)), literal(steps))
        return self.new_axes(array, used), frozenset(used)

    def gathered(self, array: ast.expr, node: ir.ProducerLoad) -> Piece:
        """An access whose places are arrays: `table[rows]`. The last dimensions that are taken whole are not named."""
        sizes, order = [self.number(s) for s in node.producer.shape], self.order
        whole = self.taken_whole(node.indices, sizes)
        self.order = order[: len(order) - len(whole)]
        try:
            pieces = [self.visit(index) for index in node.indices[: len(sizes) - len(whole)]]
        finally:
            self.order = order
        places = [
            call_of("np.clip", code, literal(0), literal(size - 1)) if self.guarded else code
            for (code, _), size in zip(pieces, sizes)
        ]
        has = frozenset[ir.Var]().union(*[h for _, h in pieces])
        return subscript(array, places), has | {*whole}

    def taken_whole(self, indices: Sequence[ir.PrimExpr], sizes: list[int]) -> list[ir.Var]:
        """The last variables of `order` that are the last indices, each over its whole dimension and nowhere else."""
        count = 0
        for index, size, var in zip(reversed(indices), reversed(sizes), reversed(self.order)):
            others = indices[: len(indices) - count - 1]
            if index is not var or self.ranges[var] != (0, size) or any(var in self.indices(o) for o in others):
                break
            count += 1
        return self.order[len(self.order) - count :]

    def padded(self, array: ast.expr, dims: list[Any], sizes: list[int]) -> tuple[ast.expr, list[Any]]:
        """The array with zeros around it where a condition guards accesses outside it."""
        around: list[tuple[int, int]] = []
        for (factors, constant), size in zip(dims, sizes):
            far = [f * (self.ranges[v][1] - 1) for v, f in factors.items()]
            low, high = constant + sum(min(0, f) for f in far), constant + sum(max(0, f) for f in far)
            around.append((max(0, -low), max(0, high - size + 1)))
        if not any(a or b for a, b in around):
            return array, dims
        if not self.guarded:
            raise _NoCall
        for k, (before, after) in enumerate(around):
            dims[k] = (dims[k][0], dims[k][1] + before)
            sizes[k] += before  # what is after it is read to its end
        return call_of("np.pad", array, literal(tuple(around))), dims

    def cut(self, factors: dict[ir.Var, int], constant: int, size: int) -> ast.expr:
        """The index or slice of one dimension."""
        if not factors:
            return literal(constant)
        ((var, step),) = factors.items()
        end = constant + step * (self.ranges[var][1] - 1) + 1
        return ast.Slice(
            literal(constant) if constant else None,
            literal(end) if end < size else None,
            literal(step) if step > 1 else None,
        )

    def new_axes(self, array: ast.expr, used: list[ir.Var]) -> ast.expr:
        """`array[:, None]`: axes of length one for the variables of `order` after the first that is used."""
        rest = self.order[self.order.index(used[0]) :] if used else []
        if rest == used:
            return array
        return subscript(array, [ast.Slice() if v in used else literal(None) for v in rest])

    # ------------------------------------------------------------------------ elementwise

    @ir.handles(ir.PrimExpr)
    def other(self, node: ir.PrimExpr) -> Piece:
        raise _NoCall

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> Piece:
        if var in self.sizes:
            return literal(int(self.sizes[var])), frozenset()
        if var not in self.ranges:
            raise _NoCall
        low, extent = self.ranges[var]
        steps = call_of("np.arange", literal(low), literal(low + extent), dtype=dtype_code(var.dtype))
        return self.new_axes(steps, [var]), frozenset([var])

    @ir.handles(ir.IntImm, ir.FloatImm)
    def constant(self, node: Any) -> Piece:
        if node.dtype.is_bool:
            return literal(bool(node.value)), frozenset()
        value = plain(node.value)
        if is_of_ml_dtypes(node.dtype):  # a Python number beside one of its arrays would make a float32
            return ast.Call(dtype_code(node.dtype), [literal(value)], []), frozenset()
        if np.isfinite(value):
            return literal(value), frozenset()
        code = dotted_name("np.nan" if np.isnan(value) else "np.inf")
        return (ast.UnaryOp(ast.USub(), code) if value == -np.inf else code), frozenset()

    @ir.handles(ir.BinaryOp)
    def binary(self, node: ir.BinaryOp) -> Piece:
        (a, in_a), (b, in_b) = self.visit(node.a), self.visit(node.b)
        kind, has = type(node), in_a | in_b
        if node.a.dtype.is_bool and kind is ir.Sub:
            raise _NoCall  # NumPy has no difference of bools
        if not has and kind not in (ir.Add, ir.Sub, ir.Mul) and not _reads_tensor(node):
            raise _NoCall
        if kind in _SIGNS:
            return ast.BinOp(a, _SIGNS[kind], b), has
        if kind in _COMPARISONS:
            return ast.Compare(a, [_COMPARISONS[kind]], [b]), has
        if kind in _FUNCTIONS:
            return call_of(_FUNCTIONS[kind], a, b), has
        if kind is ir.Div and node.dtype.is_float:
            return ast.BinOp(a, ast.Div(), b), has
        if kind in (ir.FloorDiv, ir.FloorMod) and isinstance(node.b, ir.IntImm) and node.b.value > 0:
            return ast.BinOp(a, ast.FloorDiv() if kind is ir.FloorDiv else ast.Mod(), b), has
        raise _NoCall

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> Piece:
        code, has = self.visit(node.a)
        return call_of("np.logical_not", code), has

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> Piece:
        code, has = self.visit(node.value)
        if not has and not _reads_tensor(node):
            raise _NoCall
        if node.dtype.is_bool:
            return ast.Compare(code, [ast.NotEq()], [literal(0)]), has
        if node.value.dtype.is_float and not node.dtype.is_float:
            return call_of("convert", code, literal(str(node.dtype))), has
        return method_of(code, "astype", dtype_code(node.dtype)), has

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> Piece:
        return self.choose(node.condition, node.true_value, node.false_value)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> Piece:
        name = callee(node)
        if name == "tir.if_then_else":
            return self.choose(*node.args)
        if name not in _OF_NUMPY and name not in _WRITTEN_OUT:
            raise _NoCall
        parts = [self.visit(a) for a in node.args]
        has = frozenset[ir.Var]().union(*[h for _, h in parts])
        if not has and not _reads_tensor(node):
            raise _NoCall
        if name in _WRITTEN_OUT:
            if is_of_ml_dtypes(node.dtype):  # beside whose arrays Python's numbers make a float32
                raise _NoCall
            return with_names(_WRITTEN_OUT[name], x=parts[0][0]), has
        return call_of(_OF_NUMPY[name], *[code for code, _ in parts]), has

    def choose(self, condition: ir.PrimExpr, then: ir.PrimExpr, otherwise: ir.PrimExpr) -> Piece:
        before = self.guarded
        holds = self.visit(condition)
        self.guarded = True
        branches = [self.visit(then), self.visit(otherwise)]
        self.guarded = before
        kind = dtype_code(then.dtype)
        typed = [code if has else ast.Call(kind, [code], []) for code, has in branches]
        return call_of("np.where", holds[0], *typed), holds[1] | branches[0][1] | branches[1][1]


def _reads_tensor(node: ir.PrimExpr) -> bool:
    """Whether an expression reads a tensor, so that its value has a type of NumPy's and not of Python's."""
    return contains(node, ir.ProducerLoad)


def _into(code: ast.expr, place: str) -> ast.expr:
    """Code that writes into the array `place` if its outermost function can."""
    if isinstance(code, ast.BinOp) and type(code.op) in _UFUNC_OF:
        return call_of(_UFUNC_OF[type(code.op)], code.left, code.right, out=dotted_name(place))
    if isinstance(code, ast.Call):
        name = ast.unparse(code.func)
        if isinstance(getattr(np, name.removeprefix("np."), None), np.ufunc) or name in _TAKES_OUT:
            return ast.Call(code.func, code.args, [*code.keywords, ast.keyword("out", dotted_name(place))])
    return code
