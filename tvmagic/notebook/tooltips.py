"""What Shift+Tab shows inside our cells: a call with its parameters and an example that runs, or what a name is there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import IterVar
from tvmagic.notation.expressions import DTYPES, FUNCTIONS
from tvmagic.notebook.arguments import PARSERS
from tvmagic.notebook.cursor import Cursor, cursor_in
from tvmagic.notebook.magics import TensorMagics
from tvmagic.notebook.te_text import stage_lines, stages_program
from tvmagic.notebook.terminal import paint_lines
from tvmagic.operators.examples import example_lines, example_operator
from tvmagic.operators.operator import tensor_type
from tvmagic.script import script
from tvmagic.tir.schedule import Schedule
from tvmagic.tir.schedule.instruction import BlockRV, LoopRV

_LONGEST = 24  # lines of a program
_MAGIC = re.compile(r"^\s*(?:[\w, ]+=\s*)?%{1,2}(\w+)")
# The words of the index notation that make stages, each with what it gives.
_NOTATION = {
    "sum": "Y[i] = sum(X[i, k], over=k)\nThe sum over `k`; also written `Y[i] += X[i, k]`.",
    "prod": "Y[i] = prod(X[i, k], over=k)\nThe product over `k`; also written `Y[i] *= X[i, k]`.",
    "max": "Y[i] = max(X[i, k], over=k)\nThe largest over `k`; without `over=`, the larger of its arguments: `max(X[i], 0)`.",
    "min": "Y[i] = min(X[i, k], over=k)\nThe smallest over `k`; without `over=`, the smaller of its arguments.",
    "mean": "Y[i] = mean(X[i, k], over=k)\nThe sum over `k` divided by the size of `k`.",
    "argmax": "Y[i] = argmax(X[i, k], over=k)\nThe place along `k` of the largest value, the first of several; int32.",
    "argmin": "Y[i] = argmin(X[i, k], over=k)\nThe place along `k` of the smallest value, the first of several; int32.",
    "softmax": "Y[i, k] = softmax(X[i, k], over=k)\nexp(x) divided by the sum of exp over `k`; `k` stays an index of the result.",
    "cumsum": "Y[i, k] = cumsum(X[i, k], over=k)\nThe sum of the values along `k` up to this one.",
    "cumprod": "Y[i, k] = cumprod(X[i, k], over=k)\nThe product of the values along `k` up to this one.",
    "cummax": "Y[i, k] = cummax(X[i, k], over=k)\nThe largest of the values along `k` up to this one.",
    "cummin": "Y[i, k] = cummin(X[i, k], over=k)\nThe smallest of the values along `k` up to this one.",
    "relu": "relu(x)\nThe larger of x and 0.",
    "where": "where(condition, x, y)\nx where the condition holds, else y; the value not taken is not evaluated.",
    "select": "select(condition, x, y)\nx where the condition holds, else y; the value not taken is not evaluated.",
    "range": "i: range(30)\nThe range of the index `i` for the statements below; around one statement: `for i in range(30): ...`.",
}


def tooltip(code: str, at: int, magics: TensorMagics, colour: bool = False) -> str | None:
    """What is said of the place `at` (an offset) in a cell; None if that is nothing of ours.

    In a magic's line it is the help of the option there, or of the magic. Below `%%tensor` or `%%schedule` it is what
    the name under the cursor is, or else the call that the cursor is in.
    """
    cursor = cursor_in(code, at, magics.namespace)
    if cursor is None:
        return _of_magic(code, at)
    after = re.match(r"\w*", cursor.text[at - (len(code) - len(cursor.text)) :])
    end = len(cursor.before) + (after.end() if after else 0)
    place = Cursor(cursor.kind, cursor.op, cursor.text, end, cursor.namespace)
    if place.in_comment:
        return None
    name = "" if place.string is not None else place.expression_before(end)
    return (_of_name(name, place, colour) if name else None) or _of_call(cursor, colour)


def _of_magic(code: str, at: int) -> str | None:
    start = code.rfind("\n", 0, at) + 1
    line = code[start:].partition("\n")[0]
    match = _MAGIC.match(line)
    if match is None or match[1] not in PARSERS:
        return None
    parser, place = PARSERS[match[1]], at - start
    word = next((m[0] for m in re.finditer(r"\S+", line) if m.start() <= place <= m.end()), "")
    for names, options, _ in parser.declared:
        if word in names:
            return f"{', '.join(names)} {options.get('metavar', '')}".rstrip() + f"\n{options.get('help', '')}"
    return parser.doc


def _of_call(cursor: Cursor, colour: bool) -> str | None:
    return _of_name(cursor.call[0], cursor, colour) if cursor.call is not None else None


def _of_name(name: str, cursor: Cursor, colour: bool) -> str | None:
    """What a name with its attributes is: a call of a schedule, a value of the cell, a word of the notation."""
    owner, _, last = name.rpartition(".")
    if owner:
        found = _method_text(cursor.value(owner), last, colour)
        if found is not None:
            return found
    value = cursor.value(name)
    if cursor.op is None:
        return _of_word(name, value)
    return None if value is None else _value_text(name, value, cursor, colour)


def _of_word(name: str, value: Any) -> str | None:
    """A word of a `%%tensor` cell: a function, a data type, a tensor with the line that names it."""
    if name in _NOTATION:
        return _NOTATION[name]
    if name in FUNCTIONS:
        function, least, _ = FUNCTIONS[name]
        return f"{name}({', '.join('xyz'[:least])})\n{inspect.getdoc(function) or ''}".rstrip()
    if name in DTYPES:
        return f"A data type: `X: {name}[8, n]` declares a tensor, `{name}(x)` converts a number."
    if isinstance(value, str):
        return f"{name}, first in the line\n    {value}"
    return f"{name}: {inspect.getdoc(value)}" if value is not None and inspect.getdoc(value) else None


def _method_text(owner: Any, name: str, colour: bool) -> str | None:
    """A call of a schedule or a stage: parameters, text, and an example."""
    kind = (
        "te"
        if isinstance(owner, (te.schedule.Schedule, te.schedule.Stage))
        else "tir" if isinstance(owner, Schedule) else ""
    )  # fmt: skip
    method = getattr(type(owner), name, None) if owner is not None else None
    if not callable(method):
        return None
    parts = [f"{name}{_signature(method)}", inspect.getdoc(method) or ""]
    lines = example_lines(f"{kind}.{name}")
    if lines is not None:
        source = example_operator(f"{kind}.{name}").source
        cells = [
            "%%tensor f",
            *(source.lines[1:] if source is not None else ()),
            "",
            "%%schedule f",
            *lines.split("\n"),
        ]
        parts.append(
            "Example, two cells that run:\n" + "\n".join(f"    {x}" for x in paint_lines(cells, "python", colour))
        )
    return "\n\n".join(part for part in parts if part)


def _signature(method: Callable[..., Any]) -> str:
    """The parameters of a method as they are written, without `self`."""
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    return str(signature.replace(parameters=parameters)).replace("'", "")


def _value_text(name: str, value: Any, cursor: Cursor, colour: bool) -> str | None:
    """What a value of a schedule's cell is."""
    if isinstance(value, te.schedule.Stage):
        return "\n".join(stage_lines(value, _ranges(cursor)))
    if isinstance(value, te.schedule.Schedule):
        return "\n".join(["a TE schedule; its stages:", *stages_program(value, _ranges(cursor)).lines])
    if isinstance(value, IterVar):
        return f"{name}: {_iteration_text(value, cursor)}"
    if isinstance(value, te.Tensor):
        return _tensor_text(name, value, cursor)
    if isinstance(value, Schedule):
        return "\n".join(_truncate(paint_lines(script(value.mod).split("\n"), "tvmscript", colour)))
    if isinstance(value, (BlockRV, LoopRV)):
        own = getattr(cursor.names.get("ir_sch"), "schedule", cursor.names["sch"])  # a cell has one of the two
        return _reference_text(name, value, own, colour)
    if isinstance(value, (list, tuple)) and value and len(value) <= _LONGEST:
        return "\n".join(_value_text(f"{name}[{i}]", v, cursor, colour) or repr(v) for i, v in enumerate(value))
    return f"{name} = {value!r}" if isinstance(value, (int, float, str)) else None


