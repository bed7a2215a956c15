"""How functions and modules are written in TVMScript."""

from __future__ import annotations

import keyword
from typing import Any

from tvmagic import ir
from tvmagic.script.printer.buffers import ALLOC_ALIGNMENT, buffer_annotation, declaration
from tvmagic.script.printer.core import Printer, Suite, prints
from tvmagic.script.printer.scope import Frame
from tvmagic.script.printer.statements_in_order import statements
from tvmagic.script.printer.stmts import alloc_buffer, is_constant


def _has_variables(node: Any) -> bool:
    found = False

    class Finder(ir.Visitor):
        @ir.handles(ir.Var)
        def var(self, var: ir.Var) -> None:
            nonlocal found
            found = True

    Finder().visit(node)
    return found


def _is_plain(buffer: ir.Buffer) -> bool:
    """Whether the type of a parameter says all about its buffer."""
    if buffer.strides or buffer.axis_separators or buffer.buffer_type:
        return False
    if any(not isinstance(size, ir.IntImm) and _has_variables(size) for size in buffer.shape):
        return False
    if not is_constant(buffer.elem_offset, 0):
        return False
    return buffer.scope() == "global" and buffer.data_alignment == ALLOC_ALIGNMENT and buffer.offset_factor == 1


def _implicit_root(function: ir.PrimFunc) -> ir.Block | None:
    """The root block, if the text need not say more of it than a comment."""
    realize = function.body
    if not isinstance(realize, ir.BlockRealize) or realize.iter_values or not is_constant(realize.predicate, 1):
        return None
    block = realize.block
    if block.annotations or block.match_buffers or block.reads or block.writes or block.init is not None:
        return None
    if block.alloc_buffers:
        return block
    if isinstance(block.body, ir.BlockRealize):
        return block if block.body.block.iter_vars else None
    return block if any(isinstance(s, ir.BlockRealize) for s in statements(block.body)) else None


@prints(ir.PrimFunc)
def _prim_func(printer: Printer, function: ir.PrimFunc) -> Suite:
    symbol = function.attrs.get("global_symbol")
    name = identifier((printer.binding_names[-1] if printer.binding_names else _as_text(symbol)) or "main")
    printer.start_function(function)
    with printer.frame(function) as frame:
        parameters, pending = _parameters(printer, function, frame)
        attrs = function.attrs
        if symbol is not None and _as_text(symbol) == name:
            attrs = {k: v for k, v in attrs.items() if k != "global_symbol"}
        if attrs:
            frame.items.append(f"{printer.tir('func_attr')}({printer.value(attrs)})")
        for param, buffer in pending:
            left = printer.define_buffer(buffer, frame)
            right = declaration(printer, buffer, "match_buffer", frame, (param,))
            frame.items.append(f"{left} = {right}")
        _function_body(printer, function, frame)
    result = function.ret_type
    returns = "" if isinstance(result, ir.TupleType) and not result.fields else f" -> {printer.text(result)}"
    private = "" if symbol is not None else "(private=True)"
    suite = Suite((f"def {name}({', '.join(parameters)}){returns}:", frame.items))
    suite.decorator = f"@{printer.tir('prim_func')}{private}"
    return suite


def identifier(name: str) -> str:
    """The name of a function in the text: a Python name, whatever the function is called."""
    if name.isidentifier() and not keyword.iskeyword(name):
        return name
    plain = "".join([c if c.isascii() and c.isalnum() else "_" for c in name])
    return f"_{plain}" if not plain or plain[0].isdigit() or keyword.iskeyword(plain) else plain


def _as_text(value: Any) -> str | None:
    return None if value is None else str(getattr(value, "value", value))


def _parameters(printer: Printer, function: ir.PrimFunc, frame: Frame) -> tuple[list[str], list[tuple[str, ir.Buffer]]]:
    """The texts of the parameters, and the buffers that need lines of their own."""
    texts: list[str] = []
    pending: list[tuple[str, ir.Buffer]] = []
    data_uses: dict[int, int] = {}
    for buffer in function.buffer_map.values():
        data_uses[id(buffer.data)] = data_uses.get(id(buffer.data), 0) + 1
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is not None and printer.sugar and _is_plain(buffer) and data_uses[id(buffer.data)] == 1:
            if printer.ancestors.hits.get(id(param)) == 2:
                name = printer.define_buffer(buffer, frame)
                texts.append(f"{name}: {buffer_annotation(printer, buffer, frame)}")
                continue
        kind = printer.text(param.type_annotation)
        name = printer.define_var(param, frame)
        texts.append(f"{name}: {kind}")
        if buffer is not None:
            pending.append((name, buffer))
    return texts, pending


def _function_body(printer: Printer, function: ir.PrimFunc, frame: Frame) -> None:
    root = _implicit_root(function) if printer.sugar else None
    if root is None:
        printer.body(function.body, frame)
        return
    frame.items.append('# with T.block("root"):')
    printer.stands_in(function.body, function)
    printer.stands_in(root, function)
    for buffer in root.alloc_buffers:
        frame.items.append(alloc_buffer(printer, buffer, frame))
    printer.body(root.body, frame)


@prints(ir.IRModule)
def _module(printer: Printer, module: ir.IRModule) -> Suite:
    functions = sorted(module.functions.items(), key=lambda item: (item[0].name_hint == "main", item[0].name_hint))
    with printer.frame(module) as frame:
        hint = printer.binding_names[-1] if printer.binding_names else "Module"
        name = printer.define(module, hint, frame)
        if module.attrs:
            frame.items.append(f"{printer.ir('module_attrs')}({printer.value(module.attrs)})")
        if module.global_infos:
            frame.items.append(f"{printer.ir('module_global_infos')}({printer.value(module.global_infos)})")
        alias = printer.config.module_alias or name
        for var, _ in functions:
            printer.define_inline(var, lambda var=var: f"{alias}.{identifier(var.name_hint)}", frame)
        for i, (var, function) in enumerate(functions):
            if i:
                frame.items.append("")
            printer.binding_names.append(var.name_hint)
            frame.items.append(printer.stmt(function))
            printer.binding_names.pop()
    suite = Suite((f"class {name}:", frame.items))
    suite.decorator = f"@{printer.ir('ir_module')}"
    return suite
