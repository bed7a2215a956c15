"""Races of tensorized schedules, whose intrinsics access buffers that are bound to parts of flat memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dot_call import dot
from statements import loop

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.operator import Operator
from tvmagic.operators.races import loops_of, races_of
from tvmagic.operators.scheduling import schedule


def rows() -> Operator:
    return operator("rows", "X: float32[8, 16]\nY[i, j] = X[i, j] + 1\n")


def product() -> Operator:
    return operator("product", "X: float32[6, 32]\nW: float32[5, 32]\nY[i, j] += X[i, k] * W[j, k]\n")


def increment(size: int, stored: int | None = None) -> Any:
    """An intrinsic for `size` elements, which stores `stored` of them (all by default)."""
    a = te.placeholder((size,), name="a")
    z = te.compute((size,), lambda i: a[i] + 1.0, name="z")

    def body(ins: Any, outs: Any) -> Any:
        (source,), (target,) = ins, outs
        extent = size if stored is None else stored
        return loop("q", extent, lambda q: target.vstore([q], source.vload([q if stored is None else 0]) + 1.0))

    return te.decl_tensor_intrin(z.op, body, "increment", default_buffer_params={"offset_factor": 1})


@pytest.mark.parametrize(
    "text",
    [
        "s[Y].tensorize(s[Y].op.axis[1], call)\ns[Y].parallel(s[Y].op.axis[0])",
        "i, j = s[Y].op.axis\njo, ji = s[Y].split(j, 16)\ns[Y].tensorize(ji, call)\ns[Y].parallel(s[Y].fuse(i, jo))",
        "i, j = s[Y].op.axis\nio, ii = s[Y].split(i, 2)\ns[Y].tensorize(j, call)\ns[Y].parallel(io)\ns[Y].unroll(ii)",
    ],
    ids=["rows", "fused", "blocks of rows"],
)
def test_calls_on_parts_of_their_own_do_not_race(text: str) -> None:
    op = rows()
    version = schedule(op, text, namespace={"call": increment(16)})
    assert len(loops_of(version).buffer_map) == 2
    assert races_of(version) == []
    result = op.check()
    assert result.ok and not result.races


def test_parts_of_a_row_do_not_race() -> None:
    op = rows()
    text = "i, j = s[Y].op.axis\njo, ji = s[Y].split(j, 4)\ns[Y].tensorize(ji, call)\ns[Y].reorder(jo, i)\ns[Y].parallel(jo)"
    assert races_of(schedule(op, text, namespace={"call": increment(4)})) == []
    assert op.check().ok


def test_calls_over_the_reduction_race_at_their_element() -> None:
    text = "i, j = s[Y].op.axis\nk = s[Y].op.reduce_axis[0]\nko, ki = s[Y].split(k, 8)\ns[Y].reorder(ko, i, j, ki)\n"
    op = product()
    with pytest.raises(TVMagicError, match=r"`k.outer`.*`Y\[0\]`") as caught:
        schedule(op, text + "s[Y].tensorize(ki, call)\ns[Y].parallel(ko)", namespace={"call": dot(8)})
    assert caught.value.span is not None and caught.value.span.line == 7  # s[Y].parallel(ko)
    assert not op.versions


def test_calls_over_the_output_do_not_race() -> None:
    op = product()
    text = "i, j = s[Y].op.axis\nko, ki = s[Y].split(s[Y].op.reduce_axis[0], 8)\ns[Y].tensorize(ki, call)\ns[Y].parallel(i)"
    assert races_of(schedule(op, text, namespace={"call": dot(8)})) == []
    rng = np.random.default_rng(0)
    x, w = rng.random((6, 32), "float32"), rng.random((5, 32), "float32")
    np.testing.assert_allclose(op(x, w), x @ w.T, rtol=1e-5)


def test_an_intrinsic_that_stores_more_than_its_part_races() -> None:
    text = "i, j = s[Y].op.axis\njo, ji = s[Y].split(j, 4)\ns[Y].tensorize(ji, call)\ns[Y].parallel(jo)"
    with pytest.raises(TVMagicError, match=r"`j.outer`.*`Y\[4\]`"):
        schedule(rows(), text, namespace={"call": increment(4, stored=6)})
