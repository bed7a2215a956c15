"""WebAssembly without a linker: LLVM's relocatable object of one module becomes a module that runs.

The object is nearly one already: its functions are numbered, calls between them are resolved, and its memory, its
function table and its stack pointer are imports. What is missing is done here: the functions are exported, and the data
are moved behind the stack. The formats are those of WebAssembly's core specification, and of `Linking.md` of its
tool conventions for the sections `linking` and `reloc.*`.

The memory, from address 0:

    stack        grows down; a function that needs more than `STACK` bytes ends in a trap, since no address is below 0
    data         constants and the error record
    heap         from `heap` on, for the host's arrays; behind them what functions allocate (`codegen/emit/ll/wasm/alloc.ll`)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tvmagic.errors import DefectError

STACK = 1 << 22
_MAGIC = b"\0asm\x01\0\0\0"
_IMPORT, _EXPORT, _CODE, _DATA = 2, 7, 10, 11
_SYMBOLS = 8  # the part of the section `linking` that holds the symbols
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40
# Relocations with an addend; the first three are addresses in memory, as LEB128 without and with a sign, and as 4 bytes.
_ADDRESSES = (3, 4, 5)
_WITH_ADDEND = (*_ADDRESSES, 8, 9, 11)


@dataclass(frozen=True)
class WasmModule:
    """A module that runs.

    Attributes
    ----------
    code: the module. It imports from `env` the memory `__linear_memory`, the table `__indirect_function_table`, the
        mutable globals `__stack_pointer` (at first `STACK`) and `__heap_pointer` (at first behind the host's arrays), as
        far as it uses them, and C functions (`imports`).
    heap: the first address behind its data, a multiple of 64.
    imports: the names of the C functions that it calls.
    addresses: where its data are, by name.
    """

    code: bytes
    heap: int
    imports: tuple[str, ...]
    addresses: dict[str, int] = field(default_factory=dict)


def link(relocatable: bytes, exports: Iterable[str]) -> WasmModule:
    """The module of a relocatable object, with the functions `exports`."""
    sections = list(_sections(relocatable))
    functions, data = _symbols(
        next(body[len("linking") + 1 :] for kind, body in sections if _is(kind, body, "linking"))
    )
    bodies = {kind: bytearray(body) for kind, body in sections if kind}
    for kind, body in sections:
        if _is(kind, body, "reloc.CODE"):
            _move(bodies[_CODE], body[len("reloc.CODE") + 1 :])
        elif _is(kind, body, "reloc.DATA"):
            _move(bodies[_DATA], body[len("reloc.DATA") + 1 :])
    starts: list[int] = []
    end = STACK
    if _DATA in bodies:
        bodies[_DATA], starts, end = _moved_segments(bytes(bodies[_DATA]))
    missing = [name for name in exports if name not in functions]
    if missing:
        raise DefectError(f"the WebAssembly object has no function `{missing[0]}`", code="wasm.unknown_function")
    entries = [_text(name) + b"\0" + _unsigned(functions[name]) for name in exports]
    bodies[_EXPORT] = bytearray(_unsigned(len(entries)) + b"".join(entries))
    order = [1, _IMPORT, 3, 4, 5, 6, _EXPORT, 9, 12, _CODE, _DATA]
    parts = [bytes([kind]) + _unsigned(len(bodies[kind])) + bytes(bodies[kind]) for kind in order if kind in bodies]
    addresses = {name: starts[segment] + offset for name, (segment, offset) in data.items()}
    return WasmModule(_MAGIC + b"".join(parts), -(-end // 64) * 64, imported_functions(relocatable), addresses)


def imported_functions(module: bytes) -> tuple[str, ...]:
    """The names of the functions that a module or an object imports."""
    for kind, body in _sections(module):
        if kind == _IMPORT:
            return tuple(name for what, name in _Reader(body).imports() if what == 0)
    return ()


# ---------------------------------------------------------------------------- reading


class _Reader:
    """Numbers and names from a place in bytes on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def name(self) -> str:
        return self.take(self.unsigned()).decode()

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def imports(self) -> Iterator[tuple[int, str]]:
        """What is imported: its kind (0 a function, 1 a table, 2 a memory, 3 a global) and its name."""
        for _ in range(self.unsigned()):
            self.name()
            name, kind = self.name(), self.take(1)[0]
            if kind == 0:
                self.unsigned()
            elif kind == 3:
                self.take(2)
            else:
                self.take(1 if kind == 1 else 0)
                limited = self.unsigned() & 1
                for _ in range(1 + limited):
                    self.unsigned()
            yield kind, name


def _sections(module: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and the content of each section; those of the kind 0 begin with their name."""
    if module[: len(_MAGIC)] != _MAGIC:
        raise DefectError("what LLVM made is not a WebAssembly object", code="wasm.not_an_object")
    reader = _Reader(module, len(_MAGIC))
    while reader.at < len(module):
        kind = reader.take(1)[0]
        yield kind, reader.take(reader.unsigned())


def _is(kind: int, body: bytes, name: str) -> bool:
    """Whether a section is the one without a number that has this name."""
    return kind == 0 and body.startswith(_text(name))


def _symbols(linking: bytes) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """The functions defined in an object with their numbers, and its data with their segment and their place in it."""
    functions: dict[str, int] = {}
    data: dict[str, tuple[int, int]] = {}
    reader = _Reader(linking)
    reader.unsigned()  # the version of the section
    while reader.at < len(linking):
        kind = reader.take(1)[0]
        part = _Reader(reader.take(reader.unsigned()))
        for _ in range(part.unsigned() if kind == _SYMBOLS else 0):
            _symbol(part, functions, data)
    return functions, data


def _symbol(reader: _Reader, functions: dict[str, int], data: dict[str, tuple[int, int]]) -> None:
    kind, flags = reader.take(1)[0], reader.unsigned()
    defined = not flags & _UNDEFINED
    if kind == 1:  # data
        name = reader.name()
        if defined:
            data[name] = reader.unsigned(), reader.unsigned()
            reader.unsigned()
    elif kind == 3:  # a section
        reader.unsigned()
    else:  # a function, global, tag or table
        number = reader.unsigned()
        name = reader.name() if defined or flags & _EXPLICIT_NAME else ""
        if kind == 0 and defined:
            functions[name] = number


# ---------------------------------------------------------------------------- moving the data


def _move(section: bytearray, relocations: bytes) -> None:
    """Add `STACK` to the addresses in a section that its relocations name; all else is as it should be."""
    reader = _Reader(relocations)
    reader.unsigned()  # the number of the section
    for _ in range(reader.unsigned()):
        kind, place, _symbol_number = reader.take(1)[0], reader.unsigned(), reader.unsigned()
        if kind in _WITH_ADDEND:
            reader.signed()
        if kind == 5:
            (address,) = struct.unpack_from("<I", section, place)
            struct.pack_into("<I", section, place, address + STACK)
        elif kind in _ADDRESSES:  # padded to 5 bytes, so that any address fits
            address = _Reader(bytes(section[place : place + 5])).unsigned() + STACK
            section[place : place + 5] = bytes([(address >> 7 * i & 127) | (128 if i < 4 else 0) for i in range(5)])


def _moved_segments(section: bytes) -> tuple[bytearray, list[int], int]:
    """The section of data with each segment `STACK` bytes further on, the place where they begin, and where the last ends."""
    reader = _Reader(section)
    count = reader.unsigned()
    result, starts, end = bytearray(_unsigned(count)), [], STACK
    for _ in range(count):
        flag, opcode, address = reader.unsigned(), reader.take(1), reader.signed()
        reader.take(1)  # the end of the expression for the address
        if flag or opcode != b"\x41":
            raise DefectError(
                "a segment of a WebAssembly object has no constant address", code="wasm.address_not_constant"
            )
        content = reader.take(reader.unsigned())
        starts.append(address + STACK)
        end = max(end, address + STACK + len(content))
        result += b"\0\x41" + _signed(address + STACK) + b"\x0b" + _unsigned(len(content)) + content
    return result, starts, end


# ---------------------------------------------------------------------------- writing


def _unsigned(value: int) -> bytes:
    parts = [value & 127]
    while value := value >> 7:
        parts.append(value & 127)
    return bytes([p | 128 for p in parts[:-1]] + parts[-1:])


def _signed(value: int) -> bytes:
    """LEB128 with a sign, of a number that is not negative: the highest bit of its last 7 is clear."""
    coded = bytearray(_unsigned(value))
    if coded[-1] & 64:
        coded[-1] |= 128
        coded.append(0)
    return bytes(coded)


def _text(name: str) -> bytes:
    coded = name.encode()
    return _unsigned(len(coded)) + coded
