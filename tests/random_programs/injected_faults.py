"""Faults injected into edited programs: does the check of an edited program find those that change results?

    python tests/random_programs/injected_faults.py [COUNT] [--seed N]

Draws an operator, one of its schedules, a step after which the program is edited, a class of faults and a node; the program with
that fault goes through `edit`, as the text of a `%%program` cell does. Whether the fault changes results beyond rounding is
decided here, by the interpreter, on inputs that cover the dtypes: floats of both signs, small numbers, all extremes of
integers. Prints the seed, each fault that the check misses and the share that it finds, by class.
"""

from __future__ import annotations

import argparse
import collections
import functools
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.ir.query import nodes_of
from tvmagic.operators import Operator, Version, operator
from tvmagic.operators.editing import edit, editable, program_text
from tvmagic.operators.scheduling import schedule
from tvmagic.script import from_source, script

# Each with a schedule; the plain loops are edited as well.
OPERATORS: dict[str, tuple[str, str]] = {
    "matmul": ("A: float32[6, 10]\nB: float32[10, 7]\nY[i, j] += A[i, k] * B[k, j]", "i, j = s[Y].op.axis\ns[Y].split(j, 4)\ns[Y].split(s[Y].op.reduce_axis[0], 4)"),
    "bias_relu": ("X: float32[5, 9]\nW: float32[6, 9]\nb: float32[6]\nY[i, j] += X[i, k] * W[j, k]\nZ[i, j] = relu(Y[i, j] + b[j])", "s[Y].compute_at(s[Z], s[Z].op.axis[0])"),
    "conv": ("X: float32[10, 10]\nW: float32[3, 3]\nY[y, x] += X[y + r, x + c] * W[r, c]", "y, x = s[Y].op.axis\ns[Y].tile(y, x, 4, 4)"),
    "padded_conv": ("X: float32[9]\nW: float32[3]\ni: range(9)\nY[i] += (X[i + r - 1] if 1 <= i + r < 10 else 0) * W[r]", "s[Y].split(s[Y].op.axis[0], 4)"),
    "blur": ("I: float32[12, 10]\nH[i, j] = (I[i, j] + I[i, j + 1] + I[i, j + 2]) / 3\nV[i, j] = H[i, j] - 2 * H[i + 1, j] + H[i + 2, j]", "h, v = sch.get_block('H'), sch.get_block('V')\nsch.compute_at(h, sch.get_loops(v)[0])"),
    "softmax": ("X: float32[4, 12]\nP[i, k] = softmax(X[i, k], over=k)", "s[P_max].compute_at(s[P_exp], s[P_exp].op.axis[0])"),
    "layer_norm": ("X: float32[4, 12]\nm[i] = mean(X[i, k], over=k)\nv[i] = mean((X[i, k] - m[i]) ** 2, over=k)\nY[i, k] = (X[i, k] - m[i]) / sqrt(v[i] + 0.001)", "s[Y].split(s[Y].op.axis[1], 5)"),
    "sum_of_bytes": ("X: int8[6, 9]\nY[i] += X[i, k]", "s[Y].split(s[Y].op.reduce_axis[0], 4)"),
    "bytes_matmul": ("A: int8[5, 8]\nB: uint8[8, 6]\nC[i, j] += int32(A[i, k]) * int32(B[k, j])", "i, j = s[C].op.axis\ns[C].split(j, 4)"),
    "saturating_add": ("A: uint8[23]\nB: uint8[23]\nY[i] = uint8(min(int32(A[i]) + int32(B[i]), 255))", "s[Y].split(s[Y].op.axis[0], 8)"),
    "clip": ("X: int32[26]\nY[i] = int8(clip(X[i], -128, 127))", "s[Y].split(s[Y].op.axis[0], 8)"),
    "quantize": ("X: float32[26]\nY[i] = int8(clip(round(X[i] * 40), -20, 20))", "s[Y].split(s[Y].op.axis[0], 8)"),
    "recurrence": ("X: float32[14]\nH[t] = X[0] if t == 0 else H[t - 1] * 0.5 + X[t]", ""),
    "cumsum": ("X: float32[4, 9]\nC[i, k] = cumsum(X[i, k], over=k)", ""),
    "argmax": ("X: float32[5, 9]\nA[i] = argmax(X[i, k], over=k)", "s[A].split(s[A].op.axis[0], 2)"),
    "comparisons": ("X: float32[20]\nY: float32[20]\nZ[i] = X[i] - Y[i] if X[i] > Y[i] else 2 * Y[i]", "s[Z].split(s[Z].op.axis[0], 8)"),
    "gather": ("T: float32[9, 4]\nI: int32[5]\nE[i, j] = T[I[i], j]", "s[E].unroll(s[E].op.axis[1])"),
    "histogram": ("X: int32[30]\nb: range(6)\nH[b] += 1 if X[i] == b else 0", "s[H].split(s[H].op.reduce_axis[0], 8)"),
    "max_pool": ("X: float32[3, 12]\nr: range(3)\nY[c, i] = max(X[c, 2 * i + r], over=r)", "s[Y].split(s[Y].op.axis[1], 2)"),
    "half_sum": ("X: float16[4, 30]\nY[i] += X[i, k]", "s[Y].split(s[Y].op.reduce_axis[0], 8)"),
    "shifts": ("X: int32[21]\nY[i] = (X[i] >> 3) ^ (X[i] // 5)", "s[Y].split(s[Y].op.axis[0], 8)"),
}  # fmt: skip

