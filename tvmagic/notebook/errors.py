"""How errors show: what is wrong, the line of the cell, the part of the program, what would work."""

from __future__ import annotations

import linecache
import re
import textwrap
import traceback
from typing import Any

from IPython.core.error import UsageError

from tvmagic.errors import DefectError, TVMagicError
from tvmagic.ir import Block, BlockRealize, For, Span
from tvmagic.ir.program_form import is_cinn_form
from tvmagic.notation.source import excerpt, find_source
from tvmagic.notebook.arguments import PARSERS
from tvmagic.notebook.escaping import visible
from tvmagic.notebook.mistakes import instead_of_magic

_RED, _BOLD, _CYAN, _RESET = "\033[1;31m", "\033[1m", "\033[36m", "\033[0m"
_CONTEXT = 3
_WIDTH = 80  # of sentences: a notebook breaks longer lines inside words
_STOPS = (KeyboardInterrupt, MemoryError)


def error_lines(error: TVMagicError, traceback_: Any = None, colour: bool = True) -> list[str]:
    """The lines that tell an error, without a stack frame of ours."""
    red, cyan, reset = (_RED, _CYAN, _RESET) if colour else ("", "", "")
    lines = [f"{red}{type(error).__name__}{reset}: {visible(error.message)}"]
    span = error.span
    if span is None or find_source(span.source) is None:
        span = user_place(traceback_) or span
    if span is not None:
        lines += map(visible, place_lines(span))
    lines += map(visible, program_lines(error))
    if error.hint:
        lines.append(f"{cyan}hint{reset}: {visible(error.hint)}")
    if isinstance(error, DefectError):
        lines.append("this is a defect of tvmagic, not of your program")
    if error.code:
        lines.append(f"code: {error.code}")
    return lines


def place_lines(span: Span) -> list[str]:
    """The place in a cell: its name and line, and the line itself with carets."""
    text = excerpt(span)
    if text:
        return [f"in %%{span.source}, line {span.line}:", text]
    line = linecache.getline(span.source, span.line).rstrip("\n")
    if line.startswith(("get_ipython().run_line_magic(", "get_ipython().run_cell_magic(")):
        return []  # what IPython made of a magic, which the user did not write
    name = "the cell" if "ipykernel" in span.source or span.source.startswith("<ipython") else span.source
    return [f"in {name}, line {span.line}:", f"{span.line:>4} | {line}"] if line else []


def stopped_lines(error: BaseException, traceback_: Any, colour: bool = True) -> list[str]:
    """The lines that tell where an interrupt, or a lack of memory, stopped our code."""
    red, reset = (_RED, _RESET) if colour else ("", "")
    name = next(kind.__name__ for kind in _STOPS if isinstance(error, kind))
    span = user_place(traceback_)
    return [f"{red}{name}{reset}: {str(error) or 'stopped'}", *(place_lines(span) if span is not None else [])]


def is_ours(traceback_: Any) -> bool:
    """Whether code of this package was running."""
    frames = [frame for frame, _ in traceback.walk_tb(traceback_)]
    return any(frame.f_globals.get("__name__", "").partition(".")[0] == "tvmagic" for frame in frames)


def user_place(traceback_: Any) -> Span | None:
    """The innermost line of a cell in a traceback."""
    found = None
    for frame, line in traceback.walk_tb(traceback_):
        name = frame.f_code.co_filename
        if find_source(name) is not None or name.startswith("<ipython-input") or "ipykernel_" in name:
            found = Span(name, line)
    return found


def program_lines(error: TVMagicError) -> list[str]:
    """The part of the program that the error is about, underlined, with a few lines around it."""
    nodes = getattr(error, "nodes", None) or ([error.node] if error.node is not None else [])
    root = error.root if error.root is not None else getattr(error, "mod", None)
    if not nodes or root is None:
        return []
    from tvmagic.script import script

    if is_cinn_form(root):
        return _cinn_lines(root, nodes)
    try:
        text = script(root, obj_to_underline=nodes, num_context_lines=_CONTEXT)
    except (TVMagicError, AttributeError, KeyError):
        return []
    return ["in the program:", *("    " + line for line in headers_underlined(text.rstrip("\n").split("\n")))]


