"""Races of an operator's schedules, with the schedule call that made the loop parallel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvmagic import ir, te
from tvmagic.driver import default_passes, schedule_to_module
from tvmagic.errors import TVMagicError
from tvmagic.ir.schedulable import Schedulable
from tvmagic.operators.partial_pipeline import Edited, flat_passes
from tvmagic.passes import Sequential
from tvmagic.tir.analysis.races import Race, find_races

if TYPE_CHECKING:
    from tvmagic.operators.operator import Version

_CALL_OF_TYPE = {ir.IterVar.Parallelized: "parallel", ir.IterVar.Vectorized: "vectorized"}


def races_of(version: Version, sizes: Mapping[str, int] | int | None = None) -> list[Race]:
    """The races of a version, and the doubts about it; empty if it is proved to have none.

    `sizes` are those that races are looked for with if they are symbolic, by default several small ones.
    """
    func = loops_of(version)
    return find_races(func, sizes) if func is not None else []


def loops_of(version: Version) -> ir.PrimFunc | None:
    """The program of a version as loops over its buffers as they were declared, before memory is flat.

    Of one that was edited after that, the flat program; None if it has symbolic sizes, by whose products its elements are
    told apart.
    """
    op, schedule = version.operator, version.schedule
    if isinstance(schedule, Edited):
        return _edited_loops(schedule, bool(op.symbols))
    if schedule is None:
        schedule = op.te_schedule() if op.prim_func is None else op.prim_func
    if isinstance(schedule, te.schedule.Schedule):
        mod = schedule_to_module(schedule, op.args, op.name)
        if not _binds_buffers(mod[op.name]):
            return mod[op.name]
        last = "tir.LoopPartition"  # the buffers of intrinsics are bound when memory becomes flat
    else:
        mod: Any = schedule.lower() if isinstance(schedule, Schedulable) else schedule
        mod = mod if isinstance(mod, ir.IRModule) else ir.IRModule({op.name: mod})
        last = "tir.FlattenBuffer"
    passes = default_passes()
    names = [p.name for p in passes]
    mod = Sequential(passes[: names.index(last)], name="loops")(mod)
    return next(iter(mod.functions.values()))


def _edited_loops(edited: Edited, symbolic: bool) -> ir.PrimFunc | None:
    names = [p.name for p in flat_passes(edited.module)]
    func = next(iter(edited.module.functions.values()))
    of_te = func.attrs is not None and "from_legacy_te_schedule" in func.attrs
    last = names.index("tir.StorageFlatten" if of_te else "tir.FlattenBuffer")
    if len(names) - edited.left > last:
        return None if symbolic else func
    return func if of_te else next(iter(edited.run(len(names) - last).functions.values()))


def _binds_buffers(func: ir.PrimFunc) -> bool:
    found: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, ir.AttrStmt) and node.attr_key == "buffer_bind_scope":
            found.append(node)

    ir.pre_order_visit(func.body, look)
    return bool(found)


def refuse_races(version: Version) -> None:
    """Raise the error of the first certain race of a version, if there is one.

    Its place in the cell is the call that made the loop parallel, if that is known.
    """
    try:
        func = loops_of(version)
        if func is None:
            return
        race = next((r for r in find_races(func) if r.certain), None)
    except RecursionError:  # nested more deeply than Python's stack: nothing is known, and a check says so
        return
    if race is None:
        return
    raise TVMagicError(
        f"{race.text}, so the result depends on which of them comes first",
        node=race.loop,
        root=func,
        span=place_of(race, version),
        hint=hint_of(race),
        code="operator.race",
    )


def hint_of(race: Race) -> str:
    """What would work in the place of a race."""
    word = {"parallel": "parallelize", "vectorized": "vectorize"}.get(race.kind, "bind")
    if isinstance(race.first, ir.BufferStore) and isinstance(race.second, ir.BufferStore) and _updates(race.first):
        return (
            f"`{race.buffer.name}` is summed up over `{race.name}`: {word} an axis of the output instead, "
            "or make partial results with `rfactor` first"
        )
    return f"leave `{race.name}` serial, or {word} an axis whose iterations touch elements of their own"


def _updates(store: ir.BufferStore) -> bool:
    """Whether a store computes with what was at its place."""
    found: list[Any] = []

    def look(node: Any) -> None:
        if (
            isinstance(node, ir.BufferLoad)
            and node.buffer is store.buffer
            and ir.structural_equal(node.indices, store.indices)
        ):
            found.append(node)

    ir.pre_order_visit(store.value, look)
    return bool(found)


def place_of(race: Race, version: Version) -> ir.Span | None:
    """The place in the cell of the schedule call after which the loop is parallel; None if no call made it so."""
    if version.record is None:
        return None
    wanted = (race.kind.split(", ")[0], race.name)
    marks = (s.span for s in version.record if wanted in _marks(s.after) and wanted not in _marks(s.before))
    return next(marks, None)


def _marks(program: Any) -> set[tuple[str, str]]:
    """The parallel, vectorized and bound loops of a schedule or a program: the kind and the variable's name."""
    if isinstance(program, te.schedule.Schedule):
        return {mark for stage in program.stages for mark in _stage_marks(stage)}
    if isinstance(program, Schedulable):
        program = program.lower()
    functions = program.functions.values() if isinstance(program, ir.IRModule) else [program]
    found: set[tuple[str, str]] = set()

    def look(node: Any) -> None:
        if isinstance(node, ir.For):
            tag = node.thread_binding.thread_tag if node.thread_binding is not None else ""
            found.add((tag or node.kind.name.lower(), node.loop_var.name))

    for func in functions:
        if isinstance(func, ir.PrimFunc):
            ir.pre_order_visit(func.body, look)
    return found


def _stage_marks(stage: Any) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for iv, attr in stage.iter_var_attrs.items():
        name = iv.var.name.replace(".", "_")
        if attr.bind_thread is not None:
            found.add((attr.bind_thread.thread_tag, attr.bind_thread.var.name.replace(".", "_")))
        for text in {iv.var.name, name}:
            found.add((_CALL_OF_TYPE.get(attr.iter_type, ""), text))
    return found
