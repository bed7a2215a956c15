"""Random TensorIR functions and schedules: the text that makes them, and what they compute.

A function is a list of nests, each a block in loops that writes one buffer (two for a pair). What a nest means is
computed over the domain of its block's variables; how loops are bound to these (reversed, split with a predicate,
fused, in another order) is only in the text.
"""

from __future__ import annotations

from random_values import Axis, Size, TensorInfo
from small_language import Expr

PRELUDE = """
from tvmagic.script import from_source
from tvmagic.tir import Schedule, TensorIntrin

def _copy(dtype, size, impl):
    body = f"for i in range({size}):\\n        with T.block('copy'):\\n            vi = T.axis.spatial({size}, i)\\n" \\
           "            B[vi] = A[vi]" if not impl else f"T.reads(A[0:{size}])\\n        T.writes(B[0:{size}])\\n        " \\
           f"for i in range({size}):\\n            B[{size} - 1 - i] = A[{size} - 1 - i]"
    head = "    with T.block('root'):\\n        " + ("T.reads(A[0:%d])\\n        T.writes(B[0:%d])\\n        " % (size, size)) * (not impl)
    if not impl:
        body = body.replace("\\n", "\\n    ")
    return from_source(
        "from tvm.script import tir as T\\n@T.prim_func\\ndef f(a: T.handle, b: T.handle):\\n"
        f"    A = T.match_buffer(a, ({size},), '{dtype}', offset_factor=1, strides=[T.int32()] * 0 or None)\\n"
        f"    B = T.match_buffer(b, ({size},), '{dtype}', offset_factor=1)\\n" + head + body
    )
"""


class Nest:
    """A block in its loops. `update` is what is combined or stored; `binding` lines and loops are text."""

    def __init__(self, name: str, shape: tuple[Size, ...]) -> None:
        self.name, self.shape = name, shape
        self.axes = [Axis(f"v{n}", size) for n, size in enumerate(shape)]
        self.reduced: list[Axis] = []
        self.reducer = ""
        self.bodies: list[Expr] = []
        self.outputs: list[TensorInfo] = []
        self.loops: list[tuple[str, str]] = []  # variable and extent, outermost first
        self.bindings: list[str] = []
        self.predicates: list[str] = []
        self.condition: Expr | None = None  # elements without it are not stored
        self.carried = ""  # the operator of a running result along the first axis
        self.separate_init = False
