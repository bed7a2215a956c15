"""The inputs that a check tries a version on, and what is expected of it besides the operator's expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir import PrimExpr
from tvmagic.operators.comparison import as_list
from tvmagic.operators.index_sources import index_sources
from tvmagic.operators.inputs import is_fixed, make_inputs
from tvmagic.operators.partial_pipeline import Edited
from tvmagic.te.error_bound import Approximate, Value, parts
from tvmagic.te.error_reference import Evaluation
from tvmagic.te.error_ties import Comparison
from tvmagic.te.schedule import Schedule
from tvmagic.te.schedule.attributes import AttachType

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator, Version

Function = Callable[..., Any] | tuple[str, Callable[..., Any]]
_MOST_NOTES = 3  # on comparisons that never went one way
# Calls of a TensorIR or CINN schedule after which each block still runs once for each of its elements.
_LOOP_CALLS = frozenset(
    "GetBlock GetLoops GetChildBlocks GetConsumers GetProducers GetOutputBlocks SamplePerfectTile SampleCategorical "
    "Split Fuse Reorder Parallel Vectorize Unroll Bind Annotate Unannotate AddUnitLoop".split()
)


def trial_inputs(
    op: Operator, seed: int, sizes: Mapping[str, int] | int, inputs: Any = None
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield the name of each trial of a check with its inputs: given ones (see `make_inputs`), or random ones."""
    yield "floats", make_inputs(op, seed, sizes, inputs)
    if is_fixed(op, inputs):
        return
    yield "fractions", make_inputs(op, seed, sizes, inputs, coarse=True)
    if inputs is not None or op.example_inputs is not None:
        return
    decide = index_sources(op)
    integers = [
        t
        for t in op.inputs
        if (t.dtype.is_int or t.dtype.is_uint) and not t.dtype.is_bool and not any(t is other for other in decide)
    ]
    if integers:
        try:
            whole = op.random_inputs(seed, sizes, full_range=integers)
        except TVMagicError:  # the assertions do not hold over that range
            return
        yield "full range", whole


def definition_kind(op: Operator) -> str:
    """What an operator is compared with: NumPy, or its own program if it is a function of statements."""
    return "numpy" if op.prim_func is None else "definition"


# ---------------------------------------------------------------------------- a function of the user's


def function_name(against: Function) -> str:
    """The name of a function, as it was given or its own."""
    return against[0] if isinstance(against, tuple) else getattr(against, "__name__", "the function")


def expected_of_function(
    op: Operator, inputs: Sequence[np.ndarray], defined: Evaluation, against: Function
) -> Evaluation:
    """The values of a function of the user's, with the bounds of the operator's expression.

    Both programs round, so each bound counts twice. Raises `TVMagicError` if the function fails or returns other shapes.
    """
    name, function = function_name(against), against[1] if isinstance(against, tuple) else against
    try:
        found = [np.asarray(value) for value in as_list(function(*[a.copy() for a in inputs]))]
    except Exception as error:
        taken = ", ".join(t.name for t in op.inputs)
        raise TVMagicError(
            f"cannot check `{op.name}` against `{name}`: `{name}({taken})` raised {type(error).__name__}: "
            f"{str(error).split(chr(10))[0]}",
            hint=f"it is called with the inputs of `{op.name}` as NumPy arrays",
            code="check.against_raised",
        ) from error
    shapes, wanted = [f.shape for f in found], [np.shape(parts(v)[0]) for v in defined.values]
    if shapes != wanted:
        raise TVMagicError(
            f"cannot check `{op.name}` against `{name}`: expected results of shape {_shapes(wanted)}, got {_shapes(shapes)}",
            hint=f"return {', '.join(t.name for t in op.outputs)}",
            code="check.against_wrong_shape",
        )
    values = [_with_bound(f, v) for f, v in zip(found, defined.values)]
    recomputed = defined.recomputed and [_with_bound(f, v) for f, v in zip(found, defined.recomputed)]
    decided = defined.decided and [2 * d for d in defined.decided]
    return Evaluation(values, defined.notes, recomputed, decided, defined.empty, defined.unwritten, defined.comparisons)


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes)) or "none"


def _with_bound(found: np.ndarray, defined: Value) -> Value:
    """The value that a function gave, with twice the bound of the definition's value."""
    bound = parts(defined)[1]
    if found.dtype.kind == "f" or (bound is not None and found.dtype.kind not in "biu"):
        found = found.astype(np.float64)
    return found if bound is None else Approximate(found, 2 * bound)


# ---------------------------------------------------------------------------- what a check notes


def one_sided(comparisons: Sequence[Comparison]) -> list[str]:
    """A sentence for each comparison of data that never went one way in any trial."""
    held: dict[int, Comparison] = {}
    for found in comparisons:
        merged = held.setdefault(id(found.node), Comparison(found.node, True))
        merged.held, merged.failed = merged.held or found.held, merged.failed or found.failed
    texts = [
        f"`{_plain_text(c.node)}` {'always' if c.held else 'never'} holds on these inputs"
        for c in held.values()
        if c.held != c.failed
    ]
    unique = list(dict.fromkeys(texts))
    more = [f"{len(unique) - _MOST_NOTES} more comparisons never went one way"] if len(unique) > _MOST_NOTES else []
    return [*unique[:_MOST_NOTES], *more]


def _plain_text(node: PrimExpr) -> str:
    """An expression as a cell has it, without the dtypes of constants."""
    return re.sub(r"T\.\w+\((-?[\d.e+-]+?)(\.0)?\)", r"\1", str(node))


def computes_once(version: Version) -> bool:
    """Whether a version is known to compute each element of a stage once.

    Otherwise two copies of an element may be rounded differently, as a vector and a scalar instruction may.
    """
    schedule = version.schedule
    if isinstance(schedule, Edited):
        origin = version.operator.versions.get(schedule.origin)
        return schedule.origin == "plain" or (origin is not None and computes_once(origin))
    if schedule is None:
        return True
    if isinstance(schedule, Schedule):
        return all(stage.attach_type in (AttachType.GROUP_ROOT, AttachType.SCAN_UPDATE) for stage in schedule.stages)
    trace = getattr(schedule, "trace", None)
    return trace is not None and all(inst.kind.name in _LOOP_CALLS for inst in trace.insts)
