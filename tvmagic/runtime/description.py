"""What is to be known of a module besides its object file, as text: how its functions are called, and for which CPU they are."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.files import digest_of
from tvmagic.runtime.abi import ABI, Param, Site

if TYPE_CHECKING:
    from tvmagic.runtime.module import Module

_FORMAT = 2
_BEGIN, _END = "<tvmagic module>", "</tvmagic module>"


@dataclass(frozen=True)
class _Named:
    name: str


def _signature(abi: Any) -> ir.PrimFunc:
    """A function without a body that has the parameters of `abi`."""
    params = [p.var for p in abi.params] + list(abi.sizes)
    buffers = {p.var: p.buffer for p in abi.params if p.buffer is not None}
    result = ir.PrimType(abi.result) if abi.result is not None else None
    return ir.PrimFunc(params, ir.Evaluate(0), result, buffers, {"global_symbol": abi.name, "tir.noalias": abi.noalias})


def describe(module: Module) -> str:
    """What is to be known of a module besides its object file, as JSON."""
    functions = []
    for abi in module.abis:
        written = [i for i, p in enumerate(abi.params) if p.buffer is not None and p.buffer.data in abi.written]
        functions.append({"name": abi.name, "symbol": abi.symbol, "sizes": len(abi.sizes), "written": written})
    sites = [
        {
            "kind": s.kind, "message": s.message, "function": s.function, "line": s.line, "values": list(s.values),
            "buffer": getattr(s.buffer, "name", ""), "store": s.is_store,
        }
        for s in module.sites
    ]  # fmt: skip
    signatures = ir.save_json(ir.IRModule({a.name: _signature(a) for a in module.abis}))
    content = {
        "format": _FORMAT, "functions": functions, "sites": sites, "symbols": sorted(module.symbols),
        "signatures": signatures,
    }  # fmt: skip
    return json.dumps({**content, "digest": digest_of(content)})


def read_description(text: str) -> tuple[list[ABI], list[Site], set[str]]:
    """How the functions of a described module are called, at which places they may stop, and what else it defines.

    Raises TVMagicError if the description is damaged, or of another version.
    """
    try:
        content = json.loads(text)
        digest = content.pop("digest", None)  # files of earlier versions have none
        if digest not in (None, digest_of(content)):
            raise ValueError("its digest is another one")
        return _read_content(content)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        why = str(error).split("\n")[0]
        raise TVMagicError(
            f"the description of the saved module is damaged ({why})",
            hint="save the module again",
            code="load_module.damaged_description",
        ) from error


def _read_content(content: dict[str, Any]) -> tuple[list[ABI], list[Site], set[str]]:
    if content.get("format") != _FORMAT:
        raise TVMagicError(
            "the saved module is of another version of its format",
            hint="save it again",
            code="load_module.other_format_version",
        )
    signatures = ir.load_json(content["signatures"])
    abis = []
    for entry in content["functions"]:
        func = signatures[entry["name"]]
        count = len(func.params) - entry["sizes"]
        params = tuple([Param(v, v.dtype, func.buffer_map.get(v)) for v in func.params[:count]])
        written = frozenset([params[i].buffer.data for i in entry["written"] if params[i].buffer is not None])  # type: ignore[union-attr]
        result = func.ret_type.dtype if isinstance(func.ret_type, ir.PrimType) else None
        noalias = bool(func.attrs.get("tir.noalias", False))
        abis.append(ABI(entry["name"], entry["symbol"], params, tuple(func.params[count:]), written, result, noalias))
    sites = [
        Site(
            s["kind"], None, s["message"], _Named(s["buffer"]), s["function"], tuple(s["values"]), s["line"], s["store"]
        )
        for s in content["sites"]
    ]  # fmt: skip
    return abis, sites, set(content["symbols"])


def embedded(module: Module) -> bytes:
    """The description of a module as an object file holds it: `descriptions_in` finds it there."""
    return f"{_BEGIN}{describe(module)}{_END}".encode() + b"\0"


def descriptions_in(data: bytes) -> list[str]:
    """The descriptions of the modules in an object file or a library."""
    pattern = re.escape(_BEGIN).encode() + b"([^\0]*?)" + re.escape(_END).encode()
    return [found.decode(errors="replace") for found in re.findall(pattern, data)]


def this_cpu() -> str:
    """The CPU that code of this process is made for."""
    from llvmlite import binding

    return f"{binding.get_process_triple()} {binding.get_host_cpu_name()}"
