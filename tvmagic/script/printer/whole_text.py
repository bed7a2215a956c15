"""The whole text of a program: its header, its lines, and what has no text form told beside them."""

from __future__ import annotations

from typing import Any

from tvmagic.ir.json import save_json
from tvmagic.script.printer.core import Printer, Suite, layout


def printed(printer: Printer, node: Any) -> str:
    """The text of `node` as a printer gives it, marks and all."""
    config = printer.config
    frame = printer.push(None)
    item = printer.stmt(node)
    if isinstance(item, tuple):
        if not config.verbose_expr:
            frame.items.clear()
        item = item[0]
    items = [*frame.items, item]
    if isinstance(item, Suite) and item.decorator is not None:
        items = [*_header(printer), *items]
    return "\n".join(_metadata(printer, layout(items, config.indent_spaces)))


def _metadata(printer: Printer, lines: list[str]) -> list[str]:
    """The lines, with what has no text form told before or after them."""
    if not printer.metadata:
        return lines
    if not printer.config.show_meta:
        return [*lines, "# Metadata omitted. Use show_meta=True in script() method to show it."]
    text = save_json(printer.metadata).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return [f'metadata = tvm.ir.load_json("""{text}""")', *lines]


def _header(printer: Printer) -> list[str]:
    """The lines that say where the names `I` and `T` come from."""
    names = (("ir", printer.config.ir_prefix), ("tir", printer.config.tir_prefix))
    return [*(f"# from tvm.script import {d} as {n}" for d, n in names if d in printer.dialects), ""]
