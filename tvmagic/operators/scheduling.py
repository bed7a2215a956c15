"""A `%%schedule` cell: schedule calls on an operator, each recorded with the program around it."""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import For, ProducerStore, Span, pre_order_visit
from tvmagic.ir.query import nodes_of
from tvmagic.notation.source import Source
from tvmagic.operators.cell import cell_names, parse
from tvmagic.operators.cell_execution import CellError, instruction_span, run_python
from tvmagic.operators.knobs import plain_knob
from tvmagic.operators.operator import Operator, Version
from tvmagic.operators.races import refuse_races
from tvmagic.operators.schedule_program import program_of_schedule
from tvmagic.passes import Record, Step, recording, run_step

__all__ = [
    "SCHEDULES",
    "SCHEDULE_CALLS",
    "STAGE_CALLS",
    "CellError",
    "block_names",
    "recorded_calls",
    "schedule",
    "schedule_from_cell",
]

STAGE_CALLS = (
    "bind", "compute_at", "compute_inline", "compute_root", "double_buffer", "env_threads", "fuse", "parallel", "pragma",
    "prefetch", "reorder", "rolling_buffer", "set_scope", "set_store_predicate", "split", "storage_align", "tensorize",
    "tile", "transform_layout", "unroll", "vectorize",
)  # fmt: skip
SCHEDULES = {"s": "TE's", "sch": "TensorIR's", "ir_sch": "CINN's"}  # the schedules that a cell has by name
SCHEDULE_CALLS = ("cache_read", "cache_write", "create_group", "rfactor")


def schedule(op: Operator, text: str, name: str = "default", namespace: Mapping[str, Any] | None = None) -> Version:
    """Schedule an operator by the text of a `%%schedule` cell; the version is the operator's from now on.

    Raises `TVMagicError` if iterations that run at the same time touch the same element.
    """
    source = Source(f"schedule {op.name}", f"%%schedule {op.name}\n{text}")
    version = schedule_from_cell(op, source, name, namespace or {})
    refuse_races(version)
    op.add_version(version)
    return version


def schedule_from_cell(
    op: Operator,
    source: Source,
    name: str,
    namespace: Mapping[str, Any],
    record: Record | None = None,
    given: Mapping[str, Any] | None = None,
) -> Version:
    """Run the cell on fresh schedules of `op` and make the version of what it arranged.

    The cell has `s` (a TE schedule), `sch` (a TensorIR schedule) and `ir_sch` (CINN's `IRSchedule`; use one of them), the
    tensors of the operator and the names in `given` and `namespace`. Every call on a schedule becomes a step
    of `record`. Where a call fails its error is raised; the record then ends with that step, and
    `op.attempt` is the version as it was before the call.
    """
    source.remember()
    tree = parse(source)
    used = _mentioned(tree) - _plain_names(tree)
    record = Record(title=op.name) if record is None else record
    scope = _scope(op, used, tree, namespace, given or {})
    chosen = _chosen(op, used, scope, source, tree)
    arguments = _arguments(chosen)
    try:
        with recording(record=record), recorded_calls(chosen, source):
            for statement in tree.body:
                run_python(statement, source, scope)
                _check_kept(statement, chosen, scope, used, source)
                _check_arguments(statement, arguments, _arguments(chosen), source)
    except TVMagicError as error:
        _attach_program(error, record)
        raise
    finally:
        _leave_out_lookups(record)
        _name_steps(record, source)
        op.add_sources(record)
        record.sources[source.name] = source.text
        op.attempt = Version(op, chosen, name, record)
    version = Version(op, chosen, name, record)
    if chosen is not None:
        chosen.sealed_by = f"version `{name}` of `{op.name}`"
    version.source, version.scope = source, {n: scope[n] for n in _mentioned(tree) if n in scope}
    return version


