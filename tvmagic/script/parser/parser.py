"""The statements of a script, read into a function or a module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from tvmagic import ir
from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.script.ir_builder.base import IRBuilder, IRBuilderFrame, name_value
from tvmagic.script.ir_builder.tir import frame as frames
from tvmagic.script.ir_builder.tir import stmts
from tvmagic.script.ir_builder.tir.values import DTypeFunction, HandleFunction, as_value, meta_var
from tvmagic.script.parser import operators
from tvmagic.script.parser.evaluator import Evaluator, Lambda
from tvmagic.script.parser.macro import ScriptMacro, active, bind_arguments
from tvmagic.script.parser.scope import Scope
from tvmagic.script.parser.source import Source

_DEEPEST_MACRO = 100


class Parser(Evaluator):
    """Reads the body of functions. `outer` are the mappings whose names the script may use.

    A dialect of scripts is a subclass with handlers of its own in `STATEMENTS`.
    """

    STATEMENTS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {}

    def __init__(self, source: Source, outer: Sequence[Mapping[str, Any]], builder: IRBuilder) -> None:
        super().__init__(source, Scope(outer), builder)
        self.macro_depth = 0

    # ------------------------------------------------------------------------ functions

    def function(
        self, node: ast.FunctionDef, private: bool = False, annotations: Mapping[str, Any] | None = None
    ) -> None:
        """Read a function; the builder takes it in."""
        last = node.returns or (node.args.args[-1] if node.args.args else node)
        self.builder.span = self.source.span(node) if last is node else self.source.header(node, last)
        self.scope.push()
        frame = frames.PrimFuncFrame(private)
        frame.__enter__()
        frame.name = node.name
        if node.returns is not None:
            returned = self.eval(node.returns)
            if returned is not None:
                self.guard(node.returns, lambda: stmts.func_ret(returned))
        self.parameters(node, annotations or {})
        previous = getattr(active, "parser", None)
        active.parser = self
        try:
            self.body(node.body)
        finally:
            active.parser = previous
        self.guard(node, lambda: self.builder.close(frame))
        self.scope.pop()

    def parameters(self, node: ast.FunctionDef, annotations: Mapping[str, Any]) -> None:
        """Declare the parameters of a function."""
        args = node.args
        odd = args.vararg or args.kwarg or (args.kwonlyargs or args.posonlyargs or [None])[0]
        if odd is not None:
            raise self.error(odd, "a function of a script has plain parameters only", code="script.parameter_kind")
        if args.defaults:
            raise self.error(
                args.defaults[0], "a parameter of a function has no default value", code="script.parameter_default"
            )
        for arg in args.args:
            self.builder.span = self.span(arg)
            value = self.parameter(arg, annotations)
            made = self.guard(arg, partial(stmts.arg, arg.arg, value))
            self.guard(arg, partial(self.scope.define, arg.arg, made))

    def parameter(self, arg: ast.arg, annotations: Mapping[str, Any]) -> Any:
        """The variable or buffer that the annotation of a parameter stands for."""
        if arg.annotation is None:
            raise self.error(
                arg,
                f"the parameter `{arg.arg}` has no type",
                'write for example `A: T.Buffer((16,), "float32")`',
                code="script.parameter_without_type",
            )
        try:
            value = self.eval(arg.annotation)
        except DiagnosticError:
            value = annotations.get(arg.arg)
            if value is None or isinstance(value, str):
                raise
        if isinstance(value, (DTypeFunction, HandleFunction)):
            value = value()
        if isinstance(value, (ir.Var, ir.Buffer)):
            value.span = self.span(arg)
        return value

    def guard(self, node: Any, action: Callable[[], Any]) -> Any:
        """Run `action`; an error is one at `node`."""
        try:
            return action()
        except DiagnosticError:
            raise
        except TVMagicError as error:
            raise self.wrong(node, error) from None

    # ------------------------------------------------------------------------ bodies

    def body(self, nodes: list[ast.stmt]) -> None:
        """Read statements one after the other."""
        builder, node = self.builder, None
        try:
            for node in nodes:
                builder.span = self.span(node)
                self.STATEMENTS.get(type(node), _unsupported)(self, node)
        except DiagnosticError:
            raise
        except RecursionError:
            raise self.error(node, "the script is nested too deeply", code="script.nested_too_deeply") from None
        except TVMagicError as error:
            raise self.wrong(node, error) from None

    def scoped_body(self, nodes: list[ast.stmt]) -> None:
        """Read statements at a level of their own."""
        self.scope.push()
        self.body(nodes)
        self.scope.pop()

    def open(self, frame: IRBuilderFrame) -> Any:
        """Enter a frame that reaches to the end of the one around it, or to `builder.close`."""
        result = frame.start(self.builder)
        self.builder.frames.append(frame)
        return result

    def loop(self, node: ast.For) -> None:
        if node.orelse:
            raise self.error(node.orelse[0], "a loop has no `else` in TVMScript", code="script.loop_with_else")
        self.builder.span = self.source.header(node, node.iter)
        frame = self.eval(node.iter)
        if not isinstance(frame, frames.ForFrame):
            raise self.error(
                node.iter,
                "a loop goes over `range`, `T.serial`, `T.grid`, `T.parallel`, `T.vectorized`, `T.unroll` or "
                "`T.thread_binding`",
                code="script.not_a_loop",
            )
        self.scope.push()
        self.bind(node.target, self.open(frame), self.name_loop)
        self.body(node.body)
        self.builder.close(frame)
        self.scope.pop()

    def name_loop(self, node: ast.expr, name: str, value: Any) -> Any:
        for var in value if isinstance(value, (list, tuple)) else (value,):
            var.span = self.span(node)
        name_value(name, value)
        return value

    def with_frames(self, node: ast.With) -> None:
        self.builder.span = self.source.header(node, node.items[-1].context_expr)
        self.scope.push()
        opened: list[IRBuilderFrame] = []
        for item in node.items:
            frame = self.eval(item.context_expr)
            if not isinstance(frame, IRBuilderFrame):
                raise self.error(
                    item.context_expr,
                    f"`with` takes a part of a program such as `T.block(...)`, not {operators.describe(frame)}",
                    code="script.wrong_with",
                )
            value = self.guard(item.context_expr, partial(self.open, frame))
            opened.append(frame)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, self.name_with)
        self.body(node.body)
        for frame in reversed(opened):
            self.builder.close(frame)
        self.scope.pop()

    def name_with(self, node: ast.expr, name: str, value: Any) -> Any:
        if not isinstance(value, (ir.Buffer, ir.Var, list, tuple)):
            raise self.error(node, f"this `with` has no value to be called `{name}`", code="script.with_without_value")
        name_value(name, value)
        return value

    def branch(self, node: ast.If) -> None:
        test = as_value(self.eval(node.test))
        if hasattr(test, "asobject"):
            test = test.asobject()
        if isinstance(test, bool) or type(test).__name__ == "bool_":
            self.scoped_body(node.body if test else node.orelse)
            return
        if not isinstance(test, ir.PrimExpr):
            raise self.error(
                node.test,
                f"the condition of `if` is a bool, not {operators.describe(test)}",
                code="script.condition_not_bool",
            )
        self.builder.span = self.source.header(node, node.test)
        frame = self.guard(node.test, lambda: stmts.If(test))
        self.open(frame)
        self._arm(frames.ThenFrame(), node.body)
        if node.orelse:
            self._arm(frames.ElseFrame(), node.orelse)
        self.builder.close(frame)

    def _arm(self, frame: IRBuilderFrame, nodes: list[ast.stmt]) -> None:
        self.open(frame)
        self.scoped_body(nodes)
        self.builder.close(frame)

    def while_loop(self, node: ast.While) -> None:
        if node.orelse:
            raise self.error(node.orelse[0], "a loop has no `else` in TVMScript", code="script.loop_with_else")
        self.builder.span = self.source.header(node, node.test)
        test = self.eval(node.test)
        frame = self.guard(node.test, lambda: stmts.While(test))
        self.open(frame)
        self.scoped_body(node.body)
        self.builder.close(frame)

    # ------------------------------------------------------------------------ assignments

    def assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise self.error(
                node,
                "`a = b = c` has no meaning in TVMScript",
                "write one assignment for each name",
                code="script.chained_assignment",
            )
        target = node.targets[0]
        value = self.eval(node.value)
        if isinstance(target, ast.Subscript):
            self.store(target, value, node)
        elif isinstance(target, ast.Attribute):
            raise self.error(target, "an attribute cannot be assigned", code="script.attribute_assigned")
        else:
            if isinstance(value, ir.BufferRegion) and _has_both_ends(node.value):
                value = as_value(value)
            self.bind(target, value, self.name_assigned)

    def store(self, target: ast.Subscript, value: Any, node: ast.stmt) -> None:
        """`A[i, j] = value`"""
        buffer = self.eval(target.value)
        indices = self.indices(target.slice)
        if not isinstance(buffer, ir.Buffer):
            raise self.error(target, "only an element of a buffer can be assigned", code="script.store_not_an_element")
        self.check_indices(buffer, indices, target)
        if not isinstance(value, (ir.PrimExpr, bool, int, float, ir.BufferRegion)) and not operators.is_expr(value):
            if not hasattr(value, "item"):
                raise self.error(
                    node,
                    f"{operators.describe(value)} cannot be stored in buffer `{buffer.name}`",
                    code="script.store_dtype_differs",
                )
        positions = self.positions(buffer, indices, target)
        self.builder.add(stmts.make_store(buffer, value, positions, None, self.builder.span))

    def bind(self, target: ast.expr, value: Any, name: Callable[[ast.expr, str, Any], Any]) -> None:
        """Bind the names of `target` to `value`; `name` says what a name stands for."""
        if isinstance(target, ast.Name):
            value = name(target, target.id, value)
            try:
                self.scope.define(target.id, value)
            except TVMagicError as error:
                raise self.wrong(target, error) from None
        elif isinstance(target, (ast.Tuple, ast.List)):
            for item, part in zip(target.elts, self.unpack(target, value)):
                self.bind(item.value if isinstance(item, ast.Starred) else item, part, name)
        else:
            raise self.error(target, "only names can be bound here", code="script.target_not_a_name")

    def name_assigned(self, node: ast.expr, name: str, value: Any) -> Any:
        """What a name stands for after `name = value`."""
        if isinstance(value, meta_var):
            return value.value
        if isinstance(value, (list, tuple)):
            return [self.name_assigned(node, f"{name}_{i}", item) for i, item in enumerate(value)]
        if isinstance(value, IRBuilderFrame):
            if isinstance(value, frames.ForFrame):
                raise self.error(node, "a loop is written with `for`", code="script.loop_assigned")
            result = self.open(value)
            if isinstance(result, (ir.Var, ir.Buffer)):
                result.span = result.span or self.span(node)
                name_value(name, result)
            return result
        if isinstance(value, (ir.Buffer, ir.IterVar)) or (isinstance(value, ir.Var) and not self.scope.holds(value)):
            if not value.span:
                value.span = self.span(node).of(value)
            name_value(name, value)
            return value
        return self._let(node, name, value)

    def _let(self, node: ast.expr, name: str, value: Any) -> Any:
        if isinstance(value, (Lambda, ScriptMacro)) or callable(value) or isinstance(value, (dict, type(None))):
            raise self.error(
                node,
                f"the name `{name}` cannot be used as {operators.describe(value)}",
                "a value that is only a name in the script is written `T.meta_var(value)`",
                code="script.wrong_let",
            )
        frame = stmts.LetStmt(ir.convert(as_value(value)))
        frame.var.span = self.span(node)
        name_value(name, frame.var)
        return self.open(frame)

    def annotated(self, node: ast.AnnAssign) -> None:
        """`x: T.int32 = value`"""
        if node.value is None:
            raise self.error(
                node,
                "a variable with a type needs a value",
                "write `x: T.int32 = value`",
                code="script.declaration_without_value",
            )
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, "only a name can be declared with a type", code="script.target_not_a_name")
        value = as_value(self.eval(node.value))
        var = self.eval(node.annotation)
        if isinstance(var, (DTypeFunction, HandleFunction)):
            var = var()
        if not isinstance(var, ir.Var):
            raise self.error(
                node.annotation,
                "this is not a type of a variable",
                "write a type such as `T.int32`",
                code="script.not_a_variable_type",
            )
        if isinstance(value, (int, float)) and not var.dtype.is_handle:
            value = ir.ops.const(value, var.dtype)
        var.span = self.span(node.target)
        name_value(node.target.id, var)
        frame = self.guard(node.value, lambda: stmts.LetStmt(value, var=var))
        self.guard(node.target, lambda: self.scope.define(node.target.id, var))  # type: ignore[union-attr]
        self.open(frame)

    def augmented(self, node: ast.AugAssign) -> None:
        """`A[i] += value`"""
        left, right = self.eval(node.target), self.eval(node.value)
        try:
            value = operators.binary(type(node.op), left, right, self.span(node))
        except (TVMagicError, TypeError, ValueError, ArithmeticError) as error:
            raise self.wrong(node, error) from None
        if isinstance(node.target, ast.Subscript):
            self.store(node.target, value, node)
        else:
            self.bind(node.target, value, self.name_assigned)

    # ------------------------------------------------------------------------ other statements

    def expression(self, node: ast.Expr) -> None:
        value = self.eval(node.value)
        if value is None or isinstance(value, str):
            return  # a docstring, or a call such as `T.reads(...)`
        if isinstance(value, frames.ForFrame):
            raise self.error(node, "a loop is written with `for`", code="script.loop_without_for")
        if isinstance(value, frames.BlockFrame):
            raise self.error(
                node,
                "a block is written with `with`",
                'write `with T.block("name"):`',
                code="script.block_without_with",
            )
        if isinstance(value, IRBuilderFrame):
            self.open(value)
        elif isinstance(value, ir.BufferStore):
            self.builder.add(value)
        elif isinstance(value, (int, ir.PrimExpr, ir.BufferRegion)):
            stmts.evaluate(value)
        elif operators.is_expr(value):
            stmts.evaluate(ir.convert(value))
        else:
            raise self.error(node, f"{operators.describe(value)} is not a statement", code="script.not_a_statement")

    def assertion(self, node: ast.Assert) -> None:
        condition = self.eval(node.test)
        message = "" if node.msg is None else self.eval(node.msg)
        frame = self.guard(node, lambda: stmts.Assert(condition, message))
        self.open(frame)

    def returned(self, node: ast.Return) -> None:
        if node.value is None:
            raise self.error(
                node,
                "`return` gives a value in TVMScript",
                "leave it out if nothing is returned",
                code="script.return_without_value",
            )
        value = self.eval(node.value)
        if isinstance(value, (tuple, list, str, dict, ir.Buffer, type(None))):
            raise self.error(
                node.value, f"a function cannot return {operators.describe(value)}", code="script.wrong_return"
            )
        stmts.evaluate(ir.ops.ret(as_value(value), self.builder.span))

    def nothing(self, node: ast.Pass) -> None:
        """`pass`"""

    # ------------------------------------------------------------------------ macros

    def expand(self, macro: ScriptMacro, args: list[Any], kwargs: dict[str, Any], node: Any) -> None:
        """Read the body of a macro here."""
        if self.macro_depth >= _DEEPEST_MACRO:
            raise self.error(node, f"the macro `{macro.__name__}` is expanded without end", code="script.endless_macro")
        span, source, scope = self.builder.span, self.source, self.scope
        if macro.hygienic:
            self.scope = Scope(macro.outer)
        else:
            self.scope.push()
        self.source = macro.source
        self.macro_depth += 1
        try:
            values = bind_arguments(macro.__name__, macro.node.args, [*macro.bound, *args], kwargs, self.eval)
            for name, value in values.items():
                self.scope.define(name, value)
            self.body(macro.node.body)
        except DiagnosticError:
            raise
        except TVMagicError as error:
            raise source.from_error(node, error) from None
        finally:
            self.macro_depth -= 1
            self.source = source
            if not macro.hygienic:
                self.scope.pop()
            self.scope = scope
            self.builder.span = span


def _has_both_ends(node: ast.expr) -> bool:
    """Whether every slice between the brackets has a beginning and an end."""
    if not isinstance(node, ast.Subscript):
        return False
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return all(i.lower is not None and i.upper is not None for i in indices if isinstance(i, ast.Slice))


_WORDS: dict[type, str] = {
    ast.Try: "try",
    ast.ClassDef: "class",
    ast.FunctionDef: "def",
    ast.AsyncFunctionDef: "async def",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Delete: "del",
    ast.Raise: "raise",
    ast.Match: "match",
    ast.Break: "break",
    ast.Continue: "continue",
}


def _unsupported(self: Parser, node: Any) -> None:
    word = _WORDS.get(type(node), type(node).__name__)
    raise self.error(
        node, f"Python's `{word}` has no meaning inside a function of TVMScript", code="script.unsupported_statement"
    )


Parser.STATEMENTS = {
    ast.For: Parser.loop,
    ast.With: Parser.with_frames,
    ast.If: Parser.branch,
    ast.While: Parser.while_loop,
    ast.Assign: Parser.assign,
    ast.AnnAssign: Parser.annotated,
    ast.AugAssign: Parser.augmented,
    ast.Expr: Parser.expression,
    ast.Assert: Parser.assertion,
    ast.Return: Parser.returned,
    ast.Pass: Parser.nothing,
}
