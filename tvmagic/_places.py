"""Modules at the places where TVM has them: `from tvmagic.ir.transform import PassContext`.

Such a module has no file: it gives the names of the modules that `PLACES` says, which are loaded when one is asked for.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:  # `import tvmagic` loads none of these: they take longer than all of it
    from collections.abc import Sequence
    from typing import Any

__all__ = ["PLACES", "install", "instead", "neighbour", "submodule"]

PLACES: dict[str, str] = {
    "arith.iter_affine_map": "arith",
    "arith.pattern": "arith",
    "error": "errors",
    "_ffi.registry": "_ffi",
    "_ffi.runtime_ctypes": "ir runtime",
    "driver.build_module": "driver",
    "ir._ffi_api": "ir",
    "ir.adt": "ir.graph_types",
    "ir.instrument": "instrument",
    "ndarray": "nd",
    "ir.tensor_type": "ir",
    "ir.transform": "transform",
    "ir.type": "ir",
    "ir.type_relation": "ir.graph_types",
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
    "target.tag": "codegen.target.tags",
    "target.target": "target",
    "te._ffi_api": "te te.schedule",
    "te.hybrid.runtime": "te.hybrid",
    "te.tensor_intrin": "te.intrinsic",
    "tir._ffi_api": "tir",
    "tir.analysis._ffi_api": "tir.analysis",
    "tir.analysis.analysis": "tir.analysis",
    "tir.generic": "ir.ops",
    "tir.schedule._ffi_api": "tir.schedule",
    "tir.schedule.block_scope": "tir.schedule tir.block_scope",
    "tir.transform._ffi_api": "tir.transform",
    "tir.transform.function_pass": "tir.transform",
    "tir.transform.transform": "tir.transform",
    "topi.math": "topi",
}


class _Module(ModuleType):
    """A module whose names are those of others."""

    def __init__(self, name: str, sources: Sequence[str]) -> None:
        super().__init__(
            name, f"The names of {' and '.join(f'`{s}`' for s in sources)}, at the place where TVM has them."
        )
        self.__dict__["_sources"] = sources
        if any(place.startswith(f"{name.removeprefix('tvmagic.')}.") for place in PLACES):
            self.__path__: list[str] = []  # a package

    def _modules(self) -> list[ModuleType]:
        return [importlib.import_module(source) for source in self.__dict__["_sources"]]

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [n for n in dir(self) if not n.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(f"module `{self.__name__}` has no name `{name}`")
        if f"{self.__name__}.{name}".removeprefix("tvmagic.") in PLACES:  # before a module of ours with that name
            return importlib.import_module(f"{self.__name__}.{name}")
        for module in self._modules():
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module `{self.__name__}` has no name `{name}`")

    def __dir__(self) -> list[str]:
        names = {name for module in self._modules() for name in getattr(module, "__all__", None) or dir(module)}
        return sorted(names)


class _Finder:
    """Finds the modules of `PLACES`, and makes them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.removeprefix("tvmagic.") not in PLACES or not fullname.startswith("tvmagic."):
            return None
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name, [f"tvmagic.{name}" for name in PLACES[spec.name.removeprefix("tvmagic.")].split()])

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def submodule(package: str, name: str) -> ModuleType:
    """The module `name` of a package of ours, imported when it is first asked for, as TVM's are attributes from the start.

    Raises AttributeError if there is no such module.
    """
    import importlib.util

    path = f"{package}.{name}"
    if name.startswith("__") or importlib.util.find_spec(path) is None:
        raise AttributeError(f"module `{package}` has no name `{name}`{instead(package, name)}")
    return importlib.import_module(path)


def instead(module: str, name: str) -> str:
    """How a message ends that says that a module has no such name: what to write in its place, if that is known."""
    from tvmagic._instead import instead as found

    return found(module, name)


def neighbour(module: str, package: str, name: str) -> Any:
    """The name of another file of a package, which TVM's file of this name imports too: `tir.stmt.IterVar`."""
    if not name.startswith("_"):
        found = getattr(importlib.import_module(package), name, None)
        if found is not None and not isinstance(found, ModuleType):
            return found
    raise AttributeError(f"module `{module}` has no name `{name}`")


def install() -> None:
    """Let `import` find the modules of `PLACES`, after those that have files."""
    if not any(type(finder).__name__ == "_Finder" and type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
