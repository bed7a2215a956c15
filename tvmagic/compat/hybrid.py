"""Hybrid script: tensors that loops of a Python function compute, `te.hybrid.script`.

    @te.hybrid.script
    def outer(a, b):
        c = output_tensor((a.shape[0], b.shape[0]), "float32")
        for i in range(a.shape[0]):
            for j in parallel(b.shape[0]):
                c[i, j] = a[i] * b[j]
        return c

Called with tensors the function is read, as TVMScript is, and gives the tensors it returns: those of
one extern operation. Called with arrays it runs as Python does. As in TVM 0.19:

- loops go over `range`, `serial`, `parallel`, `vectorize`, `unroll`, `grid`, `const_range` (one copy of
  the body for each value) and `bind(tag, extent)` (a thread);
- `output_tensor(shape, dtype)` and `allocate(shape, dtype, scope)` make tensors; outputs are returned
  by the last statement;
- a name that is assigned once stands for that value; one that is assigned again is a scalar in memory;
- `exp`, `log`, `tanh`, `sigmoid`, `max`, ... are TE's; `float32(x)` and so on convert.
"""

from __future__ import annotations

import ast
import functools
import itertools
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tvmagic import ir
from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.script.ir_builder import IRBuilder
from tvmagic.script.ir_builder.base import name_value
from tvmagic.script.ir_builder.tir import frame as frames
from tvmagic.script.ir_builder.tir import loops, stmts
from tvmagic.script.parser.builtins import BUILTINS
from tvmagic.script.parser.live_source import LiveSource
from tvmagic.script.parser.parser import Parser
from tvmagic.script.parser.source import reported
from tvmagic.te.operation import extern_of_function
from tvmagic.te.tensor import Tensor

__all__ = ["HYBRID_GLOBALS", "HybridFunction", "script"]
__path__: list[str] = []  # TVM's `te.hybrid.runtime` can be imported

_DTYPES = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)) + (
    "float16", "float32", "float64", "bool",
)  # fmt: skip
_MATH = (
    "exp", "log", "log2", "log10", "sqrt", "rsqrt", "tanh", "sin", "cos", "tan", "sigmoid", "power", "floor", "ceil",
    "trunc", "round", "abs", "popcount", "isnan", "likely", "if_then_else",
)  # fmt: skip


def script(function: Callable[..., Any]) -> HybridFunction:
    """Make a Python function over tensors one that computes tensors, or arrays, by its loops."""
    return HybridFunction(function)


