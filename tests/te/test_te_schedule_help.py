"""The help of each call of a TE schedule: what its parameters are, and an example that is run."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

import pytest

import tvmagic
from tvmagic import te
from tvmagic.te.schedule.stage import STAGE_CALLS, Stage

EXAMPLE = re.compile(r"\nExample\n-------\n(.*?)\n\nis lowered to\n\n(.*)", re.DOTALL)
CALLS = {
    **{name: getattr(Stage, name) for name in (*STAGE_CALLS, "tile", "compute_root")},
    **{name: getattr(te.Schedule, name) for name in ("cache_read", "cache_write", "create_group", "rfactor")},
}


def placeholder(code: str) -> te.Tensor:
    """`A` as the example reads it: with the shape of `B`, or that of a matrix whose rows are reduced."""
    shape = eval(re.findall(r"B = te\.(?:compute|placeholder)\((\([^)]*\))", code)[0])
    return te.placeholder((16, 16) if "te.sum" in code else shape, name="A")


@pytest.mark.parametrize("name", sorted(CALLS))
def test_an_example_is_lowered_to_what_it_says(name: str) -> None:
    found = EXAMPLE.search(inspect.getdoc(CALLS[name]) or "")
    assert found is not None, "its docstring has no example"
    code, after = textwrap.dedent(found[1]), textwrap.dedent(found[2])
    assert f".{name}(" in code.splitlines()[-1] and len(after.splitlines()) <= 14
    names: dict[str, Any] = {"te": te, "A": placeholder(code)}
    exec(code, names)
    last = next(names[name] for name in "DCB" if name in names)
    func = tvmagic.lower(names["s"], [names["A"], last], simple_mode=True)["main"]
    assert isinstance(func, tvmagic.ir.PrimFunc)
    body = textwrap.dedent(func.script().split("tir.noalias", 1)[1].split("\n", 1)[1])
    assert body.strip() == after.strip()


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_parameter_is_described(name: str) -> None:
    doc = inspect.getdoc(CALLS[name]) or ""
    listed = doc.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    described = {n for line in listed.splitlines() for n in line.split(":")[0].split(", ")}
    assert set(inspect.signature(CALLS[name]).parameters) - {"self"} <= described


def test_python_names_the_class_that_users_see() -> None:
    """The calls of a stage are in several files, under classes that nobody has heard of."""
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    stage = te.create_schedule(B.op)[B]
    for call in STAGE_CALLS:
        assert getattr(stage, call).__qualname__ == f"Stage.{call}"
    with pytest.raises(TypeError, match=r"^Stage\.tile\(\) missing 4"):
        stage.tile()
