"""Expressions of the index notation: from Python's syntax tree to the IR, each with its place."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError, a_thing, did_you_mean
from tvmagic.eval.ops import CALLS
from tvmagic.ir.query import callee
from tvmagic.notation.conditional_reductions import Branch
from tvmagic.notation.source import Source


class NotationError(TVMagicError):
    """A statement of the index notation that means nothing, with its place in the cell."""


DTYPES = frozenset(
    [f"{code}{bits}" for code in ("int", "uint") for bits in (8, 16, 32, 64)]
    + ["float16", "float32", "float64", "bfloat16", "bool"]
)
REDUCTIONS = ("sum", "prod", "max", "min")
# Functions that `derived` makes of several stages; they say over what, too.
# What is written for functions that other systems have.
BY_OTHERS = {
    "int": "write `int32(...)`",
    "float": "write `float32(...)`",
    "bool": "write a comparison, as in `X[i] != 0`",
    "gelu": "write `0.5 * x * (1 + erf(x / sqrt(2.0)))`, with the element as `x`",
    "silu": "write `x * sigmoid(x)`, with the element as `x`",
    "swish": "write `x * sigmoid(x)`, with the element as `x`",
    "softplus": "write `log1p(exp(x))`, with the element as `x`",
    "leaky_relu": "write `max(x, 0.01 * x)`, with the element as `x`",
    "sign": "write `1 if x > 0 else -1 if x < 0 else 0`, with the element as `x`",
    "square": "write `x ** 2`, with the element as `x`",
    "norm": "write `N[i] += X[i, k] ** 2`, and `sqrt(N[i])` in a line below",
    "dot": "write `Y[i] += A[i, k] * B[k]`",
    "matmul": "write `Y[i, j] += A[i, k] * B[k, j]`",
    "outer": "write `Y[i, j] = A[i] * B[j]`",
    "transpose": "write `Y[j, i] = X[i, j]`",
    "topk": "write `max(..., over=k)` and `argmax(..., over=k)` for the first, then both again without its place for the second",
    "any": "write `max(..., over=k)`",
    "all": "write `min(..., over=k)`",
    "count": "write `sum(int32(...), over=k)`",
    "cast": "a type is a function: `uint8(...)`",
    "astype": "a type is a function: `uint8(...)`",
    "clamp": "write `clip(x, low, high)`",
    "elu": "write `x if x > 0 else exp(x) - 1`, with the element as `x`",
    "logsumexp": "write `m[i] + log(S[i])` below `m[i] = max(X[i, k], over=k)` and `S[i] += exp(X[i, k] - m[i])`",
    "log_softmax": "write `X[i, k] - m[i] - log(S[i])` below `m[i] = max(X[i, k], over=k)` and `S[i] += exp(X[i, k] - m[i])`",
    "sort": "the place of an element in the order is a count: `P[i] += 1 if X[k] < X[i] else 0`",
    "argsort": "the place of an element in the order is a count: `P[i] += 1 if X[k] < X[i] else 0`",
    "random": "random numbers are an argument: declare a tensor of them",
    "rand": "random numbers are an argument: declare a tensor of them",
    "tril": "write `X[i, j] if j <= i else 0`",
    "triu": "write `X[i, j] if j >= i else 0`",
    "eye": "write `1 if i == j else 0`",
    "arange": "an index is a value, too: `Y[i] = i`",
    "concat": "write `A[i] if i < 10 else B[i - 10]` below `i: range(30)`, for 10 and 20 elements",
    "concatenate": "write `A[i] if i < 10 else B[i - 10]` below `i: range(30)`, for 10 and 20 elements",
    "cat": "write `A[i] if i < 10 else B[i - 10]` below `i: range(30)`, for 10 and 20 elements",
    "stack": "write `A[i] if k == 0 else B[i]` below `k: range(2)`, with `k` on the left",
    "pad": "write `X[i - 1] if 1 <= i < 65 else 0` below `i: range(66)`, for 64 elements and one on each side",
    "roll": "write `X[(i + 1) % 64]`, for 64 elements",
    "flip": "write `X[63 - i]`, for 64 elements",
    "repeat": "write `X[i // 3]`, for each element three times",
    "var": "write `mean((X[i, k] - m[i]) ** 2, over=k)`, with the mean `m[i]` in a line above",
    "layer_norm": "write `(X[i, k] - m[i]) / sqrt(v[i] + 1e-5)` below `m[i] = mean(X[i, k], over=k)` and "
    "`v[i] = mean((X[i, k] - m[i]) ** 2, over=k)`",
    "batch_norm": "write `(X[n, c] - mean[c]) / sqrt(var[c] + 1e-5) * gamma[c] + beta[c]`, with the four as inputs",
    "rms_norm": "write `X[i, k] * rsqrt(q[i] + 1e-5)` below `q[i] = mean(X[i, k] ** 2, over=k)`",
    "dropout": "random numbers are an argument: declare a tensor of them, and write `X[i] / 0.9 if R[i] < 0.9 else 0`",
    "trace": "write `Y[b] += X[b, i, i]`",
    "diag": "write `Y[i] = X[i, i]`",
    "diagonal": "write `Y[i] = X[i, i]`",
    "std": "write `sqrt(mean((X[i, k] - m[i]) ** 2, over=k))`, with the mean `m[i]` in a line above",
}
REDUCING = (*REDUCTIONS, "mean", "argmax", "argmin")  # one value for all of what they run over
OVER = ("mean", "softmax", "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin")


def _relu(x: Any) -> ir.PrimExpr:
    return ir.ops.maximum(x, ir.ops.make_zero(x.dtype))


def _clip(x: Any, low: Any, high: Any) -> ir.PrimExpr:
    return ir.ops.minimum(ir.ops.maximum(x, low), high)


def _fold(combine: Callable[..., ir.PrimExpr]) -> Callable[..., ir.PrimExpr]:
    def call(*args: Any) -> ir.PrimExpr:
        result = args[0]
        for arg in args[1:]:
            result = combine(result, arg)
        return result

    return call


# Those whose values for whole numbers are no whole numbers, and the others of one value.
_OF_ONE_FLOAT = (
    "exp exp2 exp10 erf tanh sigmoid log log2 log10 log1p sin cos tan sinh cosh asin acos atan asinh acosh atanh sqrt rsqrt"
).split()
_UNARY = [*_OF_ONE_FLOAT, *"floor ceil trunc round nearbyint abs isnan isinf isfinite popcount clz".split()]
# Name: the function and the numbers of arguments it takes (least, most).
FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    **{name: (getattr(ir.ops, name), 1, 1) for name in _UNARY},
    "relu": (_relu, 1, 1),
    "clip": (_clip, 3, 3),
    "max": (_fold(ir.ops.maximum), 2, 99),
    "min": (_fold(ir.ops.minimum), 2, 99),
    "maximum": (_fold(ir.ops.maximum), 2, 2),
    "minimum": (_fold(ir.ops.minimum), 2, 2),
    "pow": (ir.ops.power, 2, 2),
    "atan2": (ir.ops.atan2, 2, 2),
    "hypot": (ir.ops.hypot, 2, 2),
    "copysign": (ir.ops.copysign, 2, 2),
    "floordiv": (ir.ops.floordiv, 2, 2),
    "floormod": (ir.ops.floormod, 2, 2),
    "truncdiv": (ir.ops.truncdiv, 2, 2),
    "truncmod": (ir.ops.truncmod, 2, 2),
    "fma": (ir.ops.fma, 3, 3),
    "where": (ir.ops.if_then_else, 3, 3),
    "select": (ir.ops.if_then_else, 3, 3),
}
_OF_FLOATS = {*_OF_ONE_FLOAT, "atan2", "hypot", "copysign"}
_MADE_FLOATS = {*_OF_FLOATS, "pow", "fma"}  # what numbers become floats in, whole or not
_CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}
_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
}
_COMPARE: dict[type[ast.AST], Callable[[Any, Any], ir.PrimExpr]] = {
    ast.Lt: ir.ops.less,
    ast.LtE: ir.ops.less_equal,
    ast.Gt: ir.ops.greater,
    ast.GtE: ir.ops.greater_equal,
    ast.Eq: ir.ops.equal,
    ast.NotEq: ir.ops.not_equal,
}


def fail_at(
    source: Source, node: ast.AST, message: str, hint: str | None = None, *, code: str | None = None
) -> NoReturn:
    """Raise the error that points at `node` in the cell."""
    raise NotationError(message, span=source.span(node), hint=hint, code=code)


def fail_undefined(source: Source, node: ast.AST, name: str, known: Iterable[str]) -> NoReturn:
    """Raise the error for a name that is not known; one of `known` may have been meant."""
    hint = did_you_mean(name, known) or f"declare it, for example `{name}: float32[64]`"
    fail_at(source, node, f"the name `{name}` is not defined", hint, code="notation.undefined_name")


def check_rank(source: Source, access: ast.Subscript, tensor: Any) -> None:
    """An access gives one index for each dimension of its tensor."""
    rank, given = len(tensor.shape), len(index_items(access))
    if rank != given:
        dimensions = f"{rank} dimension{'' if rank == 1 else 's'}"
        indices = "1 index is" if given == 1 else f"{given} indices are"
        example = f"{tensor.name}[{', '.join('ijklmnop'[:rank])}]" if rank else tensor.name
        fail_at(
            source, access, f"`{tensor.name}` has {dimensions} and {indices} given", f"write it as `{example}`", code="notation.wrong_index_count"
        )  # fmt: skip


def _of_numbers(name: str, numbers: list[Any]) -> Any:
    """What a function gives for numbers alone: a number, which takes the type of what it meets, as they do."""
    is_whole = name not in _MADE_FLOATS and all(isinstance(n, int) for n in numbers)
    dtype = "int64" if is_whole else "float64"
    made = FUNCTIONS[name][0](*[ir.ops.const(n, dtype) for n in numbers])
    if isinstance(made, ir.Call) and callee(made) in CALLS:
        with np.errstate(all="ignore"):
            return CALLS[callee(made)](*[np.asarray(n, dtype) for n in numbers]).item()
    if isinstance(made, (ir.IntImm, ir.FloatImm)):
        return bool(made.value) if made.dtype.is_bool else made.value
    return made


_MOST_BITS = 4096  # of a whole number that the constants of a cell give


def _check_giant(op: ast.operator, a: Any, b: Any) -> None:
    """Refuse whole numbers so long that computing them takes forever and cannot be interrupted."""
    if not isinstance(a, int) or not isinstance(b, int):
        return
    bits = a.bit_length() + b.bit_length()
    if isinstance(op, ast.LShift):
        bits = a.bit_length() + max(b, 0)
    elif isinstance(op, ast.Pow):
        bits = a.bit_length() * max(b, 1)
    if bits > _MOST_BITS:
        raise TVMagicError(
            "the number is too large for any data type",
            hint="the largest int64 is 2**63 - 1",
            code="notation.number_too_large",
        )


class Expressions:
    """Builds the IR of expressions.

    Parameters
    ----------
    source: the cell, for the places of nodes.
    indices: the variables that index names stand for.
    tensors: the tensors by name.
    values: numbers by name; the cell's own come first.
    lift: builds the stage of a reduction inside an expression and gives the load of it; it takes the call, the indices and the
        branches that the call is in.
    functions: Python functions by name, which are called with expressions.
    real: the type of fractions that no float is beside, such as `0.5 * i` for an index `i`.
    branches: those that the whole expression is in.
    """

    def __init__(
        self,
        source: Source,
        indices: Mapping[str, Any],
        tensors: Mapping[str, Any],
        values: Mapping[str, Any],
        lift: Callable[[ast.Call, Mapping[str, Any], Sequence[Branch]], ir.PrimExpr],
        functions: Mapping[str, Any],
        real: str = "float32",
        branches: Sequence[Branch] = (),
    ) -> None:
        self.source, self.indices, self.tensors, self.values, self.lift = source, indices, tensors, values, lift
        self.functions, self.real, self.branches = functions, real, tuple(branches)

    def build(self, node: ast.expr) -> ir.PrimExpr:
        """The expression that `node` means, with its place in the cell."""
        value = self.value(node)
        return value if isinstance(value, ir.PrimExpr) else self._typed(value)

    def _typed(self, number: Any) -> ir.PrimExpr:
        """A number that nothing gives a type."""
        return ir.ops.const(number, self.real) if isinstance(number, float) else ir.ops.const(number)

    def _same_kind(self, a: Any, b: Any) -> tuple[Any, Any]:
        """A plain number beside an expression takes the expression's type, if that can hold it."""
        if isinstance(a, ir.PrimExpr) and isinstance(b, (int, float)):
            return a, self._as_type_of(a, b)
        if isinstance(b, ir.PrimExpr) and isinstance(a, (int, float)):
            return self._as_type_of(b, a), b
        return a, b

    def _as_type_of(self, expr: ir.PrimExpr, number: Any) -> Any:
        if isinstance(number, bool):
            return number
        fits = expr.dtype.is_float or (isinstance(number, int) and not expr.dtype.is_bool)
        return ir.ops.make_const(expr.dtype, number) if fits else self._typed(number)

    def value(self, node: ast.expr) -> Any:
        """An expression, or a Python number where `node` is made of numbers alone."""
        handler = self._HANDLERS.get(type(node))
        if handler is None:
            fail_at(
                self.source,
                node,
                f"`{ast.unparse(node)}` has no meaning in the index notation",
                code="notation.unsupported_syntax",
            )
        try:
            return self._placed(handler(self, node), node)
        except NotationError:
            raise
        except (TVMagicError, TypeError, ValueError, ZeroDivisionError) as error:
            hint = getattr(error, "hint", None)
            code = getattr(error, "code", None) or "notation.python_error"
            message = getattr(error, "message", str(error))
            raise NotationError(message, span=self.source.span(node), hint=hint, code=code) from error

    def _placed(self, value: Any, node: ast.expr) -> Any:
        if isinstance(value, ir.PrimExpr) and not isinstance(value, ir.Var):
            _set_span(value, self.source.span(node))
        return value

    def _constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, (int, float)):
            fail_at(self.source, node, f"`{node.value!r}` is not a number", code="notation.not_a_number")
        return node.value

    def _name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.indices:
            return self.indices[name]
        if name in self.tensors:
            tensor = self.tensors[name]
            if len(tensor.shape):
                indices = ", ".join("ijklmnop"[: len(tensor.shape)])
                fail_at(
                    self.source,
                    node,
                    f"`{name}` is a tensor, not a number",
                    f"write `{name}[{indices}]`",
                    code="notation.tensor_without_indices",
                )
            return tensor()
        if name in self.values:
            return self.values[name]
        if name not in _CONSTANTS:
            self.unknown(node, name)
        return _CONSTANTS[name]

    def unknown(self, node: ast.AST, name: str) -> NoReturn:
        """Raise the error for a name that is not known."""
        fail_undefined(self.source, node, name, [*self.tensors, *self.indices, *self.values, *FUNCTIONS])

    def _binary(self, node: ast.BinOp) -> Any:
        a, b = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Pow):
            _check_giant(node.op, a, b)
            return self._power(a, b)
        combine = _BINARY.get(type(node.op))
        if combine is None:
            product = (
                "a product of matrices is `C[i, j] += A[i, k] * B[k, j]`" if isinstance(node.op, ast.MatMult) else None
            )
            fail_at(
                self.source,
                node,
                f"the operator of `{ast.unparse(node)}` has no meaning in the index notation",
                product,
                code="notation.unsupported_operator",
            )
        _check_giant(node.op, a, b)
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            self._check_quotient(node, a, b)
        return combine(*self._same_kind(a, b))

    def _check_quotient(self, node: ast.BinOp, *values: Any) -> None:
        """Refuse `//` and `%` of floats, of which NumPy's are made by `floor`; of plain numbers Python has them."""
        types = [str(v.dtype) if isinstance(v, ir.PrimExpr) else type(v).__name__ for v in values]
        found = next((t for t in types if "float" in t), None)
        if found is None or not any(isinstance(v, ir.PrimExpr) for v in values):
            return
        a, b = (f"({ast.unparse(n)})" if isinstance(n, ast.BinOp) else ast.unparse(n) for n in (node.left, node.right))
        down, sign = f"floor({a} / {b})", "//" if isinstance(node.op, ast.FloorDiv) else "%"
        written = down if sign == "//" else f"{a} - {down} * {b}"
        fail_at(
            self.source,
            node,
            f"`{sign}` takes integers here, not `{found}`",
            f"write `{written}`",
            code="notation.not_an_integer",
        )

    def _power(self, base: Any, exponent: Any) -> Any:
        if not isinstance(base, ir.PrimExpr) and not isinstance(exponent, ir.PrimExpr):
            return base**exponent
        if isinstance(exponent, int) and 1 <= exponent <= 4:
            result = base
            for _ in range(exponent - 1):
                result = result * base
            return result
        return ir.ops.power(*self._same_kind(base, exponent))

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            self._check_condition(node.operand, value, "`not` takes a condition")
            return ir.ops.logical_not(value)
        if isinstance(node.op, ast.Invert):
            if isinstance(value, ir.PrimExpr) and value.dtype.is_float:
                fail_at(
                    self.source,
                    node,
                    f"`~` takes integers and bools, not `{value.dtype}`",
                    code="notation.not_an_integer",
                )
            return ~value
        return self._negative(node, value) if isinstance(node.op, ast.USub) else value

    def _negative(self, node: ast.UnaryOp, value: Any) -> Any:
        """`-value`; unsigned integers wrap around, as NumPy's do."""
        dtype = value.dtype if isinstance(value, ir.PrimExpr) else None
        if dtype is not None and dtype.is_bool:
            text = ast.unparse(node.operand)
            fail_at(
                self.source,
                node,
                f"`-` takes numbers, and `{text}` is bool",
                f"write `not {text}`",
                code="notation.not_a_number",
            )
        return ir.ops.make_zero(dtype) - value if dtype is not None and dtype.is_uint else -value

    def _compare(self, node: ast.Compare) -> ir.PrimExpr:
        terms: list[ir.PrimExpr] = []
        left = self.value(node.left)
        for op, operand in zip(node.ops, node.comparators):
            compare = _COMPARE.get(type(op))
            if compare is None:
                fail_at(
                    self.source,
                    node,
                    f"`{ast.unparse(node)}` is not a comparison of numbers",
                    code="notation.not_a_comparison",
                )
            right = self.value(operand)
            terms.append(compare(*self._same_kind(left, right)))
            left = right
        return ir.ops.all(*terms)

    def _bool(self, node: ast.BoolOp) -> ir.PrimExpr:
        word, sign, combine = ("and", "&", ir.ops.all) if isinstance(node.op, ast.And) else ("or", "|", ir.ops.any)
        conditions = [self.build(v) for v in node.values]
        for written, condition in zip(node.values, conditions):
            if not condition.dtype.is_bool:
                text = ast.unparse(written)
                hint = f"write a comparison, as in `{text} != 0`; bits of integers are joined by `{sign}`"
                fail_at(
                    self.source,
                    written,
                    f"`{word}` takes conditions, and `{text}` is {condition.dtype}",
                    hint,
                    code="notation.not_a_condition",
                )
        return combine(*conditions)

    def _if(self, node: ast.IfExp) -> ir.PrimExpr:
        then, other = self._same_kind(
            self._in_branch(node.body, node.test, True), self._in_branch(node.orelse, node.test, False)
        )
        test = self.build(node.test)
        self._check_condition(node.test, test, "`if` takes a condition")
        then, other = self._numbers([then, other])
        return ir.ops.if_then_else(test, then, other)

    def _in_branch(self, node: ast.expr, test: ast.expr, taken: bool) -> Any:
        """The value of a branch, which is evaluated if `test` holds, or if it does not."""
        around, self.branches = self.branches, (*self.branches, (test, taken))
        try:
            return self.value(node)
        finally:
            self.branches = around

    def _numbers(self, values: list[Any], as_floats: bool = False) -> list[ir.PrimExpr]:
        """Values of which the plain numbers meet nothing that has a type: all are floats if one is."""
        as_floats = as_floats or any(isinstance(v, float) for v in values)
        return [v if isinstance(v, ir.PrimExpr) else self._typed(float(v) if as_floats else v) for v in values]

    def _check_condition(self, node: ast.expr, value: Any, wanted: str) -> None:
        if isinstance(value, ir.PrimExpr) and not value.dtype.is_bool:
            text = ast.unparse(node)
            fail_at(
                self.source,
                node,
                f"{wanted}, and `{text}` is {value.dtype}",
                f"write a comparison, as in `{text} != 0`",
                code="notation.not_a_condition",
            )

    def _call(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func).rsplit(".", 1)[-1]
        over = [k for k in node.keywords if k.arg == "over"]
        if over and (name in REDUCTIONS or name in OVER):
            return self.lift(node, self.indices, self.branches)
        if name == "cast" and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            return ir.ops.cast(node.args[1].value, self.build(node.args[0]))
        if name in DTYPES and len(node.args) == 1:
            return ir.ops.cast(name, self.build(node.args[0]))
        if isinstance(node.func, ast.Attribute) and name == "astype":
            return ir.ops.cast(self._dtype(node), self.build(node.func.value))
        if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, (ast.Name, ast.Attribute)):
            self._refuse_method(name, node, node.func.value)
        return self._function(name, node)

    def _dtype(self, call: ast.Call) -> str:
        """The data type that `.astype` is given: a text, or a name such as `float32` or `np.float32`."""
        given = call.args[0] if len(call.args) == 1 else None
        name = (
            given.value if isinstance(given, ast.Constant) else ast.unparse(given).rpartition(".")[2] if given else ""
        )
        name = {"float": "float64", "bool_": "bool"}.get(str(name), str(name))
        if name not in DTYPES:
            fail_at(
                self.source,
                given or call,
                "`astype` takes the name of a data type",
                "write `.astype('float32')`",
                code="notation.unknown_dtype",
            )
        return name

    def _refuse_method(self, name: str, node: ast.Call, owner: ast.expr) -> None:
        """An element has no methods: `X[i].exp()` is `exp(X[i])`, and `X[i].sum()` says over what."""
        arguments = ", ".join(ast.unparse(a) for a in (owner, *node.args))
        last = next(
            (n.id for n in reversed(list(ast.walk(owner))) if isinstance(n, ast.Name) and n.id in self.indices), "k"
        )
        written = (
            f"{name}({ast.unparse(owner)}, over={last})" if name in (*REDUCTIONS, *OVER) else f"{name}({arguments})"
        )
        if name in FUNCTIONS or name in (*REDUCTIONS, *OVER):
            fail_at(
                self.source,
                node,
                f"an element has no method `{name}`",
                f"write `{written}`",
                code="notation.unknown_method",
            )

    def _function(self, name: str, node: ast.Call) -> Any:
        if name in ("sum", "prod", *OVER):
            fail_at(
                self.source,
                node,
                f"`{name}` does not say over what",
                f"write `{name}(..., over=k)`",
                code="notation.reduction_without_index",
            )
        own = self.functions.get(name) if isinstance(node.func, ast.Name) and name not in FUNCTIONS else None
        if callable(own) and name not in self.tensors:
            return self._own(name, own, node)
        if name not in FUNCTIONS:
            others = f"there are {', '.join(FUNCTIONS)}; a Python function of yours may be called, too"
            hint = BY_OTHERS.get(name) or did_you_mean(name, [*FUNCTIONS, *DTYPES]) or others
            fail_at(
                self.source,
                node.func,
                f"there is no function `{name}` in the index notation",
                hint,
                code="notation.unknown_function",
            )
        if node.keywords:
            fail_at(
                self.source,
                node,
                f"`{name}` takes no argument `{node.keywords[0].arg}`",
                code="notation.unknown_argument",
            )
        function, least, most = FUNCTIONS[name]
        if not least <= len(node.args) <= most:
            count = "1 argument" if most == 1 else f"{least}{'' if least == most else ' or more'} arguments"
            over = f"write `{name}(..., over=k)` for a reduction" if name in REDUCTIONS else None
            fail_at(
                self.source,
                node,
                f"`{name}` takes {count}, not {len(node.args)}",
                over,
                code="notation.wrong_argument_count",
            )
        args = self._arguments(name, node.args)
        if not any(isinstance(a, ir.PrimExpr) for a in args):
            return getattr(builtins, name)(args) if name in ("max", "min") else _of_numbers(name, args)
        first = next((a for a in args if isinstance(a, ir.PrimExpr) and not a.dtype.is_bool), None)
        if first is not None:
            args = [a if isinstance(a, ir.PrimExpr) else self._as_type_of(first, a) for a in args]
        args = self._numbers(args, as_floats=name not in ("where", "select"))
        if name in _OF_FLOATS:
            self._check_floats(name, node, args)
        return function(*args)

    def _arguments(self, name: str, nodes: list[ast.expr]) -> list[Any]:
        if name not in ("where", "select"):
            return [self.value(node) for node in nodes]
        test, then, other = nodes
        return [self.value(test), self._in_branch(then, test, True), self._in_branch(other, test, False)]

    def _check_floats(self, name: str, node: ast.Call, args: list[Any]) -> None:
        for argument, value in zip(node.args, args):
            if not value.dtype.is_float:
                written = ", ".join(
                    ast.unparse(a) if v.dtype.is_float else f"float32({ast.unparse(a)})"
                    for a, v in zip(node.args, args)
                )
                fail_at(
                    self.source,
                    argument,
                    f"`{name}` takes floats, and `{ast.unparse(argument)}` is {value.dtype}",
                    f"write `{name}({written})`",
                    code="notation.not_a_float",
                )

    def _own(self, name: str, function: Callable[..., Any], node: ast.Call) -> Any:
        """What a Python function of the cell or the notebook makes of expressions."""
        try:
            result = function(*map(self.value, node.args), **{str(k.arg): self.value(k.value) for k in node.keywords})
        except NotationError:
            raise
        except Exception as error:
            text = error.message if isinstance(error, TVMagicError) else f"{type(error).__name__}: {error}"
            fail_at(
                self.source,
                node,
                f"`{name}` failed on expressions: {text}",
                "it is called once, with expressions for numbers",
                code="notation.own_function_failed",
            )
        if not isinstance(result, (ir.PrimExpr, int, float)):
            fail_at(
                self.source,
                node,
                f"`{name}` gives {a_thing(result)}, not a number",
                code="notation.own_function_result",
            )
        return result

    def _subscript(self, node: ast.Subscript) -> ir.PrimExpr:
        if not isinstance(node.value, ast.Name):
            fail_at(self.source, node, f"`{ast.unparse(node.value)}` is not a tensor", code="notation.not_a_tensor")
        name = node.value.id
        if name not in self.tensors:
            self.unknown(node.value, name)
        tensor = self.tensors[name]
        items = index_items(node)
        check_rank(self.source, node, tensor)
        indices = [self.build(item) for item in items]
        for item, index in zip(items, indices):
            if not (index.dtype.is_int or index.dtype.is_uint):
                fail_at(
                    self.source,
                    item,
                    f"an index is a whole number, not `{index.dtype}`",
                    "convert it by `int32(...)`",
                    code="notation.index_not_integer",
                )
        return tensor(*indices)

    _HANDLERS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.Compare: _compare,
        ast.BoolOp: _bool,
        ast.IfExp: _if,
        ast.Call: _call,
        ast.Subscript: _subscript,
    }


def index_items(node: ast.Subscript) -> list[ast.expr]:
    """The index expressions of `T[i, j]`."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _set_span(value: ir.PrimExpr, span: ir.Span) -> None:
    """Give the parts of a new expression that have no place yet the one of their syntax."""
    pending: list[Any] = [value]
    while pending:
        node = pending.pop()
        if getattr(node, "span", None) or isinstance(node, (ir.Var, ir.IterVar)):
            continue
        node.span = span.of(node)
        for name in ("a", "b", "value", "condition", "true_value", "false_value"):
            child = getattr(node, name, None)
            if isinstance(child, ir.PrimExpr):
                pending.append(child)
        pending.extend(a for a in getattr(node, "args", ()) if isinstance(a, ir.PrimExpr))
