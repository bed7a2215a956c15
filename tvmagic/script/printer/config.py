"""The options of the TVMScript printer, with the names and defaults of TVM 0.19."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tvmagic.errors import TVMagicError


@dataclass
class PrinterConfig:
    """How a program is printed.

    `name`: the name of the module or function in place of its own. `show_meta`: print what has no
    text form as JSON before the text. `ir_prefix`, `tir_prefix`: the names of the two dialects.
    `int_dtype`, `float_dtype`: constants of these types print without their type. `buffer_dtype`:
    buffers of this type print without it. `verbose_expr`: print the definitions of the free
    variables of an expression too. `indent_spaces`: columns a level. `print_line_numbers`,
    `num_context_lines` (around what is underlined; -1 for all). `syntax_sugar`: the short forms
    (`T.grid`, `T.axis.remap`, parameters of type `T.Buffer`, ...). `show_object_address`: names end
    with the identity of their object. `path_to_underline`, `obj_to_underline`: what to underline;
    `path_to_annotate`, `obj_to_annotate`: what to write a comment at.
    """

    name: str | None = None
    show_meta: bool = False
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    module_alias: str = ""
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    verbose_expr: bool = False
    indent_spaces: int = 4
    print_line_numbers: bool = False
    num_context_lines: int | None = None
    syntax_sugar: bool = True
    show_object_address: bool = False
    show_all_ty: bool = True
    show_all_struct_info: bool = True
    path_to_underline: Sequence[Any] | None = None
    path_to_annotate: Mapping[Any, str] | None = None
    obj_to_underline: Sequence[Any] | None = None
    obj_to_annotate: Mapping[Any, str] | None = None


_OPTIONS = frozenset(f.name for f in fields(PrinterConfig))


def config_of(options: Mapping[str, Any]) -> PrinterConfig:
    """The options given by name as one object; an error names those that there are not."""
    for name in options:
        if name not in _OPTIONS:
            raise TVMagicError(
                f"the printer has no option `{name}`",
                hint="its options are " + ", ".join(sorted(_OPTIONS)),
                code="printer.unknown_option",
            )
    return PrinterConfig(**options)
