"""What small cells become, right and wrong ones, is what it was: functions, NumPy's calls, JavaScript, facts, and what is
said of mistakes, with the place and the hint.

What a cell computed was the same in NumPy when it was recorded.
"""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check

from tvmagic.errors import DefectError, TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.analysis import iterations
from tvmagic.operators.index_wraps import wrapping_indices
from tvmagic.operators.javascript import javascript
from tvmagic.operators.numpy_code import numpy_code


def answers(row: dict[str, Any]) -> dict[str, str]:
    try:
        op = operator("op", row["source"])
    except DefectError:
        raise
    except TVMagicError as error:
        # Python's own words are not the same in all of its versions
        return {"hint": str(error.hint)} if _of_python(error) else {"refused": str(error)}
    sizes = dict.fromkeys(op.symbols, 7)
    found = {
        "function": answer(lambda: op.to_prim_func().script()),
        "facts": str(_facts(op, sizes)),
        "javascript": answer(lambda: javascript(op, sizes)),
        "bounds": answer(lambda: javascript(op, sizes, bounds=True)),
    }
    if (
        op.prim_func is None and "bfloat16" not in row["source"]
    ):  # older releases of ml_dtypes have fewer of NumPy's functions for it
        found["numpy"] = answer(lambda: _numpy(op, sizes))
    return found


def _of_python(error: TVMagicError) -> bool:
    cause = error.__cause__ or error.__context__
    return cause is not None and not isinstance(cause, TVMagicError)


def _facts(op: Any, sizes: Any) -> dict[str, Any]:
    return {
        "signature": f"{op.signature} {op!r}",
        "tensors": sorted(op.tensors),
        "remarks": op.remarks,
        "usual size": op.usual_size,
        "iterations": list(iterations(op, sizes)),
        "wraps": wrapping_indices(op, sizes),
        "limits": [op.accesses.limit(tensor, sizes) for tensor in op.inputs],
        "unwritten": op.left_unwritten,
    }


def _numpy(op: Any, sizes: Any) -> str:
    code = numpy_code(op.inputs, op.outputs, sizes)
    return "\n".join([*code.lines, *code.elementwise])


@pytest.mark.parametrize("part", range(PARTS))
def test_small_cells(part: int) -> None:
    check("small_cells", part, answers)
