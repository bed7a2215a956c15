"""What LLVM calls: every operation that compiled code may hold, on every type and some vectors, compiled for a processor.

python tests/runtime/llvm_calls.py CPU prints the functions that the code for the processor needs from outside, as JSON.
In a process of its own: LLVM ends the process where it cannot make code.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator

import llvmlite.binding as llvm

HALVES, FLOATS = ("half", "bfloat"), ("half", "bfloat", "float", "double")
INTS = ("i1", "i8", "i16", "i32", "i64", "i128")
SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
WIDTHS = {name: i for i, name in enumerate(("half", "float", "double"))} | {"bfloat": 0}
UNARY = "sqrt floor ceil trunc rint nearbyint round roundeven fabs exp exp2 exp10 log log2 log10 sin cos tan".split()
TWICE = "copysign minnum maxnum minimum maximum pow".split()
BITS = "ctpop bitreverse".split()


def _vector(kind: str, lanes: int) -> str:
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def _name(kind: str, lanes: int) -> str:
    scalar = SUFFIX.get(kind, kind)
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


def operations(lanes: int) -> Iterator[tuple[str, list[str], str]]:
    """The type of the result, those of the operands, and the instruction with `{0}`, `{1}`, ... for operands."""
    for kind in FLOATS:
        yield from _of_floats(kind, lanes)
    for kind in _ints(lanes)[1:]:
        yield from _of_ints(kind, lanes)


def _ints(lanes: int) -> tuple[str, ...]:
    """The integers that code may hold: no dtype has 128 bits, but LLVM itself computes with such numbers, never in vectors."""
    return INTS if lanes == 1 else INTS[:-1]


def _of_floats(kind: str, lanes: int) -> Iterator[tuple[str, list[str], str]]:
    t, name = _vector(kind, lanes), _name(kind, lanes)
    for word in ("fadd", "fsub", "fmul", "fdiv", "frem"):
        yield t, [t, t], f"{word} {t} {{0}}, {{1}}"
    yield t, [t], f"fneg {t} {{0}}"
    for word in ("olt", "une", "uno"):
        yield _vector("i1", lanes), [t, t], f"fcmp {word} {t} {{0}}, {{1}}"
    yield t, [t, t, t], f"call {t} @llvm.fma.{name}({t} {{0}}, {t} {{1}}, {t} {{2}})"
    yield t, [t, t, t], f"call {t} @llvm.fmuladd.{name}({t} {{0}}, {t} {{1}}, {t} {{2}})"
    for word in UNARY:
        yield t, [t], f"call {t} @llvm.{word}.{name}({t} {{0}})"
    for word in TWICE:
        yield t, [t, t], f"call {t} @llvm.{word}.{name}({t} {{0}}, {t} {{1}})"
    yield t, [t, "i32"], f"call {t} @llvm.powi.{name}.i32({t} {{0}}, i32 {{1}})"
    if lanes == 1 and kind not in HALVES:
        yield t, [t, "i32"], f"call {t} @llvm.ldexp.{name}.i32({t} {{0}}, i32 {{1}})"
    for other in FLOATS:
        to = _vector(other, lanes)
        if WIDTHS[other] != WIDTHS[kind]:
            word = "fpext" if WIDTHS[other] > WIDTHS[kind] else "fptrunc"
            yield to, [t], f"{word} {t} {{0}} to {to}"
    for other in _ints(lanes):
        n = _vector(other, lanes)
        for sign in "su":
            yield t, [n], f"{sign}itofp {n} {{0}} to {t}"
            yield n, [t], f"fpto{sign}i {t} {{0}} to {n}"
            yield n, [t], f"call {n} @llvm.fpto{sign}i.sat.{_name(other, lanes)}.{name}({t} {{0}})"


def _of_ints(kind: str, lanes: int) -> Iterator[tuple[str, list[str], str]]:
    t, name = _vector(kind, lanes), _name(kind, lanes)
    for word in "add sub mul udiv sdiv urem srem shl lshr ashr".split():
        yield t, [t, t], f"{word} {t} {{0}}, {{1}}"
    for word in ("smin", "smax", "umin", "umax", "sadd.sat", "uadd.sat", "ssub.sat", "usub.sat"):
        yield t, [t, t], f"call {t} @llvm.{word}.{name}({t} {{0}}, {t} {{1}})"
    for word in ("fshl", "fshr"):
        yield t, [t, t, t], f"call {t} @llvm.{word}.{name}({t} {{0}}, {t} {{1}}, {t} {{2}})"
    for word in ("ctlz", "cttz", "abs"):
        yield t, [t], f"call {t} @llvm.{word}.{name}({t} {{0}}, i1 false)"
    for word in BITS + (["bswap"] if kind != "i8" else []):
        yield t, [t], f"call {t} @llvm.{word}.{name}({t} {{0}})"
    if lanes == 1:
        pair = f"{{{{ {t}, i1 }}}}"
        for word in ("sadd", "uadd", "ssub", "usub", "smul", "umul"):
            yield pair, [t, t], f"call {pair} @llvm.{word}.with.overflow.{name}({t} {{0}}, {t} {{1}})"


def module_text(triple: str, lanes: int) -> str:
    """A module with one function for each operation; operands and results are in memory."""
    lines, declared = [f'target triple = "{triple}"'], set()
    for i, (result, operands, text) in enumerate(operations(lanes)):
        result = result.replace("{{", "{").replace("}}", "}")
        lines.append(f"define void @f{i}(ptr %r, {', '.join(f'ptr %p{n}' for n in range(len(operands)))}) {{")
        lines += [f"  %x{n} = load {kind}, ptr %p{n}, align 16" for n, kind in enumerate(operands)]
        text = text.format(*[f"%x{n}" for n in range(len(operands))])
        lines += [f"  %y = {text}", f"  store {result} %y, ptr %r, align 16", "  ret void", "}"]
        if "@llvm" in text:
            name = text[text.index("@") : text.index("(")]
            types = [*operands, *(["i1"] if "i1 false" in text else [])]
            declared.add(f"declare {result} {name}({', '.join(types)})")
    return "\n".join([*lines, *sorted(declared)]) + "\n"


def undefined_symbols(code: bytes) -> set[str]:
    """The functions that an ELF64 object file needs from outside."""
    if code[:5] != b"\x7fELF\x02":
        raise ValueError("only object files of the form ELF64 are read here")
    start, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, start + 64 * i) for i in range(count)]
    found = set()
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != 2:  # the table of symbols
            continue
        names = sections[link][4]
        for place in range(offset, offset + size, 24):
            name, _, _, section, _, _ = struct.unpack_from("<IBBHQQ", code, place)
            if section == 0 and name:
                found.add(code[names + name : code.index(b"\0", names + name)].decode())
    return found


def calls_of(cpu: str, lanes: int) -> set[str]:
    """What the code of all operations on vectors of `lanes` lanes needs on the processor `cpu` (empty: this one)."""
    triple, features = llvm.get_process_triple(), ""
    if not cpu:
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=cpu, features=features, opt=1, reloc="pic")
    module = llvm.parse_assembly(module_text(triple, lanes))
    module.verify()
    return undefined_symbols(machine.emit_object(module))


if __name__ == "__main__":
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    needed: set[str] = set()
    for lanes in (1, 4):
        needed |= calls_of(sys.argv[1], lanes)
    print(json.dumps(sorted(needed)))