def _ranges(cursor: Cursor) -> dict[Any, Any]:
    """The ranges of all loops of the TE schedule, as far as it is complete."""
    try:
        normalized = cursor.names["s"].normalize()
        return dict(te.schedule.InferBound(normalized))
    except (TVMagicError, KeyError):
        return {}


def _iteration_text(value: IterVar, cursor: Cursor) -> str:
    found = _ranges(cursor).get(value, value.dom)
    extent = f", {found.extent} iterations" if found is not None else ""
    kind = "reduction loop" if value.iter_type == IterVar.CommReduce else "loop"
    stages = getattr(cursor.names.get("s"), "stages", ())
    stage = next((s for s in stages if any(iv is value for iv in s.all_iter_vars)), None)
    state = "" if stage is None or any(iv is value for iv in stage.leaf_iter_vars) else ", which was split or fused"
    return f"the {kind} {value.var.name}" + (f" of stage {stage.op.name}" if stage is not None else "") + extent + state


def _tensor_text(name: str, tensor: Any, cursor: Cursor) -> str:
    source, span = cursor.op.source if cursor.op is not None else None, tensor.op.span
    line = ""
    if source is not None and span is not None and span.source == source.name and span.line <= len(source.lines):
        line = f"\n    {source.lines[span.line - 1].strip()}"
    return f"{name}: {tensor_type(tensor)}{line}"


def _reference_text(name: str, value: Any, sch: Any, colour: bool) -> str | None:
    """A block of a TensorIR schedule as its program; a loop as its name and extent."""
    try:
        node = sch.get(value)
    except TVMagicError:
        return f"{name}: no longer in the program"
    if isinstance(value, LoopRV):
        return f"{name}: the loop {node.loop_var.name}, {node.extent} iterations, {node.kind.name.lower()}"
    lines = [line for line in script(node).split("\n") if line.strip() and not line.startswith("# from")]
    return "\n".join([f"{name}: a block", *_truncate(paint_lines(lines, "tvmscript", colour))])


def _truncate(lines: Iterable[str]) -> list[str]:
    lines = list(lines)
    return lines if len(lines) <= _LONGEST else [*lines[:_LONGEST], f"... {len(lines) - _LONGEST} lines more"]


def install(shell: Any, magics: TensorMagics) -> Callable[[], None]:
    """Answer the kernel's inspect requests inside our cells; returns what takes that away again."""
    kernel: Any = getattr(shell, "kernel", None)
    before = getattr(kernel, "do_inspect", None)
    if before is None:
        return lambda: None

    def do_inspect(code: str, cursor_pos: int, *args: Any, **kwargs: Any) -> Any:
        try:
            text = tooltip(code, cursor_pos, magics, colour=True)
        except Exception:  # a tooltip that fails is none
            text = None
        if text is None:
            return before(code, cursor_pos, *args, **kwargs)
        return {"status": "ok", "found": True, "data": {"text/plain": text}, "metadata": {}}

    kernel.do_inspect = do_inspect

    def forget() -> None:
        if kernel.__dict__.get("do_inspect") is do_inspect:
            del kernel.do_inspect

    return forget
