"""What LLVM is told of loops, and where memory lives: each decision at its boundaries, in the text that LLVM gets."""

from __future__ import annotations

import re

import pytest

from tvmagic import codegen
from tvmagic.codegen import statements
from tvmagic.codegen.work_estimate import Work
from tvmagic.operators import operator
from tvmagic.script import from_source

SKYLAKE, HASWELL = ("llvm -mtriple=x86_64-linux-gnu -mcpu=" + name for name in ("skylake-avx512", "haswell"))
HEAD = """\
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), n: T.int32):
"""


def llvm(body: str, target: str = SKYLAKE, check_bounds: bool = False) -> str:
    module = from_source(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))
    return codegen.llvm_ir(module, target, False, check_bounds)


def wishes(text: str) -> list[str]:
    """What is said of loops, sorted."""
    return sorted(set(re.findall(r'"llvm\.loop\.((?:unroll|vectorize|interleave)[\w.]*"(?:, i\d+ \w+)?)', text)))


def vectors(extent: int | str, stores: int = 1, kind: str = "serial") -> str:
    lines = [f"    B[i * 8 + {8 * n}:i * 8 + {8 * n + 8}] = A[i * 8:i * 8 + 8]" for n in range(stores)]
    return "\n".join([f"for i in T.{kind}({extent}):", *lines])


@pytest.mark.parametrize(
    ("body", "check_bounds", "said"),
    [
        (vectors(7), False, []), (vectors(8), False, ['unroll.count", i32 4']), (vectors(12), False, ['unroll.count", i32 4']), (vectors(10), False, []), (vectors(128), False, ['unroll.count", i32 4']), (vectors(132), False, []), (vectors(129), False, []),
        (vectors(8, 8), False, ['unroll.count", i32 4']), (vectors(8, 9), False, []), (vectors("n"), False, []), (vectors(8), True, []), (vectors(8, kind="parallel"), False, []),
        ("for i in range(8):\n    B[i * 2:i * 2 + 2] = A[i * 2:i * 2 + 2]", False, ['unroll.count", i32 4']), ("for i in range(8):\n    B[i * 2] = A[i * 2 + 1]", False, []),
        ("for i in range(8):\n    B[0:8] = A[0:8]\n    for j in range(n):\n        B[j] = A[i]", False, []),
    ],
)  # fmt: skip
def test_short_loops_over_vectors(body: str, check_bounds: bool, said: list[str]) -> None:
    """They are written out by fours, if they store few vectors and have no loop inside."""
    assert wishes(llvm(body, HASWELL, check_bounds)) == said


ONE = ['interleave.count", i32 1']