def _mentioned(tree: ast.AST) -> set[str]:
    """The names that a cell uses or defines."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _schedule_uses(tree: ast.AST) -> list[ast.Name]:
    """Where a cell names `s`, `sch` or `ir_sch`, in the order of its text."""
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in SCHEDULES]
    return sorted(uses, key=lambda n: (n.lineno, n.col_offset))


def _plain_names(tree: ast.AST) -> set[str]:
    """Which of `s`, `sch` and `ir_sch` are not schedules, in a cell that has several: those that get a value before they are read.

    An axis may be called `s`, as the columns of a filter often are: `r, s = sch.get_loops(block)` names its loop.
    """
    first = {use.id: use for use in reversed(_schedule_uses(tree))}
    given = {name for name, node in first.items() if isinstance(node.ctx, ast.Store)}
    return given if len(given) == len(first) - 1 else set()


def _check_kept(statement: ast.stmt, chosen: Any, scope: Mapping[str, Any], used: set[str], source: Source) -> None:
    """The schedule that the cell arranges keeps its name: calls on another one would be lost."""
    name = next((n for n in SCHEDULES if n in used), "")
    if not name or getattr(scope.get(name), "schedule", None) is chosen or scope.get(name) is chosen:
        return
    stored = [
        n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
    ]
    raise CellError(
        f"the cell gives `{name}` another value, so that its schedule is lost",
        span=source.span(stored[0] if stored else statement),
        hint=f"`{name}` is there already, a fresh schedule; take another name for other things",
        code="cell.schedule_overwritten",
    )


def _arguments(schedule: Any) -> dict[str, str]:
    """The types of the arguments of what is scheduled, by their names."""
    if isinstance(schedule, te.schedule.Schedule):
        stages = [s for s in schedule.stages if s.is_output or isinstance(s.op, te.PlaceholderOp)]
        return {s.op.name: _type(s.op.output(0).dtype, _laid_out(s)) for s in stages}
    functions = getattr(getattr(schedule, "mod", None), "functions", {}).values()
    return {b.name: _type(b.dtype, b.shape) for function in functions for b in function.buffer_map.values()}


def _laid_out(stage: Any) -> Any:
    return functools.reduce(
        lambda shape, layout: layout.map_shape(shape), stage.layout_transforms, stage.op.output(0).shape
    )


def _type(dtype: Any, shape: Any) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _check_arguments(statement: ast.stmt, before: Mapping[str, str], after: Mapping[str, str], source: Source) -> None:
    """The arguments keep their shapes: a call takes and gives the operator's arrays, however they are laid out inside."""
    name = next((name for name, now in after.items() if before.get(name, now) != now), None)
    if name is not None:
        raise CellError(
            f"`{name}` is an argument of type `{before[name]}`, and would be `{after[name]}`",
            span=source.span(statement),
            hint="arrange a copy of it, which `cache_read` or `cache_write` makes",
            code="cell.argument_type_changed",
        )


def _attach_program(error: TVMagicError, record: Record) -> None:
    """Let the error of a TE schedule call show the loops before the call, the one of its stage that it names underlined."""
    failed = next((s for s in record if s.error is error), None)
    if failed is None or error.root is not None or not isinstance(failed.before, te.schedule.Schedule):
        return
    stage = re.match(r"stage `([^`]+)`", error.message)
    names = {name.replace(".", "_") for name in re.findall(r"`([^`]+)`", error.message)}
    try:
        program = program_of_schedule(failed.before)
    except TVMagicError:
        return
    found: list[For] = []

    def look(node: Any) -> None:
        if isinstance(node, For) and node.loop_var.name in names and (stage is None or stage[1] in _computed(node)):
            found.append(node)

    pre_order_visit(program, look)
    if found:
        error.root, error.node = program, found[0]


def _computed(loop: For) -> set[str]:
    """The names of the stages that are computed inside a loop."""
    return {store.producer.op.name for store in nodes_of(loop.body, ProducerStore)}


