"""Pygments lexers for the texts that passes print: TVMScript, the classic style, assembly."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups, inherit, words
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

_DTYPE = r"(?:u?int|float|bfloat)\d+(?:x\d+)?|bool|handle|void"
_LOOPS = ("serial", "parallel", "vectorized", "unroll", "thread_binding", "grid")
_BLOCKS = ("block", "init", "reads", "writes", "where", "block_attr", "alloc_buffer", "match_buffer", "Buffer")


class TVMScriptLexer(PythonLexer):
    """TVMScript: Python in which the names of `T` tell loops, blocks and types apart."""

    name = "TVMScript"
    aliases = ["tvmscript"]
    filenames = ["*.tvmscript"]
    url = ""

    tokens = {
        "root": [
            (r"(T)(\.)(axis)(\.)(\w+)", bygroups(Name.Namespace, Operator, Keyword.Type, Operator, Keyword.Type)),
            (r"(T)(\.)" + words(_LOOPS, prefix="(", suffix=r")\b").get(), bygroups(Name.Namespace, Operator, Keyword)),
            (
                r"(T)(\.)" + words(_BLOCKS, prefix="(", suffix=r")\b").get(),
                bygroups(Name.Namespace, Operator, Name.Builtin.Pseudo),
            ),
            (rf"(T)(\.)({_DTYPE})\b", bygroups(Name.Namespace, Operator, Keyword.Type)),
            (r"([TIR])(\.)(\w+)", bygroups(Name.Namespace, Operator, Name.Function)),
            inherit,
        ],
    }


class ClassicLexer(RegexLexer):
    """The style that TVM printed before TVMScript: `realize C([0, 4]) { for (i, 0, 4) { ... } }`."""

    name = "TVM classic"
    aliases = ["tvmclassic"]
    filenames = ["*.tvmclassic"]
    url = ""

    tokens = {
        "root": [
            (r"//.*?$", Comment.Single),
            (r"\s+", Text.Whitespace),
            (r'"(?:\\.|[^"\\])*"', String.Double),
            (
                words(
                    ("for", "parallel", "vectorized", "unrolled", "if", "else", "let", "in", "assert", "while"),
                    prefix=r"\b",
                    suffix=r"\b",
                ),
                Keyword,
            ),
            (
                words(("realize", "produce", "consume", "allocate", "attr", "prefetch"), prefix=r"\b", suffix=r"\b"),
                Name.Builtin.Pseudo,
            ),
            (words(("ramp", "broadcast", "select", "likely", "x"), prefix=r"\b", suffix=r"\b"), Name.Function),
            (rf"\b(?:{_DTYPE})\b", Keyword.Type),
            (r"\d+\.\d*(?:[eE][-+]?\d+)?[fh]?|\d+[eE][-+]?\d+f?", Number.Float),
            (r"\d+", Number.Integer),
            (r"[A-Za-z_][\w.$]*", Name),
            (r"[-+*/%<>=!&|?:]+", Operator),
            (r"[()\[\]{},;]", Punctuation),
            (r".", Text),
        ],
    }


class AsmLexer(RegexLexer):
    """Assembly of any target: labels, directives, mnemonics, registers."""

    name = "Assembly"
    aliases = ["tvmasm"]
    filenames: list[str] = []
    url = ""

    tokens = {
        "root": [
            (r"\s+", Text.Whitespace),
            (r"(?:#|//|;|@).*?$", Comment.Single),
            (r"[.\w$]+:", Name.Label),
            (r"\.\w[\w.]*", Name.Decorator, "operands"),
            (r"[A-Za-z][\w.]*", Keyword, "operands"),
            (r".", Text, "operands"),
        ],
        "operands": [
            (r"\n", Text.Whitespace, "#pop"),
            (r"[ \t]+", Text.Whitespace),
            (r"(?:#|//|;)(?![-0-9]).*?$", Comment.Single),
            (r"%[\w.]+", Name.Variable),
            (r'"(?:\\.|[^"\\])*"', String.Double),
            (r"[-+#$]?(?:0x[0-9a-fA-F]+|\d+)\b", Number),
            (r"[.\w$@]+", Name),
            (r"[-+*,()\[\]{}!:=<>]", Punctuation),
            (r".", Text),
        ],
    }