def _cinn_lines(root: Any, nodes: list[Any]) -> list[str]:
    """The part of a program of CINN that is about `nodes`, in CINN's text, its first lines underlined."""
    from tvmagic.cinn.text.printer import cinn_with_nodes

    lines, statements = cinn_with_nodes(root, regions=False)
    marked = [n for n, s in enumerate(statements) if any(_is_same(s, node) for node in nodes)]
    first = [n for n in marked if n - 1 not in marked and lines[n].strip() not in "{}"]
    if not first:
        return []
    near = {n for n in range(len(lines)) if any(-_CONTEXT <= n - f <= _CONTEXT + 2 for f in first)}
    shown = [n for n in range(len(lines)) if n in near or (n - 1 in near and n + 1 in near)]
    text: list[str] = []
    for last, n in zip([-1, *shown], shown):
        if n > last + 1:
            text.append(f"    (... {n - last - 1} lines skipped ...)")
        text.append(f"    {lines[n]}")
        if n in first:
            code = lines[n].strip()
            text.append("    " + " " * (len(lines[n]) - len(lines[n].lstrip())) + "^" * len(code))
    if shown[-1] < len(lines) - 1:
        text.append(f"    (... {len(lines) - 1 - shown[-1]} lines skipped ...)")
    return ["in the program:", *text]


def _is_same(printed: Any, node: Any) -> bool:
    """Whether a statement that is printed is `node`, or what the printer made of it: a loop of its variable, a block of its name."""
    if isinstance(printed, For) and isinstance(node, For):
        return printed.loop_var is node.loop_var
    if isinstance(printed, BlockRealize):
        block = node.block if isinstance(node, BlockRealize) else node
        return isinstance(block, Block) and printed.block.name_hint == block.name_hint
    return printed is node


def wrapped(line: str) -> list[str]:
    """A sentence in lines, without a break inside a word or a name; a place or a program stays as it is."""
    if line.startswith(" ") or "\n" in line or re.match(r"in .*:$", line):
        return [line]
    whole = re.sub(r"`[^`]*`", lambda name: name[0].replace(" ", "\0"), line)
    parts = textwrap.wrap(whole, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [part.replace("\0", " ") for part in parts] or [line]


def headers_underlined(lines: list[str]) -> list[str]:
    """Lines with carets under them, without the carets under the body of what is underlined."""
    kept: list[str] = []
    outer: int | None = None
    marked = False
    for line in lines:
        is_mark = bool(line.strip()) and not line.strip(" ^") and "^" in line
        if not is_mark:
            outer = outer if marked else None
            marked = False
            kept.append(line)
            continue
        indent = len(line) - len(line.lstrip())
        marked = True
        if outer is None or indent <= outer:
            outer = indent
            kept.append(line)
    return kept


def install(shell: Any) -> None:
    """Show our errors, and what stops our code, in `shell` without our own stack frames.

    The handler before stays for others.
    """
    before = (shell.custom_exceptions, shell.CustomTB)

    def handler(self: Any, kind: type, error: Exception, traceback_: Any, tb_offset: int | None = None) -> list[str]:
        colour = getattr(self, "colors", "").lower() != "nocolor"
        if isinstance(error, _STOPS) and not isinstance(error, before[0]):
            if not is_ours(traceback_):
                self.showtraceback((kind, error, traceback_), tb_offset=tb_offset)
                return []
            lines = stopped_lines(error, traceback_, colour)
        elif isinstance(error, TVMagicError):
            lines = error_lines(error, traceback_, colour)
        elif isinstance(error, UsageError) and not isinstance(error, before[0]):
            self.show_usage_error(UsageError(visible(_with_our_magic(error))))
            return []
        else:
            return before[1](kind, error, traceback_, tb_offset=tb_offset)
        if hasattr(self, "kernel"):  # notebooks show these colours on red
            lines = [line.replace(_RED, _BOLD).replace(_CYAN, _BOLD) for line in lines]
        lines = [part for line in lines for part in wrapped(line)]
        if getattr(self.InteractiveTB, "tb_join_char", "\n") != "\n":  # %xmode Plain and Minimal
            lines = ["\n".join(lines)]
        self._showtraceback(kind, error, lines)
        return lines

    shell.set_custom_exc((TVMagicError, UsageError, *_STOPS, *before[0]), handler)
    shell._tvmagic_before = before


def _with_our_magic(error: UsageError) -> UsageError:
    """The error that there is no magic of some name, with the one of ours that was probably meant; else the error itself."""
    found = re.match(r"(?:Line|Cell) magic (?:function )?`(%%?\w*)` not found\.", str(error))
    meant = instead_of_magic(found[1], [parser.magic for parser in PARSERS.values()]) if found else ""
    return UsageError(f"{str(error).rstrip('.')}; {meant}") if meant else error


def uninstall(shell: Any) -> None:
    """Take the handler away again and put back the one before."""
    before = shell.__dict__.pop("_tvmagic_before", None)
    if before is not None:
        shell.custom_exceptions, shell.CustomTB = before
