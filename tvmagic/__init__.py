"""tvmagic: a tensor compiler that you step through in a notebook.

    import tvmagic
    from tvmagic import te

Public names stand where TVM 0.19 has them. Parts are loaded when they are first used, so that the
import itself is quick and loads neither LLVM nor widgets.

This file alone names packages of all levels, as text: TVM's names (`_Finder`), and the functions that a lower
package asks for (`_provider`). `tvmagic.compat` holds what exists only so that programs written for TVM run.
Without that folder its names are missing, and everything else works.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:  # `import tvmagic` loads none of these: they take longer than all of it
    from collections.abc import Sequence
    from typing import Any as _Any
del TYPE_CHECKING  # the name of a module is a name that users see

__version__ = "0.1.0"

_MODULES = (
    "arith", "ascend", "auto", "cinn", "codegen", "container", "contrib", "driver", "errors", "instrument", "ir", "nd", "notebook",
    "operators", "passes", "runtime", "script", "support", "target", "te", "testing", "tir", "topi", "transform", "tune",
    "_ffi", "error", "ndarray",
)  # fmt: skip
_NAMES = {
    "IRModule": "tvmagic.ir",
    "DataType": "tvmagic.ir",
    "DataTypeCode": "tvmagic.ir",
    "Object": "tvmagic.runtime",
    "Operator": "tvmagic.operators",
    "TVMError": "tvmagic.errors",
    "TVMagicError": "tvmagic.errors",
    "ScheduleError": "tvmagic.errors",
    "lower": "tvmagic.driver",
    "build": "tvmagic.driver",
    "cpu": "tvmagic.runtime",
    **dict.fromkeys(
        ("cl", "cuda", "ext_dev", "gpu", "hexagon", "metal", "mtl", "opencl", "rocm", "vpi", "vulkan", "webgpu"),
        "tvmagic.runtime.device",
    ),
    "device": "tvmagic.runtime",
    "get_global_func": "tvmagic.runtime",
    "register_func": "tvmagic.runtime",
    "recording": "tvmagic.passes",
}

# Modules without a file: they give the names of one or several others.
_PLACES = {
    "_ffi.registry": "compat.ffi",
    "_ffi.runtime_ctypes": "ir runtime",
    "arith.iter_affine_map": "arith",
    "arith.pattern": "arith",
    "container": "ir.container",
    "driver.build_module": "driver",
    "error": "errors",
    "ir._ffi_api": "ir",
    "ir.adt": "compat.graph_types",
    "ir.instrument": "instrument",
    "ir.tensor_type": "ir",
    "ir.transform": "transform",
    "ir.type": "ir",
    "ir.type_relation": "compat.graph_types",
    "nd": "runtime.ndarray runtime.device",
    "ndarray": "nd",
    "runtime.container": "runtime ir.container",
    "runtime.object": "runtime",
    "runtime.object_generic": "runtime",
    "runtime.object_path": "ir.path",
    "runtime.packed_func": "runtime",
    "runtime.script_printer": "script.printer",
    "script.parser.core": "script.parser",
    "script.parser.core.diagnostics": "script.parser.python_source ir.diagnostics",
    "script.parser.core.doc": "script.parser.python_trees",
    "script.parser.core.doc_core": "script.parser.python_trees",
    "script.parser.core.entry": "script.parser",
    "script.parser.core.evaluator": "script.parser.python_source",
    "target.tag": "target.tags",
    "te._ffi_api": "te te.schedule",
    "te.hybrid.runtime": "compat.hybrid",
    "te.tensor_intrin": "te.intrinsic",
    "tir._ffi_api": "tir",
    "tir.block_scope": "tir.blocks.scope tir.blocks.sref",
    "tir.buffer": "tir",
    "tir.expr": "ir.expr tir",
    "tir.function": "tir",
    "tir.op": "compat.tir_op tir",
    "tir.stmt": "tir",
    "tir.analysis._ffi_api": "tir.analysis",
    "tir.analysis.analysis": "tir.analysis",
    "tir.generic": "ir.ops",
    "tir.schedule._ffi_api": "tir.schedule",
    "tir.schedule.block_scope": "tir.schedule tir.blocks.scope tir.blocks.sref",
    "tir.transform._ffi_api": "tir.transform",
    "tir.transform.function_pass": "tir.transform",
    "tir.transform.transform": "tir.transform",
    "topi.math": "compat.topi",
    "transform": "passes compat.passes.print_ir",
}
# Modules at other places: `tvmagic.topi.nn` is the module `tvmagic.compat.topi.nn`.
_MOVED = {
    "_ffi": "compat.ffi",
    "arith._ffi_api": "compat.arith_ffi",
    "contrib": "compat.contrib",
    "contrib.cc": "runtime.cc",
    "contrib.tar": "runtime.tar",
    "ir.graph_types": "compat.graph_types",
    "support": "compat.support",
    "target.codegen": "compat.target.codegen",
    "te.hybrid": "compat.hybrid",
    "testing": "compat.testing",
    "tir.block_dependence_info": "compat.block_dependence_info",
    "tir.data_layout": "compat.data_layout",
    "tir.ir_builder": "compat.ir_builder",
    "tir.tensor_intrin.cuda": "compat.tensor_intrin.cuda",
    "tir.tensor_intrin.hexagon": "compat.tensor_intrin.hexagon",
    "tir.tensor_intrin.rocm": "compat.tensor_intrin.rocm",
    "topi": "compat.topi",
}
# Modules that have another name than in 0.1.0, which is found too until 0.3.0.
_RENAMED = {
    "codegen.cache": "codegen.llvm.cache",
    "codegen.debug": "codegen.emit.debug",
    "codegen.target": "target",
    **{
        f"explain.{name}": f"model.{name}"
        for name in ("addresses", "footprints", "guards", "nest_model", "nests", "traffic", "unrolling")
    },
    "explain.arrange": "explain.schedule_writer",
    "explain.cases": "explain.diagnosis",
    "explain.core": "model.core_model",
    "explain.measured": "explain.finding_measurement",
    "explain.model": "model.program_model",
    "explain.remedies": "explain.suggested_edits",
    "explain.roof": "explain.machine_limits",
    "tune.instant": "auto",
    "tune.instant.factors": "auto.precomputed_operands",
    "tune.instant.few": "auto.full_reductions",
    "tune.instant.joined": "auto.fused_products",
    "tune.instant.pairs": "auto.tuple_reductions",
    "tune.instant.parts": "auto.partial_demand",
    "tune.instant.plainly": "auto.fallback",
    "tune.instant.rows": "auto.row_reductions",
    "tune.instant.short": "auto.small_dot_products",
    "tune.instant.tiles": "auto.untiling",
    "tune.instant.turned": "auto.transposed_sums",
}
_MOVED |= _RENAMED
# Names that compat adds to packages of the core.
_ADDED = {
    "ir": "compat.graph_types",
    "target": "compat.target",
    "target.target": "compat.target",
    "tir": "compat.data_layout compat.block_dependence_info",
    "tir.analysis": "compat.analysis",
    "tir.transform": "compat.passes",
}
# Names of packages that a higher package defines.
_HIGHER = {
    **dict.fromkeys(("tir.comm_reducer", "tir.max", "tir.min", "tir.sum"), "te.reduction"),
    "runtime.module.load_module": "runtime.loader",
    "script.cinn_text": "cinn.text.printer",
    **dict.fromkeys(("script.from_cinn", "script.is_cinn_text"), "cinn.text.parser"),
}
# Functions and classes that a package asks for from a higher level (`tvmagic.ir.hooks`).
_PROVIDERS = {
    "analyzer": "arith.analyzer:Analyzer",
    "array": "runtime.ndarray:of_numpy",
    "buffer contents": "compat.contents.analysis:BufferContents",
    "cinn text": "cinn.text.printer:cinn_text",
    "classic text": "script.printer.classic_text:classic",
    "contrib functions": "compat.contrib.functions:register",
    "flat index": "tir.transform.memory.flat_index:FlatIndex",
    "graph types": "compat.graph_types:TensorType",
    "intrinsics of other machines": "compat.tensor_intrin:intrinsics",
    "llvm intrinsics": "codegen.text.llvm_names:names",
    "pass options": "tir.transform:all_passes",
    "print": "script.printer:print_node",
    "show": "script:show",
    "step editor": "notebook.editor:offer",
    "target": "target:Target",
    "te records": "te.serialization:register_records",
    "tensor intrinsics": "tir.tensor_intrin:register_others",
}


class _Names(ModuleType):
    """A module whose names are those of others."""

    def __init__(self, name: str, sources: Sequence[str]) -> None:
        texts = " and ".join(f"`tvmagic.{source}`" for source in sources)
        super().__init__(name, f"The names of {texts}, at the place where TVM has them.")
        self.__dict__["_sources"] = sources
        if any(place.startswith(f"{name.removeprefix('tvmagic.')}.") for place in _PLACES):
            self.__path__: list[str] = []  # a package

    def _modules(self) -> list[ModuleType]:
        return [module for source in self.__dict__["_sources"] if (module := _loaded(source)) is not None]

    def __getattr__(self, name: str) -> _Any:
        if name == "__all__":
            return [n for n in dir(self) if not n.startswith("_")]
        if not name.startswith("__"):
            if f"{self.__name__}.{name}".removeprefix("tvmagic.") in _PLACES:  # before a module of ours with that name
                return importlib.import_module(f"{self.__name__}.{name}")
            for module in self._modules():
                if hasattr(module, name):
                    return getattr(module, name)
        modules = (self.__name__, *(f"tvmagic.{source}" for source in self.__dict__["_sources"]))
        known = next((text for module in modules if (text := advice(module, name))), "")
        raise AttributeError(f"module `{self.__name__}` has no name `{name}`{known}")

    def __dir__(self) -> list[str]:
        return sorted({name for module in self._modules() for name in getattr(module, "__all__", None) or dir(module)})


class _Finder:
    """Finds modules at TVM's places: those of `_PLACES` and `_MOVED`, and parts of TVM that are not here.

    It comes before Python's own finder: the file of `tvmagic.topi.nn` must not be loaded a second time under that name.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("tvmagic."):
            return None
        name = fullname.removeprefix("tvmagic.")
        if name in _PLACES:
            return ModuleSpec(fullname, self)  # type: ignore[arg-type]
        moved = _new_place(name)
        if moved is None:
            spec = PathFinder.find_spec(fullname, path, target)
        else:
            found = _loaded(moved)
            spec = found and ModuleSpec(fullname, self, loader_state=moved)  # type: ignore[arg-type]
        if spec is None and not name.startswith("compat"):
            absent = _loaded("compat.unsupported")
            spec = absent and absent.spec_of(fullname)
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if spec.loader_state:
            return None  # the module at the new place takes the place of the one that Python makes
        return _Names(spec.name, _PLACES[spec.name.removeprefix("tvmagic.")].split())

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None and spec.loader_state:  # Python takes what `sys.modules` has afterwards
            sys.modules[spec.name] = importlib.import_module(f"tvmagic.{spec.loader_state}")


