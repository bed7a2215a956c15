"""Sums so long that their dtype keeps too few digits, with the statement that keeps them.

The bound of a sum of n terms is about n u times the sum of their magnitudes, in any order, so no schedule makes it smaller: in float32 nothing
is left after 2^24 terms. A sum in float64 that is rounded once keeps all digits.
"""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic import ir, te
from tvmagic.ir.query import nodes_of
from tvmagic.notation.source import Source
from tvmagic.notation.syntax import as_read, over_names
from tvmagic.notation.wide_sums import is_narrow_float
from tvmagic.operators.arrays import size_values
from tvmagic.te.error_bound import format_of, parts
from tvmagic.te.error_reference import Evaluation
from tvmagic.te.reference import simple_combiner
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator

_LOST = 1e-3  # of the largest magnitude of an output


@dataclass(frozen=True)
class _LongSum:
    """A stage that adds `terms` numbers of `dtype`; `loss` is how much of their magnitudes' sum rounding may take."""

    stage: Any
    terms: int
    dtype: ir.DataType
    loss: float


def lost_digits(
    op: Operator, inputs: Sequence[np.ndarray], expected: Evaluation, outputs: Sequence[Any] | None = None
) -> tuple[str, ...]:
    """A sentence for each output that a long sum leaves without digits, with the statement to write.

    An output counts if bounds are at least its values and a thousandth of its largest one or, of `outputs`, if a value is that far off.
    `expected` has the bounds for these inputs. Empty for operators of a `prim_func`.
    """
    if op.prim_func is not None:
        return ()
    sizes = size_values(op.inputs, inputs)
    found: dict[str, None] = {}
    for number, (tensor, value) in enumerate(zip(op.outputs, expected.values)):
        if _is_lost(value, None if outputs is None else outputs[number]):
            longest = _longest_sum(tensor, sizes)
            if longest is not None:
                found[_sentence(op, longest)] = None
    return tuple(found)


def _is_lost(value: Any, output: Any) -> bool:
    wanted, bound = parts(value)
    if bound is None or not np.size(wanted):
        return False
    wanted, bound = np.abs(np.asarray(wanted, np.float64)), np.broadcast_to(bound, np.shape(wanted))
    finite = np.isfinite(wanted)
    least = _LOST * np.max(wanted, where=finite, initial=0.0)
    if (finite & (bound > 0) & (bound >= wanted) & (bound >= least)).any():
        return True
    if output is None:
        return False
    apart = np.abs(np.asarray(output).astype(np.float64) - parts(value)[0])
    return bool((finite & (apart > 0) & (apart >= least)).any())


def _longest_sum(output: Any, sizes: Mapping[ir.Var, int]) -> _LongSum | None:
    """The sum behind an output that may lose most."""
    sums: list[_LongSum] = []
    for op in post_dfs_order([output.op], create_read_graph([output.op])):
        body = op.body[0] if isinstance(op, te.ComputeOp) else None
        if not isinstance(body, ir.Reduce) or not body.dtype.is_float or body.combiner is None:
            continue
        if simple_combiner(body.combiner) is not np.add:
            continue
        extents = [ir.substitute(axis.dom.extent, sizes) for axis in body.axis if axis.dom is not None]
        terms = math.prod(e.value if isinstance(e, ir.IntImm) else 0 for e in extents)
        loss = terms * format_of(body.dtype).unit
        if loss >= _LOST:
            sums.append(_LongSum(op, terms, body.dtype, loss))
    return max(sums, key=lambda s: s.loss, default=None)


def _sentence(op: Operator, long_sum: _LongSum) -> str:
    name, dtype = long_sum.stage.name, long_sum.dtype
    wide = "float32" if dtype.bits < 32 and long_sum.terms * 2.0**-24 < _LOST else "float64"
    written = _written_wider(op, long_sum.stage, wide)
    if written is None:
        written = f'convert its terms to {wide}, as in `te.sum(X[k].astype("{wide}"), axis=k)`'
    else:
        written = f"write `{written}`"
    return f"`{name}` adds {long_sum.terms:,} terms in {dtype}, which keeps few digits of so long a sum: {written}"