CLASSES = (
    "condition flipped", "constant", "dropped term", "guard", "halo", "index", "init", "order of operands", "saturation",
    "sign lost", "stale stage", "tail", "wrap-around",
)  # fmt: skip
Faults = Iterator[tuple[str, ir.Node, Any]]


def _zero(value: ir.PrimExpr) -> ir.PrimExpr:
    return ir.ops.make_zero(value.dtype)


def _is_data(node: ir.PrimExpr) -> bool:
    """Whether a value depends on elements, so that it is no index arithmetic."""
    return bool(nodes_of(node, ir.BufferLoad))


def _faults_of_expression(node: ir.PrimExpr) -> Faults:
    data = _is_data(node)
    if isinstance(node, (ir.Add, ir.Mul)) and data:
        yield "dropped term", node, node.a
        yield "dropped term", node, node.b
    if isinstance(node, (ir.Sub, ir.Div, ir.FloorDiv)) and data:
        yield "order of operands", node, type(node)(node.b, node.a)
    if isinstance(node, ir.Add) and data and node.dtype.is_float:
        yield "sign lost", node, node.a - node.b
    if isinstance(node, (ir.Min, ir.Max)) and data:
        yield "saturation", node, node.a
        other = ir.Max if isinstance(node, ir.Min) else ir.Min
        yield "saturation", node, other(node.a, node.b)
        if isinstance(node.b, ir.IntImm):
            yield "saturation", node, type(node)(node.a, ir.IntImm(str(node.b.dtype), node.b.value - 1))
    if isinstance(node, ir.Cast) and data and node.value.dtype.is_int and node.value.dtype.bits < node.dtype.bits:
        yield "sign lost", node, ir.ops.cast(node.dtype, ir.ops.cast(f"uint{node.value.dtype.bits}", node.value))
    if isinstance(node, (ir.Add, ir.Mul)) and data and str(node.dtype) == "int32":
        for narrow in ("int8", "int16", "uint8"):
            yield "wrap-around", node, ir.ops.cast("int32", ir.ops.cast(narrow, node))
    if isinstance(node, (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ)) and data:
        yield "condition flipped", node, ir.ops.logical_not(node)
    if isinstance(node, ir.Select):
        yield "condition flipped", node, ir.Select(node.condition, node.false_value, node.true_value)
    if isinstance(node, ir.FloatImm) and 0 < abs(node.value) < 1e30:
        yield "constant", node, ir.FloatImm(str(node.dtype), node.value * 1.25)


