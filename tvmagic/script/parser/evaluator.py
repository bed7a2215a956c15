"""The value of an expression of a script.

The tree is walked by a table; nothing of the text is executed. Names come from the script's scope,
attributes from `lookup`, and what is called is a function of `T` or `I`, a macro, or a Python
function that was given to the script.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from tvmagic.errors import DiagnosticError, TVMagicError, did_you_mean
from tvmagic.ir import Buffer, BufferLoad, BufferRegion, GlobalVar, IntImm, Node, PrimExpr, Span, Var, expr, ops
from tvmagic.script.ir_builder.base import IRBuilder
from tvmagic.script.ir_builder.tir import stmts
from tvmagic.script.ir_builder.tir.frame import ForFrame
from tvmagic.script.ir_builder.tir.values import (
    BufferFunction,
    PointerFunction,
    as_value,
    region_of,
    vector_indices,
)
from tvmagic.script.parser import operators
from tvmagic.script.parser.calls import explain_call
from tvmagic.script.parser.lookup import attribute
from tvmagic.script.parser.macro import ScriptMacro
from tvmagic.script.parser.scope import MISSING, Scope
from tvmagic.script.parser.source import Source

_TAKES_REGIONS = frozenset((stmts.reads, stmts.writes, stmts.match_buffer, stmts.realize))
_WHAT_NAMES_ARE = "a name is a parameter, a loop, what `=` makes, as in `C = T.alloc_buffer((128,))`, or a name of the Python around the function"
_FORMAT = re.compile(r"[<>^+]?0?\d{0,3}(\.\d{1,2})?[a-z%]?$")
_MOST_ELEMENTS = 100_000
_PYTHON_ERRORS = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, AssertionError)
_NAMES_OF_SYNTAX = {
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
    ast.Await: "await",
    ast.NamedExpr: ":=",
    ast.Set: "a set",
    ast.SetComp: "a set comprehension",
}


class Evaluator:
    """Walks expressions. A subclass gives `expand`, which puts the body of a macro in."""

    def __init__(self, source: Source, scope: Scope, builder: IRBuilder) -> None:
        self.source = source
        self.scope = scope
        self.builder = builder

    def expand(self, macro: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        raise NotImplementedError

    def eval(self, node: Any) -> Any:
        """The value of an expression."""
        return _TABLE.get(type(node), _unsupported)(self, node)

    def span(self, node: Any) -> Span:
        """The place of a node of the tree."""
        source = self.source
        if source.ascii:
            base, shift = source.line_base, source.column_base + 1
            return Span(
                source.name,
                node.lineno + base,
                node.col_offset + shift,
                node.end_lineno + base,
                node.end_col_offset + shift,
            )
        return source.span(node)

    def error(self, node: Any, message: str, hint: str | None = None, *, code: str | None = None) -> DiagnosticError:
        return self.source.error(node, message, hint, code=code)

    def wrong(self, node: Any, error: Exception) -> DiagnosticError:
        """An error that was raised while `node` was read, at its place."""
        if isinstance(error, DiagnosticError):
            return error
        if isinstance(error, TVMagicError):
            return self.source.from_error(node, error)
        return self.error(node, str(error) or type(error).__name__, code="script.python_error")

    # ------------------------------------------------------------------------ names and constants

    def name(self, node: ast.Name) -> Any:
        value = self.scope.values.get(node.id, MISSING)
        if value is MISSING:
            piece = self.source.pieces.get(node.id)
            if piece is not None:
                return self.eval(piece)
            value = self.scope.find(node.id)
            if value is MISSING:
                hint = did_you_mean(node.id, self.scope.names()) or _WHAT_NAMES_ARE
                raise self.error(node, f"the name `{node.id}` is not defined", hint, code="script.undefined_name")
        return value

    def constant(self, node: ast.Constant) -> Any:
        value = node.value
        if isinstance(value, (complex, bytes)) or value is Ellipsis:
            raise self.error(
                node,
                f"a constant of type `{type(value).__name__}` has no meaning in TVMScript",
                code="script.unsupported_constant",
            )
        return value

    def attribute(self, node: ast.Attribute) -> Any:
        base = self.eval(node.value)
        try:
            return attribute(base, node.attr, node.value)
        except TVMagicError as error:
            raise self.wrong(node, error) from None

    # ------------------------------------------------------------------------ operators

    def binary(self, node: ast.BinOp) -> Any:
        spine = [node]
        left = node.left
        while type(left) is ast.BinOp:  # a long sum is deep on its left
            spine.append(left)
            left = left.left
        value = self.eval(left)
        for node in reversed(spine):
            right = self.eval(node.right)
            if isinstance(value, PrimExpr):
                right = self.placed(right, node.right)
            elif isinstance(right, PrimExpr):
                value = self.placed(value, node.left)
            try:
                value = operators.binary(type(node.op), value, right, self.span(node))
            except DiagnosticError:
                raise
            except (TVMagicError, *_PYTHON_ERRORS) as error:
                raise self.wrong(node, error) from None
        return value

    def placed(self, value: Any, node: ast.expr) -> Any:
        """A number as the constant that it becomes beside an expression, with its place."""
        if type(value) is not int and type(value) is not float:
            return value
        try:
            constant = expr(value)
        except TVMagicError as error:
            raise self.wrong(node, error) from None
        constant.span = self.span(node)
        return constant

    def unary(self, node: ast.UnaryOp) -> Any:
        value = self.eval(node.operand)
        try:
            return operators.unary(type(node.op), value, self.span(node))
        except (TVMagicError, *_PYTHON_ERRORS) as error:
            raise self.wrong(node, error) from None

    def compare(self, node: ast.Compare) -> Any:
        left, result = self.eval(node.left), MISSING
        span = self.span(node)
        for op, comparator in zip(node.ops, node.comparators):
            right = self.eval(comparator)
            try:
                value = operators.compare(type(op), left, right, span)
                if result is MISSING:
                    result = value
                elif value is not True:  # what is known to hold adds nothing
                    result = operators.boolean(ast.And, result, value, span)
            except (TVMagicError, *_PYTHON_ERRORS) as error:
                raise self.wrong(node, error) from None
            left = right
        return result

    def boolean(self, node: ast.BoolOp) -> Any:
        value, span = self.eval(node.values[0]), self.span(node)
        for item in node.values[1:]:
            right = self.eval(item)
            try:
                value = operators.boolean(type(node.op), value, right, span)
            except (TVMagicError, *_PYTHON_ERRORS) as error:
                raise self.wrong(node, error) from None
        return value

    def conditional(self, node: ast.IfExp) -> Any:
        test = self.eval(node.test)
        if not operators.is_expr(test):
            return self.eval(node.body if test else node.orelse)
        then, other = self.eval(node.body), self.eval(node.orelse)
        try:
            return ops.if_then_else(as_value(test), as_value(then), as_value(other), self.span(node))
        except (TVMagicError, *_PYTHON_ERRORS) as error:
            raise self.wrong(node, error) from None

    # ------------------------------------------------------------------------ accesses

    def slice(self, node: ast.Slice) -> slice:
        lower = None if node.lower is None else self.eval(node.lower)
        upper = None if node.upper is None else self.eval(node.upper)
        return slice(lower, upper, None if node.step is None else self.eval(node.step))

    def indices(self, node: Any) -> list[Any]:
        """The indices between the brackets."""
        if type(node) is ast.Tuple:
            return self.items(node.elts)
        value = self.eval(node)
        return list(value) if isinstance(value, (list, tuple)) else [value]

    def subscript(self, node: ast.Subscript) -> Any:
        base = self.eval(node.value)
        indices = self.indices(node.slice)
        try:
            if isinstance(base, Buffer):
                return self.access(base, indices, node)
            return self._plain_subscript(base, indices, node)
        except DiagnosticError:
            raise
        except (TVMagicError, *_PYTHON_ERRORS) as error:
            raise self.wrong(node, error) from None

    def access(self, buffer: Buffer, indices: list[Any], node: ast.Subscript) -> BufferLoad | BufferRegion:
        """A load, or a region where an index is a slice and no slice has a step."""
        slices = [i for i in indices if type(i) is slice]
        self.check_indices(buffer, indices, node)
        if not slices or any(s.step is not None for s in slices):
            return BufferLoad(buffer, self.positions(buffer, indices, node), None, self.span(node))
        region = region_of(buffer, indices)
        region.span = self.span(node)
        return region

    def positions(self, buffer: Buffer, indices: list[Any], node: ast.Subscript) -> tuple[PrimExpr, ...]:
        """The indices as expressions, slices as ramps, each with its place."""
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else (node.slice,)
        result = vector_indices(buffer, indices)
        if len(places) == len(result):
            for index, place in zip(result, places):
                if not index.span and not isinstance(index, Var):
                    index.span = self.span(place).of(index)
        return result

    def check_indices(self, buffer: Buffer, indices: list[Any], node: ast.Subscript) -> None:
        """Refuse what is not an integer between the brackets."""
        for place, index in enumerate(indices):
            parts = (index.start, index.stop) if type(index) is slice else (index,)
            for part in parts:
                if type(part) is int or (part is None and type(index) is slice):
                    continue
                if isinstance(part, PrimExpr):
                    kind = part.dtype
                    if kind.is_int or kind.is_uint:
                        continue
                elif isinstance(part, BufferRegion) or hasattr(part, "var") or hasattr(part, "item"):
                    continue
                shown = f"`{part.dtype}`" if isinstance(part, PrimExpr) else operators.describe(part)
                elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                at = elements[place] if place < len(elements) else node
                raise self.error(
                    at,
                    f"an index into buffer `{buffer.name}` is an integer, not {shown}",
                    code="script.index_not_integer",
                )

    def _plain_subscript(self, base: Any, indices: list[Any], node: ast.Subscript) -> Any:
        key = tuple(indices) if isinstance(node.slice, ast.Tuple) else indices[0]
        if isinstance(base, (BufferFunction, PointerFunction)):
            return base[key]
        if isinstance(base, Node) or not hasattr(base, "__getitem__"):
            kind = f"an expression of type `{base.dtype}`" if isinstance(base, PrimExpr) else operators.describe(base)
            raise self.error(
                node,
                f"{kind} cannot be indexed",
                "only buffers and Python's sequences can",
                code="script.not_indexable",
            )
        try:
            return base[int(key) if isinstance(key, IntImm) else key]
        except (TypeError, LookupError) as error:
            reason = "it has no such element" if isinstance(error, LookupError) else "this is not a place in it"
            raise self.error(
                node.slice, f"{operators.describe(base)} cannot be indexed so: {reason}", code="script.wrong_index"
            ) from None

    # ------------------------------------------------------------------------ calls

    def items(self, nodes: Iterable[ast.expr]) -> list[Any]:
        """The values of the elements of a list or of the arguments of a call."""
        values: list[Any] = []
        for item in nodes:
            if type(item) is ast.Starred:
                values.extend(self.iterate(item.value))
            else:
                values.append(self.eval(item))
        return values

    def call(self, node: ast.Call) -> Any:
        function = self.eval(node.func)
        args = self.items(node.args)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs.update(value)
            else:
                raise self.error(keyword.value, "`**` takes a mapping", code="script.not_a_mapping")
        if type(function) is ScriptMacro:
            return self.expand(function, args, kwargs, node)
        if not _takes_regions(function):
            for i, value in enumerate(args):
                if type(value) is BufferRegion:
                    args[i] = as_value(value)
                elif type(value) is ModuleType:
                    raise self.error(node, "a module cannot be an argument", code="script.module_as_argument")
            for name, value in kwargs.items():
                if type(value) is BufferRegion:
                    kwargs[name] = as_value(value)
        return self.apply(function, args, kwargs, node)

    def apply(self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """Call a function of `T`, or one that was given."""
        try:
            if isinstance(function, GlobalVar):
                return self.call_function(function, args, kwargs, node)
            result = function(*args, **kwargs)
        except DiagnosticError:
            raise
        except TypeError as error:
            raise self.error(
                node, *explain_call(ast.unparse(node.func), function, args, kwargs, error), code="script.wrong_call"
            ) from None
        except RecursionError:
            raise
        except Exception as error:
            raise self.wrong(node, error) from (None if isinstance(error, TVMagicError) else error)
        if isinstance(result, PrimExpr) and not result.span and not isinstance(result, Var):
            result.span = self.span(node).of(result)
        return result

    def call_function(self, function: GlobalVar, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """The call of another function of the module."""
        if kwargs:
            raise self.error(node, "a call of a function of the module has no keywords", code="script.keyword_argument")
        for value, at in zip(args, node.args):
            if not operators.is_expr(value) and not isinstance(value, (int, float, str)):
                hint = "pass its pointer, such as `A.data`" if isinstance(value, Buffer) else None
                raise self.error(
                    at,
                    f"{operators.describe(value)} cannot be passed to `{function.name_hint}`",
                    hint,
                    code="script.wrong_argument",
                )
        call = ops.call_tir(function, *[expr(as_value(a)) for a in args])
        call.span = self.span(node)
        return call

    # ------------------------------------------------------------------------ Python's values

    def sequence(self, node: ast.Tuple | ast.List) -> Any:
        values = self.items(node.elts)
        return tuple(values) if type(node) is ast.Tuple else values

    def mapping(self, node: ast.Dict) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                other = self.eval(value)
                if not isinstance(other, dict):
                    raise self.error(value, "`**` takes a mapping", code="script.not_a_mapping")
                result.update(other)
                continue
            try:
                result[self.eval(key)] = self.eval(value)
            except TypeError as error:
                raise self.wrong(key, error) from None
        return result

    def text(self, node: ast.JoinedStr) -> str:
        parts: list[str] = []
        for part in node.values:
            value = self.eval(part.value) if isinstance(part, ast.FormattedValue) else self.eval(part)
            if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
                spec = self.eval(part.format_spec)
                if not _FORMAT.match(spec):
                    raise self.error(
                        part, f'the format "{spec}" is not open to scripts', code="script.format_not_allowed"
                    )
                try:
                    value = format(value, spec)
                except (TypeError, ValueError) as error:
                    raise self.wrong(part, error) from None
            parts.append(value if isinstance(value, str) else str(getattr(value, "value", value)))
        return "".join(parts)

    def function(self, node: ast.Lambda) -> Lambda:
        return Lambda(self, node)

    def iterate(self, node: ast.expr) -> Iterable[Any]:
        """The elements of a sequence that is known while the script is read."""
        value = self.eval(node)
        if isinstance(value, ForFrame):
            bounds = [(dom.min, dom.extent) for dom in value.doms]
            if len(bounds) == 1 and all(isinstance(b, IntImm) for b in bounds[0]):
                first, extent = int(bounds[0][0]), int(bounds[0][1])  # type: ignore[call-overload]
                if extent <= _MOST_ELEMENTS:
                    return range(first, first + extent)
            raise self.error(
                node,
                "the bounds of this range are not constants",
                "a comprehension runs while the script is read",
                code="script.bounds_not_constant",
            )
        if isinstance(value, (Node, str)) or not hasattr(value, "__iter__"):
            raise self.error(
                node, f"{operators.describe(value)} has no elements to go through", code="script.not_iterable"
            )
        return value

    def comprehension(self, node: Any) -> Any:
        """A list, generator or mapping comprehension over values that are known."""
        results: list[Any] = []
        if isinstance(node, ast.DictComp):
            self._generate(node.generators, lambda: results.append((self.eval(node.key), self.eval(node.value))))
            return dict(results)
        self._generate(node.generators, lambda: results.append(self.eval(node.elt)))
        return results

    def _generate(self, generators: list[ast.comprehension], emit: Callable[[], None]) -> None:
        if not generators:
            return emit()
        first = generators[0]
        for count, value in enumerate(self.iterate(first.iter)):
            if count >= _MOST_ELEMENTS:
                raise self.error(
                    first.iter, "a comprehension has too many elements", code="script.comprehension_too_long"
                )
            self.scope.push()
            self.bind_plain(first.target, value)
            tests = [self.eval(test) for test in first.ifs]
            for test, at in zip(tests, first.ifs):
                if operators.is_expr(test):
                    raise self.error(
                        at, "the condition of a comprehension is not a constant", code="script.condition_not_constant"
                    )
            if all(tests):
                self._generate(generators[1:], emit)
            self.scope.pop()
        return None

    def bind_plain(self, target: ast.expr, value: Any) -> None:
        """Give names to a value as it is."""
        if isinstance(target, ast.Name):
            self.scope.define(target.id, value, shadow=True)
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise self.error(target, "only names can be bound here", code="script.target_not_a_name")
        for item, part in zip(target.elts, self.unpack(target, value)):
            self.bind_plain(item.value if isinstance(item, ast.Starred) else item, part)

    def unpack(self, target: ast.Tuple | ast.List, value: Any) -> list[Any]:
        """The parts of `value`, one for each element of the target."""
        if isinstance(value, (Node, str)) or not hasattr(value, "__iter__"):
            raise self.error(
                target, f"{len(target.elts)} names are given for one value", code="script.wrong_unpack_count"
            )
        values, wanted = list(value), len(target.elts)
        starred = [i for i, item in enumerate(target.elts) if isinstance(item, ast.Starred)]
        if not starred and len(values) != wanted or starred and len(values) < wanted - 1:
            raise self.error(
                target, f"{wanted} names are given for {len(values)} values", code="script.wrong_unpack_count"
            )
        if starred:
            at, rest = starred[0], len(values) - wanted + 1
            values[at : at + rest] = [values[at : at + rest]]
        return values


class Lambda:
    """A `lambda` of the script, for the functions of `T` that take one."""

    def __init__(self, evaluator: Evaluator, node: ast.Lambda) -> None:
        args = node.args
        if args.kwonlyargs or args.kwarg or args.defaults:
            raise evaluator.error(node, "a `lambda` has plain parameters only here", code="script.lambda_parameters")
        self.evaluator, self.node = evaluator, node
        self.parameter_names = [a.arg for a in (*args.posonlyargs, *args.args)]
        self.rest = args.vararg.arg if args.vararg else None
        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in self.parameter_names]
        if self.rest is not None:
            parameters.append(inspect.Parameter(self.rest, inspect.Parameter.VAR_POSITIONAL))
        self.__signature__ = inspect.Signature(parameters)

    def __repr__(self) -> str:
        return ast.unparse(self.node)

    def __call__(self, *args: Any) -> Any:
        evaluator, names = self.evaluator, self.parameter_names
        if len(args) < len(names) or (len(args) > len(names) and self.rest is None):
            raise evaluator.error(
                self.node,
                f"the `lambda` takes {len(names)} arguments, not {len(args)}",
                code="script.wrong_argument_count",
            )
        evaluator.scope.push()
        try:
            for name, value in zip(names, args):
                evaluator.scope.define(name, value)
            if self.rest is not None:
                evaluator.scope.define(self.rest, list(args[len(names) :]))
            return evaluator.eval(self.node.body)
        finally:
            evaluator.scope.pop()


def _takes_regions(function: Any) -> bool:
    try:
        return function in _TAKES_REGIONS
    except TypeError:  # not hashable
        return False


def _unsupported(self: Evaluator, node: Any) -> Any:
    name = _NAMES_OF_SYNTAX.get(type(node), type(node).__name__)
    raise self.error(node, f"`{name}` has no meaning in TVMScript", code="script.unsupported_expression")


_TABLE: dict[type, Callable[[Evaluator, Any], Any]] = {
    ast.Name: Evaluator.name,
    ast.Constant: Evaluator.constant,
    ast.Attribute: Evaluator.attribute,
    ast.BinOp: Evaluator.binary,
    ast.UnaryOp: Evaluator.unary,
    ast.Compare: Evaluator.compare,
    ast.BoolOp: Evaluator.boolean,
    ast.IfExp: Evaluator.conditional,
    ast.Slice: Evaluator.slice,
    ast.Subscript: Evaluator.subscript,
    ast.Call: Evaluator.call,
    ast.Tuple: Evaluator.sequence,
    ast.List: Evaluator.sequence,
    ast.Dict: Evaluator.mapping,
    ast.JoinedStr: Evaluator.text,
    ast.Lambda: Evaluator.function,
    ast.ListComp: Evaluator.comprehension,
    ast.GeneratorExp: Evaluator.comprehension,
    ast.DictComp: Evaluator.comprehension,
}
