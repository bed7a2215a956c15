"""Wrong programs: each gives one error that underlines the place marked by « and »."""

from __future__ import annotations

import pytest

from tvmagic.errors import DiagnosticError
from tvmagic.script import from_source

HEAD = '@T.prim_func\ndef main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):\n'
BLOCK = HEAD + "    for i, j in T.grid(16, 16):\n        with T.block('b'):\n"

# name: (lines of the body of `main`, what the message says)
BODIES: dict[str, tuple[str, str]] = {
    # names
    "unknown name": ("B[0] = «C»[0]", "the name `C` is not defined"),
    "name of another scope": ("for i in range(4):\n    B[i] = 0.0\nB[«i»] = 1.0", "the name `i` is not defined"),
    "unknown T name": ("for i in «T.gird»(16):\n    B[i] = 0.0", "there is no `T.gird`"),
    "unknown axis": ("with T.block('b'):\n    v = «T.axis.spatal»(16, 0)", "has no name `spatal`"),
    "private name": ("B[0] = «T.__dict__»", "`__dict__` is not open"),
    "private name of a value": ("B[0] = «(1).__class__»", "`__class__` is not open"),
    "unknown attribute of a buffer": ("T.evaluate(«A.shap»)", "a `buffer` has no attribute `shap`"),
    "unknown attribute of an expression": ("T.evaluate(«n.foo»)", "has no attribute `foo`"),
    "module inside a module": ("T.evaluate(«T.frame»)", "there is no `T.frame`"),
    "name defined twice": ("x = T.int32()\n«x» = T.int32()", "the name `x` is defined twice"),
    "parameter defined again": ("x = n + 1\n«x» = n + 2", "the name `x` is defined twice"),
    "let of the same name": ("x: T.int32 = n\n«x»: T.int32 = n", "the name `x` is defined twice"),
    # arguments
    "too many arguments": ("B[0] = «T.exp(B[0], B[1], B[2])»", "`T.exp` does not take these arguments"),
    "missing argument": ("B[0] = «T.if_then_else(n < 3, B[0])»", "missing a required argument"),
    "unknown keyword": ("for i in «T.serial(4, anotations={})»:\n    B[i] = 0.0", "unexpected keyword argument"),
    "not a function": ("«B(0)»", "`B` is not a function"),
    "wrong count of an intrinsic": ("T.evaluate(«T.tvm_struct_set(B.data, 0)»)", "takes 4 arguments, not 2"),
    "lambda with too few parameters": (
        "T.evaluate(«T.comm_reducer(lambda x: x, [T.float32(0)])»)",
        "takes 2 parameters, not 1",
    ),
    "starred number": ("for i in T.grid(*«n»):\n    B[i] = 0.0", "has no elements to go through"),
    # types
    "bad dtype": ("C = «T.alloc_buffer((4,), 'float31')»", "`float31` is not a data type"),
    "bad dtype name": ("x = «T.flaot32»(1)", "there is no `T.flaot32`"),
    "dtype is a number": ("C = «T.alloc_buffer((4,), 32)»", "`32` is not a data type"),
    "float size": ("C = «T.alloc_buffer((4.5,), 'float32')»", "a shape consists of integers"),
    "text as an operand": ("B[0] = «B[0] + 'one'»", r"`\+` takes numbers and expressions, not a text"),
    "tuple as an operand": ("B[0] = «B[0] * (1, 2)»", "takes numbers and expressions, not a tuple"),
    "compared with a text": ("if «n < 'x'»:\n    B[0] = 0.0", "cannot be compared with a text"),
    "power": ("B[0] = «B[0] ** 2»", r"`\*\*` has no meaning on expressions"),
    "matrix product": ("B[0] = «B[0] @ B[1]»", "`@` has no meaning"),
    "float division of integers": ("x = «n / 2»", "does not say how it rounds"),
    "floor division of floats": ("B[0] = «B[0] // 2.0»", "`floordiv` takes integers"),
    "division by zero": ("x = «n // 0»", "division by the constant zero"),
    "and of integers": ("if «n and n»:\n    B[0] = 0.0", "takes bools"),
    "not of an integer": ("if «not n»:\n    B[0] = 0.0", "takes a bool"),
    "condition is a float": ("if «B[0]»:\n    B[0] = 0.0", "is a bool, not `float32`"),
    "condition is a text": ("if «'yes'»:\n    B[0] = 0.0", "is a bool, not a text"),
    "literal does not fit": ("if «T.int8(n) < 300»:\n    B[0] = 0.0", "300 does not fit into `int8`"),
    "constant does not fit": ("x = «T.int8(300)»", "300 does not fit into `int8`"),
    "negative constant of an unsigned type": ("x = «T.uint8(-1)»", "-1 does not fit into `uint8`"),
    "large constant of a small float": ("x = «T.float16(1e6)»", "does not fit into `float16`"),
    "number beyond 64 bits": ("x = n + «99999999999999999999»", "does not fit into 64 bits"),
    "node of two types": ("B[0] = «T.Add(n, B[0])»", "two operands of one type"),
    "let of another type": ("x: T.float32 = «n»", "cannot be used as a value of type `int32`"),
    "annotation is no type": ("x: «n + 1» = n", "not a type of a variable"),
    "variable without a value": ("«x: T.int32»", "needs a value"),
    "lanes that do not match": ("«B[0:4] = B[0:8]»", "cannot be stored in buffer `B`"),
    "sum of different lanes": ("B[0:4] = «B[0:4] + B[0:8]»", "different numbers of lanes"),
    # accesses
    "too few indices": ("B[0] = «A[0]»", "buffer `A` has 2 dimensions, the access has 1 indices"),
    "too many indices": ("«B[0, 1] = 0.0»", "buffer `B` has 1 dimensions, the access has 2 indices"),
    "float index": ("B[0] = B[«0.5»]", "an index into buffer `B` is an integer"),
    "float expression as index": ("B[0] = B[«B[1]»]", "is an integer, not `float32`"),
    "text as index": ("B[«'a'»] = 0.0", "is an integer, not a text"),
    "vector of unknown length": ("B[0:4] = «B[0:n] + B[0:4]»", "of unknown size cannot be loaded"),
    "step of zero": ("B[0] = «B[0:4:0]»", "constant other than 0"),
    "index into a variable": ("B[0] = «n[0]»", "an expression of type `int32` cannot be indexed"),
    "assignment to a variable's element": ("«n[0]» = 1", "only an element of a buffer can be assigned"),
    "assignment to an attribute": ("«A.data» = 1", "an attribute cannot be assigned"),
    "store of a tuple": ("«B[0] = (1, 2)»", "a tuple cannot be stored"),
    "store of a buffer": ("«B[0] = A»", "cannot be stored in buffer `B`"),
    # statements
    "assignment chain": ("«x = y = n»", "`a = b = c` has no meaning"),
    "loop over a list": ("for i in «[1, 2]»:\n    B[i] = 0.0", "a loop goes over `range`"),
    "loop over a number": ("for i in «n»:\n    B[i] = 0.0", "a loop goes over `range`"),
    "too few loop variables": ("for «i, j» in T.grid(2, 2, 2):\n    B[i] = 0.0", "2 names are given for 3 values"),
    "loop with else": ("for i in range(4):\n    B[i] = 0.0\nelse:\n    «B[0] = 1.0»", "a loop has no `else`"),
    "loop without for": ("«T.serial(4)»", "a loop is written with `for`"),
    "loop assigned": ("«x» = T.serial(4)", "a loop is written with `for`"),
    "block without with": ("«T.block('b')»", "a block is written with `with`"),
    "with a number": ("with «n»:\n    B[0] = 0.0", "`with` takes a part of a program"),
    "with an open file": ("with «open»('x'):\n    B[0] = 0.0", "the name `open` is not defined"),
    "try": ("«try:\n    B[0] = 0.0\nexcept Exception:\n    pass»", "`try` has no meaning"),
    "class": ("«class C:\n    pass»", "`class` has no meaning"),
    "nested function": ("«def f():\n    pass»", "`def` has no meaning"),
    "import": ("«import os»", "`import` has no meaning"),
    "from import": ("«from os import path»", "`import` has no meaning"),
    "global": ("«global n»", "`global` has no meaning"),
    "del": ("«del n»", "`del` has no meaning"),
    "raise": ("«raise ValueError»", "`raise` has no meaning"),
    "break": ("for i in range(4):\n    «break»", "`break` has no meaning"),
    "match": ("«match n:\n    case 1:\n        pass»", "`match` has no meaning"),
    "lambda assigned": ("«f» = lambda x: x", "cannot be used as"),
    "dict assigned": ("«f» = {'a': 1}", "cannot be used as a mapping"),
    "walrus": ("B[0] = («x := 1»)", "`:=` has no meaning"),
    "yield": ("(«yield n»)", "`yield` has no meaning"),
    "set": ("x = «{1, 2}»", "`a set` has no meaning"),
    "bytes": ("x = «b'abc'»", "a constant of type `bytes`"),
    "ellipsis": ("«...»", "a constant of type `ellipsis`"),
    "comprehension of unknown bounds": ("x = T.meta_var([i for i in «range(n)»])", "not constants"),
    "comprehension of an expression": ("x = T.meta_var([i for i in range(4) if «n»])", "is not a constant"),
    "return of nothing": ("«return»", "`return` gives a value"),
    "return of a tuple": ("return «(n, n)»", "cannot return a tuple"),
    "tuple as a statement": ("«(n, n)»", "a tuple is not a statement"),
    "too many names": ("«x, y» = T.meta_var((1, 2, 3))", "2 names are given for 3 values"),
    "assertion message": ("«assert n < 3, n»", "the message of an assertion is a text"),
    "endless power": ("x = «9 ** 9 ** 9»", "is too much"),
    "endless text": ("x = «'a' * 1000000000»", "too long"),
    "format of attributes": ("x = «'{0.__class__}'.format»(n)", "not open to scripts"),
}

