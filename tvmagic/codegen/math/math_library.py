"""The C library's math functions, for what has no vector code of our own."""

from __future__ import annotations

from typing import Any

from tvmagic.codegen.math.float_remainder import fmod_text
from tvmagic.codegen.text.rules import OF_TWO
from tvmagic.codegen.text.types import llvm_type
from tvmagic.codegen.text.writer import ModuleText
from tvmagic.errors import BuildError
from tvmagic.ir import DataType
from tvmagic.target.families import family_of_triple


def _library_types(name: str, scalar: DataType) -> list[str]:
    """The types of the arguments of C's function `name`."""
    kind = llvm_type(scalar)
    if name == "ldexp":
        return [kind, "i32"]
    return [kind] * (2 if name in OF_TWO else 1)


def library_function(text: ModuleText, name: str, scalar: DataType) -> str:
    """C's function `name` on floats of type `scalar`, declared.

    GPUs have no C library: for them `fmod` is defined here, the others raise BuildError.
    """
    if family_of_triple(text.triple).launches:
        if name == "fmod":
            symbol = f"tvm.fmod.{scalar}"
            text.helpers.setdefault(symbol, fmod_text(symbol, scalar))
            return f"@{symbol}"
        raise BuildError(
            f"there is no `{name}` of `{scalar}` for NVIDIA's GPUs here: it is in CUDA's own library",
            hint="OpenCL C has it: `--target opencl`",
            code="codegen.no_gpu_function",
        )
    symbol = name + ("f" if scalar.bits == 32 else "")
    types = ", ".join(_library_types(name, scalar))
    return text.declare(symbol, llvm_type(scalar), types, "nounwind willreturn memory(none)")


def lane_loop(text: ModuleText, name: str, scalar: DataType) -> str:
    """A function `(ptr result, ptr argument, ..., i64 lanes)` that calls C's function `name` for each lane.

    A loop over memory: calls written out for a thousand lanes would take LLVM minutes.
    """
    function, kind = library_function(text, name, scalar), llvm_type(scalar)
    symbol = f"tvm.lanes.{function[1:]}"
    if symbol not in text.helpers:
        types = _library_types(name, scalar)
        heads = "".join(f", ptr noalias readonly %x{n}" for n in range(len(types)))
        loads = "".join(
            f"  %p{n} = getelementptr inbounds {t}, ptr %x{n}, i64 %i\n  %v{n} = load {t}, ptr %p{n}\n"
            for n, t in enumerate(types)
        )
        values = ", ".join(f"{t} %v{n}" for n, t in enumerate(types))
        text.helpers[
            symbol
        ] = f"""define internal void @{symbol}(ptr noalias %r{heads}, i64 %lanes) noinline nounwind willreturn memory(argmem: readwrite) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %n, %loop ]
{loads}  %y = call {kind} {function}({values})
  %q = getelementptr inbounds {kind}, ptr %r, i64 %i
  store {kind} %y, ptr %q
  %n = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %n, %lanes
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    return f"@{symbol}"


def libm_call(emitter: Any, name: str, dtype: DataType, args: list[str]) -> str:
    """A call of C's function, lane by lane."""
    scalar, text, out = dtype.element_of, emitter.context.text, emitter.out
    kinds = _library_types(name, scalar)
    if dtype.lanes == 1:
        values = ", ".join(f"{k} {v}" for k, v in zip(kinds, args))
        return out.op(f"call {kinds[0]} {library_function(text, name, scalar)}({values})")
    loop = lane_loop(text, name, scalar)
    slots = [out.scratch(llvm_type(dtype), 0)]
    for n, (kind, value) in enumerate(zip(kinds, args), 1):
        vector = f"<{dtype.lanes} x {kind}>"
        slots.append(out.scratch(vector, n))
        out.do(f"store {vector} {value}, ptr {slots[-1]}, align 64")
    out.do(f"call void {loop}({', '.join(f'ptr {s}' for s in slots)}, i64 {dtype.lanes})")
    return out.op(f"load {llvm_type(dtype)}, ptr {slots[0]}, align 64")
