"""Which attributes a script may ask for, and of what.

A script reaches the names of `T` and `I`, the fields and some methods of the program's parts, and
the public names of the Python values given to it; never a name that begins with an underscore,
nor a module inside another one.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable
from typing import Any

from tvmagic.errors import TVMagicError, did_you_mean
from tvmagic.ir import Buffer, GlobalVar, Node
from tvmagic.ir.node import slots_of
from tvmagic.script.ir_builder.tir.intrin import further_name
from tvmagic.script.parser.scope import MISSING

_NODE_METHODS = frozenset(
    """astype equal same_as scope access_ptr vload vstore offset_of get_flattened_buffer ndim name_hint
    with_lanes element_of lanes bits from_min_extent""".split()
)
_NO_TEXT_METHODS = frozenset(("format", "format_map"))


class ModuleNames:
    """The functions of the module that is read, by name: what its class name and `cls` stand for."""

    def __init__(self) -> None:
        self.functions: dict[str, GlobalVar] = {}


def attribute(base: Any, name: str, written: ast.expr) -> Any:
    """The attribute `name` of `base`; `written` is how the script writes `base`."""
    if name.startswith("_"):
        raise TVMagicError(f"the name `{name}` is not open to scripts", code="script.name_not_allowed")
    if isinstance(base, types.ModuleType):
        return _module_attribute(base, name, written)
    if isinstance(base, ModuleNames):
        found = base.functions.get(name)
        if found is None:
            raise TVMagicError(
                f"the module has no function `{name}`",
                hint=did_you_mean(name, base.functions),
                code="script.unknown_function",
            )
        return found
    if isinstance(base, Node):
        if name not in slots_of(type(base)) and name not in _NODE_METHODS:
            raise _missing(base, name, [*slots_of(type(base)), *_NODE_METHODS])
    elif isinstance(base, str) and name in _NO_TEXT_METHODS:
        raise TVMagicError(
            f"the method `{name}` of texts is not open to scripts",
            hint="write an f-string",
            code="script.method_not_allowed",
        )
    if isinstance(base, type) and not any(name in vars(c) for c in base.__mro__ if c is not object):
        raise TVMagicError(
            f"`{ast.unparse(written)}` has no name `{name}`",
            hint=did_you_mean(name, vars(base)),
            code="script.unknown_attribute",
        )
    value = getattr(base, name, MISSING)
    if value is MISSING:
        raise _missing(base, name, dir(base))
    return value


def _missing(base: Any, name: str, known: Iterable[str]) -> TVMagicError:
    kind = "buffer" if isinstance(base, Buffer) else type(base).__name__
    return TVMagicError(
        f"a `{kind}` has no attribute `{name}`", hint=did_you_mean(name, known), code="script.unknown_attribute"
    )


def _module_attribute(module: types.ModuleType, name: str, written: ast.expr) -> Any:
    names = module.__dict__.get("NAMES")
    if names is not None:
        value = names.get(name, MISSING)
        if value is MISSING:
            value = further_name(name) or MISSING
    else:
        value = getattr(module, name, MISSING)
        names = module.__dict__
    inside = module.__name__ + "."
    if isinstance(value, types.ModuleType) and not value.__name__.startswith(inside):
        value = MISSING
    if value is MISSING:
        raise TVMagicError(
            f"there is no `{ast.unparse(written)}.{name}`",
            hint=did_you_mean(name, names),
            code="script.unknown_attribute",
        )
    return value
