"""LegalizeMasks: masks of one lane become conditions, masks of vectors' lanes those of their scalars."""

from __future__ import annotations

from typing import Any

import pytest
from late_passes import late, with_body

from tvmagic import codegen, ir
from tvmagic.codegen.late.legalize_masks import legalize_masks
from tvmagic.errors import BuildError
from tvmagic.ir.query import nodes_of
from tvmagic.passes import PassContext

A, B = (ir.decl_buffer((64,), "float32", name) for name in "AB")
WIDE, RESULT = ir.decl_buffer((4,), "float32x4", "W"), ir.decl_buffer((4,), "float32x4", "R")
CONDITION = ir.Var("c", "bool")


def lanes_from(start: int, lanes: int, stride: int = 1) -> ir.PrimExpr:
    return ir.Ramp(ir.IntImm("int32", start), ir.IntImm("int32", stride), lanes)


def legal(body: ir.Stmt, *scalars: ir.Var) -> ir.Stmt | None:
    made = late(legalize_masks, with_body(body, A, B, WIDE, RESULT, *scalars))
    return None if made is None else made.body


PLAIN = ir.BufferStore(B, ir.BufferLoad(A, [lanes_from(0, 4)]), [lanes_from(0, 4)])


def test_masks_of_one_lane_become_conditions() -> None:
    assert legal(PLAIN) is None
    stored = legal(PLAIN.replace(predicate=CONDITION), CONDITION)
    assert isinstance(stored, ir.IfThenElse) and stored.condition is CONDITION and stored.else_case is None
    assert isinstance(stored.then_case, ir.BufferStore) and stored.then_case.predicate is None
    loaded = legal(PLAIN.replace(value=PLAIN.value.replace(predicate=CONDITION)), CONDITION)
    assert isinstance(loaded, ir.BufferStore)
    assert str(loaded.value) == "T.if_then_else(c, A[0:4], T.Broadcast(T.float32(0.0), 4))"


@pytest.mark.parametrize(
    ("index", "mask", "result"),
    [
        (lanes_from(0, 2), 2, "unchanged"),
        (lanes_from(0, 2), 8, "W[0:8]"),
        (ir.IntImm("int32", 3), 4, "W[12:16]"),
        (lanes_from(1, 2), 8, "W[4:12]"),
        (lanes_from(0, 2, 2), 8, "refused"),
        (lanes_from(0, 2, 2), 2, "refused"),
    ],
)
@pytest.mark.parametrize("store", [False, True])
def test_masks_of_elements_that_are_vectors(index: Any, mask: int, result: str, store: bool) -> None:
    """With a lane for each element, or for each part of them: those are the parts' own."""
    on, places = ir.Broadcast(ir.IntImm("bool", 1), mask), [lanes_from(0, 2) if index.dtype.is_vector else 0]
    if store:
        body = ir.BufferStore(WIDE, ir.BufferLoad(RESULT, places), [index], predicate=on)
    else:
        body = ir.BufferStore(RESULT, ir.BufferLoad(WIDE, [index], predicate=on), places)
    if result == "refused":
        with pytest.raises(BuildError) as raised:
            legal(body)
        assert raised.value.code == "codegen.scattered_vectors"
        return
    made = legal(body)
    assert (made is None) == (result == "unchanged")
    if made is not None:
        (access,) = [a for a in nodes_of(made, ir.BufferLoad, ir.BufferStore) if a.predicate is not None]
        assert access.buffer.dtype == "float32" and str(access.buffer.shape) == "(16,)"
        assert str(ir.BufferLoad(access.buffer, access.indices)) == result


def test_without_the_pass_the_emitter_names_it() -> None:
    func = with_body(PLAIN.replace(predicate=CONDITION), A, B, CONDITION)
    with PassContext(disabled_pass=["late.LegalizeMasks"]), pytest.raises(BuildError) as raised:
        codegen.llvm_ir(func)
    assert raised.value.code == "codegen.mask_not_legal" and "late.LegalizeMasks" in str(raised.value.hint)
