"""Texts and live Python read as functions and modules: `from_source`, `T.prim_func`, `I.ir_module`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.ir import IRModule, PrimFunc, Var, find_problems, load_json
from tvmagic.script.ir_builder import IRBuilder
from tvmagic.script.ir_builder.ir import IRModuleFrame
from tvmagic.script.ir_builder.tir.values import type_from
from tvmagic.script.parser.builtins import BUILTINS
from tvmagic.script.parser.live_source import LiveSource
from tvmagic.script.parser.lookup import ModuleNames
from tvmagic.script.parser.macro import ScriptMacro
from tvmagic.script.parser.parser import Parser
from tvmagic.script.parser.source import Source, reported

# The names that every text may use. The package fills it: the decorators of scripts are among the names, and use this file.
DIALECTS: dict[str, Any] = {}


def from_source(program: Any, extra_vars: Mapping[str, Any] | None = None, check_well_formed: bool = False) -> Any:
    """The function or module that a TVMScript text says. The text is read, never executed.

    Parameters
    ----------
    program: the text; or a Python function or class, whose source is read.
    extra_vars: further names that the text may use; by default `T`, `I`, `tir` and `ir`.
    check_well_formed: refuse programs with undefined variables, unbound blocks and the like.
    """
    try:
        return _parse(program, extra_vars, check_well_formed)
    except DiagnosticError as error:
        raise reported(error) from error.__cause__


parse = from_source


def _parse(program: Any, extra_vars: Mapping[str, Any] | None, check_well_formed: bool) -> Any:
    if isinstance(program, str):
        source, outer, annotations = Source(program), [], {}
    else:
        live = LiveSource.of(program)
        source, outer, annotations = live.source, live.outer, live.annotations
    names = {**DIALECTS, **(extra_vars or {})}
    result = _Text(source, [*([extra_vars] if extra_vars else []), *outer, names, BUILTINS], annotations).read()
    return checked(result, source) if check_well_formed else result


def checked(result: Any, source: Source) -> Any:
    """`result`, after a check that it is well-formed; else an error at the place in `source`."""
    for problem in find_problems(result, regions=False)[:1]:
        around = (
            [problem.node, *reversed(problem.inside)] if not isinstance(problem.node, Var) else reversed(problem.inside)
        )
        span = next((node.span for node in around if getattr(node, "span", None)), None)
        raise source.error_at(
            span,
            f"the program is not well-formed: {problem.text()}",
            "pass `check_well_formed=False` where this is meant",
            code="script.not_well_formed",
        )
    return result


def read_function(live: LiveSource, private: bool, check_well_formed: bool) -> PrimFunc:
    """The function under `@T.prim_func`."""
    builder = IRBuilder()
    node = _definition(live.source, ast.FunctionDef)
    with builder:
        _read(Parser(live.source, [*live.outer, DIALECTS, BUILTINS], builder), node, private, live.annotations)
    return checked(builder.get(), live.source) if check_well_formed else builder.get()


def read_macro(live: LiveSource, hygienic: bool) -> ScriptMacro:
    """The macro under `@T.macro`."""
    node = _definition(live.source, ast.FunctionDef)
    return ScriptMacro(node.name, node, live.source, [*live.outer, DIALECTS, BUILTINS], hygienic)


def read_module(live: LiveSource, check_well_formed: bool) -> IRModule:
    """The module under `@I.ir_module`."""
    text = _Text(live.source, [*live.outer, DIALECTS, BUILTINS], live.annotations)
    module = text.module(_definition(live.source, ast.ClassDef))
    return checked(module, live.source) if check_well_formed else module


def _definition(source: Source, kind: type[Any]) -> Any:
    nodes = source.parse().body
    if len(nodes) == 1 and isinstance(nodes[0], ast.If):  # around indented code, see `live`
        nodes = nodes[0].body
    for node in nodes:
        if isinstance(node, kind):
            return node
    raise DiagnosticError(
        f"the source of `{source.name}` holds no `{'def' if kind is ast.FunctionDef else 'class'}`",
        code="script.definition_not_found",
    )


def _read(parser: Parser, node: ast.FunctionDef, private: bool, annotations: Mapping[str, Any]) -> None:
    try:
        parser.function(node, private, annotations)
    except RecursionError:
        raise parser.error(node, "the script is nested too deeply", code="script.nested_too_deeply") from None


class _Text:
    """A whole text: definitions of macros, functions and modules, and the names they use."""

    def __init__(self, source: Source, outer: list[Mapping[str, Any]], annotations: Mapping[str, Any]) -> None:
        self.source = source
        self.names: dict[str, Any] = {}
        self.outer: list[Mapping[str, Any]] = [self.names, *outer]
        self.annotations = annotations

    def parser(self, builder: IRBuilder) -> Parser:
        return Parser(self.source, self.outer, builder)

    def read(self) -> Any:
        """The last function or module of the text."""
        result: Any = None
        for node in self.source.parse().body:
            if isinstance(node, ast.FunctionDef):
                result = self.definition(node) or result
            elif isinstance(node, ast.ClassDef):
                result = self.names[node.name] = self.module(node)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imported(node)
            elif _is_metadata(node):
                self.metadata(node)
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                raise self.source.error(
                    node,
                    "a text holds functions under `@T.prim_func` and classes under `@I.ir_module`",
                    code="script.unsupported_definition",
                )
        if result is None:
            raise DiagnosticError(
                "the text holds no function", hint="write a function under `@T.prim_func`", code="script.no_function"
            )
        return result

    def imported(self, node: Any) -> None:
        """`from tvm.script import tir as T`: the names are those that scripts have anyway."""
        known = DIALECTS
        for alias in node.names:
            last = alias.name.rsplit(".", 1)[-1]
            of_ours = isinstance(node, ast.ImportFrom) and node.module in ("tvm.script", "tvmagic.script")
            if of_ours and last in known:
                self.names[alias.asname or last] = known[last]
            elif not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                raise self.source.error(
                    node,
                    "a text cannot import",
                    "names from outside are given as `extra_vars` of `from_source`",
                    code="script.import_statement",
                )

    def metadata(self, node: Any) -> None:
        """`metadata = tvm.ir.load_json(...)`: the objects that the printer has no other text for."""
        try:
            self.names[node.targets[0].id] = load_json(node.value.args[0].value)
        except TVMagicError as error:
            raise self.source.from_error(node.value, error) from None

    def definition(self, node: ast.FunctionDef) -> PrimFunc | None:
        """A function of the text, or a macro, which later functions may call."""
        builder = IRBuilder()
        with builder:
            parser = self.parser(builder)
            kind, options = decorator(parser, node)
            if kind == "macro":
                hygienic = bool(options.get("hygienic", True))
                self.names[node.name] = ScriptMacro(node.name, node, self.source, self.outer, hygienic)
                return None
            _read(parser, node, bool(options.get("private", False)), self.annotations)
        return builder.get()

    def module(self, node: ast.ClassDef) -> IRModule:
        """A module: its functions are declared before they are read, so that they can call each other."""
        if node.bases or node.keywords:
            raise self.source.error(node, "a module has no base classes", code="script.module_with_bases")
        builder = IRBuilder()
        with builder:
            parser = self.parser(builder)
            frame = IRModuleFrame()
            frame.__enter__()
            names = ModuleNames()
            self.names[node.name] = self.names["cls"] = names
            functions = self._declare(node, parser, frame, names)
            for function, private in functions:
                _read(parser, function, private, {})
            parser.guard(node, lambda: builder.close(frame))
        return builder.get()

    def _declare(
        self, node: ast.ClassDef, parser: Parser, frame: IRModuleFrame, names: ModuleNames
    ) -> list[tuple[ast.FunctionDef, bool]]:
        functions: list[tuple[ast.FunctionDef, bool]] = []
        for item in node.body:
            if isinstance(item, ast.FunctionDef):
                kind, options = decorator(parser, item)
                if kind == "macro":
                    self.names[item.name] = ScriptMacro(item.name, item, self.source, self.outer, True)
                    continue
                functions.append((item, bool(options.get("private", False))))
                names.functions[item.name] = parser.guard(item, lambda name=item.name: frame.declare(name))
            elif isinstance(item, ast.Expr):
                value = parser.eval(item.value)
                if value is not None and not isinstance(value, str):
                    raise self.source.error(
                        item,
                        "a module holds functions, `I.module_attrs` and `I.module_global_infos`",
                        code="script.unsupported_in_module",
                    )
            elif not isinstance(item, ast.Pass):
                raise self.source.error(
                    item,
                    "a module holds functions, `I.module_attrs` and `I.module_global_infos`",
                    code="script.unsupported_in_module",
                )
        for function, _ in functions:
            if function.returns is not None:
                returned = parser.guard(function.returns, lambda node=function.returns: type_from(parser.eval(node)))
                names.functions[function.name].returns(returned)
        return functions


def _is_metadata(node: ast.stmt) -> bool:
    """Whether a statement is `name = ....load_json("text")`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    function, args = node.value.func, node.value.args
    return (
        isinstance(node.targets[0], ast.Name)
        and isinstance(function, ast.Attribute)
        and function.attr == "load_json"
        and len(args) == 1
        and isinstance(args[0], ast.Constant)
        and isinstance(args[0].value, str)
    )


def decorator(parser: Parser, node: ast.FunctionDef) -> tuple[str, dict[str, Any]]:
    """Whether a definition is a `prim_func` or a `macro`, and the options of its decorator."""
    for item in node.decorator_list:
        call = item if isinstance(item, ast.Call) else None
        try:
            function = parser.eval(call.func if call is not None else item)
        except DiagnosticError:
            if len(node.decorator_list) == 1:
                raise
            continue
        kind = getattr(function, "script_decorator", None)
        if kind is not None:
            options = {} if call is None else {k.arg: parser.eval(k.value) for k in call.keywords if k.arg}
            return kind, options
    place = node.decorator_list[0] if node.decorator_list else node
    raise parser.error(
        place, f"the function `{node.name}` is not under `@T.prim_func`", code="script.function_without_decorator"
    )