def _new_place(name: str) -> str | None:
    """Where a module is now that is found at the place `name`; None if it did not move."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        place = _MOVED.get(".".join(parts[:count]))
        if place is not None:
            return ".".join([place, *parts[count:]])
    return None


def _loaded(place: str) -> _Any:
    """The module `tvmagic.<place>`; None if it is a module of compat that does not exist."""
    try:
        return importlib.import_module(f"tvmagic.{place}")
    except ModuleNotFoundError as error:
        if place.startswith("compat.") and f"tvmagic.{place}.".startswith(f"{error.name}."):
            return None
        raise


def provider(service: str) -> _Any:
    """The function or class that provides a service of `tvmagic.ir.hooks`; None if it is in compat and compat is missing."""
    place, _, name = _PROVIDERS[service].partition(":")
    module = _loaded(place)
    return None if module is None else getattr(module, name)


def advice(module: str, name: str) -> str:
    """The end of a message that says that `module` has no such name: what to write instead, if compat knows it."""
    table = _loaded("compat.replacements")
    return "" if table is None else table.instead(module, name)


def find_name(package: str, name: str) -> _Any:
    """Return what `__getattr__` of a package finds last: a name of a higher package, or a module of this one.

    TVM's modules are attributes before they are imported. Raises AttributeError if there is nothing of that name.
    """
    higher = _HIGHER.get(f"{package}.{name}".removeprefix("tvmagic."))
    if higher is not None:
        return getattr(_loaded(higher), name)
    if not name.startswith("_") or name in ("_ffi", "_ffi_api"):
        for place in _ADDED.get(package.removeprefix("tvmagic."), "").split():
            module = _loaded(place)
            if module is not None and name in module.__all__:
                return getattr(module, name)
        path = f"{package}.{name}"
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise
    raise AttributeError(f"module `{package}` has no name `{name}`{advice(package, name)}")


if not any(type(finder).__name__ == "_Finder" and type(finder).__module__ == __name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]


def __getattr__(name: str) -> _Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    return find_name("tvmagic", name)


def __dir__() -> list[str]:
    hidden = ("ModuleSpec", "ModuleType", "PathFinder", "advice", "find_name", "importlib", "provider", "sys")
    return sorted({*globals(), *_MODULES, *_NAMES} - {*hidden})


def load_ipython_extension(ipython: _Any) -> None:
    """`%load_ext tvmagic`"""
    from tvmagic.notebook import load_ipython_extension as load

    load(ipython)


def unload_ipython_extension(ipython: _Any) -> None:
    """`%unload_ext tvmagic`"""
    from tvmagic.notebook import unload_ipython_extension as unload

    unload(ipython)