# name: (lines inside a block inside two loops `i`, `j`, what the message says)
IN_BLOCKS: dict[str, tuple[str, str]] = {
    "remap of the wrong length": ("vi, vj = «T.axis.remap('S', [i, j])»", "one letter for each of the 2"),
    "remap of an unknown kind": ("vi, vj = «T.axis.remap('SX', [i, j])»", "`X` is not a kind of axis"),
    "remap of an expression": ("vi, vj = «T.axis.remap('SS', [i, j + 1])»", "takes loop variables only"),
    "remap of a parameter": ("vi, vj = «T.axis.remap('SS', [i, n])»", "not the variable of a loop"),
    "axis bound to a float": ("vi = «T.axis.spatial(16, 1.5)»", "is bound to an integer"),
    "axis of three ends": ("vi = «T.axis.spatial((1, 2, 3), i)»", "an extent, a pair of ends"),
    "second where": ("T.where(i < 3)\n«T.where(j < 3)»", "has a second `T.where`"),
    "second reads": ("T.reads(B[i])\n«T.reads(B[j])»", "has a second `T.reads`"),
    "reads of a number": ("«T.reads(3)»", "takes accesses of buffers"),
    "second init": ("with T.init():\n    B[i] = 0.0\nwith «T.init()»:\n    B[i] = 0.0", "has a second `T.init`"),
    "attributes as a list": ("«T.block_attr([1])»", "takes a mapping"),
    "pointer in a block without regions": ("T.evaluate(T.call_extern('int32', 'f', B.data))", "cannot be found"),
    "where inside a loop": ("for k in range(4):\n    «T.where(k < 3)»", "stands directly inside a block"),
}

