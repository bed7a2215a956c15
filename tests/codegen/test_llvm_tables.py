"""Names of LLVM's intrinsics, what LLVM says of its passes, and what is kept of compiled code: tables and laws."""

from __future__ import annotations

import pytest

from tvmagic.codegen.llvm.passes import LLVMPass, grouped
from tvmagic.codegen.text.llvm_names import LlvmNames
from tvmagic.errors import WrongValueError


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
    with pytest.raises(WrongValueError) as raised:
        LlvmNames().checked(name)
    assert hint is None or raised.value.hint == hint
    for known in ("llvm.x86.anything", "llvm.vp.add", "llvm.experimental.new", "llvm.amdgcn.x", "llvm.aarch64.y"):
        assert LlvmNames().checked(known) == known


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