def _faults_of_load(load: ir.BufferLoad, buffers: list[ir.Buffer]) -> Faults:
    for place, (index, size) in enumerate(zip(load.indices, load.buffer.shape)):
        for kind, moved in (("index", index + 1), ("halo", index - 1)):
            inside = ir.ops.maximum(ir.ops.minimum(moved, size - 1), 0)
            yield kind, load, ir.BufferLoad(load.buffer, [*load.indices[:place], inside, *load.indices[place + 1 :]])
    for other in buffers:
        alike = other is not load.buffer and other.dtype == load.buffer.dtype
        if alike and ir.structural_equal(list(other.shape), list(load.buffer.shape)):
            yield "stale stage", load, ir.BufferLoad(other, load.indices)


def _faults_of_statement(node: ir.Stmt) -> Faults:
    if isinstance(node, ir.For) and isinstance(node.extent, ir.IntImm) and node.extent.value > 1:
        yield "tail", node, node.replace(extent=ir.IntImm(str(node.extent.dtype), node.extent.value - 1))
    if isinstance(node, ir.IfThenElse):
        yield "guard", node, node.replace(condition=ir.ops.logical_not(node.condition))
        for bound in nodes_of(node.condition, ir.LT):
            tighter = _Replacer(bound, bound.a < bound.b - 1).visit(node.condition)
            yield "guard", node, node.replace(condition=tighter)
    if isinstance(node, ir.BufferStore):
        if isinstance(node.value, (ir.FloatImm, ir.IntImm)):
            yield "init", node, node.replace(value=node.value + ir.ops.const(1, node.value.dtype))
        else:
            yield "stale stage", node, node.replace(value=_zero(node.value))


def faults(body: ir.Stmt) -> list[tuple[str, ir.Node, Any]]:
    """The faults that a program can be given: class, node, replacement."""
    found: list[tuple[str, ir.Node, Any]] = []
    buffers = list(dict.fromkeys(load.buffer for load in nodes_of(body, ir.BufferLoad)))
    in_indices = {
        part
        for load in nodes_of(body, ir.BufferLoad)
        for index in load.indices
        for part in nodes_of(index, ir.PrimExpr)
    }
    for node in nodes_of(body, ir.Node):
        if isinstance(node, ir.BufferLoad):
            found += _faults_of_load(node, buffers)
        elif isinstance(node, ir.PrimExpr) and node not in in_indices:
            found += _faults_of_expression(node)
        elif isinstance(node, ir.Stmt):
            found += _faults_of_statement(node)
    return found


class _Replacer(ir.Mutator):
    def __init__(self, old: ir.Node, new: Any) -> None:
        self.old, self.new = old, new

    @ir.handles(ir.Node)
    def every(self, node: ir.Node) -> Any:
        """The node, or what replaces it."""
        return self.new if node is self.old else self.visit_children(node)


@dataclass(frozen=True)
class Fault:
    """A version with a fault: where it was injected, and as what."""

    name: str
    step: str
    kind: str
    text: str
    version: Version
    right: Version


@functools.cache
def _version(name: str, scheduled: bool) -> Version:
    cell, calls = OPERATORS[name]
    op = operator(name, cell)
    return schedule(op, calls) if scheduled and calls else op.version("plain")


def inject(rng: random.Random) -> Fault | None:
    """A random fault in a random program; None if nothing in it can have such a fault, or if the edited program is refused."""
    name = rng.choice(list(OPERATORS))
    right = _version(name, rng.random() < 0.6)
    record = right.operator.passes(right, code=False)
    number = rng.choice(list(editable(record)))
    # a text leaves some things open: as the reader of the cell takes it
    module = from_source(program_text(record, number), check_well_formed=False)
    func = module if isinstance(module, ir.PrimFunc) else next(iter(module.functions.values()))
    kind = rng.choice(CLASSES)  # first, so that rare ones are as frequent as others
    candidates = [(old, new) for found, old, new in faults(func.body) if found == kind]
    if not candidates:
        return None
    old, new = rng.choice(candidates)
    text = script(func.with_body(_Replacer(old, new).visit(func.body)))
    try:
        version = edit(right, number + 1, text, "faulty")
    except TVMagicError:
        return None
    return Fault(name, record.steps[number].name, kind, f"{old} -> {new}", version, right)