@pytest.mark.parametrize(
    ("loop", "value", "said"),
    [
        ("range(n)", "A[i % n]", ONE), ("range(n)", "A[i // n]", ONE), ("range(n)", "A[T.truncmod(i, n)]", ONE), ("range(n)", "A[i % 8]", []), ("range(n)", "A[i] / A[n]", []),
        ("range(4000)", "A[(i + 1) % n]", ONE), ("range(n)", "A[n // i]", ONE), ("T.parallel(n)", "A[i % n]", []), ("range(n)", "A[i] * T.float32(n % m)", []),
        ("range(n)", "T.Cast('float32', T.Cast('int8', A[i]) // T.Cast('int8', A[0]))", ONE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("check_bounds", [False, True])
def test_loops_of_quotients_are_one_vector_at_a_time(
    loop: str, value: str, said: list[str], check_bounds: bool
) -> None:
    """If the quotient is one of integers by no constant, and another one in each iteration."""
    assert wishes(llvm(f"m: T.int32 = n * n\nfor i in {loop}:\n    B[i] = {value}", HASWELL, check_bounds)) == said


def test_quotients_are_found_in_loops_around_and_behind_lets() -> None:
    two = "for i in range(n):\n    for j in range(n):\n        B[i * 16 + j] = A[{}]"
    for index, loops in (("i % n + j", 1), ("j % n", 1), ("(i + j) % n", 2), ("i % 4 + j % 4", 0)):
        assert llvm(two.format(index)).count(", !llvm.loop ") == loops, index
    text = "for i in range(n):\n    place: T.int32 = i * 3\n    at: T.int32 = place + 1\n    B[i] = A[at % n]"
    assert wishes(llvm(text)) == ONE


def test_bytes_at_places_of_quotients_take_one_vector_of_code() -> None:
    """For a processor without gathers of bytes LLVM wrote each of four vectors, element by element."""
    text = "X: int8[m]\nZ: int8[n]\nk: range(n)\nS: int8[8]\nS[i] += X[k % m] * Z[k]"
    module = operator("bytes", text).version("plain").lower()
    assert 1000 < len(codegen.llvm_ir(module, HASWELL).splitlines()) < 6000


@pytest.mark.parametrize(
    ("body", "target", "said"),
    [
        (f"for i in range({extent}):\n    B[i * 3] = A[i * 3]", SKYLAKE, said)
        for extent, said in ((15, []), (16, ['unroll.disable"']), (64, ['unroll.disable"']), (65, []))
    ]
    + [
        ("for i in range(32):\n    B[i * 3] = A[i * 3]", HASWELL, []), ("for i in range(32):\n    B[i] = B[i] + A[i]", SKYLAKE, []), ("for i in range(n):\n    B[i] = A[i]", SKYLAKE, []),
        ("for i in T.parallel(32):\n    B[i] = A[i]", SKYLAKE, []), ("for i in range(32):\n    A[i] = T.float32(1)\n    B[i] = T.float32(1)", SKYLAKE, ['unroll.disable"']),
    ],
)  # fmt: skip
def test_loops_over_elements_that_llvm_would_write_out_and_scatter(body: str, target: str, said: list[str]) -> None:
    assert wishes(llvm(body, target)) == said


@pytest.mark.parametrize(
    ("extent", "said"), [(1024, ['unroll.full"']), (2048, ['unroll.full"']), (2049, []), ("n", [])]
)
def test_loops_that_are_unrolled(extent: int | str, said: list[str]) -> None:
    """Up to 4096 operations, here two in an iteration."""
    text = f"for i in T.unroll({extent}):\n    B[i] = T.float32(1)"
    assert wishes(llvm(text, HASWELL)) == said and wishes(llvm(text, HASWELL, True)) == []


@pytest.mark.parametrize(
    ("extent", "target", "count"),
    [
        (512, SKYLAKE, 8),
        (511, SKYLAKE, 4),
        (384, SKYLAKE, 4),
        (640, SKYLAKE, 8),
        (256, HASWELL, 8),
        (192, HASWELL, 4),
        (320, HASWELL, 8),
        (288, HASWELL, 4),
    ],
)
def test_sums_in_any_order(extent: int, target: str, count: int) -> None:
    """As many partial results as divide the loop, and some times."""
    text = llvm(
        f'with T.attr(0, "pragma_any_order", 1):\n    for i in range({extent}):\n        B[0] = B[0] + A[i]', target
    )
    assert wishes(text) == [f'interleave.count", i32 {count}', 'unroll.disable"'] and "reassoc" in text


@pytest.mark.parametrize(
    ("extents", "dtype", "elements"),
    [("[8192]", "float32", 8192), ("[8193]", "float32", None), ("[32768]", "int8", 32768), ("[32769]", "int8", None), ("[4, 1024]", "float64", 4096), ("[4096, 3]", "float32", None), ("[0]", "float32", 1),
     ("[T.min(n, 8192)]", "float32", 8192), ("[T.min(n, 8193)]", "float32", None), ("[n]", "float32", None), ("[T.min(n, 64), T.min(n, 128)]", "float32", 8192)],
)  # fmt: skip
def test_where_memory_lives(extents: str, dtype: str, elements: int | None) -> None:
    """Up to 32 KiB on the stack, also what may be less; all else is allocated, and given back."""
    lines = f"C = T.allocate({extents}, '{dtype}', 'global')\nD = T.Buffer((1,), '{dtype}', data=C)\nD[0] = T.{dtype}(1)\nA[0] = T.Cast('float32', D[0])"
    text = llvm(lines, HASWELL)
    kind = {"float32": "float", "float64": "double", "int8": "i8"}[dtype]
    found = re.findall(rf"alloca \[(\d+) x {kind}\], align 64", text)
    assert found == ([] if elements is None else [str(elements)])
    assert ("free" in text) is (elements is None)


@pytest.mark.parametrize(
    ("body", "small", "large"),
    [
        ("for i in range(64):\n    B[i * 2] = A[i]\n    B[i * 2 + 1] = A[i + 64]", r"store <8 x float>", r"store float"),
        ("for i in range(4000):\n    B[i] = A[T.min(i, 3000)]", r"phi i32[^\n]*\n(?:.*\n)*.*phi i32", r"smin"),
        (vectors(8), r"unroll.count", r"unroll.disable"),
    ],
)  # fmt: skip
def test_a_function_that_is_large_once_it_is_written_out_stays_as_it_is(
    body: str, small: str, large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the limit, which is set to the program's size here, it is not large."""
    noalias = HEAD + '    T.func_attr({"tir.noalias": True})\n' + "".join(f"    {line}\n" for line in body.splitlines())
    module = from_source(noalias)
    written = Work(module.body).written
    for limit, is_small in ((written + 1, True), (written, True), (written - 1, False)):
        monkeypatch.setattr(statements, "_LARGEST_WRITTEN", limit)
        text = codegen.llvm_ir(module, HASWELL, False)
        assert (bool(re.search(small, text)), bool(re.search(large, text))) == (is_small, not is_small)