OUTSIDE: dict[str, tuple[str, str]] = {
    "reads outside a block": ("«T.reads(B[0])»", "stands directly inside a block"),
    "axis outside a block": ("v = «T.axis.spatial(16, 0)»", "stands directly inside a block"),
    "init outside a block": ("with «T.init()»:\n    B[0] = 0.0", "stands directly inside a block"),
    "where outside a block": ("«T.where(n < 3)»", "stands directly inside a block"),
    "match_buffer of a scalar": ("C = «T.match_buffer(n, (4,))»", "is a `int32`, not a `T.handle`"),
    "match_buffer of nothing": ("C = «T.match_buffer(3, (4,))»", "takes a parameter of the function"),
    "data is no pointer": ("C = «T.Buffer((4,), data=3)»", "is a pointer variable"),
    "unknown kind of buffer": ("C = «T.Buffer((4,), buffer_type='x')»", "`x` is not a kind of buffer"),
    "thread without a name": ("for i in «T.thread_binding(4)»:\n    B[i] = 0.0", "names a thread axis"),
    "launch of a variable": ("with «T.launch_thread(n, 4)»:\n    B[0] = 0.0", "takes the name of a thread axis"),
    "grid of nothing": ("for i in «T.grid()»:\n    B[i] = 0.0", "takes one extent or more"),
    "attributes given twice": ("T.func_attr({'a': 1})\n«T.func_attr({'a': 2})»", "`a` of the function is given twice"),
    "let of two variables": (
        "x = T.int32()\ny = T.int32()\nT.evaluate(«T.Let(x, where={x: 1, y: 2})»)",
        "one variable",
    ),
    "constants of the wrong count": (
        "with «T.allocate_const([1, 2], 'int32', [3])» as p:\n    T.evaluate(0)",
        "got 2 values",
    ),
    "size of a constant text": ("x = «T.float32('big')»", "is not a number"),
    "then without if": ("with «T.Then()»:\n    B[0] = 0.0", "stands directly inside `T.If`"),
}

