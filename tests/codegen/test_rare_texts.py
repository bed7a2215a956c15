"""What few programs come to in code generation: constants, places in a buffer, loops of kernels, each at its boundaries."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

import tvmagic
from tvmagic import codegen
from tvmagic.codegen.types import constant
from tvmagic.errors import TVMagicError
from tvmagic.ir import DataType
from tvmagic.script import from_source

HEAD = "from tvm.script import tir as T\n\n@T.prim_func\n"
ARGUMENTS = "def main(A: T.Buffer((4096,), 'float32'), B: T.Buffer((4096,), 'float32'), n: T.int32):\n"


def llvm(body: str, target: str, arguments: str = ARGUMENTS) -> str:
    module = from_source(HEAD + arguments + "".join(f"    {line}\n" for line in body.splitlines()))
    return codegen.llvm_ir(module, target, False)


def test_constants_of_bfloat16_are_signed_integers_of_16_bits() -> None:
    """The upper half of a float32."""
    for bits in (*range(0, 0x7F81, 97), 0x7F80, *range(0x8000, 0xFF81, 97), 0xFF80):
        (value,) = struct.unpack("<f", struct.pack("<I", bits << 16))
        assert constant(DataType("bfloat16"), value) == str(bits - (1 << 16) * (bits >= 1 << 15))


@pytest.mark.parametrize(
    ("size", "offset", "first", "inside"),
    [(4, 4, 0, True), (4, 4, 1, False), (8, 8, 4, True), (8, 8, 5, False), (8, 4, 0, True), (8, 4, 4, True), (4, 0, 1, False), (12, 4, 8, True), (12, 4, 9, False)],
)  # fmt: skip
def test_vectors_of_a_part_of_memory_stay_in_the_part(size: int, offset: int, first: int, inside: bool) -> None:
    """Places are counted from where the part begins."""
    text = f"""def main(A: T.Buffer((16,), "int32"), B: T.Buffer((4,), "int32")):
    V = T.Buffer(({size},), "int32", data=A.data, elem_offset={offset})
    B[0:4] = V[{first}:{first + 4}]"""
    run = tvmagic.build(from_source(HEAD + text), check_bounds=True)
    array, out = np.arange(16, dtype="int32"), np.zeros(4, "int32")
    if inside:
        run(array, out)
        np.testing.assert_array_equal(out, array[offset + first : offset + first + 4])
    else:
        with pytest.raises(TVMagicError, match=rf"at index \[{first}..{first + 3}\]"):
            run(array, out)


@pytest.mark.parametrize("extent", [256, 512, 1024])
def test_a_sum_in_a_kernel_has_the_fewest_partial_results(extent: int) -> None:
    body = f'with T.attr(0, "pragma_any_order", 1):\n    for i in range({extent}):\n        B[0] = B[0] + A[i]'
    assert re.findall(r'llvm.loop.interleave.count", i32 (\d+)', llvm(body, "nvptx")) == ["4"]
    assert "unroll.disable" not in llvm("for i in range(32):\n    B[i * 3] = A[i * 3]", "nvptx")


@pytest.mark.parametrize(
    ("dtype", "least", "largest"),
    [("int32", -(1 << 31), (1 << 31) - 1), ("uint32", 0, (1 << 32) - 1), ("int64", -(1 << 63), (1 << 63) - 1), ("uint64", 0, (1 << 64) - 1)],
)  # fmt: skip
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_become_the_nearest_integer_that_there_is(source: str, dtype: str, least: int, largest: int) -> None:
    """At both ends of the type, one place inside, and one outside."""
    ends = np.array([least, largest + 1], source)
    points = np.concatenate(
        [ends, np.nextafter(ends, np.array(0, source)), np.nextafter(ends, np.array([-np.inf, np.inf], source))]
    )
    given = np.concatenate([points, np.array([np.inf, -np.inf, 0.9, -0.9], source)])
    text = f"""def main(A: T.Buffer(({len(given)},), "{source}"), B: T.Buffer(({len(given)},), "{dtype}")):
    for i in range({len(given)}):
        B[i] = T.Cast("{dtype}", A[i])"""
    out = np.zeros(len(given), dtype)
    tvmagic.build(from_source(HEAD + text))(given, out)
    exact = [
        largest if x == np.inf else least if x == -np.inf else min(max(int(x), least), largest) for x in given.tolist()
    ]
    assert out.tolist() == exact


@pytest.mark.parametrize(("rank", "told"), [(1, 2), (3, 6), (7, 14), (8, 15), (17, 15)])
def test_an_error_tells_up_to_fifteen_numbers(rank: int, told: int) -> None:
    """Of each dimension the first and the last place."""
    arguments = f"def main(A: T.Buffer(({'2, ' * rank}), 'int32'), n: T.int32):\n"
    text = from_source(f"{HEAD}{arguments}    A[{', '.join(['n'] * rank)}] = 1")
    code = codegen.llvm_ir(text, "llvm -mtriple=x86_64-linux-gnu", False, True)
    found = re.search(r"alloca \[(\d+) x i64\], align 8", code)
    assert found is not None and int(found[1]) == told and f"i64 {told})" in code
