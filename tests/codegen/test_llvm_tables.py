"""Names of LLVM's intrinsics, what LLVM says of its passes, and what is kept of compiled code: tables and laws."""

from __future__ import annotations

import pytest

from tvmagic.codegen.llvm_names import LlvmNames
from tvmagic.codegen.llvm_passes import LLVMPass, grouped, read_passes
from tvmagic.errors import WrongValueError


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("llvm.cttz", "llvm.cttz.i32"),
        ("llvm.sqrt", "llvm.sqrt.i32"),
        ("llvm.cttz.i64", "llvm.cttz.i64"),
        ("llvm.memcpy", "llvm.memcpy"),
        ("llvm.sadd.sat", "llvm.sadd.sat.i32"),
        ("llvm.vector.reduce.add", "llvm.vector.reduce.add"),
    ],
)
def test_types_behind_names(name: str, typed: str) -> None:
    assert LlvmNames().with_type(name, "i32") == typed and LlvmNames().checked(name) == name


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("llvm.cttz", "llvm.cttz.i32", True),
        ("llvm.sadd.sat.i8", "llvm.sadd.sat", True),
        ("llvm.sadd.sat", "llvm.sadd.with.overflow", False),
        ("llvm.memcpy.p0.p0.i64", "llvm.memcpy.inline", False),
        ("llvm.x86.sse2.pause", "llvm.x86.sse2.pause", True),
        ("llvm.x86.rdtsc", "llvm.x86.sse2.pause", False),
        ("llvm.vector.reduce.add.v4i32", "llvm.vector.reduce.add", True),
    ],
)
def test_numbers_of_names(first: str, second: str, same: bool) -> None:
    """Numbers of common ones are their places; those of machines are made of the name, and larger than any place."""
    table = LlvmNames()
    a, b = table.number_of(first), table.number_of(second)
    assert (a == b) is same and a > 0
    if "x86" in first:
        assert a >= 1 << 24 and a < 1 << 25 and table.name_of(a) == first
    else:
        assert a < 1 << 10 and first.startswith(table.name_of(a))
    assert LlvmNames().number_of(first) == a


def test_places_count_from_one() -> None:
    table = LlvmNames()
    assert (
        table.name_of(1) == "llvm.abs"
        and table.number_of("llvm.abs.i32") == 1
        and sorted(table.names) == list(range(1, len(table.names) + 1))
    )
    with pytest.raises(WrongValueError, match="0 is the number of no LLVM intrinsic"):
        table.name_of(0)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sqrt", "did you mean `llvm.sqrt`?"),
        ("llvm.sqart", "did you mean `llvm.sqrt`?"),
        ("llvm", "the names begin with `llvm.`"),
        ("llvm.", "the names begin with `llvm.`"),
        ("LLVM.sqrt.f32", None),
        ("llvm.zzzzzzzz.q", "the names begin with `llvm.`"),
    ],
)
def test_what_is_no_intrinsic(name: str, hint: str | None) -> None:
    with pytest.raises(WrongValueError, match="is not the name of an LLVM intrinsic") as raised:
        LlvmNames().checked(name)
    assert hint is None or raised.value.hint == hint
    for known in ("llvm.x86.anything", "llvm.vp.add", "llvm.experimental.new", "llvm.amdgcn.x", "llvm.aarch64.y"):
        assert LlvmNames().checked(known) == known


SAID = """\
remark: lowered.py:3:1: loop not vectorized: a reason
*** IR Dump After SimplifyCFGPass on main ***
define void @main() {
  ret void
}
remark: lowered.py:4:9: hoisting load
*** IR Dump After LICMPass on loop %a ***
define void @main() {
  %x = add i32 1, 2
  ret void
}
remark: elsewhere: nothing
*** IR Dump After LICMPass on loop %b ***
define void @main() {
  ret void
}
*** IR Pass Something ***
what is not a dump
remark: lowered.py:7:2: vectorized loop (width 8)
*** IR Dump After LoopVectorizePass on main ***
define void @v() {
  ret void
}
remark: lowered.py:9:1: completely unrolled
remark: lowered.py:9:1: completely unrolled
"""


def test_passes_that_llvm_tells_of() -> None:
    """With the remarks in front of each; what the vectorizer says without changing anything is a step of its own."""
    found = read_passes("source", SAID)
    assert [(p.names, p.places, p.remarks, p.after is None) for p in found] == [
        (["LoopVectorize"], [], [(3, "loop not vectorized: a reason")], True),
        (["SimplifyCFG"], ["main"], [], False),
        (["LICM"], ["loop %a", "loop %b"], [(4, "hoisting load")], False),
        (["LoopVectorize"], ["main"], [(7, "vectorized loop (width 8)")], False),
    ]
    assert [str(p.after).splitlines()[0] for p in found if p.after] == [
        "define void @main() {",
        "define void @main() {",
        "define void @v() {",
    ] and "%x" not in str(found[2].after)
    assert [p.changes_loops for p in found] == [True, False, True, True]
    last = read_passes("source", SAID.split("*** IR Dump After LoopVectorize")[0])
    assert (
        last[-1].names == ["LoopVectorize"]
        and last[-1].after is None
        and last[-1].remarks == [(7, "vectorized loop (width 8)")]
    )


def test_passes_between_those_of_loops_are_one() -> None:
    names = ["A", "B", "LICM", "LICM", "A", "LoopVectorize", "C", "C", "D"]
    passes = [LLVMPass([name], [f"p{n}"], None, [(n, "x")] if name == "C" else []) for n, name in enumerate(names)]
    found = grouped(passes)
    assert [p.names for p in found] == [["A", "B"], ["LICM"], ["LICM"], ["A"], ["LoopVectorize"], ["C", "D"]]
    assert (
        found[-1].places == ["p6", "p7", "p8"]
        and found[-1].remarks == [(6, "x"), (7, "x")]
        and passes[6].places == ["p6"]
    )
    assert grouped([]) == []


# ---------------------------------------------------------------------------- what is kept
