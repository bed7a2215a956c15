"""The help of each primitive: what its parameters are, and an example that is run."""

from __future__ import annotations

import doctest
import re
import textwrap

import pytest

from tvmagic import tir
from tvmagic.ir import PrimFunc, assert_structural_equal
from tvmagic.script import from_source
from tvmagic.tir.schedule.instruction import InstructionKind
from tvmagic.tir.schedule.parameters import DESCRIPTIONS

EXAMPLE = re.compile(r"\nExample\n-------\n`([^\n]+)` makes of\n\n(.*?)\n\nthis:\n\n(.*)", re.DOTALL)
# What the example of `tensorize` takes: the intrinsic's description, and what it is replaced by.
ADD_ONE = """
from tvmagic.script import tir as T
@T.prim_func
def add_one(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (16,), offset_factor=1)
    B = T.match_buffer(b, (16,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:16])
        T.writes(B[0:16])
        {}
"""
ONE_BY_ONE = """for i in range(16):
            with T.block("one"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1.0)"""
BY_CALL = 'T.call_extern("int32", "add_one_16", B.access_ptr("w"), A.access_ptr("r"))'
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


@pytest.fixture(scope="module", autouse=True)
def _intrinsic() -> None:
    description, implementation = (from_source(ADD_ONE.format(body)) for body in (ONE_BY_ONE, BY_CALL))
    tir.TensorIntrin.register("add_one_16", description, implementation, override=True)


@pytest.mark.parametrize("name", [n for n in CHANGING if n != "enter_postproc"])
def test_an_example_does_what_it_says(name: str) -> None:
    found = EXAMPLE.search(InstructionKind.methods[name].doc)
    assert found is not None, "its docstring has no example"
    call, before, after = found[1], *(textwrap.dedent(text) for text in found.groups()[1:])
    assert f"sch.{name}(" in call
    assert len(before.splitlines()) <= 10 and len(after.splitlines()) <= 24
    sch = tir.Schedule(program(before, before))
    blocks = re.findall(r'T\.block\("(\w+)"\)', before)
    loops = {sch.get(loop).loop_var.name: loop for block in blocks for loop in sch.get_loops(block)}
    exec(call, {"sch": sch, **loops})
    assert_structural_equal(sch.mod["main"], program(after, before))


# What the examples work on whose calls change no program: the block C reads what B writes.
TWO_BLOCKS = """B = T.alloc_buffer((16, 16))
for i, j in T.grid(16, 16):
    with T.block("B"):
        v, w = T.axis.remap("SS", [i, j])
        B[v, w] = A[v, w] + 1.0
for i, j in T.grid(16, 16):
    with T.block("C"):
        v, w = T.axis.remap("SS", [i, j])
        C[v, w] = B[v, w] * 2.0
"""


@pytest.mark.parametrize(
    "name", ["enter_postproc", *sorted(n for n, k in InstructionKind.methods.items() if k.is_pure)]
)
def test_an_example_of_a_call_that_changes_nothing(name: str) -> None:
    names = {"sch": tir.Schedule(program(TWO_BLOCKS, TWO_BLOCKS))}
    doc = InstructionKind.methods[name].doc
    assert "\nExample\n-------\n>>> " in doc and f"sch.{name}(" in doc
    example = doctest.DocTestParser().get_doctest(doc, names, "", None, None)
    result = doctest.DocTestRunner().run(example)
    assert result.attempted and not result.failed


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
