"""What an operator computes, as plain JavaScript: loops made from its definition, so that a page can check what the
compiler made of the same definition.

`expressions` writes values, `program` the operations of tensor expressions, `statements` those of TensorIR functions.
The helpers that the code calls are in `notebook/static/arithmetic.js`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic.ir import Var
from tvmagic.operators.javascript.program import array_type
from tvmagic.operators.javascript.statements import InexactIntegers, StatementWriter

__all__ = ["array_type", "javascript"]


def javascript(op: Any, sizes: Mapping[Any, int], bounds: bool = False) -> str:
    """The body of a function of `inputs`, a list of typed arrays, that computes an operator.

    Parameters
    ----------
    sizes: the numbers that symbolic sizes (variables) stand for.
    bounds: return `{value, error}` for each output, with the error that rounding may have in any order of the same
        operations (`error` is null if there is none); else the arrays of the outputs.

    Raises TVMagicError if the operator does something that has no form in JavaScript.
    """
    inexact: set[Var] = (
        set()
    )  # pointers to integers that rounding may change, of which some are known by their uses alone
    while True:
        try:
            return _written(StatementWriter(bounds, sizes, inexact), op)
        except InexactIntegers as found:
            inexact.add(found.pointer)


def _written(writer: StatementWriter, op: Any) -> str:
    for number, tensor in enumerate(op.inputs):
        writer.declare(tensor, f"inputs[{number}]")
    if op.prim_func is not None:
        writer.function(op)
    else:
        writer.operations([t.op for t in op.outputs])
    results = [writer.result(t) for t in op.outputs]
    return "\n".join([*writer.lines, f"return [{', '.join(results)}];"])