def _scope(
    op: Operator, used: set[str], tree: ast.AST, namespace: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    outer = {k: v for k, v in namespace.items() if not k.startswith("_")}
    scope = {**outer, **cell_names(tree), "knob": plain_knob, **op.axes, **op.tensors, **given, op.name: op}
    if "s" in used:
        scope["s"] = op.te_schedule()
    if "sch" in used:
        scope["sch"] = op.schedule()
        for name in block_names(scope["sch"]) & used:
            scope[name] = scope["sch"].get_block(name)
    if "ir_sch" in used:
        from tvmagic.cinn import IRSchedule

        scope["ir_sch"] = IRSchedule(op.schedule())
    return scope


def block_names(sch: Any) -> set[str]:
    from tvmagic.ir import Block

    return {block.name_hint for function in sch.mod.functions.values() for block in nodes_of(function.body, Block)}


def _chosen(op: Operator, used: set[str], scope: Mapping[str, Any], source: Source, tree: ast.AST) -> Any:
    """The schedule that the cell works on."""
    uses = [use for use in _schedule_uses(tree) if use.id in used]
    other = next((use for use in uses if use.id != uses[0].id), None)
    if other is not None:
        raise TVMagicError(
            f"the cell uses both `{uses[0].id}` and `{other.id}`",
            span=source.span(other),
            hint=f"arrange loops by one of the schedules, not by both: {', '.join(f'`{name}` is {what}' for name, what in SCHEDULES.items())}",
            code="cell.two_schedules",
        )
    if "ir_sch" in used:
        return scope["ir_sch"].schedule
    if "sch" in used:
        return scope["sch"]
    if "s" in used:
        return scope["s"]
    return op.te_schedule() if op.prim_func is None else op.schedule()


# ---------------------------------------------------------------------------- recording the calls


@contextlib.contextmanager
def recorded_calls(schedule: Any, source: Source) -> Iterator[None]:
    """While open, each call on the TE schedule (or on a stage of it) is a step of the open record.

    The methods themselves are wrapped, so that the objects in the cell are the real ones; calls
    that these make of each other are not steps. TensorIR schedules record their calls themselves.
    """
    if not isinstance(schedule, te.schedule.Schedule):
        yield
        return
    recorder = _CallRecorder(schedule, source)
    classes = ((te.schedule.Stage, STAGE_CALLS), (te.schedule.Schedule, SCHEDULE_CALLS))
    saved = [(cls, name, cls.__dict__[name]) for cls, names in classes for name in names if name in cls.__dict__]
    for cls, name, method in saved:
        setattr(cls, name, recorder.wrapped(method))
    try:
        yield
    finally:
        for cls, name, method in saved:
            setattr(cls, name, method)


class _CallRecorder:
    def __init__(self, schedule: Any, source: Source) -> None:
        self.schedule, self.source = schedule, source
        self.turning = {n.id for loop in ast.walk(source.parse()) if isinstance(loop, (ast.For, ast.comprehension))
                        for n in ast.walk(loop.target) if isinstance(n, ast.Name)}  # fmt: skip
        self.depth = 0
        self.state = schedule.copy()

    def wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
            mine = owner is self.schedule or getattr(owner, "schedule", None) is self.schedule
            if self.depth or not mine:
                return method(owner, *args, **kwargs)
            frame = sys._getframe(1)
            span, turn = None, {}
            if frame.f_code.co_filename == self.source.name:
                span = instruction_span(frame.f_code, frame.f_lasti, self.source)
                turn = self.turn(span, frame.f_locals)
            self.depth += 1
            try:
                return self.step(method.__name__, lambda: method(owner, *args, **kwargs), span, turn)
            finally:
                self.depth -= 1

        return call

    def turn(self, span: Span | None, values: Mapping[str, Any]) -> dict[str, str]:
        """The variables of the cell's loops in the text of a call, with their values: they tell one call from the next."""
        if span is None:
            return {}
        names = [
            n for n in re.findall(r"[^\W\d]\w*", source_text(self.source, span)) if n in self.turning and n in values
        ]
        return {name: _value_text(values[name]) for name in names}

    def step(self, name: str, run: Callable[[], Any], span: Span | None, turn: Mapping[str, str] | None = None) -> Any:
        def after(_: Any) -> Any:
            self.state = self.schedule.copy()
            return self.state

        return run_step(name, run, before=self.state, after=after, kind="schedule", options=turn, span=span)


def _value_text(value: Any) -> str:
    """A tensor, a stage or a loop by its name; anything else as Python writes it, in a few letters."""
    name = getattr(getattr(value, "var", value), "name", None)
    text = name if isinstance(name, str) else repr(value)
    return text if len(text) <= 24 else text[:23] + "\u2026"


def _name_steps(record: Record, source: Source) -> None:
    """Name schedule steps by their calls as they are in the cell: TE's by the call, TensorIR's by the statement."""
    statements = [n for n in ast.walk(source.parse()) if isinstance(n, ast.stmt) and not hasattr(n, "body")]
    for step in record:
        if step.kind != "schedule" or step.span is None or step.span.source != source.name:
            continue
        if step.span.end_line:
            step.name = source_text(source, step.span)
            for name, value in step.options.items():  # what a variable of a loop was then, unless it names a parameter
                step.name = re.sub(rf"(?<![\w.]){name}(?!\w|\s*=[^=])", lambda _, value=value: value, step.name)
            continue
        at = (step.span.line, step.span.column - 1)
        found = next((n for n in statements if (n.lineno, n.col_offset) <= at < (n.end_lineno, n.end_col_offset)), None)
        line = source.lines[step.span.line - 1].split("#")[0].strip()
        step.name = source_text(source, source.span(found)) if found is not None else line or step.name


def _leave_out_lookups(record: Record) -> None:
    """CINN's `get_loops` may give a block a loop; otherwise it looks only, which is not a step of the cell."""
    looks = ("get_loops", "get_loops_with_name")
    record.steps[:] = [s for s in record if s.kind != "schedule" or s.before is not s.after or s.name not in looks]


def source_text(source: Source, span: Span) -> str:
    """The text at a place of a cell, as one line."""
    lines = source.lines[span.line - 1 : span.end_line or span.line]
    if not lines:
        return ""
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return " ".join(line.strip() for line in lines)


def blame(record: Record, error: TVMagicError) -> None:
    """Let an error of lowering name the call of the cell that is to blame: the first since which there are no loops.

    That is said only after all calls, as another one may mend what one did.
    """
    calls = [s for s in record if s.kind == "schedule" and isinstance(s.after, te.schedule.Schedule)]
    if any(step.error is not None for step in record if step.kind == "schedule"):
        return
    guilty: Step | None = None
    for step in reversed(calls):
        try:
            program_of_schedule(step.after)
            break
        except TVMagicError:
            guilty = step
    if guilty is not None and guilty.span is not None:
        guilty.error, error.span = error, guilty.span
