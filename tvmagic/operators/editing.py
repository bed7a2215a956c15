"""A program in the middle of the passes, edited, and the passes that are left run on it."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.errors import DiagnosticError, TVMagicError, did_you_mean
from tvmagic.ir.semantics import Neutral
from tvmagic.notation.source import Source
from tvmagic.operators.operator import Operator, Version
from tvmagic.operators.partial_pipeline import Edited
from tvmagic.operators.races import refuse_races
from tvmagic.passes import Record, Step, recording
from tvmagic.script import from_source, script
from tvmagic.tir.transform.expressions.widen_index import without_index_condition


def editable(record: Record) -> dict[int, int]:
    """The steps whose program can be edited, by their place in the record, with the number of lowering passes that then follow.

    Those are the passes of lowering and the step that they start from: the last call of a TensorIR schedule, or what makes
    a function of a TE schedule. Before that, other calls of the cell would follow. After a late pass no lowering pass follows;
    all late passes run on the edited program, and change nothing that they made.
    """
    passes = [n for n, s in enumerate(record) if s.kind == "pass" and not s.name.startswith("te.") and s.error is None]
    lowering = sum(n < record.lowered for n in passes) if record.lowered else len(passes)
    before = passes[0] - 1 if passes else -1  # the last call of a schedule, or what makes a function of it
    start = [before] if before >= 0 and isinstance(record.steps[before].after, ir.IRModule) else []
    return {n: max(lowering - i, 0) for i, n in enumerate([*start, *passes], start=not start)}


def step_number(record: Record, step: str) -> int:
    """The place in a record of `step`: its number, counted from 1 as it is shown, its name, or for one that comes several
    times `Simplify:3`. Raises `TVMagicError` if there is none, or if its program cannot be edited."""
    found = _place_of(record, step)
    if found in editable(record):
        return found
    chosen, others = record.steps[found], [record.steps[n].name.rsplit(".", 1)[-1] for n in editable(record)]
    what = "the code of" if chosen.kind == "codegen" else "the program after"
    raise TVMagicError(
        f"{what} `{chosen.name}` cannot be edited",
        hint=f"calls of a schedule are edited in its cell; the program can be after `{others[0]}` and what follows it"
        if others
        else None,
        code="edit.step_not_editable",
    )


def _place_of(record: Record, step: str) -> int:
    if step.isdigit():
        if not 1 <= int(step) <= len(record):
            raise TVMagicError(
                f"there is no step {step}", hint=f"the steps are 1 to {len(record)}", code="edit.unknown_step"
            )
        return int(step) - 1
    name, _, turn = step.rpartition(":") if step.rpartition(":")[2].isdigit() else (step, "", "1")
    places = [n for n, s in enumerate(record) if name in (s.name, s.name.rsplit(".", 1)[-1])]
    if not places:
        names = [s.name.rsplit(".", 1)[-1] for s in record]
        raise TVMagicError(
            f"no step `{name}` ran",
            hint=did_you_mean(name, names) or "%passes shows the steps",
            code="edit.unknown_step",
        )
    if not 1 <= int(turn) <= len(places):
        raise TVMagicError(
            f"`{name}` ran {len(places)} times",
            hint=f"write `{name}:1` to `{name}:{len(places)}`",
            code="edit.ambiguous_step",
        )
    return places[int(turn) - 1]


def program_text(record: Record, number: int) -> str:
    """The program after a step, as it is edited."""
    return script(record.steps[number].after).rstrip("\n")


def edit(version: Version, step: str | int, text: str, name: str = "edited", source: Source | None = None) -> Version:
    """The version that has `text` in the place of the program after a step of `version`, and the other passes run on it.

    Parameters
    ----------
    step: its place in the timeline, counted from 1, or its name (`step_number`).
    source: the cell that the text is from, for the places of errors.

    Raises `TVMagicError` if the text is not a program, or one that takes other arguments than the operator, or if a
    pass does not accept it. The operator gets the version under `name`.
    """
    op, record = version.operator, version.operator.passes(version, code=False, late=True)
    number = step_number(record, str(step))
    before = record.steps[number]
    module = _parsed_module(op, text, before, source)
    # also read from its text, which leaves some names open, such as those of strides: what nobody edited is then the same
    unchanged = _parsed_module(op, script(before.after), before, None)
    change = Step(f"edit after {before.name}", "schedule", unchanged, module)
    change.changed = not ir.structural_equal(unchanged, module)
    edited = Edited(
        version.name, [*record.steps[: number + 1], change], module, editable(record)[number], record.parents
    )
    made = Version(op, edited, name)
    with recording():
        made.lower()
    refuse_races(made)
    op.add_version(made)
    return made


def unedited(made: Version) -> Version:
    """What an edited version is compared with: the same step of the version that it was made of, read from its text."""
    edited, op = made.schedule, made.operator
    assert isinstance(edited, Edited)
    return Version(
        op,
        Edited(edited.origin, edited.steps[:-1], edited.steps[-1].before, edited.left, edited.parents),
        edited.origin,
    )


def _parsed_module(op: Operator, text: str, step: Step, source: Source | None) -> ir.IRModule:
    """The module that the text of a step's program says, edited or not."""
    return _neutral(without_index_condition(_read(op, text, source)), step.after)


