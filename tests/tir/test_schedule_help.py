"""The help of each primitive: what its parameters are, and an example that is run."""

from __future__ import annotations

import re
import textwrap

import pytest

from tvmagic import tir
from tvmagic.ir import PrimFunc, assert_structural_equal
from tvmagic.script import from_source
from tvmagic.tir.schedule.instruction import InstructionKind
from tvmagic.tir.schedule.parameters import DESCRIPTIONS

EXAMPLE = re.compile(r"\nExample\n-------\n`([^\n]+)` makes of\n\n(.*?)\n\nthis:\n\n(.*)", re.DOTALL)
# What has no program before and after that fits on a screen, or that is not there without an instruction.
NO_EXAMPLE = {
    "annotate_buffer_access", "cache_index", "enter_postproc", "loop_partition", "pad_einsum", "set_axis_separator", "tensorize",
}  # fmt: skip
CHANGING = sorted(
    n for n, kind in InstructionKind.methods.items() if not kind.is_pure and "primitives" in kind.function.__module__
)


def program(body: str, like: str) -> PrimFunc:
    """A function with this body, whose parameters are the buffers of the body `like`: 16 elements along each dimension."""
    ranks = {name: indices.count(",") + 1 for name, indices in re.findall(r"\b([ABC])\[([^\]]*)\]", like)}
    inner = re.findall(r"^(\w+) = T\.alloc_buffer", like, re.MULTILINE)
    buffers = [f'{n}: T.Buffer(({"16, " * r}), "float32")' for n, r in sorted(ranks.items()) if n not in inner]
    head = f"from tvmagic.script import tir as T\n@T.prim_func\ndef main({', '.join(buffers)}):\n"
    return from_source(head + textwrap.indent(body, "    "))


@pytest.mark.parametrize("name", [n for n in CHANGING if n not in NO_EXAMPLE])
def test_an_example_does_what_it_says(name: str) -> None:
    found = EXAMPLE.search(InstructionKind.methods[name].doc)
    assert found is not None, "its docstring has no example"
    call, before, after = found[1], *(textwrap.dedent(text) for text in found.groups()[1:])
    assert f"sch.{name}(" in call
    assert len(before.splitlines()) <= 10 and len(after.splitlines()) <= 13
    sch = tir.Schedule(program(before, before))
    blocks = re.findall(r'T\.block\("(\w+)"\)', before)
    loops = {sch.get(loop).loop_var.name: loop for block in blocks for loop in sch.get_loops(block)}
    exec(call, {"sch": sch, **loops})
    assert_structural_equal(sch.mod["main"], program(after, before))


@pytest.mark.parametrize("name", sorted(InstructionKind.methods))
def test_every_parameter_is_described(name: str) -> None:
    kind = InstructionKind.methods[name]
    if "primitives" not in kind.function.__module__:
        return  # declared by another test
    for parameter in kind.signature.parameters:
        if parameter not in ("state", "random"):
            assert f"\n{parameter}: " in kind.doc, parameter
    assert getattr(tir.Schedule, name).__doc__ == kind.doc


def test_no_description_is_left_over() -> None:
    kinds = [(n, k) for n, k in InstructionKind.methods.items() if "primitives" in k.function.__module__]
    used = {text for n, kind in kinds for p in kind.signature.parameters for text in (p, f"{n}.{p}")}
    assert set(DESCRIPTIONS) <= used