# ---------------------------------------------------------------------------- the judge


def _inputs(op: Operator, number: int) -> list[np.ndarray]:
    """Inputs of run `number`: some as the package draws them, the others over the dtype's range."""
    drawn = op.random_inputs(number, coarse=number % 2 == 1)
    if number < 4:
        return drawn
    rng = np.random.default_rng(number)
    arrays: list[np.ndarray] = []
    for tensor, array in zip(op.inputs, drawn):
        if array.dtype.kind in "iu" and not op.accesses.limit(tensor, {}):
            info = np.iinfo(array.dtype)
            wide = rng.integers(info.min, info.max, array.shape, dtype=array.dtype, endpoint=True)
            ends = rng.random(array.shape) < 0.3
            arrays.append(np.where(ends, rng.choice([info.min, info.max, 0], array.shape).astype(array.dtype), wide))
        else:
            arrays.append(array)
    return arrays


def _run(version: Version, inputs: list[np.ndarray]) -> list[np.ndarray]:
    op = version.operator
    outputs = op.fresh_outputs(inputs)
    for array in outputs:
        array.fill(0)
    op.start(inputs, outputs)
    module = version.lower()
    run_function(next(iter(module.functions.values())), op.arguments([np.array(a) for a in inputs], outputs), 20)
    return outputs


def _differs(got: np.ndarray, wanted: np.ndarray) -> bool:
    if got.dtype.kind in "iub":
        return not np.array_equal(got, wanted)
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return True
    finite = np.isfinite(b)
    largest = max(float(np.abs(b[finite]).max(initial=0)), 1e-6)
    return bool((np.abs(a - b)[finite] > (2e-2 if got.dtype.itemsize == 2 else 1e-3) * largest).any())


def changes_results(fault: Fault, runs: int = 8) -> bool | None:
    """Whether the interpreter gets other results from the faulty program, beyond rounding; None if it stops at an access."""
    for number in range(runs):
        inputs = _inputs(fault.version.operator, number)
        try:
            got = _run(fault.version, inputs)
        except TVMagicError:
            return None
        if any(_differs(a, b) for a, b in zip(got, _run(fault.right, inputs))):
            return True
    return False


def is_found(fault: Fault) -> bool:
    """Whether the check of the edited program says that it is wrong."""
    return fault.version.operator.check("faulty").ok is False


# ---------------------------------------------------------------------------- reports


@dataclass
class Report:
    """Faults that change results, by class: how many there were, and the ones that the check missed."""

    seed: int
    injected: collections.Counter[str]
    missed: list[Fault]

    @property
    def total(self) -> int:
        return self.injected.total()

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.total - len(self.missed)} of {self.total} faults found"]
        lost = collections.Counter(fault.kind for fault in self.missed)
        lines += [f"  {kind:18} {count - lost[kind]:4} of {count}" for kind, count in sorted(self.injected.items())]
        lines += [f"missed: {f.kind} in {f.name} after {f.step}: {f.text}" for f in self.missed]
        return "\n".join(lines)


def run(count: int, seed: int) -> Report:
    """Inject faults until `count` of them change results, and check each program."""
    rng = random.Random(seed)
    report = Report(seed, collections.Counter(), [])
    for _ in range(40 * count):
        if report.total == count:
            break
        fault = inject(rng)
        if fault is not None and changes_results(fault):
            report.injected[fault.kind] += 1
            if not is_found(fault):
                report.missed.append(fault)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    report = run(options.count, options.seed)
    print(report)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
