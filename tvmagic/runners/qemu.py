"""Code for AArch64 and RISC-V, run by QEMU's emulation of one process (`qemu-user`), at several lengths of scalable vectors."""

from __future__ import annotations

import pathlib
import struct
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir import DataType
from tvmagic.runners.families import runner
from tvmagic.runners.linking import CALLER, linked_library, server_program
from tvmagic.runners.process import Process
from tvmagic.runtime.abi import ERROR_RECORDS, ERROR_SLOTS
from tvmagic.runtime.arguments import ArrayParam, memory_of
from tvmagic.runtime.kernel import checker_of, failure
from tvmagic.runtime.module import Module
from tvmagic.target import Target
from tvmagic.tools import QEMU, MissingTool, cross_library

LENGTHS = (128, 256, 512)  # bits of scalable vectors
_GUARD = b"\xa5" * 64  # in front of each array and behind it
_ERROR_BYTES = ERROR_SLOTS * 8

# The process for each architecture and processor, and what it has loaded of each module.
_PROCESSES: dict[tuple[str, str], Process] = {}
_LOADED: weakref.WeakKeyDictionary[Module, dict[Process, int]] = weakref.WeakKeyDictionary()


def run_in_qemu(arch: str, cpu: str, built: Module, arrays: Sequence[Any]) -> None:
    """Run the entry function of a module on arrays by `qemu-{arch} -cpu {cpu}`.

    Raises what the code raises on its own machine; TVMagicError if it ends its process, or writes outside its
    arguments.
    """
    process = _process(arch, cpu)
    library = _library(process, built, arch)
    number = next(n for n, abi in enumerate(built.abis) if abi.name == built.entry)
    abi = built.abis[number]
    checker = checker_of(abi)
    values, given, _ = checker.check(tuple(arrays))
    placed = _Placed(process)
    try:
        where = iter([placed.put(array) for array in given])
        values = [next(where) if isinstance(p, ArrayParam) else v for p, v in zip(checker.params, values)] + values[
            len(checker.params) :
        ]
        types = [*(p.dtype for p in abi.params), *(v.dtype for v in abi.sizes)]
        slots = [_slot(value, dtype) for value, dtype in zip(values, types)]
        slots.append(struct.pack("<Q", placed.room(8) if abi.result is not None else 0))
        place = placed.room(8 * len(slots))
        process.write(place, b"".join(slots))
        status = _called(process, process.symbol(library, f"{CALLER}{number}"), place)
        if status:
            raise failure(abi.name, built.sites, _error_record(process, library, status), status)
        placed.fetch(abi.name)
    finally:
        placed.release()


def _called(process: Process, function: int, place: int) -> int:
    """The status of a function. QEMU before 8.0 ends at vector conversions of RISC-V that name their rounding."""
    try:
        return process.call(function, place)
    except TVMagicError as error:
        if "decode_save_opc" not in (error.hint or ""):
            raise
        raise MissingTool(
            "this QEMU ends at RISC-V's vector instructions that round in a way of their own, such as conversions to integers",
            hint="QEMU 8.0 or newer emulates them",
            code="runner.unsupported_instruction",
        ) from error


def _process(arch: str, cpu: str) -> Process:
    """The process that emulates a processor, started if it does not run."""
    emulator, libc = QEMU.need(f"qemu-{arch}"), cross_library(arch).need()
    process = _PROCESSES.get((arch, cpu))
    if process is None or not process.alive:
        root = pathlib.Path(libc).parents[1]
        process = Process([emulator, "-cpu", cpu, "-L", str(root), server_program(arch)])
        _PROCESSES[arch, cpu] = process
    return process


def _library(process: Process, built: Module, arch: str) -> int:
    """The code of a module, loaded into the process."""
    loaded = _LOADED.setdefault(built, {})
    if process not in loaded:
        loaded[process] = process.open(linked_library(built, arch))
        weakref.finalize(built, _unload, weakref.ref(process), loaded[process])
    return loaded[process]


def _unload(process: weakref.ref[Process], library: int) -> None:
    there = process()
    if there is not None and there.alive:
        there.close(library)


def _slot(value: float, dtype: DataType) -> bytes:
    """An argument in 8 bytes of memory; a float of 16 bits comes as its bits."""
    if isinstance(value, float):
        return struct.pack("<d" if dtype.bits == 64 else "<fxxxx", value)
    return struct.pack("<Q", value & 0xFFFFFFFFFFFFFFFF)


def _error_record(process: Process, library: int, status: int) -> list[int]:
    """Return the record that the code left for a status, and clear it."""
    place = process.symbol(library, "__tvmagic_error")
    if not place or not 0 < status <= ERROR_RECORDS:
        return []
    place += (status - 1) * _ERROR_BYTES
    record = list(struct.unpack(f"<{ERROR_SLOTS}q", process.read(place, _ERROR_BYTES)))
    process.write(place, bytes(_ERROR_BYTES))
    return record


class _Placed:
    """Arrays in the memory of a process, each between guards."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.arrays: list[tuple[np.ndarray, int]] = []
        self.rooms: list[int] = []

    def room(self, size: int) -> int:
        """The address of memory for `size` bytes."""
        self.rooms.append(self.process.allocate(size))
        return self.rooms[-1]

    def put(self, array: np.ndarray) -> int:
        """Copy an array, with what is between its elements; the address of its first element."""
        memory, first = memory_of(array)
        place = self.room(len(memory) + 2 * len(_GUARD))
        self.process.write(place, _GUARD + memory.tobytes() + _GUARD)
        self.arrays.append((memory, place))
        return place + len(_GUARD) + first

    def fetch(self, name: str) -> None:
        """Copy the arrays back."""
        for memory, place in self.arrays:
            found = self.process.read(place, len(memory) + 2 * len(_GUARD))
            if not found.startswith(_GUARD) or not found.endswith(_GUARD):
                raise TVMagicError(
                    f"the code of `{name}` writes outside its arguments", code="runner.writes_outside_arguments"
                )
            content = np.frombuffer(found, np.uint8)[len(_GUARD) : -len(_GUARD)]
            if (memory != content).any():  # what is only read may be read-only
                memory[...] = content

    def release(self) -> None:
        """Give the memory back, if the process is still there."""
        for place in self.rooms if self.process.alive else ():
            self.process.release(place)


def _long_enough(bits: int, target: Target) -> bool:
    return target.sve_bits <= bits


runner("aarch64", "qemu-aarch64")(partial(run_in_qemu, "aarch64", "max,sve=off"))
runner("riscv64", "qemu-riscv64")(partial(run_in_qemu, "riscv64", "rv64"))
for _bits in LENGTHS:
    _sve = f"max,sve-max-vq={_bits // 128},sve-default-vector-length={_bits // 8}"
    runner("aarch64-sve", f"qemu-aarch64, vectors of {_bits} bits", partial(_long_enough, _bits))(
        partial(run_in_qemu, "aarch64", _sve)
    )
    _rvv = f"rv64,v=true,vext_spec=v1.0,vlen={_bits},elen=64"
    runner("riscv64-v", f"qemu-riscv64, vectors of {_bits} bits")(partial(run_in_qemu, "riscv64", _rvv))
