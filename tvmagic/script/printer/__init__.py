"""The TVMScript printer: any part of a program as TVM 0.19 prints it."""

from __future__ import annotations

from typing import Any

from tvmagic.script.printer import buffers, exprs, functions, stmts
from tvmagic.script.printer.config import PrinterConfig, config_of
from tvmagic.script.printer.core import Printer, Suite, layout

__all__ = ["PrinterConfig", "print_node", "script"]


def script(node: Any, **options: Any) -> str:
    """The TVMScript text of `node`; the options are the fields of `PrinterConfig`."""
    return render(node, config_of(options))


def render(node: Any, config: PrinterConfig) -> str:
    printer = Printer(node, config)
    frame = printer.push(None)
    item = printer.stmt(node)
    if isinstance(item, tuple):
        if not config.verbose_expr:
            frame.items.clear()
        item = item[0]
    items = [*frame.items, item]
    if isinstance(item, Suite) and item.decorator is not None:
        items = [*_header(printer), *items]
    return "\n".join(layout(items, config.indent_spaces))


def _header(printer: Printer) -> list[str]:
    """The lines that say where the names `I` and `T` come from."""
    names = (("ir", printer.config.ir_prefix), ("tir", printer.config.tir_prefix))
    return [*(f"# from tvm.script import {d} as {n}" for d, n in names if d in printer.dialects), ""]


def print_node(node: Any, script: bool = False, **options: Any) -> str:
    """What `str(node)` and `node.script()` give."""
    return render(node, config_of(options))
