"""Compiled functions: called with arrays, they check, run, and turn a status into an error."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.ir.views import viewed
from tvmagic.runtime.abi import ERROR_RECORDS, ERROR_SLOTS, TOO_NARROW
from tvmagic.runtime.arguments import ArrayParam, Checker, ScalarParam
from tvmagic.runtime.callback_errors import take_exception
from tvmagic.runtime.fast_call import NOT_CHECKED, fast_call
from tvmagic.runtime.ndarray import NDArray, aligned_empty

_CTYPES = {
    "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32, "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
    "bool": ctypes.c_uint8, "float16": ctypes.c_uint16, "bfloat16": ctypes.c_uint16,
    "float32": ctypes.c_float, "float64": ctypes.c_double, "handle": ctypes.c_void_p,
}  # fmt: skip
_STOPPED = -1


def checker_of(abi: Any) -> Checker:
    """What checks the arguments of a function, from how it is called."""
    params: list[ArrayParam | ScalarParam] = []
    for param in abi.params:
        if param.buffer is not None:
            written = param.buffer.data in abi.written or param.var in abi.written
            params.append(ArrayParam(param.var, param.buffer, written))
        else:
            params.append(ScalarParam(param.var))
    return Checker(abi.name, params, abi.sizes, abi.noalias)


def failure(name: str, sites: list[Any], record: list[int], status: int) -> TVMagicError:
    """Return the error for a status of the function `name`, and the record that the code left for that status."""
    if status == TOO_NARROW:
        return TVMagicError(
            f"cannot run `{name}` on arrays of these sizes: int32 may not hold its indices",
            hint="give the sizes the type `int64`",
            code="call.indices_too_wide",
        )
    number = record[0] if record else 0
    if not 0 < number <= len(sites):
        return TVMagicError(f"`{name}` stopped with status {status}", code="call.unknown_status")
    return error_of(sites[number - 1], record[1:])


@viewed("compiled function")
class Kernel:
    """A compiled function.

    Call it with NumPy arrays (or what shares memory by DLPack or `__array_interface__`) and numbers, in
    the order of the function's parameters. Outputs at the end may be left out: they are allocated
    and returned. Arrays are checked before the code runs (`arguments.py`); the GIL is free while
    it runs, and Ctrl-C stops it at the next iteration of a long loop.

    `loaded`: the object with its code. `sites`: where that may stop with an error; `records`: what it says of failures.
    `widened`: returns the module whose indices are int64, which runs calls for which int32 is too small.
    """

    def __init__(
        self, abi: Any, loaded: Any, sites: list[Any], records: Any, widened: Callable[[], Any] | None = None
    ) -> None:
        # `loaded` keeps the code, also for those who hold the kernel and not its module
        self.name, self.loaded, self.sites, self.records = abi.name, loaded, sites, records
        address = loaded.address(abi.symbol)
        types: list[Any] = [ctypes.c_void_p if p.buffer is not None else _CTYPES[p.dtype] for p in abi.params]
        types += [_CTYPES[var.dtype] for var in abi.sizes]
        self._widened = widened
        self.result = abi.result
        if abi.result is not None:
            types.append(ctypes.c_void_p)
        self.checker = checker_of(abi)
        self.address = address
        self.machine = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address)
        self.count = len(self.params)
        self._fast: Any = None
        self._description = 0
        self._descriptions: list[Any] = []  # kept, as another thread may be about to pass one
        self._fast_wanted = abi.result is None
        self._may_miss = self._static_outputs()

    def _static_outputs(self) -> int:
        """How many of the outputs at the end have constant sizes."""
        count = 0
        for param in reversed(self.checker.params[self.checker.least :]):
            if not isinstance(param, ArrayParam) or param.static is None:
                break
            count += 1
        return count

    @property
    def params(self) -> list[Any]:
        """The parameters, as `ArrayParam` and `ScalarParam`."""
        return self.checker.params

    def __call__(self, *args: Any) -> Any:
        fast = self._fast
        if fast is None:
            return self._checked(args)
        if self.quick(args):
            return None
        arrays, made = self._as_arrays(args)
        if arrays is None or (status := fast(self._description, *arrays)) in (NOT_CHECKED, TOO_NARROW):
            return self._checked(args)
        if status:
            self.fail(status)
        return _given(made)

    def quick(self, args: tuple[Any, ...]) -> bool:
        """Run on `args`, one for each parameter, if they pass the checks in machine code; False if nothing ran."""
        if self._fast is None or len(args) != self.count:
            return False
        status = self._fast(self._description, *args)
        if status == 0:
            return True
        if status not in (NOT_CHECKED, TOO_NARROW):
            self.fail(status)
        return False

    def _as_arrays(self, args: tuple[Any, ...]) -> tuple[list[Any] | None, list[Any]]:
        """NumPy arrays for all parameters, and those made here for outputs left out; None if the quick way
        takes them as little as `args`."""
        missing = self.count - len(args)
        wrapped = NDArray in map(type, args)
        if not wrapped and missing <= 0 or not 0 <= missing <= self._may_miss:
            return None, []
        arrays = [a._array if type(a) is NDArray else a for a in args] if wrapped else list(args)
        if not missing:
            return arrays, []
        left_out = self.checker.params[-missing:]
        made = [
            aligned_empty(p.static, p.dtype) for p in left_out if isinstance(p, ArrayParam) and p.static is not None
        ]
        return arrays + made, made

    def _prepare_fast(self) -> None:
        """Make the quick way, after the first call."""
        self._fast_wanted = False
        made = fast_call(self.address, self.checker.params, self.checker.sizes, self.checker.noalias)
        if made is not None:  # the function last: from then on other threads call it, and an interrupt may end this one
            self._descriptions.append(made[1])
            self._description = ctypes.addressof(made[1])
            self._fast = made[0]

    def _checked(self, args: tuple[Any, ...]) -> Any:
        values, arrays, made = self.checker.check(args)
        if self.result is None:
            status = self.machine(*values)
        else:
            slot = _CTYPES[self.result]()
            values.append(ctypes.addressof(slot))
            status = self.machine(*values)
        if status:
            self._finish(status, values)
        del arrays
        if self._fast_wanted:
            self._prepare_fast()
        if self.result is not None:
            return bool(slot.value) if self.result.is_bool else slot.value
        return _given(made)

    def prepared(self, *args: Any) -> Any:
        """A function without arguments that runs the kernel on `args` again, unchecked: for timing."""
        values, arrays, _ = self.checker.check(args)
        machine, finish = self.machine, self._finish
        if self.result is not None:
            values.append(ctypes.addressof(_CTYPES[self.result]()))

        def run(_keep: Any = arrays) -> None:
            status = machine(*values)
            if status:
                finish(status, values)

        return run

    def _finish(self, status: int, values: list[Any]) -> None:
        """Run the version with wide indices if the code asked for it, else raise the error that `status` stands for."""
        if status != TOO_NARROW or self._widened is None:
            self.fail(status)
            return
        wide = self._widened()[self.name]
        if status := wide.machine(*values):
            wide.fail(status)

    def fail(self, status: int) -> None:
        """Raise the error that `status` stands for."""
        if status == _STOPPED:
            error = take_exception()
            raise error if error is not None else KeyboardInterrupt()
        record: list[int] = []
        if self.records is not None and 0 < status <= ERROR_RECORDS:
            first = (status - 1) * ERROR_SLOTS
            record = self.records[first : first + ERROR_SLOTS]
            self.records[first] = 0
        raise failure(self.name, self.sites, record, status)

    def time_evaluator(self, *args: Any, **options: Any) -> Any:
        """What measures calls of the kernel; see `runtime.time_evaluator`."""
        from tvmagic.runtime.timing import time_evaluator

        return time_evaluator(self, *args, **options)


def _given(made: list[Any]) -> Any:
    """What a call gives: the outputs that were made for it."""
    if not made:
        return None
    return made[0] if len(made) == 1 else tuple(made)


def error_of(site: Any, values: list[int]) -> TVMagicError:
    """The error of the place at which compiled code stopped, with the values that it recorded."""
    line = f" (line {site.line})" if site.line else ""
    if site.kind == "assert":
        return TVMagicError(
            f"an assertion in `{site.function}` does not hold{line}: {site.message}",
            node=site.node,
            code="call.assertion_failed",
        )
    if site.kind == "zero":
        shown = f": `{_text(site.node)}`" if site.node is not None else ""
        hint = "give a value of its own where the divisor is 0: `a // b if b != 0 else 0`"
        return TVMagicError(
            f"division by zero in `{site.function}`{line}{shown}",
            node=site.node,
            hint=hint,
            code="call.division_by_zero",
        )
    if site.kind == "memory":
        return TVMagicError(f"`{site.function}` found no memory for {values[0]} bytes", code="call.out_of_memory")
    if site.kind == "reach":
        return TVMagicError(
            f"`{site.message}` in `{site.function}` has {_count(values[0])} elements, more than its indices reach",
            hint="make it smaller, compute it inside a loop of what reads it (`compute_at`), or give its sizes the type `int64`",
            code="call.too_many_elements",
        )
    if site.kind == "count":
        return TVMagicError(
            f"loop `{site.message}` in `{site.function}` has {_count(values[0])} iterations, more than its variable counts",
            hint="fuse fewer loops, or take smaller sizes",
            code="call.too_many_iterations",
        )
    if site.kind == "vectors":
        return TVMagicError(
            f"the code of `{site.function}` is for scalable vectors of at least {site.message} bits, those of this "
            f"processor have {128 * values[0]}",
            hint="compile it with a smaller `-vector-width`, or without one",
            code="call.vectors_too_short",
        )
    if site.kind == "bounds":
        return _bounds_error(site, values, line)
    if site.kind == "index":
        what = f"{site.message} at index {values[0]} in dimension {site.values[0]}, whose extent is {values[1]},"
        return BoundsError(
            f"{what} in `{site.function}`{line} is outside the buffer", node=site.node, code="call.index_out_of_range"
        )
    if site.kind == "region":
        place = f"element {values[0]}" if values[1] == 1 else f"{values[1]} elements from element {values[0]} on"
        return BoundsError(
            f"{site.message} at {place} in `{site.function}`{line} is outside its memory of {values[2]} elements",
            node=site.node,
            code="call.index_out_of_range",
        )
    return TVMagicError(f"`{site.function}` stopped{line}", code="call.stopped")


def _count(number: int) -> str:
    """A number of 64 bits; the largest one is for all that are larger."""
    return f"at least {number}" if number == 2**63 - 1 else str(number)


def _bounds_error(site: Any, values: list[int], line: str) -> BoundsError:
    first_count, last_count, extent_count = site.values
    positions = values[: first_count + last_count]
    extents = values[first_count + last_count : first_count + last_count + extent_count]
    low, high = positions[:first_count], positions[first_count:]
    # only the last index may be a vector, so a second end belongs to it
    index = [str(p) for p in low]
    if high:
        index[-1] = f"{min(low[-1], high[0])}..{max(low[-1], high[0])}"
    shape = "(" + ", ".join(str(e) for e in extents) + ("," if extent_count == 1 else "") + ")"
    what = "store to" if site.is_store else "load from"
    return BoundsError(
        f"{what} buffer `{site.buffer.name}` of shape {shape} at index [{', '.join(index)}] in "
        f"`{site.function}`{line} is outside the buffer",
        node=site.node,
        code="call.index_out_of_range",
    )


def _text(node: Any) -> str:
    try:
        return str(node)
    except Exception:
        return type(node).__name__
