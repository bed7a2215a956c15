"""What the words of a magic's line name: operators, their versions, functions of the user, targets, passes."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import Any

import numpy as np
import traitlets
from IPython.core.error import UsageError
from IPython.core.magic import Magics

from tvmagic.errors import TVMagicError, a_thing, closest
from tvmagic.ir import PrimFunc, structural_equal
from tvmagic.ir.schedulable import Schedulable
from tvmagic.notation.expressions import DTYPES
from tvmagic.notebook import commands
from tvmagic.notebook.arguments import did_you_mean
from tvmagic.notebook.results import definition
from tvmagic.operators import Operator, Version
from tvmagic.operators.inputs import Inputs
from tvmagic.operators.operator import USUAL_SIZE, as_operator
from tvmagic.operators.version import function_of
from tvmagic.target import VARIABLE


class MagicNames(Magics):
    """Magics that find what their words name among the user's names; what is not there is a UsageError.

    The traits below are the defaults of what a line doesn't say (`%config TensorMagics`).
    """

    target = traitlets.Unicode(
        help="The target that is compiled for; empty for this machine. TVMAGIC_TARGET names the default."
    ).tag(config=True)
    dtype = traitlets.Enum(
        sorted(DTYPES), "float32", help="The data type of declarations without one, such as X: [128, 256]."
    ).tag(config=True)
    show_unchanged = traitlets.Bool(True, help="Show passes that changed nothing (dimmed).").tag(config=True)
    show_graph = traitlets.Bool(True, help="Show the graph of stages after %%tensor.").tag(config=True)
    show_code = traitlets.Bool(True, help="End a timeline with LLVM IR and assembly.").tag(config=True)
    bench_seconds = traitlets.Float(0.2, min=1e-3, help="How long %bench and --time measure each, in seconds.").tag(
        config=True
    )
    theme = traitlets.Enum(
        ["auto", "light", "dark"], "auto", help="Colours: those of the page (auto), light or dark."
    ).tag(config=True)

    @traitlets.default("target")
    def _default_target(self) -> str:
        return os.environ.get(VARIABLE, "")

    @traitlets.observe("theme")
    def _theme_changed(self, change: Any) -> None:
        from tvmagic.notebook.html import set_theme

        set_theme(change["new"])

    made: Any = traitlets.Dict()  # by the user's names: a function that is no operator, and the operator made of it

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's names."""
        assert self.shell is not None
        return self.shell.user_ns

    def operators(self) -> dict[str, Operator]:
        """The operators among the user's names."""
        return {n: v for n, v in self.namespace.items() if isinstance(v, Operator) and not n.startswith("_")}

    def versions_of(self, name: str) -> list[str]:
        """The versions of the operator `name`; none if there is no such operator."""
        op = self.operators().get(name)
        return [] if op is None else ["plain", *op.versions]

    def definition_of(self, name: str | None) -> str:
        """What tells the present definition of the operator `name` from others; empty if it was not made by a cell."""
        op = self.namespace.get(name or "")
        return definition(op.name, op.source.text) if isinstance(op, Operator) and op.source is not None else ""

    def _operator(self, name: str, magic: str) -> Operator:
        found = self.namespace.get(name)
        if isinstance(found, Operator):
            return found
        if (func := function_of(found)) is not None:
            return self._operator_of(name, func)
        known = sorted(self.operators())
        close = closest(name, known)
        hint = (
            f"; did you mean `{close}`?"
            if close
            else f"; there are {', '.join(known)}"
            if known
            else "; write %%tensor first"
        )
        first, _, version = name.partition(":")
        if (owner := name.split(".")[0]) in known and owner != name:
            hint = f"; `{owner}` is one"
        elif "," in name and set(name.split(",")) <= set(known):
            hint = "; write one name"
        if version and first in known:
            makes = "takes no version" if magic == "%machine" else "makes a version of it and takes none"
            hint = f": `{first}` is one; {magic} {makes}"
        elif found is not None:
            raise UsageError(f"{magic}: `{name}` is {a_thing(found)}, not an operator{hint}")
        raise UsageError(f"{magic}: there is no operator `{name}`{hint}")

    def _operator_of(self, name: str, func: PrimFunc) -> Operator:
        """The operator of a function of the user, the same one until the function is another."""
        kept = self.made.get(name)
        if kept is None or kept[0] is not func and not structural_equal(kept[0], func):
            kept = self.made[name] = (func, as_operator(func, name))
        return kept[1]

    def _size_for(self, arguments: Namespace, magic: str, *operators: Operator) -> int:
        """The value of symbolic sizes: the one asked for, or one for which all operators are quick to run."""
        if arguments.size is None:
            return min((op.usual_size for op in operators), default=USUAL_SIZE)
        if not operators:
            raise UsageError(f"{magic}: no operator is named, so that --size would do nothing; name one")
        if not any(op.symbols for op in operators):
            names = " and ".join(f"`{op.name}`" for op in operators)
            raise UsageError(f"{magic}: {names} has no symbolic size, so that --size would do nothing; leave it out")
        return arguments.size

    def _inputs(self, arguments: Namespace, magic: str) -> Inputs | None:
        """What `--inputs EXPR` is for the user; None without it."""
        if arguments.inputs is None:
            return None
        try:
            value = eval(compile(arguments.inputs, "<--inputs>", "eval"), {"np": np, **self.namespace})
        except Exception as error:
            near = (
                did_you_mean(error.name, list(self.namespace)) if isinstance(error, NameError) and error.name else None
            )
            raise UsageError(
                f"{magic}: `--inputs {arguments.inputs}` fails: {type(error).__name__}: {error}{near or ''}"
            ) from None
        return Inputs(value, f"--inputs {arguments.inputs}")

    def _version(self, arguments: Any, magic: str) -> Version:
        if ":" in arguments.name and arguments.version is None:
            return self._version_text(arguments.name, None, magic)
        op = self._operator(arguments.name, magic)
        return self._version_of(op, arguments.version, magic)

    def _version_of(self, op: Operator, name: str | None, magic: str) -> Version:
        try:
            return op.version(name)
        except TVMagicError as error:
            made = {"auto": f"%auto {op.name}", "tuned": f"%tune {op.name}"}.get(
                str(name), f"%%schedule {op.name} -n {name}"
            )
            raise UsageError(f"{magic}: {error.message}; {error.hint}; `{made}` makes it") from None

    def _coded(self, name: str, version: Version, target: str | None) -> Any:
        """What has the code for a target: for an NPU a tiling itself, whose kernel it is, else the version."""
        found = self.namespace.get(name)
        return found if target in commands.KERNELS and isinstance(found, Schedulable) else version

    def _function(self, text: str) -> tuple[str, Any]:
        """A function of the user by its name, such as `f` or `np.dot`."""
        value = self._value(text)
        if not callable(value):
            hidden = self.shell.user_ns_hidden if self.shell is not None else {}
            known = [n for n, v in self.namespace.items() if callable(v) and n not in hidden]
            near = did_you_mean(text, known) or "; name one of your own, or one of NumPy's such as np.dot"
            raise UsageError(f"--against: there is no function `{text}`{near}")
        return text, value

    def _value(self, text: str) -> Any:
        """What a name such as `f` or `np.dot` is for the user; None if it is nothing."""
        first, *rest = text.split(".")
        value = np if first == "np" else self.namespace.get(first)
        for name in rest:
            value = getattr(value, name, None)
        return value

    def _against(self, arguments: Namespace) -> tuple[str, Any] | None:
        """The function that `--against` names; None without the option."""
        return self._function(arguments.against) if arguments.against else None

    def _is_function(self, text: str) -> bool:
        """Whether a word is the name of a function of the user."""
        return callable(self._value(text)) and not isinstance(self._value(text), Operator)

    def _version_text(self, text: str, default: Operator | None, magic: str = "%compare") -> Version:
        """`OPERATOR`, `OPERATOR:VERSION`, or a version of `default`."""
        name, _, version = text.partition(":")
        if name not in self.operators():
            if default is not None and (text in default.versions or text == "plain"):
                return default.version(text)
            owners = {id(op): op for op in self.operators().values() if text in op.versions}
            if len(owners) == 1:
                return next(iter(owners.values())).version(text)
            if owners:
                known = " and ".join(f"`{op.name}:{text}`" for op in owners.values())
                raise UsageError(f"{magic}: there are {known}; write one of them")
        return self._version_of(self._operator(name, magic), version or None, magic)

    def _named_target(self, text: str | None) -> str:
        """The target that a line names, as it is written there, or else the usual one."""
        if text in commands.KERNELS:
            raise UsageError(
                f"`{text}` is an NPU, for which there is the source of a kernel, and no code: `%asm NAME --target {text}`"
            )
        return text or self.target

    def _target(self, text: str | None) -> str | None:
        return commands.target_text(self._named_target(text))

    @staticmethod
    def _pass_names(text: str | None) -> list[str] | None:
        return [name.strip() for name in (text or "").split(",") if name.strip()] or None
