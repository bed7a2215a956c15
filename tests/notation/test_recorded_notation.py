"""The functions that random cells become, and their JavaScript, are what they were."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check

from tvmagic.errors import TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.javascript import javascript
from tvmagic.operators.numpy_code import numpy_code


def answers(row: dict[str, Any]) -> dict[str, str]:
    try:
        op = operator("op", row["source"])
    except TVMagicError as error:
        return {"refused": str(error)}
    sizes = dict.fromkeys(op.symbols, 7)
    found = {
        "function": answer(lambda: op.to_prim_func().script()),
        "signature": answer(lambda: f"{op.signature} {op!r}"),
        "javascript": answer(lambda: javascript(op, sizes, bounds=True)),
    }
    if "bfloat16" not in row["source"]:  # older releases of ml_dtypes have fewer of NumPy's functions for it
        found["numpy"] = answer(lambda: _numpy(op, sizes))
    return found


def _numpy(op: Any, sizes: Any) -> str:
    code = numpy_code(op.inputs, op.outputs, sizes)
    return "\n".join([*code.lines, *code.elementwise])


@pytest.mark.parametrize("part", range(PARTS))
def test_random_cells(part: int) -> None:
    check("cells", part, answers)