# name: (the whole text, what the message says)
TEXTS: dict[str, tuple[str, str]] = {
    "no decorator": ("«def main(A: T.Buffer((16,), 'float32')):\n    A[0] = 1.0»", "is not under `@T.prim_func`"),
    "unknown decorator": ("@«T.prim_fun»\ndef main():\n    T.evaluate(0)", "there is no `T.prim_fun`"),
    "parameter without a type": ("@T.prim_func\ndef main(«A»):\n    T.evaluate(0)", "the parameter `A` has no type"),
    "parameter of an odd type": ("@T.prim_func\ndef main(«A: 3»):\n    T.evaluate(0)", "the type of parameter `A`"),
    "parameter given twice": (
        "@T.prim_func\ndef main(A: T.int32, «A: T.int32»):\n    T.evaluate(0)",
        "duplicate argument|defined twice",
    ),
    "starred parameter": ("@T.prim_func\ndef main(*«A»):\n    T.evaluate(0)", "plain parameters only"),
    "default value": ("@T.prim_func\ndef main(n: T.int32 = «3»):\n    T.evaluate(0)", "no default value"),
    "size not yet known": (
        "@T.prim_func\ndef main(A: T.Buffer((«m»,), 'float32'), m: T.int32):\n    T.evaluate(0)",
        "the name `m` is not defined",
    ),
    "return type": ("@T.prim_func\ndef main() -> «'float31'»:\n    T.evaluate(0)", "`float31` is not a data type"),
    "indentation": (
        "@T.prim_func\ndef main(n: T.int32):\n    x = n\n     « y» = n",
        "not valid Python: unexpected indent",
    ),
    "block body not indented": (
        "@T.prim_func\ndef main(n: T.int32):\n    for i in range(4):\n    «T»\n",
        "not valid Python: expected an indented block",
    ),
    "missing bracket": ("@T.prim_func\ndef main(n: T.int32):\n    T.evaluate«(»n", "not valid Python"),
    "import of something": ("«import os»\n@T.prim_func\ndef main():\n    T.evaluate(0)", "a text cannot import"),
    "statement outside": ("«x = 1»\n@T.prim_func\ndef main():\n    T.evaluate(0)", "a text holds functions"),
    "call outside": ("«print(1)»", "a text holds functions"),
    "statement in a module": ("@I.ir_module\nclass M:\n    «x = 1»", "a module holds functions"),
    "module with a base": ("@I.ir_module\n«class M(object):\n    pass»", "no base classes"),
    "unknown function of the module": (
        "@I.ir_module\nclass M:\n    @T.prim_func\n    def main(n: T.int32):\n        «M.helper»(n)",
        "the module has no function `helper`",
    ),
    "buffer passed to a function": (
        "@I.ir_module\nclass M:\n    @T.prim_func\n    def f(n: T.int32):\n        T.evaluate(n)\n"
        "    @T.prim_func\n    def main(A: T.Buffer((4,), 'float32')):\n        M.f(«A»)",
        "cannot be passed to `f`",
    ),
    "functions of one name": (
        "@I.ir_module\nclass M:\n    @T.prim_func\n    def f(n: T.int32):\n        T.evaluate(n)\n"
        "    @T.prim_func\n    «def f(n: T.int32):\n        T.evaluate(n)»",
        "a function `f` already",
    ),
    "macro without an argument": (
        "@T.macro\ndef put(A, i):\n    A[i] = 0.0\n@T.prim_func\ndef main(B: T.Buffer((4,), 'float32')):\n    «put(B)»",
        "lacks the argument `i`",
    ),
    "macro with an unknown argument": (
        "@T.macro\ndef put(A):\n    A[0] = 0.0\n@T.prim_func\ndef main(B: T.Buffer((4,), 'float32')):\n    «put(B, k=1)»",
        "has no parameter `k`",
    ),
    "macro without end": (
        "@T.macro\ndef put(A):\n    «put(A)»\n@T.prim_func\ndef main(B: T.Buffer((4,), 'float32')):\n    put(B)",
        "is expanded without end",
    ),
}