class HybridFunction:
    """A function of hybrid script: of tensors it gives tensors, of arrays arrays."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if not isinstance(function, types.FunctionType):
            raise TVMagicError(
                f"`te.hybrid.script` stands over a function, not over a `{type(function).__name__}`",
                code="hybrid.not_a_function",
            )
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any) -> Any:
        if not any(isinstance(a, (Tensor, ir.PrimExpr)) for a in _flat(args)):
            return _with_names(self._function, _EMULATED)(*args)
        try:
            return self._tensors(args)
        except DiagnosticError as error:
            raise reported(error) from error.__cause__

    def _tensors(self, args: Sequence[Any]) -> Any:
        live = LiveSource.of(self._function)
        node = next(n for n in ast.walk(live.source.parse()) if isinstance(n, ast.FunctionDef))
        builder = IRBuilder()
        with builder:
            reader = _Reader(live.source, [_NAMES, *live.outer, BUILTINS], builder, node)
            func, inputs = reader.read(args)
        buffers = [func.buffer_map[param] for param in func.params]
        sources, targets = buffers[: len(inputs)], buffers[len(inputs) :]
        return extern_of_function(inputs, func, sources, targets, name=node.name)


def _flat(args: Any) -> list[Any]:
    return [x for a in args for x in (_flat(a) if isinstance(a, (list, tuple)) else [a])]


def _with_names(function: types.FunctionType, names: Mapping[str, Any]) -> types.FunctionType:
    """The function with further global names."""
    return types.FunctionType(
        function.__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


# ---------------------------------------------------------------------------- reading


class _Memory:
    """What `allocate` and `output_tensor` give, until the name is known."""

    def __init__(self, shape: Any, dtype: Any = "float32", scope: str = "global", output: bool = False) -> None:
        self.shape = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
        self.dtype, self.scope, self.output = ir.DataType(str(dtype)), scope, output


class _Scalar:
    """A name that is assigned more than once: one element of memory."""

    def __init__(self, buffer: ir.Buffer) -> None:
        self.buffer = buffer


class _Reader(Parser):
    """Reads one function of hybrid script for given arguments."""

    def __init__(
        self, source: Any, outer: Sequence[Mapping[str, Any]], builder: IRBuilder, node: ast.FunctionDef
    ) -> None:
        super().__init__(source, outer, builder)
        self.node = node
        stores = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        changed = (
            n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
        )
        self.assigned = Counter(itertools.chain(stores, changed))
        self.outputs: list[ir.Buffer] = []
        self.results: list[ir.Buffer] | None = None

    def read(self, args: Sequence[Any]) -> tuple[ir.PrimFunc, list[Tensor]]:
        """The function for these arguments, inputs before outputs, and the tensors that are its inputs."""
        names = [a.arg for a in self.node.args.args]
        if len(names) != len(args):
            raise self.error(
                self.node,
                f"`{self.node.name}` must be called with {len(names)} arguments, got {len(args)}",
                code="hybrid.wrong_argument_count",
            )
        frame = frames.PrimFuncFrame(True)
        frame.__enter__()
        frame.name = self.node.name
        inputs: list[Tensor] = []
        self.scope.push()
        for name, value in zip(names, args):
            self.scope.define(name, self.argument(name, value, inputs))
        self.body(self.node.body)
        if self.results is None:
            raise self.error(
                self.node,
                f"cannot build `{self.node.name}`: it returns nothing",
                "return the tensors of `output_tensor`",
                code="hybrid.returns_nothing",
            )
        for buffer in self.results:
            stmts.arg(buffer.name, buffer)
        self.builder.close(frame)
        return self.builder.get(), inputs

    def argument(self, name: str, value: Any, inputs: list[Tensor]) -> Any:
        """What a parameter stands for: the buffer of a tensor, a tuple of such, or the value itself."""
        if isinstance(value, (list, tuple)):
            return tuple(self.argument(f"{name}_{i}", item, inputs) for i, item in enumerate(value))
        if not isinstance(value, Tensor):
            return value
        inputs.append(value)
        return stmts.arg(name, ir.decl_buffer(value.shape, value.dtype, name))

    def eval(self, node: Any) -> Any:
        value = super().eval(node)
        return ir.BufferLoad(value.buffer, [0], None, self.span(node)) if isinstance(value, _Scalar) else value

    def assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Name):
            super().assign(node)
            return
        value = self.eval(node.value)
        if isinstance(value, _Memory):
            self.scope.define(target.id, self.memory(target.id, value, target))
        elif self.assigned[target.id] > 1:
            self.set_scalar(target, value, node)
        elif isinstance(value, ir.PrimExpr) and not isinstance(value, (ir.IntImm, ir.Var)):
            self.bind(target, value, self.name_assigned)
        else:
            self.scope.define(target.id, value)

    def memory(self, name: str, memory: _Memory, node: ast.expr) -> ir.Buffer:
        """The buffer behind a name: an output, or memory that lives to the end of the body."""
        if memory.output:
            buffer = ir.decl_buffer(memory.shape, memory.dtype, name)
            self.outputs.append(buffer)
            return buffer
        var = self.open(stmts.allocate(memory.shape, memory.dtype, memory.scope))
        name_value(name, var)
        var.span = self.span(node)
        return ir.decl_buffer(memory.shape, memory.dtype, name, data=var, scope=memory.scope)

    def set_scalar(self, target: ast.Name, value: Any, node: ast.stmt) -> None:
        """`x = value` for a name that is assigned more than once."""
        known = self.scope.find(target.id)
        if not isinstance(known, _Scalar):
            if not isinstance(value, (ir.PrimExpr, int, float)):
                raise self.error(
                    node,
                    f"values of `{target.id}` must be numbers: it is assigned more than once",
                    code="hybrid.not_a_number",
                )
            dtype = value.dtype if isinstance(value, ir.PrimExpr) else ir.ops.const(value).dtype
            known = _Scalar(self.memory(target.id, _Memory((1,), dtype, "local"), target))
            self.scope.define(target.id, known)
        self.builder.add(stmts.make_store(known.buffer, value, [ir.ops.const(0)], None, self.builder.span))

    def augmented(self, node: ast.AugAssign) -> None:
        """`x += value` and `A[i] += value`"""
        if not isinstance(node.target, ast.Name):
            super().augmented(node)
            return
        if not isinstance(self.scope.find(node.target.id), _Scalar):
            raise self.error(
                node.target,
                f"cannot change `{node.target.id}`: it is not a scalar of the script",
                code="hybrid.not_assignable",
            )
        load = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        self.set_scalar(node.target, self.eval(ast.copy_location(ast.BinOp(load, node.op, node.value), node)), node)

    def loop(self, node: ast.For) -> None:
        """A loop; one over `const_range` is written out."""
        value = self.eval(node.iter)
        if not isinstance(value, range):
            super().loop(node)
            return
        if not isinstance(node.target, ast.Name):
            raise self.error(
                node.target, "a loop over `const_range` must have one variable", code="hybrid.wrong_loop_variable"
            )
        for number in value:
            self.scope.push()
            self.scope.define(node.target.id, number)
            self.body(node.body)
            self.scope.pop()

    def returned(self, node: ast.Return) -> None:
        if node is not self.node.body[-1] or node.value is None:
            raise self.error(
                node, "the last statement of the function must return the outputs", code="hybrid.early_return"
            )
        values = self.eval(node.value)
        self.results = list(values) if isinstance(values, (list, tuple)) else [values]
        for value in self.results:
            if not any(value is buffer for buffer in self.outputs):
                raise self.error(
                    node.value, "a returned value must be a tensor of `output_tensor`", code="hybrid.not_an_output"
                )

    def unsupported(self, node: ast.stmt) -> NoReturn:
        raise self.error(
            node,
            f"cannot use Python's `{type(node).__name__.lower()}` in a hybrid script",
            code="hybrid.unsupported_statement",
        )


_Reader.STATEMENTS = {
    **Parser.STATEMENTS,
    ast.Assign: _Reader.assign,
    ast.AugAssign: _Reader.augmented,
    ast.For: _Reader.loop,
    ast.Return: _Reader.returned,
    ast.While: _Reader.unsupported,
    ast.With: _Reader.unsupported,
    ast.AnnAssign: _Reader.unsupported,
}


def _constants(*bounds: Any) -> range:
    if not all(isinstance(b, (int, ir.IntImm)) for b in bounds):
        raise TVMagicError("the bounds of `const_range` are constants", code="hybrid.bounds_not_constant")
    return range(*(int(b) for b in bounds))


def _pairwise(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *values: functools.reduce(function, values)


_NAMES: dict[str, Any] = {
    "range": loops.serial,
    "serial": loops.serial,
    "parallel": loops.parallel,
    "vectorize": loops.vectorized,
    "unroll": loops.unroll,
    "grid": loops.grid,
    "const_range": _constants,
    "bind": lambda tag, extent: loops.thread_binding(extent, tag),
    "allocate": _Memory,
    "output_tensor": lambda shape, dtype="float32": _Memory(shape, dtype, output=True),
    "max": _pairwise(ir.ops.maximum),
    "min": _pairwise(ir.ops.minimum),
    "ceil_div": ir.ops.ceildiv,
    **{name: getattr(ir.ops, name) for name in _MATH},
    **{dtype: functools.partial(ir.ops.cast, dtype) for dtype in _DTYPES},
}

# ---------------------------------------------------------------------------- running as Python


def _zeros(shape: Any, dtype: str = "float32", scope: str = "global") -> Any:
    return np.zeros(shape, dtype)


_EMULATED: dict[str, Any] = {
    "serial": range,
    "parallel": range,
    "vectorize": range,
    "unroll": range,
    "const_range": range,
    "grid": lambda *extents: itertools.product(*map(range, extents)),
    "bind": lambda tag, extent: range(extent),
    "allocate": _zeros,
    "output_tensor": _zeros,
    "ceil_div": lambda a, b: -(-a // b),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "popcount": lambda x: int(x).bit_count(),
    "likely": lambda x: x,
    "if_then_else": lambda condition, then, other: then if condition else other,
    **{name: getattr(np, name) for name in _MATH if hasattr(np, name)},
    **{dtype: getattr(np, dtype if dtype != "bool" else "bool_") for dtype in _DTYPES},
}
HYBRID_GLOBALS = _EMULATED  # under TVM's name, for code that runs the Python function of a script itself
