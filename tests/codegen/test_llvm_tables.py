"""Names of LLVM's intrinsics, what LLVM says of its passes, and what is kept of compiled code: tables and laws."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic.codegen import cache
from tvmagic.codegen.llvm_names import LlvmNames
from tvmagic.codegen.llvm_passes import LLVMPass, grouped, read_passes
from tvmagic.errors import WrongValueError
from tvmagic.script import from_source


@pytest.mark.parametrize(
    ("name", "typed"),
    [("llvm.cttz", "llvm.cttz.i32"), ("llvm.sqrt", "llvm.sqrt.i32"), ("llvm.cttz.i64", "llvm.cttz.i64"), ("llvm.memcpy", "llvm.memcpy"), ("llvm.sadd.sat", "llvm.sadd.sat.i32"), ("llvm.vector.reduce.add", "llvm.vector.reduce.add")],
)  # fmt: skip
def test_types_behind_names(name: str, typed: str) -> None:
    assert LlvmNames().with_type(name, "i32") == typed and LlvmNames().checked(name) == name


@pytest.mark.parametrize(("first", "second", "same"), [
    ("llvm.cttz", "llvm.cttz.i32", True), ("llvm.sadd.sat.i8", "llvm.sadd.sat", True), ("llvm.sadd.sat", "llvm.sadd.with.overflow", False), ("llvm.memcpy.p0.p0.i64", "llvm.memcpy.inline", False),
    ("llvm.x86.sse2.pause", "llvm.x86.sse2.pause", True), ("llvm.x86.rdtsc", "llvm.x86.sse2.pause", False), ("llvm.vector.reduce.add.v4i32", "llvm.vector.reduce.add", True),
])  # fmt: skip
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
    [("sqrt", "did you mean `llvm.sqrt`?"), ("llvm.sqart", "did you mean `llvm.sqrt`?"), ("llvm", "the names begin with `llvm.`"), ("llvm.", "the names begin with `llvm.`"), ("LLVM.sqrt.f32", None), ("llvm.zzzzzzzz.q", "the names begin with `llvm.`")],
)  # fmt: skip
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
        (["LoopVectorize"], [], [(3, "loop not vectorized: a reason")], True), (["SimplifyCFG"], ["main"], [], False), (["LICM"], ["loop %a", "loop %b"], [(4, "hoisting load")], False),
        (["LoopVectorize"], ["main"], [(7, "vectorized loop (width 8)")], False),
    ]  # fmt: skip
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


class Built:
    """Compiled code of some bytes."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def program(number: float, name: str = "A") -> Any:
    return from_source(
        f"from tvm.script import tir as T\n\n@T.prim_func\ndef main({name}: T.Buffer((4,), 'float32')):\n    {name}[0] = T.float32({number})\n"
    )


@pytest.fixture
def empty() -> Any:
    before = cache._limit
    cache.clear_cache()
    yield cache
    cache.set_cache_limit(before)
    cache.clear_cache()


def kept(numbers: list[float], limit: int, nbytes: int = 10) -> list[float]:
    """The programs that are still kept after some were compiled in turn, each of so many bytes."""
    cache.set_cache_limit(limit)
    for number in numbers:
        cache.from_memory(mod(number), (), lambda: Built(nbytes))
    found = []
    for number in dict.fromkeys(numbers):
        made: list[int] = []
        cache.set_cache_limit(1 << 40)
        cache.from_memory(mod(number), (), lambda made=made: made.append(1) or Built(nbytes))
        if not made:
            found.append(number)
    return found


def mod(number: float) -> Any:
    import tvmagic

    return tvmagic.IRModule({"main": program(number)})


@pytest.mark.parametrize(
    ("numbers", "limit", "left"),
    [
        ([1, 2, 3], 30, [1, 2, 3]),
        ([1, 2, 3], 29, [2, 3]),
        ([1, 2, 1, 3], 20, [1, 3]),
        ([1, 2], 0, []),
        ([1], 9, []),
        ([1, 2, 3, 4], 20, [3, 4]),
    ],
)
def test_what_was_not_asked_for_longest_is_forgotten(
    numbers: list[float], limit: int, left: list[float], empty: Any
) -> None:
    assert kept(numbers, limit) == left


def test_no_more_than_256_programs_are_kept(empty: Any) -> None:
    for number in range(258):
        cache.from_memory(mod(float(number)), (), lambda: Built(0))
    assert len(cache._kept) == 256


def test_programs_of_one_hash_are_two(empty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import tvmagic

    monkeypatch.setattr(cache, "structural_hash", lambda mod: 0)
    body = "from tvm.script import tir as T\n@T.prim_func\ndef main(A: T.Buffer((4,), 'int32')):\n    A[{}] = 1"
    modules = [tvmagic.IRModule({"main": tvmagic.script.from_source(body.format(n))}) for n in (0, 1)]
    first, second = [cache.from_memory(m, (), lambda: Built(1)) for m in modules]
    assert first is not second and cache.from_memory(modules[1], (), lambda: Built(1)) is second


def test_what_is_one_program(empty: Any) -> None:
    """Equal structures with the same names, options, and constants to the bit."""
    import tvmagic

    made = cache.from_memory(mod(1.0), ("o",), lambda: Built(1))
    assert (
        cache.from_memory(mod(1.0), ("o",), lambda: Built(1)) is made
        and cache.from_memory(mod(1.0), ("p",), lambda: Built(1)) is not made
    )
    renamed = tvmagic.IRModule({"main": program(1.0, "Z")})
    assert cache.from_memory(renamed, ("o",), lambda: Built(1)) is not made
    zeros = [cache.from_memory(mod(zero), (), lambda: Built(1)) for zero in (0.0, -0.0)]
    assert zeros[0] is not zeros[1]
    cache.clear_cache()
    assert cache._held == 0 and cache.from_memory(mod(1.0), ("o",), lambda: Built(7)) is not made and cache._held == 7