def _indent(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.split("\n"))


CASES: dict[str, tuple[str, str]] = {
    **{name: (HEAD + _indent(body, 4), message) for name, (body, message) in {**BODIES, **OUTSIDE}.items()},
    **{name: (BLOCK + _indent(body, 12), message) for name, (body, message) in IN_BLOCKS.items()},
    **TEXTS,
}


def _marked(text: str) -> tuple[str, tuple[int, int] | None]:
    """The text without its marks, and the line and column of the first mark."""
    start = text.find("«")
    place = None
    if start >= 0:
        before = text[:start]
        place = (before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1)
    return text.replace("«", "").replace("»", ""), place


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_program_gives_one_error_at_its_place(name: str) -> None:
    marked, message = CASES[name]
    text, place = _marked(marked)
    with pytest.raises(DiagnosticError, match=message) as caught:
        from_source(text)
    error = caught.value
    if place is None:
        return
    assert (error.line, error.column) == place
    shown = str(error)
    assert text.split("\n")[place[0] - 1] in shown
    assert "^" in shown
    inside = marked[marked.index("«") + 1 : marked.index("»")]
    if "\n" not in inside and "not valid Python" not in error.message:
        caret = next(line for line in shown.split("\n") if "^" in line)
        assert caret.count("^") == len(inside)


def test_there_are_enough_wrong_programs() -> None:
    assert len(CASES) >= 120


def test_hints_name_what_is_close() -> None:
    with pytest.raises(DiagnosticError) as caught:
        from_source(HEAD + "    T.evaluate(T.flordiv(n, 2))\n")
    assert caught.value.hint == "did you mean `floordiv`?"
    with pytest.raises(DiagnosticError) as caught:
        from_source("@T.prim_func\ndef main(source: T.int32):\n    T.evaluate(sorce)\n")
    assert caught.value.hint == "did you mean `source`?"
    assert "hint: did you mean `source`?" in str(caught.value)


def test_the_caret_stands_under_the_place() -> None:
    with pytest.raises(DiagnosticError) as caught:
        from_source(HEAD + "    B[0] = A[0, 0] + missing\n")
    assert str(caught.value).split("\n")[:4] == [
        "the name `missing` is not defined",
        "  at <script>:3:22",
        " 3 |     B[0] = A[0, 0] + missing",
        "   |                      ^^^^^^^",
    ]


def test_columns_count_characters_not_bytes() -> None:
    with pytest.raises(DiagnosticError) as caught:
        from_source('@T.prim_func\ndef main(n: T.int32):\n    assert n < 3, "größer" + fehlt\n')
    assert (caught.value.line, caught.value.column) == (3, 30)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n", "'a docstring'", "\0", "def", "@", "(" * 300, "x = " + "-" * 5000 + "1"]
)
def test_texts_without_a_function(text: str) -> None:
    with pytest.raises(DiagnosticError):
        from_source(text)


@pytest.mark.parametrize("value", [None, 3, b"text", object()])
def test_what_is_no_text(value: object) -> None:
    with pytest.raises(DiagnosticError):
        from_source(value)


def test_nothing_of_a_text_is_executed(tmp_path: object) -> None:
    """Names that reach Python's own functions are not there; calls before the error have no effect."""
    marker = f"{tmp_path}/made"
    for attack in (
        f"open({marker!r}, 'w')",
        f"__import__('os').mkdir({marker!r})",
        f"eval(\"open({marker!r}, 'w')\")",
        "T.prim_func.__globals__['__builtins__']",
        "().__class__.__base__.__subclasses__()",
        "T.frame.threading",
        "getattr(T, 'exp')",
        "globals()",
        "T.exp.__wrapped__",
        "[c for c in ().__class__.__mro__]",
        "(lambda: 0).__globals__",
        "A.data.__init__",
        "A.__class__",
        "f'{A.__class__}'",
        "T.axis.mro()[0].__subclasses__()",
    ):
        with pytest.raises(DiagnosticError):
            from_source(HEAD + f"    T.evaluate({attack})\n")
    from pathlib import Path

    assert not Path(marker).exists()
