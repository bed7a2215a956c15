"""OpenCL C, run by an implementation of OpenCL for CPUs (`pocl`) in a process of its own."""

from __future__ import annotations

import atexit
import itertools
import math
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tvmagic.arith.analyzer import Analyzer
from tvmagic.codegen.kernels import Allocation, Binding, Branch, Check, Launch, Repeat, Step
from tvmagic.codegen.opencl import DeviceModule
from tvmagic.codegen.opencl.module import DeviceFunction
from tvmagic.errors import AssertionFailedError, InternalError, TVMagicError
from tvmagic.ir import BinaryOp, FloatImm, IntImm, PrimExpr, Var, substitute
from tvmagic.ir.meaning import compute
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.runners.connection import Connection
from tvmagic.runners.families import runner
from tvmagic.runners.tools import MissingTool, need_package
from tvmagic.runtime.arguments import ArrayParam, memory_of
from tvmagic.runtime.kernel import checker_of

__all__ = ["host_launches", "run_opencl"]

_DIMENSIONS = ("x", "y", "z")
_MOST_LAUNCHES = 20_000  # each takes some 0.1 ms


class _Host:
    """What the host does, with the sizes of one call: its memory, and its launches in order."""

    def __init__(self, function: DeviceFunction, values: dict[Var, Any], buffers: list[Any]) -> None:
        self.function, self.values, self.buffers = function, values, buffers

    def number(self, expr: PrimExpr) -> Any:
        """The value of an expression of sizes and of variables of the host."""
        if isinstance(expr, (IntImm, FloatImm)):
            return expr.value
        if isinstance(expr, Var) and expr in self.values:
            return self.values[expr]
        if isinstance(expr, BinaryOp):
            return compute(type(expr), self.number(expr.a), self.number(expr.b), expr.a.dtype)
        bound = {var: _imm(var, value) for var, value in self.values.items() if not var.dtype.is_handle}
        found = Analyzer().simplify(substitute(expr, bound))  # a fresh one: a Let is bound once by each
        if not isinstance(found, (IntImm, FloatImm)):
            raise InternalError(f"the host cannot tell the value of `{expr}`")
        return found.value

    def launches(self, steps: Sequence[Step]) -> Iterator[Any]:
        """The launches that the steps make."""
        for step in steps:
            if isinstance(step, Launch):
                yield from self._launch(step)
            elif isinstance(step, Allocation):
                self._allocate(step)
                yield from self.launches(step.steps)
            elif isinstance(step, Repeat):
                first = self.number(step.node.min)
                for n in range(first, first + self.number(step.node.extent)):
                    self.values[step.node.loop_var] = n
                    yield from self.launches(step.steps)
            elif isinstance(step, Branch):
                yield from self.launches(step.then if self.number(step.condition) else step.other)
            elif isinstance(step, Binding):
                self.values[step.var] = self.number(step.value)
                yield from self.launches(step.steps)
            elif isinstance(step, Check) and not self.number(step.condition):
                raise AssertionFailedError(f"an assertion in `{self.function.abi.name}` does not hold: {step.message}")

    def _bytes(self, node: Any) -> int:
        return math.prod(max(0, self.number(e)) for e in node.extents) * node.dtype.bytes

    def _allocate(self, step: Allocation) -> None:
        self.values[step.node.buffer_var] = len(self.buffers)
        self.buffers.append(max(self._bytes(step.node), self.function.reach.get(step.node.buffer_var, 0)))

    def _launch(self, step: Launch) -> Iterator[Any]:
        made = self.function.kernels[step.kernel.name]
        extents = {tag: self.number(extent) for tag, (_, extent) in step.kernel.axes.items()}
        blocks, threads = ([extents.get(f"{w}.{a}", 1) for a in _DIMENSIONS] for w in ("blockIdx", "threadIdx"))
        if min(*blocks, *threads) <= 0:
            return
        arguments = [self._argument(var) for var in made.params] + [("local", self._bytes(n)) for n in made.shared]
        yield step.kernel.name, blocks, threads, arguments

    def _argument(self, var: Var) -> tuple[str, Any]:
        if var not in self.values:
            raise InternalError(f"the host does not know `{var.name}`")
        kind = "buffer" if var.dtype.is_handle else "uint8" if var.dtype.is_bool else str(numpy_dtype(var.dtype))
        return kind, self.values[var]


def _imm(var: Var, value: Any) -> PrimExpr:
    return FloatImm(var.dtype, value) if var.dtype.is_float else IntImm(var.dtype, value)


def host_launches(built: DeviceModule, arrays: Sequence[Any]) -> tuple[list[Any], list[Any], list[np.ndarray]]:
    """The buffers and launches of a call of the entry function, and the memory of the arrays whose content the first
    buffers are."""
    function = built.on_host[built.entry_name]
    checker = checker_of(function.abi)
    numbers, given, _ = checker.check(tuple(arrays))
    values: dict[Var, Any] = {}
    memories: list[np.ndarray] = []
    left = iter(given)
    for param, number in zip(checker.params, numbers):
        if isinstance(param, ArrayParam):
            memory, first = memory_of(next(left))
            if first:
                raise TVMagicError(f"`{param.name}` runs backwards in memory, which no kernel takes", hint="copy it")
            values[param.var] = values[param.buffer.data] = len(memories)
            memories.append(memory)
        else:
            values[param.var] = number
    values.update(zip(function.abi.sizes, numbers[len(checker.params) :]))
    buffers: list[Any] = [memory.tobytes() for memory in memories]
    launches = list(itertools.islice(_Host(function, values, buffers).launches(function.steps), _MOST_LAUNCHES + 1))
    if len(launches) > _MOST_LAUNCHES:
        raise TVMagicError(
            f"the host launches kernels more than {_MOST_LAUNCHES} times",
            hint="launch threads outside the loops, or take smaller sizes",
        )
    return buffers, launches, memories


@runner("opencl", "pocl")
def run_opencl(built: DeviceModule, arrays: Sequence[Any]) -> None:
    """Run the entry function of a module in OpenCL C on arrays.

    Raises MissingTool without pyopencl or a device; TVMagicError if a kernel ends its process or writes outside its
    buffers.
    """
    need_package("pyopencl")
    buffers, launches, memories = host_launches(built, arrays)
    answer = _connection().ask((built.get_source("cl"), buffers, launches))
    if isinstance(answer, str):
        if "no device" in answer or "PLATFORM_NOT_FOUND" in answer:
            raise MissingTool("there is no OpenCL device", hint="`apt-get install pocl-opencl-icd` brings one")
        raise TVMagicError(f"OpenCL refuses `{built.entry_name}`: {answer.strip()[:2000]}")
    for memory, content in zip(memories, answer):
        found = np.frombuffer(content, np.uint8)
        if (memory != found).any():  # what is only read may be read-only
            memory[...] = found


_CURRENT: list[Connection] = []


def _connection() -> Connection:
    """The process that runs kernels, started if it does not run."""
    if not _CURRENT or not _CURRENT[0].alive:
        folder = tempfile.TemporaryDirectory(prefix="tvmagic-")  # of its cache, and of the graphs that it leaves behind
        atexit.register(folder.cleanup)
        environment = {**os.environ, "POCL_CACHE_DIR": folder.name, "PYOPENCL_NO_CACHE": "1"}
        worker = pathlib.Path(__file__).parent / "opencl_worker.py"
        _CURRENT[:] = [Connection([sys.executable, str(worker)], "OpenCL", environment, folder.name)]
    return _CURRENT[0]
