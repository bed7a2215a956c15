"""The types of nodes: how many inputs and outputs, which attributes, what kind of API call, what they compute."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from tvmagic.ascend.elementwise import NUMBERS, ROWS
from tvmagic.ir import DataType, PrimExpr, dtype_of, ops

_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class OpType:
    """A type of node.

    `inputs`, `outputs`: how many tensors it takes and gives (-1: one or more). `kind`: what sort of call it is
    (`data` and `number` are not calls); it decides `compute_type` and `unit`, as they are in a dump. `compute`: of
    elementwise types, from the
    inputs' elements (expressions of the IR) and the attributes to the element; of reductions, the combination of the result
    so far with one more element. `numpy`: a NumPy function of the same meaning. `takes`: kinds of dtype that it takes.
    `result`: the dtype of the output if it is not the input's; `float` is float32 for integers. `attrs`: the attributes
    with their values if none are given. `conditions`: the places of inputs that are flags. `cost`: arithmetic of one
    element, in units of one addition. `refused`: why a node cannot be evaluated and lowered, empty if it can.
    """

    name: str
    inputs: int
    kind: str
    compute: Callable[..., PrimExpr] | None = None
    numpy: Callable[..., Any] | None = None
    takes: str = "fiub"
    result: str | None = None
    cost: float = 1.0
    attrs: Mapping[str, Any] = field(default_factory=lambda: _NO_ATTRIBUTES)
    conditions: tuple[int, ...] = ()
    outputs: int = 1
    refused: str = ""
    known: bool = True

    @property
    def compute_type(self) -> str:
        """As in a dump."""
        return "invalid" if self.kind in ("data", "number") else self.kind

    @property
    def unit(self) -> str:
        """The hardware unit that runs the call: MTE2 moves in, MTE3 moves out, `None` for what is not a call."""
        return _UNITS.get(self.kind, "Vector")

    @property
    def is_buffer(self) -> bool:
        """Whether it is an array in global memory rather than a call."""
        return self.kind == "data"

    @property
    def is_number(self) -> bool:
        """Whether it is a number, which takes no memory of its own."""
        return self.kind == "number"

    @property
    def is_call(self) -> bool:
        """Whether it is a call of an API."""
        return self.kind not in ("data", "number")

    def result_type(self, dtype: str) -> str:
        """The dtype of the output for inputs of a dtype."""
        if self.result == "float":
            return dtype if dtype_of(dtype).is_float else "float32"
        return self.result or dtype


_UNITS = {"data": "None", "number": "None", "load": "MTE2", "gather": "MTE2", "store": "MTE3", "cube": "Cube"}
_ONLY_READ = "it can be read, shown and printed, not run"


def _as_flag(value: PrimExpr) -> PrimExpr:
    return ops.cast(value.dtype, ops.not_equal(value, ops.const(0, value.dtype)))


def _keep(reduce: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis: reduce(x, axis=axis, keepdims=True)


_TYPES = [
    OpType("Data", 0, "data", attrs={"index": 0}),
    OpType("Output", -1, "data", attrs={"index": 0}),
    OpType("Workspace", -1, "data"),
    OpType("Scalar", 0, "number", attrs={"value": 0, "index": 0}),
    OpType("ScalarData", 0, "number", attrs={"index": 0}),
    OpType("IndexExpr", 0, "number", attrs={"expr": 0}),
    OpType("Load", 1, "load", attrs={"offset": 0}),
    OpType("Store", 1, "store", attrs={"offset": 0}),
    OpType("Nddma", 1, "load", attrs={"offset": 0}, refused=_ONLY_READ),
    OpType("Broadcast", 1, "broadcast"),
    OpType("Transpose", 1, "transpose"),
    OpType("Concat", -1, "concat"),
    OpType("Split", 1, "split", attrs={"index": 0, "gid": 0}, outputs=-1),
    OpType("Gather", 2, "gather", attrs={"axis": 0, "negative_index_support": False}),
    OpType("Sum", 1, "reduce", operator.add, _keep(np.sum), NUMBERS),
    OpType("Max", 1, "reduce", ops.maximum, _keep(np.max), NUMBERS),
    OpType("Min", 1, "reduce", ops.minimum, _keep(np.min), NUMBERS),
    OpType("Mean", 1, "reduce", operator.add, _keep(np.mean), NUMBERS),
    OpType("Prod", 1, "reduce", operator.mul, _keep(np.prod), NUMBERS),
    OpType("Any", 1, "reduce", lambda a, b: ops.maximum(a, _as_flag(b)), _keep(np.any), NUMBERS),
    OpType("All", 1, "reduce", lambda a, b: ops.minimum(a, _as_flag(b)), _keep(np.all), NUMBERS),
    OpType("ArgMax", 1, "reduce", None, lambda x, axis: np.argmax(x, axis=axis[0], keepdims=True), NUMBERS, "int64"),
    OpType("Cast", 1, "elewise"),
    OpType("AiryAi", 1, "elewise", takes="f", refused=_ONLY_READ),
    OpType(
        "MatMul", 2, "cube", refused=_ONLY_READ,
        attrs={"offset_x": 0, "transpose_x1": False, "transpose_x2": False, "has_relu": False, "enable_hf32": False},
    ),
    OpType("VectorFunc", -1, "elewise", attrs={"sub_graph_name": ""}, outputs=-1, refused=_ONLY_READ),
    *[
        OpType(name, inputs, "elewise", compute, numpy, takes, **more)
        for (name, inputs, compute, numpy, takes), more in ROWS
    ],
]  # fmt: skip
OP_TYPES: dict[str, OpType] = {t.name: t for t in _TYPES}


def op_type(name: str) -> OpType:
    """The type of a name; one that is read and printed only if the name is not known."""
    return OP_TYPES.get(name) or OpType(name, -1, "unknown", outputs=-1, refused="its type is not known", known=False)


_IDENTITIES: dict[str, Callable[[DataType], PrimExpr]] = {
    "Sum": lambda t: ops.const(0, t),
    "Mean": lambda t: ops.const(0, t),
    "Prod": lambda t: ops.const(1, t),
    "Any": lambda t: ops.const(0, t),
    "All": lambda t: ops.const(1, t),
    "ArgMax": lambda t: ops.const(0, t),
    "Max": ops.min_value,
    "Min": ops.max_value,
}


def reduce_identity(name: str, dtype: str) -> PrimExpr:
    """The value from which a reduction starts."""
    return _IDENTITIES[name](dtype_of(dtype))
