"""Primitives that set and clear annotations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmagic.errors import WrongTypeError, a_thing
from tvmagic.ir import Block, Node, Stmt, attr_value
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.guards import is_mapping, is_row
from tvmagic.tir.schedule.instruction import BlockOrLoop, Value, primitive
from tvmagic.tir.schedule.state import ScheduleState


def set_annotations(state: ScheduleState, sref: StmtSRef, annotations: dict[str, Any]) -> None:
    """Put the annotations of a block or loop in place of the ones it has."""
    assert sref.stmt is not None
    new = sref.stmt.replace(annotations=annotations)
    state.replace(sref, new, {sref.block: new} if isinstance(new, Block) else None)


def _is_annotation(value: Any) -> bool:
    if is_row(value):
        return all(map(_is_annotation, value))
    if is_mapping(value):
        return all(map(_is_annotation, value.values()))
    if isinstance(value, Node):
        return not isinstance(value, Stmt)
    return value is None or isinstance(value, (str, int, float, np.bool_, np.number))


@primitive("Annotate")
def annotate(state: ScheduleState, block_or_loop: BlockOrLoop, ann_key: str, ann_val: Value) -> None:
    """Set the annotation `ann_key` of a block or loop; one that has it already keeps it.

    The value is a text, a number, or a list or mapping of those; of a random variable the number is taken.

    Example
    -------
    `sch.annotate(i, "note", 1)` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i in T.serial(16, annotations={"note": 1}):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1.0)
    """
    assert block_or_loop.stmt is not None
    known = block_or_loop.stmt.annotations
    if callable(ann_val):
        raise WrongTypeError(
            f"a function cannot be the annotation `{ann_key}`",
            hint="give a text, a number, a list or a mapping",
            code="annotate.value_is_function",
        )
    if not _is_annotation(ann_val):
        raise WrongTypeError(
            f"cannot annotate `{ann_key}`: expected a text, a number, a list or a mapping, got {a_thing(ann_val)}",
            code="annotate.wrong_value",
        )
    if ann_key not in known:
        set_annotations(state, block_or_loop, {**known, ann_key: attr_value(ann_val)})


@primitive("Unannotate")
def unannotate(state: ScheduleState, block_or_loop: BlockOrLoop, ann_key: str) -> None:
    """Clear the annotation `ann_key` of a block or loop, which must have it.

    Example
    -------
    `sch.unannotate(i, "note")` makes of

        for i in T.serial(16, annotations={"note": 1}):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1.0)
    """
    assert block_or_loop.stmt is not None
    known = block_or_loop.stmt.annotations
    if ann_key not in known:
        raise ScheduleError(
            f"{block_or_loop.label} has no annotation `{ann_key}`", block_or_loop, code="unannotate.no_annotation"
        )
    set_annotations(state, block_or_loop, {k: v for k, v in known.items() if k != ann_key})