def _read(op: Operator, text: str, source: Source | None) -> ir.IRModule:
    """The module that an edited text says; it takes the operator's arguments."""
    try:
        found = from_source(text, check_well_formed=False)
    except DiagnosticError as error:
        if source is not None and error.span is not None:
            place = error.span
            error.span = type(place)(source.name, place.line + 1, place.column, place.end_line + 1, place.end_column)
        raise
    module = ir.IRModule({op.name: found}) if isinstance(found, ir.PrimFunc) else found
    if not isinstance(module, ir.IRModule) or len(module.functions) != 1:
        raise TVMagicError(
            f"the text is not one function, which `{op.name}` is",
            hint="keep the function's lines",
            code="edit.not_one_function",
        )
    ir.verify_well_formed(module)
    func = next(iter(module.functions.values()))
    _check_arguments(op, func)
    return module


def _neutral(module: ir.IRModule, before: ir.IRModule) -> ir.IRModule:
    """`module`, in which the starts of max and min are those of the program before: beyond all numbers, which a text
    does not show."""
    starts: dict[tuple[str, float], ir.FloatImm] = {}

    def look(node: ir.Node) -> None:
        if isinstance(node, ir.FloatImm) and isinstance(node.value, Neutral):
            starts[str(node.dtype), float(node.value)] = node

    for func in before.functions.values():
        ir.post_order_visit(func.body, look)

    class Restored(ir.Mutator):
        @ir.handles(ir.FloatImm)
        def number(self, node: ir.FloatImm) -> ir.PrimExpr:
            return starts.get((str(node.dtype), float(node.value)), node)

    return module.map_functions(lambda f: f.with_body(Restored().visit(f.body))) if starts else module


def _check_arguments(op: Operator, func: ir.PrimFunc) -> None:
    buffers = [func.buffer_map.get(p) for p in func.params]
    given = [_argument_text(b) if b is not None else str(p) for b, p in zip(buffers, func.params)]
    wanted = [_argument_text(t) for t in op.args]
    if [g.partition(":")[2] for g in given] != [w.partition(":")[2] for w in wanted]:
        raise TVMagicError(
            f"the edited function takes ({', '.join(given)}), `{op.name}` takes ({', '.join(wanted)})",
            hint="leave the parameters and their buffers as they are",
            code="edit.arguments_differ",
        )


def _argument_text(tensor: Any) -> str:
    return f"{tensor.name}: {tensor.dtype}{[str(s) for s in tensor.shape]}".replace("'", "")
