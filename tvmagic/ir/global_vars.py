"""The functions of a module that call each other: which ones, and calls under other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir.expr import GlobalVar
from tvmagic.ir.function import IRModule, PrimFunc
from tvmagic.ir.functor import Mutator, Visitor, handles
from tvmagic.ir.methods import method_of
from tvmagic.ir.operators import Call
from tvmagic.ir.prim_expr import StringImm


class _Calls(Visitor):
    """The functions of the module that are called, each once, in the order of the calls."""

    def __init__(self) -> None:
        self.called: dict[GlobalVar, None] = {}

    @handles(Call)
    def call(self, node: Call) -> None:
        if isinstance(node.op, GlobalVar):
            self.called[node.op] = None
        self.visit_children(node)


def collect_call_map(module: IRModule) -> dict[GlobalVar, list[GlobalVar]]:
    """The functions that each function of the module calls."""
    found: dict[GlobalVar, list[GlobalVar]] = {}
    for var, function in module.functions.items():
        calls = _Calls()
        calls.visit(function.body)
        found[var] = list(calls.called)
    return found


class _Renamer(Mutator):
    def __init__(self, renamed: Mapping[GlobalVar, GlobalVar]) -> None:
        self.renamed = renamed

    @handles(Call)
    def call(self, node: Call) -> Any:
        new = self.visit_children(node)
        return new.replace(op=self.renamed[new.op]) if new.op in self.renamed else new


@method_of(IRModule)
def replace_global_vars(module: IRModule, replacements: Mapping[Any, Any]) -> IRModule:
    """The module with some functions under other names, given by the old ones: texts or `GlobalVar`s.

    Calls follow, and so does the `global_symbol` of a function that others may call by its name. All names change at
    one time, so that two functions may swap theirs. Raises `TVMagicError` for an unknown name, and where two
    functions would have one name.
    """
    renamed: dict[GlobalVar, GlobalVar] = {}
    for old, new in replacements.items():
        var = old if isinstance(old, GlobalVar) else module.get_global_var(str(old))
        renamed[var] = new if isinstance(new, GlobalVar) else GlobalVar(str(new))
    functions: dict[GlobalVar, PrimFunc] = {}
    names: set[str] = set()
    for var, function in module.functions.items():
        after = renamed.get(var, var)
        if after.name_hint in names:
            raise TVMagicError(
                f"two functions of the module would have the name `{after.name_hint}`", code="module.repeated_function"
            )
        names.add(after.name_hint)
        functions[after] = _with_symbol(function.with_body(_Renamer(renamed).visit(function.body)), var, after)
        after.returns(function.ret_type)
    same = all(a is b and module.functions[b] is f for (a, f), b in zip(functions.items(), module.functions))
    return module if same else module.replace(functions=functions)


def _with_symbol(function: PrimFunc, before: GlobalVar, after: GlobalVar) -> PrimFunc:
    symbol = function.attrs.get("global_symbol")
    name = symbol.value if isinstance(symbol, StringImm) else symbol
    if name != before.name_hint or after.name_hint == name:
        return function
    return function.with_attr("global_symbol", after.name_hint)
