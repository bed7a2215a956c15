"""Modules for WebAssembly, run by wasmtime (the package `wasmtime`, which only this file needs)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.runners.families import runner
from tvmagic.runtime.abi import ERROR_RECORDS, ERROR_SLOTS
from tvmagic.runtime.arguments import memory_of
from tvmagic.runtime.kernel import checker_of, failure
from tvmagic.runtime.wasm import STACK, WasmModule
from tvmagic.runtime.wasm_host import c_function, linked
from tvmagic.tools import WASMTIME

_PAGE = 1 << 16


@runner("wasm32", "wasmtime")
def run(built: Any, arrays: Sequence[Any]) -> None:
    """Run the entry function of a module built for `wasm32` on arrays, as `built(*arrays)` does on this machine.

    `arrays`: all of its arguments in order, outputs too; what the function writes is in them afterwards. Strides are
    those of contiguous arrays where a buffer says none.
    Raises MissingTool if the package `wasmtime` is missing, TVMagicError if an argument does not fit, or if the function stops.
    """
    WASMTIME.need()
    import wasmtime  # pyright: ignore[reportMissingImports]

    module = linked(built)
    abi = next(a for a in built.abis if a.name == built.entry)
    strided = [p.buffer is not None and bool(p.buffer.strides) for p in abi.params]
    copies = [
        np.ascontiguousarray(a) if isinstance(a, np.ndarray) and a.ndim and not keep else a
        for a, keep in zip(arrays, strided)
    ]
    values, checked, _ = checker_of(abi).check(tuple(copies))
    parts = [memory_of(array) for array in checked]  # with what is between the elements
    places, end = _places([memory for memory, _ in parts], module.heap)
    host = _Instance(wasmtime, module, end)
    for (memory, _), place in zip(parts, places):
        host.write(place, memory)
    pointers = iter(place + first for (_, first), place in zip(parts, places))
    given = [next(pointers) if p.buffer is not None else v for p, v in zip(abi.params, values)]
    given += values[len(abi.params) :]
    status = host.call(abi.symbol, [*given, *([end] if abi.result is not None else [])])
    if status:
        raise _failure(built, module, host, status)
    buffers = [p for p in abi.params if p.buffer]
    for original, array, (memory, _), place, param in zip(_arrays(arrays), checked, parts, places, buffers):
        if param.buffer.data in abi.written or param.var in abi.written:
            memory[...] = host.read(place, memory)
            if original is not array:
                original[...] = array


def _arrays(values: Sequence[Any]) -> list[np.ndarray]:
    return [v for v in values if isinstance(v, np.ndarray)]


def _places(arrays: Sequence[np.ndarray], start: int) -> tuple[list[int], int]:
    """Where arrays go in memory from `start` on, each at a multiple of 64, and the first address behind them."""
    places: list[int] = []
    for array in arrays:
        places.append(start)
        start += -(-array.nbytes // 64) * 64
    return places, start


class _Instance:
    """A module in wasmtime, with a memory for arrays up to the address `end`."""

    def __init__(self, wasmtime: Any, module: WasmModule, end: int) -> None:
        self.store = store = wasmtime.Store()
        code = wasmtime.Module(store.engine, module.code)
        self.memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(end // _PAGE + 2, None)))
        number = wasmtime.GlobalType(wasmtime.ValType.i32(), True)
        table = wasmtime.TableType(wasmtime.ValType.funcref(), wasmtime.Limits(0, None))
        given = {
            "__linear_memory": self.memory,
            "__indirect_function_table": wasmtime.Table(store, table, None),
            "__stack_pointer": wasmtime.Global(store, number, wasmtime.Val.i32(STACK)),
            "__heap_pointer": wasmtime.Global(store, number, wasmtime.Val.i32(end + 64)),
        }
        imports = [
            wasmtime.Func(store, item.type, c_function(item.name)) if item.name in module.imports else given[item.name]
            for item in code.imports
        ]
        self.exports = wasmtime.Instance(store, code, imports).exports(store)
        self.trap = wasmtime.Trap

    def call(self, name: str, values: Sequence[Any]) -> int:
        """The status of the function `name`."""
        try:
            return self.exports[name](self.store, *values)
        except self.trap as error:
            raise TVMagicError(
                f"`{name}` ended in a trap: {str(error).splitlines()[-1].strip()}", code="runner.trap"
            ) from None

    def write(self, place: int, array: np.ndarray) -> None:
        if array.nbytes:
            ctypes.memmove(self._address(place), array.ctypes.data, array.nbytes)

    def read(self, place: int, like: np.ndarray) -> np.ndarray:
        """The array at an address, of the shape and type of another."""
        result = np.empty_like(like, order="C")
        if result.nbytes:
            ctypes.memmove(result.ctypes.data, self._address(place), result.nbytes)
        return result

    def _address(self, place: int) -> int:
        return ctypes.addressof(self.memory.data_ptr(self.store).contents) + place


def _failure(built: Any, module: WasmModule, host: _Instance, status: int) -> TVMagicError:
    """The error that a status other than 0 stands for."""
    place = module.addresses.get("__tvmagic_error")
    if place is None or not 0 < status <= ERROR_RECORDS:
        return failure(built.entry, built.sites, [], status)
    record = host.read(place + 8 * ERROR_SLOTS * (status - 1), np.zeros(ERROR_SLOTS, "int64")).tolist()
    return failure(built.entry, built.sites, record, status)
