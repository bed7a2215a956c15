"""Suggestions for unknown attributes of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmagic.errors import closest

# What is said for names that other systems have, or that are magics here; `{name}` is the operator's.
_MEANT = {
    "asm": "`%asm {name}` shows its assembly",
    "llvm": "`%llvm {name}` shows its LLVM IR",
    "show": "`{name}` alone shows it, `print({name}.lower())` its program",
    "script": "`print({name}.lower())` shows its program",
    "run": "call it: `{name}(...)`",
    "forward": "call it: `{name}(...)`",
    "realize": "call it: `{name}(...)`",
    "compile": "`{name}.build()` compiles it",
    "jit": "`{name}.build()` compiles it",
    "time": "`%bench {name}` measures it",
    "bench": "`%bench {name}` measures it",
    "benchmark": "`%bench {name}` measures it",
    "time_evaluator": "`%bench {name}` measures it",
    "auto": "`%auto {name}` finds a schedule",
    "autotune": "`%tune {name}` searches for a schedule",
    "tune": "`%tune {name}` searches for a schedule",
    "graph": "`%graph {name}` draws it",
    "plot": "`%graph {name}` draws it, `%bench {name} --plot` its speed",
    "draw": "`%graph {name}` draws it",
    "numpy": "`{name}.reference(...)` computes it in NumPy",
    "ref": "`{name}.reference(...)` computes it in NumPy",
    "torch": "call it with the arrays of a tensor: `{name}(x)` takes all that have `__dlpack__`",
    "profile": "`%why {name}` says where its time goes, `%bench {name}` measures it",
    "test": "`%check {name}` compares it with NumPy",
    "grad": "there are no derivatives: write the one of the operator as an operator of its own",
    "backward": "there are no derivatives: write the one of the operator as an operator of its own",
    "stages": "`{name}.tensors` has its stages, `%graph {name}` draws them",
    "why": "`%why {name}` says where its time goes",
    "save": "`{name}.build().save(FILE)` writes its code",
    "export_library": "`{name}.build().export_library(FILE)` writes a library",
    "get_source": "`{name}.build().get_source()` is its source",
    "args": "`{name}.inputs` and `{name}.outputs` are its tensors",
    "shape": "`{name}.outputs[0].shape` is that of its result",
    "dtype": "`{name}.outputs[0].dtype` is that of its result",
}


class AttributeSuggestions:
    """An operator's answer to names that are not its own."""

    if not TYPE_CHECKING:  # for a type checker an operator has its own attributes alone

        def __getattr__(self, attribute: str) -> Any:
            """Raise AttributeError, with what would work if that is known."""
            values = self.__dict__
            if attribute.startswith("_") or "name" not in values or "tensors" not in values:
                raise AttributeError(f"'Operator' object has no attribute '{attribute}'")
            name = values["name"]
            if attribute in values["tensors"]:
                meant = f'`{name}.tensors["{attribute}"]` is that tensor'
            else:
                near = closest(attribute, [n for n in {*dir(type(self)), *values} if not n.startswith("_")])
                meant = _MEANT.get(attribute, f"did you mean `{name}.{near}`?" if near else "").format(name=name)
            raise AttributeError(
                f"the operator `{name}` has no attribute `{attribute}`" + (f": {meant}" if meant else "")
            )
