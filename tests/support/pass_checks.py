"""What the tests of passes share: functions from text, and their text after a pass."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from tvmagic.ir import IRModule, PrimFunc
from tvmagic.script import from_source

HEAD = "# from tvm.script import tir as T\n"


def parse(text: str) -> PrimFunc:
    """The function of a TVMScript text; `@T.prim_func` may be left out."""
    text = textwrap.dedent(text).strip()
    if not text.startswith("@"):
        text = "@T.prim_func\n" + text
    return from_source(HEAD + text)


def module(text: str) -> IRModule:
    """A module with the function under the name `main`."""
    return IRModule.from_expr(parse(text).with_attr("global_symbol", "main"))


def script(func: Any) -> str:
    """The TVMScript text of a function without the lines on imports."""
    if isinstance(func, IRModule):
        func = func["main"]
    return re.sub(r"^(# from tvm.*\n)+\n?", "", func.script(show_meta=False)).strip()


def check(passes: Any, before: str, after: str) -> None:
    """Run a pass, or several in order, on `before` and compare the text with `after`."""
    mod = module(before)
    for one in passes if isinstance(passes, (list, tuple)) else [passes]:
        mod = one(mod)
    assert script(mod) == script(module(after))