def _written_wider(op: Operator, stage: Any, wide: str) -> str | None:
    """The statement of a stage with the terms of its sum in a wider dtype; None if no index notation defines it."""
    span, body = stage.span, stage.body[0]
    statement = _statement_at(op.source, span)
    if op.source is None or statement is None:
        return None
    over = {axis.var.name for axis in body.axis}
    dtype = _written_dtype(op, stage, statement)
    if isinstance(statement, ast.AugAssign):
        return _augmented(statement, stage, over, dtype, wide)
    changed = _Widener(op.source, over, dtype, wide).visit(copy.deepcopy(statement.value))
    if ast.dump(changed) == ast.dump(statement.value):
        return None
    return f"{ast.unparse(statement.targets[0])} = {ast.unparse(changed)}"


def _statement_at(source: Source | None, span: ir.Span | None) -> ast.Assign | ast.AugAssign | None:
    """The statement of the index notation whose left side is at `span`."""
    if source is None or span is None or span.source != source.name:
        return None
    for node in ast.walk(source.parse()):
        if isinstance(node, (ast.Assign, ast.AugAssign)) and source.span(_target(node)) == span:
            return node
    return None


def _target(statement: ast.Assign | ast.AugAssign) -> ast.expr:
    return statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]


def _written_dtype(op: Operator, stage: Any, statement: ast.Assign | ast.AugAssign) -> str:
    """The dtype of a statement's tensor in the notation, where later statements read a float32 sum as the 16-bit floats that it adds."""
    target = _target(statement)
    defined = op.tensors[ast.unparse(target.value)] if isinstance(target, ast.Subscript) else stage.output(0)
    if defined.op is not stage:
        return str(defined.dtype)
    roots = [t.op for t in op.outputs]
    bodies = [
        body for reader in post_dfs_order(roots, create_read_graph(roots)) for body in getattr(reader, "body", ())
    ]
    for cast in [cast for body in bodies for cast in nodes_of(body, ir.Cast)]:
        if isinstance(cast.value, ir.ProducerLoad) and cast.value.producer.op is stage and is_narrow_float(cast.dtype):
            return str(cast.dtype)
    return str(defined.dtype)


def _augmented(statement: ast.AugAssign, stage: Any, over: set[str], dtype: str, wide: str) -> str | None:
    target = statement.target
    if not isinstance(statement.op, ast.Add) or not isinstance(target, ast.Subscript):
        return None
    names = sorted(over)
    listed = names[0] if len(names) == 1 else f"({', '.join(names)})"
    total = f"{dtype}(sum({wide}({ast.unparse(statement.value)}), over={listed}))"
    before = "" if stage.name == ast.unparse(target.value) else f"{ast.unparse(as_read(target))} + "
    return f"{ast.unparse(target)} = {before}{total}"


class _Widener(ast.NodeTransformer):
    """Sums and means over these names, with wider terms and rounded."""

    def __init__(self, source: Source, over: set[str], dtype: str, wide: str) -> None:
        self.source, self.over, self.dtype, self.wide = source, over, dtype, wide

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The call in its own dtype around the same one of wider terms, if it is over these names."""
        if ast.unparse(node.func) not in ("sum", "mean") or len(node.args) != 1:
            return self.generic_visit(node)
        term = node.args[0]
        if isinstance(term, ast.GeneratorExp):
            names = {ast.unparse(part.target) for part in term.generators}
            wider: ast.expr = ast.GeneratorExp(self._converted(term.elt, self.wide), term.generators)
        else:
            names, wider = over_names(node, self.source), self._converted(term, self.wide)
        if names != self.over:
            return self.generic_visit(node)
        return self._converted(ast.Call(node.func, [wider], node.keywords), self.dtype)

    def _converted(self, term: ast.expr, dtype: str) -> ast.expr:
        return ast.Call(ast.Name(dtype, ast.Load()), [term], [])
