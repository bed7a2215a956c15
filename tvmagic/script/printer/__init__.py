"""The TVMScript printer: any part of a program as TVM 0.19 prints it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvmagic.ir.deep_recursion import check_written_size, deep
from tvmagic.ir.node import Node
from tvmagic.script.printer import buffers, exprs, functions, stmts
from tvmagic.script.printer.config import PrinterConfig, config_of
from tvmagic.script.printer.core import Printer
from tvmagic.script.printer.whole_text import printed

__all__ = ["PrinterConfig", "print_node", "script"]


@deep
def script(node: Any, **options: Any) -> str:
    """The TVMScript text of `node`; the options are the fields of `PrinterConfig`."""
    return render(node, config_of(options))


def render(node: Any, config: PrinterConfig) -> str:
    """The text of `node`, with what the options ask for underlined."""
    if isinstance(node, Node):
        check_written_size(node, "what is to be printed")
    if config.path_to_annotate:
        from tvmagic.ir.path import follow

        places = {follow(node, path)[-1]: comment for path, comment in config.path_to_annotate.items()}
        config = replace(config, obj_to_annotate={**(config.obj_to_annotate or {}), **places}, path_to_annotate=None)
    if not (config.path_to_underline or config.obj_to_underline or config.print_line_numbers):
        return printed(Printer(node, config), node)
    from tvmagic.script.printer.spans import MarkingPrinter, read_marks
    from tvmagic.script.printer.underline import decorate

    printer = MarkingPrinter(node, config)
    spans = read_marks(printed(printer, node), printer)
    places = [p for path in config.path_to_underline or () for p in spans.of_path(node, path)]
    wanted = {id(n) for n in config.obj_to_underline or ()}
    places += [p for p in spans.places if id(p.node) in wanted]
    ranges = [(p.begin, p.end) for p in places]
    comments = [f"# {line}" for text in printer.annotated.values() for line in text.split("\n")]
    return decorate(spans.text, ranges, config.print_line_numbers, config.num_context_lines, comments)


@deep
def print_node(node: Any, script: bool = False, **options: Any) -> str:
    """What `str(node)` and `node.script()` give."""
    return render(node, config_of(options))
