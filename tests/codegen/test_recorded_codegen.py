"""The LLVM IR that is handed to LLVM, and the OpenCL C, of random lowered programs is what it was."""

from __future__ import annotations

import re
from typing import Any

import pytest
from recorded import PARTS, answer, check

from tvmagic import codegen
from tvmagic.script import from_source

CPU = "llvm -mtriple=x86_64-unknown-linux-gnu "
TARGETS = (
    CPU + "-mcpu=haswell",
    CPU + "-mcpu=skylake-avx512",
    CPU + "-mcpu=x86-64-v2",
    "llvm -mtriple=aarch64-unknown-linux-gnu -mattr=+v9a,+sve",
    "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+m,+a,+f,+d,+v",
)


def answers(row: dict[str, Any]) -> dict[str, str]:
    mod = from_source(row["source"])
    target, check_bounds = row["target"], row["check_bounds"]
    if target == "opencl":
        return {"opencl": answer(lambda: codegen.assembly(mod, target))}
    return {"llvm": answer(lambda: _without_layout(codegen.llvm_ir(mod, target, False, check_bounds)))}


def _without_layout(text: str) -> str:
    """The text but for the line that another LLVM may write in another way."""
    return re.sub(r"(?m)^target datalayout.*\n", "", text)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    check("codegen", part, answers)
