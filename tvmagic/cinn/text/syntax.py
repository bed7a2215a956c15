"""CINN's text as a tree of what was written: statements and expressions, each with its place.

Nothing is known here of types, shapes or scopes; `cinn_parser` makes a function of the tree.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from tvmagic.cinn.text.hints import foreign_hint
from tvmagic.errors import DiagnosticError
from tvmagic.ir import Span

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|//[^\n]*)
      | (?P<half>\((?:u?int(?:8|16)_t|b?float16)\)-?[\d.]+(?:[eE][+-]?\d+)?f?
          |cinn::common::raw_uint16_to_b?float16\(0x[0-9a-fA-F]+\))
      | (?P<float>\d+\.\d*(?:[eE][+-]?\d+)?f?|\d+[eE][+-]?\d+f?|\d+f\b|(?:inf|nan)f?\b)
      | (?P<int>\d+(?:ull|ll)?)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<name>[A-Za-z_][\w.]*(?:::[\w.]+)*)
      | (?P<symbol>==|!=|<=|>=|&&|\|\||[-+*/%<>!=(){}\[\],:])
      | (?P<other>.)""",
    re.X,
)
INFIX = {
    operator: rank
    for rank, operators in enumerate(
        [("or",), ("and",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%")]
    )
    for operator in operators
}
"""How tightly an operator binds. CINN writes all parentheses; people leave some out."""
REDUCTIONS = ("sum", "sub", "Div", "Mul", "Max", "Min", "&&", "||")
LOOP_KINDS = {"serial", "parallel", "unroll", "vectorize", "thread_bind", "default"}
TYPE_NAME = re.compile(r"(?:u?int(?:8|16|32|64)|b?float(?:16|32|64)|bool|void|string)$")


class Token(NamedTuple):
    """A piece of the text: its kind, its characters, and the offset at which it begins."""

    kind: str
    text: str
    offset: int


@dataclass(eq=False)
class Expr:
    """An expression: `kind` is number, bool, string, name, access, call, reduce, infix, minus, not or let.

    `text` is the literal, the name or the operator; `args` the operands, indices or arguments. A call of a type's
    name is a cast; a vector type is written `float32x4`.
    """

    kind: str
    text: str
    args: list[Expr]
    offset: int


@dataclass(eq=False)
class Statement:
    """A statement: `kind` is for, block, store, let, if, while, assert, evaluate or list.

    What it holds by name: `body` and `otherwise` are lists of statements, `exprs` its expressions in
    order, `name` the block, variable or loop variable, `word` a loop's kind.
    """

    kind: str
    offset: int
    name: str = ""
    word: str = ""
    exprs: list[Expr] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    otherwise: list[Statement] = field(default_factory=list)
    init: list[Statement] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    attrs: list[tuple[str, str]] = field(default_factory=list)
    thread: str = ""
    factor: Expr | None = None


@dataclass(eq=False)
class Region:
    """`_A[i0(0:32)]`: the buffer's name, and for each variable among the indices its name and ends.

    An axis without a variable has None; ends that are not known are None.
    """

    buffer: str
    axes: list[tuple[str | None, Expr | None, Expr | None]]


class Program(NamedTuple):
    """A text as it was written: its statements, the function's name and arguments if it has a head, and whether
    braces are around all of it."""

    statements: list[Statement]
    name: str | None = None
    arguments: list[str] | None = None
    braces: bool = False


class Text:
    """The text with its tokens; makes the errors that point into it."""

    def __init__(self, text: str, source: str = "<cinn>") -> None:
        self.text, self.source = text, source
        self.lines = text.split("\n")
        self.starts = list(accumulate([len(line) + 1 for line in self.lines], initial=0))
        self.tokens: list[Token] = []
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or "other"
            if kind != "space":
                self.tokens.append(Token(kind, match[0], match.start()))
        self.tokens.append(Token("end", "the end", len(text)))

    def span(self, offset: int, length: int = 1) -> Span:
        line = min(bisect_right(self.starts, offset), len(self.lines))
        column = offset - self.starts[line - 1] + 1
        return Span(self.source, line, column, line, column + length)

    def error(
        self, message: str, offset: int, length: int = 1, hint: str | None = None, *, code: str | None = None
    ) -> DiagnosticError:
        span = self.span(offset, max(length, 1))
        hint = hint or foreign_hint(self.text, offset)
        return DiagnosticError(message, span=span, source_line=self.lines[span.line - 1], hint=hint, code=code)


def parse_programs(text: Text) -> list[Program]:
    """The functions of a text in order, each as its statements, with its head and the braces around it, if it has any."""
    parser = _Parser(text)
    found: list[Program] = []
    while parser.token.kind != "end":
        found.append(parser.program())
    if not found:
        raise text.error("the text holds no statement", 0, code="cinn.text.no_statement")
    return found


def _is_root(statement: Statement) -> bool:
    """Whether a statement is the root block of a function, `root`, `root_0`, ..., alone or in braces."""
    inner = statement.body[0] if statement.kind == "list" and len(statement.body) == 1 else statement
    return inner.kind == "block" and re.fullmatch(r"root(_\d+)?", inner.name) is not None


class _Parser:
    def __init__(self, text: Text) -> None:
        self.source = text
        self.tokens = text.tokens
        self.at = 0

    # ------------------------------------------------------------------ tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def following(self, count: int = 1) -> str:
        place = self.at + count
        return self.tokens[place].text if place < len(self.tokens) else ""

    def take(self) -> Token:
        token = self.token
        if token.kind == "other":  # only the text of an attribute may hold such characters
            raise self.source.error(
                f"`{token.text}` means nothing in CINN's text", token.offset, code="cinn.text.unknown_character"
            )
        if token.kind == "end":
            raise self.source.error(
                "the text ends in the middle of a statement", token.offset - 1, code="cinn.text.incomplete_statement"
            )
        self.at += 1
        return token

    def expect(self, text: str) -> Token:
        if self.token.text != text or self.token.kind == "string":
            raise self.source.error(
                f"`{text}` is expected here, not `{self.token.text}`",
                self.token.offset,
                len(self.token.text),
                code="cinn.text.unexpected_token",
            )
        return self.take()

    def name(self, what: str) -> str:
        if self.token.kind != "name":
            raise self.source.error(
                f"{what} is expected here, not `{self.token.text}`",
                self.token.offset,
                len(self.token.text),
                code="cinn.text.unexpected_token",
            )
        return self.take().text

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind != "string":
            self.at += 1
            return True
        return False

    # ------------------------------------------------------------------ functions

    def program(self) -> Program:
        """A function: up to the head of the next one, to the end of its `Expr 0 { ... }`, or to the end of its root."""
        place, framed = self.token.offset, self._is_frame()
        if framed:
            self.at += 3
        name, arguments = self.head()
        found: list[Statement] = []
        while (
            self.token.kind != "end"
            and not self._is_head()
            and not self._is_frame()
            and not (found and _is_root(found[-1]))
        ):
            if framed and self.token.text == "}":
                break
            found.append(self.statement())
        if framed:
            self.expect("}")
        if not found:
            raise self.source.error("the function holds no statement", place, code="cinn.text.empty_function")
        braces = len(found) == 1 and found[0].kind == "list"
        return Program(found[0].body if braces else found, name, arguments, braces)

    def _is_frame(self) -> bool:
        """`Expr 0 {`, with which lists of CINN's expressions are printed."""
        return self.token.text == "Expr" and self.following().isdigit() and self.following(2) == "{"

    def _is_head(self) -> bool:
        return self.token.text == "function" and self.token.kind == "name" and self.tokens[self.at + 1].kind == "name"

    def head(self) -> tuple[str | None, list[str] | None]:
        """`function f (_A, _B)`, if the text begins with it: the name, and the arguments as they are written."""
        if not self._is_head():
            return None, None
        self.take()
        name = self.name("the function's name")
        arguments: list[str] = []
        self.expect("(")
        while not self.accept(")"):
            arguments.append(self.name("an argument"))
            if self.token.text != ")":
                self.expect(",")
        return name, arguments

    # ------------------------------------------------------------------ statements

    def braces(self) -> list[Statement]:
        """The statements of a list in braces."""
        begin = self.expect("{")
        found: list[Statement] = []
        while not self.accept("}"):
            if self.token.kind == "end":
                raise self.source.error("this brace is never closed", begin.offset, code="cinn.text.brace_not_closed")
            found.append(self.statement())
        return found

    def statement(self) -> Statement:
        token = self.token
        if token.text == "poly_for" and self.following() == "(":
            raise self.source.error(
                "`poly_for` is a loop with a condition in place of an extent, which CINN has before it lowers a function",
                token.offset,
                len(token.text),
                "write `serial for (VAR, MIN, EXTENT)`",
                code="cinn.text.poly_for",
            )
        if token.text == "{" and token.kind == "symbol":
            return Statement("list", token.offset, body=self.braces())
        if self._is_loop():
            return self.loop()
        if token.text == "ScheduleBlock" and self.following() == "(":
            return self.schedule_block()
        if token.text in ("if", "while") and self.following() == "(":
            return self.condition(token.text)
        if token.text == "assert" and self.following() == "(":
            self.take()
            given = self.arguments("(", ")")
            if len(given) != 2:
                raise self.source.error(
                    "`assert` takes a condition and a text",
                    token.offset,
                    len(token.text),
                    code="cinn.text.wrong_assert",
                )
            return Statement("assert", token.offset, exprs=given)
        if token.text in ("alloc", "free") and self.following() == "(":
            return self.memory()
        return self.simple()

    def memory(self) -> Statement:
        """`alloc(_T, 32, 16)` and `free(_T)`."""
        begin = self.take()
        self.expect("(")
        found = Statement(begin.text, begin.offset, name=self.name("a buffer"))
        while not self.accept(")"):
            self.expect(",")
            found.exprs.append(self.expression())
        return found

    def _is_loop(self) -> bool:
        if self.token.kind != "name":
            return False
        if self.token.text == "for" and self.following() == "(":
            return True
        return self.token.text in LOOP_KINDS and self.following() in ("for", "(", "[")

    def loop(self) -> Statement:
        begin = self.token if self.token.text == "for" else self.take()
        loop = Statement("for", begin.offset, word=begin.text)
        if begin.text == "vectorize" and self.token.text in ("(", "["):
            opening = self.take().text
            loop.factor = self.expression()
            self.expect(")" if opening == "(" else "]")
        elif begin.text == "thread_bind":
            self.expect("[")
            words = [self.take().text]
            while not self.accept("]"):
                words.append(self.take().text)
            loop.thread = " ".join(words)
        self.expect("for")
        self.expect("(")
        loop.name = self.name("the loop's variable")
        for _ in range(2):
            self.expect(",")
            loop.exprs.append(self.expression())
        self.expect(")")
        loop.body = self.braces()
        return loop

    def schedule_block(self) -> Statement:
        begin = self.take()
        self.expect("(")
        block = Statement("block", begin.offset, name=self.name("the block's name"))
        self.expect(")")
        self.expect("{")
        if self.token.kind == "name" and self._is_binding():
            block.variables.append(self.name("a variable"))
            while self.accept(","):
                block.variables.append(self.name("a variable"))
            self.expect("=")
            self.expect("axis.bind")
            block.exprs = self.arguments("(", ")")
            if len(block.exprs) != len(block.variables):
                raise self.source.error(
                    f"{len(block.variables)} variables are bound to {len(block.exprs)} values",
                    begin.offset,
                    code="cinn.text.wrong_binding_count",
                )
        while self.token.text in ("read_buffers", "write_buffers") and self.following() == "(":
            self.take()
            block.regions += self.regions()
        if self.token.text == "attrs" and self.following() == "(":
            block.attrs = self.attributes()
        if self.token.text == "init" and self.following() == "{":
            self.take()
            block.init = self.braces()
        while not self.accept("}"):
            if self.token.kind == "end":
                raise self.source.error(
                    f"the block `{block.name}` is never closed",
                    begin.offset,
                    len(begin.text),
                    code="cinn.text.block_not_closed",
                )
            block.body.append(self.statement())
        return block

    def _is_binding(self) -> bool:
        place = self.at
        while self.tokens[place].kind == "name" and self.tokens[place + 1].text == ",":
            place += 2
        return self.tokens[place + 1].text == "=" and self.tokens[place + 2].text == "axis.bind"

    def regions(self) -> list[Region]:
        """`(_A[i0(0:32)], _B[])`"""
        self.expect("(")
        found: list[Region] = []
        while not self.accept(")"):
            region = Region(self.name("a buffer"), [])
            self.expect("[")
            while not self.accept("]"):
                variable = self.take().text if self.token.kind == "name" else None
                self.expect("(")
                low = self.bound()
                self.expect(":")
                region.axes.append((variable, low, self.bound()))
                self.expect(")")
                self.accept(",")
            found.append(region)
            self.accept(",")
        return found

    def bound(self) -> Expr | None:
        return None if self.accept("undefined") else self.expression()

    def attributes(self) -> list[tuple[str, str]]:
        """`attrs(key:value, key:value)`: each value as it is written, which may hold commas."""
        begin = self.take()
        place = self.token.offset
        line = self.source.text[place:].partition("\n")[0].rstrip()
        if not line.startswith("(") or not line.endswith(")"):
            raise self.source.error(
                "attributes are written `attrs(key:value, key:value)`",
                begin.offset,
                5,
                code="cinn.text.wrong_attributes",
            )
        while self.token.offset < place + len(line):
            self.at += 1
        found: list[tuple[str, str]] = []
        for piece in line[1:-1].split(", ") if len(line) > 2 else []:
            key, colon, value = piece.partition(":")
            if colon and re.fullmatch(r"[\w.]+", key):
                found.append((key, value))
            elif found:  # the rest of a text that holds a comma
                found[-1] = (found[-1][0], f"{found[-1][1]}, {piece}")
            else:
                raise self.source.error(
                    "an attribute is written `key:value`", begin.offset, 5, code="cinn.text.wrong_attributes"
                )
        return found

    def condition(self, word: str) -> Statement:
        begin = self.take()
        self.expect("(")
        node = Statement(word, begin.offset, exprs=[self.expression()])
        self.expect(")")
        node.body = self.braces()
        if word == "if" and self.accept("else"):
            node.otherwise = [self.condition("if")] if self.token.text == "if" else self.braces()
        return node

    def simple(self) -> Statement:
        """A store, a variable with a value, or an expression."""
        begin = self.token
        if begin.kind == "name" and TYPE_NAME.match(begin.text) and self.tokens[self.at + 1].kind == "name":
            return self.declaration()
        target = self.operand()
        if self.accept("="):
            value = self.expression()
            if target.kind == "access":
                return Statement("store", begin.offset, target.text, exprs=[value, *target.args])
            if target.kind == "name":
                return Statement("let", begin.offset, target.text, exprs=[value])
            raise self.source.error(
                "only a tensor's element or a variable can be stored to", begin.offset, code="cinn.text.wrong_store"
            )
        if self.token.kind == "symbol" and self.following() == "=":
            raise self.source.error(
                f"`{self.token.text}=` means nothing in CINN's text",
                self.token.offset,
                len(self.token.text) + 1,
                code="cinn.text.unknown_operator",
            )
        if target.kind != "call":
            raise self.source.error(
                "an expression alone is not a statement",
                begin.offset,
                len(begin.text),
                code="cinn.text.expression_statement",
            )
        return Statement("evaluate", begin.offset, exprs=[target])

    def declaration(self) -> Statement:
        """`float32 x = v`, or `float32 x` for a variable that begins as zero."""
        kind = self.take()
        name = self.name("a variable")
        return Statement(
            "let", kind.offset, name, word=kind.text, exprs=[self.expression()] if self.accept("=") else []
        )

    # ------------------------------------------------------------------ expressions

    def arguments(self, opening: str, closing: str) -> list[Expr]:
        self.expect(opening)
        found: list[Expr] = []
        if not self.accept(closing):
            found.append(self.expression())
            while self.accept(","):
                found.append(self.expression())
            self.expect(closing)
        return found

    def expression(self, least: int = 0) -> Expr:
        """An expression of operators that bind at least as tightly as `least`."""
        left = self.operand()
        while self.token.kind in ("symbol", "name") and INFIX.get(self.token.text, -1) >= least:
            operator = self.take()
            right = self.expression(INFIX[operator.text] + 1)
            left = Expr("infix", operator.text, [left, right], operator.offset)
        return left

    def operand(self) -> Expr:
        token = self.take()
        if token.kind in ("int", "float", "half"):
            return Expr("number", token.text, [], token.offset)
        if token.kind == "string":
            return Expr("string", token.text, [], token.offset)
        if token.text == "-":
            alone = self.token.kind in ("int", "float")  # `-(7)` is the difference of 7 from zero
            inner = self.operand()
            if alone and inner.kind == "number":
                return Expr("number", "-" + inner.text, [], token.offset)
            return Expr("minus", "-", [inner], token.offset)
        if token.text == "!":
            return Expr("not", "!", [self.operand()], token.offset)
        if token.text == "(":
            return self.parenthesis()
        if token.kind == "name":
            return self.named(token)
        raise self.source.error(
            f"an expression cannot begin with `{token.text}`",
            token.offset,
            len(token.text),
            code="cinn.text.not_an_expression",
        )

    def parenthesis(self) -> Expr:
        if self.token.text == "let" and self.tokens[self.at + 1].kind == "name":
            begin = self.take()
            name = self.name("a variable")
            self.expect("=")
            value = self.expression()
            self.expect("in")
            inner = Expr("let", name, [value, self.expression()], begin.offset)
        else:
            inner = self.expression()
        self.expect(")")
        return inner

    def reduction(self, token: Token) -> Expr:
        """`Reduce(sum, body,init)`"""
        self.expect("(")
        operator = self.take()
        self.expect(",")
        body = self.expression()
        self.expect(",")
        init = self.expression()
        self.expect(")")
        return Expr("reduce", operator.text, [body, init], token.offset)

    def named(self, token: Token) -> Expr:
        if token.text in ("true", "false"):
            return Expr("bool", token.text, [], token.offset)
        if self.token.text == "[":
            return Expr("access", token.text, self.arguments("[", "]"), token.offset)
        if token.text == "Reduce" and self.token.text == "(" and self.following() in REDUCTIONS:
            return self.reduction(token)
        if self.token.text == "<" and TYPE_NAME.match(token.text) and self.following(2) == ">":
            self.take()
            name = f"{token.text}x{self.take().text}"
            self.expect(">")
            return Expr("call", name, self.arguments("(", ")"), token.offset)
        if self.token.text == "<" and TYPE_NAME.match(self.following()) and self.following(2) == ">":
            raise self.source.error(
                f"there is no template `{token.text}`", token.offset, len(token.text), code="cinn.text.unknown_template"
            )
        if self.token.text == "(":
            return Expr("call", token.text, self.arguments("(", ")"), token.offset)
        return Expr("name", token.text, [], token.offset)
