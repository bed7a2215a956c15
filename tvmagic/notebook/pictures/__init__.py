"""Pictures of operators and schedules, as SVG made here: no network, text that can be selected."""

from __future__ import annotations

from typing import Any

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import BlockRealize
from tvmagic.notebook.commands import version_of
from tvmagic.notebook.pictures.ascend import asc_axes, asc_nodes
from tvmagic.notebook.pictures.graphs import block_tree, iteration_graph, stage_graph
from tvmagic.notebook.pictures.svg import Graph
from tvmagic.notebook.results import Parts, Picture, Shown
from tvmagic.operators import Operator, Version

__all__ = ["asc_axes", "asc_nodes", "block_tree", "graph", "iteration_graph", "picture", "stage_graph"]


def picture(drawn: Graph, title: str = "") -> Picture:
    """A graph as a result that shows itself."""
    return Picture(drawn.svg(), drawn.words(), title or drawn.title)


def graph(value: Operator | Version, kind: str | None = None, stage: str | None = None) -> Shown:
    """Pictures of an operator's schedule.

    Parameters
    ----------
    kind: `stages` (what reads what), `iters` (the iteration variables of each stage), `blocks`
        (TensorIR's block tree), `regions` (asked for against computed), `access` (the order in
        which a buffer is touched). Stages and iteration variables, or blocks, by default; accesses if there are no blocks.
    stage: the stage, or the buffer, to draw; all by default.
    """
    version = version_of(value)
    te_schedule = te_schedule_of(version)
    if kind is None:
        whole, part = ("blocks", "access") if te_schedule is None else ("stages", "iters")
        if version.function is not None and not isinstance(version.function.body, BlockRealize):
            whole = "access"  # such as a kernel of Ascend, which has loops and buffers alone
        kind = whole if stage is None else part
    elif stage is not None and kind in ("stages", "blocks"):
        raise TVMagicError(
            f"a picture of all {kind} shows no single stage",
            hint="`iters`, `regions` and `access` show one",
            code="picture.no_single_stage",
        )
    makers = {"stages": _stages, "iters": _iterations, "blocks": _blocks, "regions": _regions, "access": _access}
    if te_schedule is None and kind in ("stages", "iters", "regions"):
        raise TVMagicError(
            f"`{version.operator.name}` has a TensorIR schedule here, which has no {kind}",
            hint="draw `blocks` or `access`",
            code="picture.tensorir_schedule",
        )
    return makers[kind](version, te_schedule, stage)


def te_schedule_of(version: Version) -> Any:
    """The TE schedule of a version; None if it has a TensorIR one."""
    if version.schedule is None:
        return version.operator.te_schedule() if version.operator.prim_func is None else None
    return version.schedule if isinstance(version.schedule, te.schedule.Schedule) else None


def _stages(version: Version, sch: Any, stage: str | None) -> Shown:
    op = version.operator
    return picture(stage_graph(sch, op.outputs, f"{op.name}: stages"))


def _iterations(version: Version, sch: Any, stage: str | None) -> Shown:
    from tvmagic import te
    from tvmagic.passes import Record, recording

    with recording(record=Record()):
        normalized = sch.normalize()
        ranges = te.schedule.InferBound(normalized)
    stages = [s for s in normalized.stages if getattr(s.op, "axis", ())]
    if stage is not None:
        stages = [s for s in stages if s.op.name == stage] or _no_such(stage, [s.op.name for s in stages])
    drawn = [picture(iteration_graph(s, ranges)) for s in stages]
    return drawn[0] if len(drawn) == 1 else Parts(*drawn, title=f"{version.operator.name}: iteration variables")


def _no_such(name: str, known: list[str]) -> Any:
    raise TVMagicError(
        f"there is no stage `{name}` to draw",
        hint="there are " + ", ".join(f"`{k}`" for k in known),
        code="picture.unknown_stage",
    )


def _blocks(version: Version, sch: Any, stage: str | None) -> Shown:
    op = version.operator
    return picture(block_tree(version.function or op.to_prim_func(), title=f"{op.name}: blocks"))


def _regions(version: Version, sch: Any, stage: str | None) -> Shown:
    from tvmagic.notebook.pictures.regions import regions_view

    return regions_view(version.operator, sch, stage)


def _access(version: Version, sch: Any, stage: str | None) -> Shown:
    from tvmagic.notebook.pictures.access import access_view

    return access_view(version, stage)
