"""The launches that a module of kernels makes, and the process that makes them: one of its own, which may end."""

from __future__ import annotations

import atexit
import itertools
import math
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tvmagic.codegen.gpu.opencl import DeviceModule
from tvmagic.codegen.gpu.opencl.module import DeviceFunction, DeviceKernel
from tvmagic.codegen.late.kernels import Allocation, Binding, Branch, Check, Launch, Repeat, Step
from tvmagic.errors import AssertionFailedError, DefectError, TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.files import TemporaryFolder
from tvmagic.ir import BinaryOp, FloatImm, IntImm, PrimExpr, Var
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.semantics import compute
from tvmagic.runners.connection import Connection
from tvmagic.runtime.arguments import ArrayParam, memory_of
from tvmagic.runtime.kernel import checker_of
from tvmagic.te.numpy_eval import ArrayEvaluator
from tvmagic.tir.analysis.index_overflow import LIMIT, find_index_overflow

_DIMENSIONS = ("x", "y", "z")
_MOST_LAUNCHES = 20_000  # each takes some 0.1 ms


class _Host:
    """What the host does, with the sizes of one call: its memory, and its launches in order."""

    def __init__(
        self, function: DeviceFunction, kernels: dict[str, DeviceKernel], values: dict[Var, Any], buffers: list[Any]
    ) -> None:
        self.function, self.kernels, self.values, self.buffers = function, kernels, values, buffers

    def number(self, expr: PrimExpr) -> Any:
        """The value of an expression of sizes and of variables of the host."""
        if isinstance(expr, (IntImm, FloatImm)):
            return expr.value
        if isinstance(expr, Var) and expr in self.values:
            return self.values[expr]
        if isinstance(expr, BinaryOp):
            return compute(type(expr), self.number(expr.a), self.number(expr.b), expr.a.dtype)
        known = {v: np.asarray(n, numpy_dtype(v.dtype)) for v, n in self.values.items() if not v.dtype.is_handle}
        return np.asarray(ArrayEvaluator(known).visit(expr)).item()

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
                raise AssertionFailedError(
                    f"an assertion in `{self.function.abi.name}` does not hold: {step.message}",
                    code="runner.assertion_failed",
                )

    def _bytes(self, node: Any) -> int:
        return math.prod(max(0, self.number(e)) for e in node.extents) * node.dtype.bytes

    def _allocate(self, step: Allocation) -> None:
        self.values[step.node.buffer_var] = len(self.buffers)
        self.buffers.append(max(self._bytes(step.node), self.function.reach.get(step.node.buffer_var, 0)))

    def _launch(self, step: Launch) -> Iterator[Any]:
        made = self.kernels[step.kernel.name]
        extents = {tag: self.number(extent) for tag, (_, extent) in step.kernel.axes.items()}
        blocks, threads = ([extents.get(f"{w}.{a}", 1) for a in _DIMENSIONS] for w in ("blockIdx", "threadIdx"))
        if min(*blocks, *threads) <= 0:
            return
        arguments = [self._argument(var) for var in made.params] + [("local", self._bytes(n)) for n in made.shared]
        yield made.entry, blocks, threads, arguments

    def _argument(self, var: Var) -> tuple[str, Any]:
        if var not in self.values:
            raise DefectError(f"the host does not know `{var.name}`", code="runner.unknown_argument")
        kind = "buffer" if var.dtype.is_handle else "uint8" if var.dtype.is_bool else str(numpy_dtype(var.dtype))
        return kind, self.values[var]


def host_launches(
    built: DeviceModule, arrays: Sequence[Any], fmt: str
) -> tuple[list[Any], list[Any], list[np.ndarray]]:
    """The buffers and launches of a call of the entry function in the text `fmt`, and the memory of the arrays whose
    content the first buffers are."""
    function = built.on_host[built.entry]
    checker = checker_of(function.abi)
    numbers, given, _ = checker.check(tuple(arrays))
    values: dict[Var, Any] = {}
    memories: list[np.ndarray] = []
    left = iter(given)
    for param, number in zip(checker.params, numbers):
        if isinstance(param, ArrayParam):
            memory, first = memory_of(next(left))
            if first:
                raise TVMagicError(
                    f"`{param.name}` runs backwards in memory, which no kernel takes",
                    hint="copy it",
                    code="runner.negative_strides",
                )
            values[param.var] = values[param.buffer.data] = len(memories)
            memories.append(memory)
        else:
            values[param.var] = number
    values.update(zip(function.abi.sizes, numbers[len(checker.params) :]))
    _check_index_range(function, values)
    buffers: list[Any] = [memory.tobytes() for memory in memories]
    launches = list(
        itertools.islice(
            _Host(function, built.launched(fmt), values, buffers).launches(function.steps), _MOST_LAUNCHES + 1
        )
    )
    if len(launches) > _MOST_LAUNCHES:
        raise TVMagicError(
            f"the host launches kernels more than {_MOST_LAUNCHES} times",
            hint="launch threads outside the loops, or take smaller sizes",
            code="runner.too_many_launches",
        )
    return buffers, launches, memories


def _check_index_range(function: Any, values: dict[Var, Any]) -> None:
    """Raise TVMagicError if int32, in which kernels compute indices, may not hold one for these sizes."""
    for suspect in find_index_overflow(function.func).sizes:
        bound = evaluate(suspect.bound, values)
        if bound is not None and bound > LIMIT:
            raise TVMagicError(
                f"cannot run `{function.abi.name}` on arrays of these sizes: `{suspect.node}` may reach {bound}",
                hint="give the sizes the type `int64`",
                code="runner.indices_too_wide",
            )


class KernelProcess:
    """The process that runs the worker `script` (a file beside this one), in a folder of its own; started when it is
    first asked, and again after its end. `environment` is what it gets besides that of this process."""

    def __init__(self, script: str, name: str, environment: dict[str, str] | None = None) -> None:
        self.script, self.name, self.environment = script, name, environment or {}
        self.connection: Connection | None = None

    def ask(self, request: Any) -> Any:
        """The answer to a request; the text of an error is raised as TVMagicError by who asked."""
        if self.connection is None or not self.connection.alive:
            folder = TemporaryFolder()  # of its cache, and of what it leaves behind
            atexit.register(folder.cleanup)
            worker = pathlib.Path(__file__).parent / self.script
            environment = {**os.environ, **self.environment}
            self.connection = Connection([sys.executable, str(worker)], self.name, environment, folder.name)
        return self.connection.ask(request)

    def stop(self) -> None:
        """End the process."""
        if self.connection is not None:
            self.connection.kill()
            self.connection = None


def keep(memories: Sequence[np.ndarray], contents: Sequence[bytes]) -> None:
    """Write what kernels left in buffers into the memory of the arrays that they came from."""
    for memory, content in zip(memories, contents):
        found = np.frombuffer(content, np.uint8)
        if (memory != found).any():  # what is only read may be read-only
            memory[...] = found
