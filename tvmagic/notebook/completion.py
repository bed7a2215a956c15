"""Completion: flags, operators, versions, passes and targets in the lines of magics; names, members and words inside cells."""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from tvmagic import te
from tvmagic.ir import IterVar, Node
from tvmagic.notation.expressions import DTYPES, FUNCTIONS, OVER, REDUCTIONS
from tvmagic.notebook.arguments import PARSERS, Argument, Arguments
from tvmagic.notebook.cursor import Cursor, cursor_in
from tvmagic.notebook.magics import TensorMagics
from tvmagic.operators.scheduling import SCHEDULE_CALLS, SCHEDULES, STAGE_CALLS, block_names
from tvmagic.tir.schedule import Schedule
from tvmagic.tir.schedule.instruction import BlockRV, InstructionKind, LoopRV

_LINE = re.compile(r"^\s*(?:[\w, ]+=\s*)?%{1,2}(\w+)\s(.*)$")


class Word(NamedTuple):
    """A word that may be written, and what it is: `function`, `instance`, `keyword`, `module`."""

    text: str
    kind: str = "instance"


# ---------------------------------------------------------------------------- the lines of magics


def candidates(line: str, magics: TensorMagics) -> list[str]:
    """What may be written at the end of a magic's line, as whole words: flags last, if nothing else is expected first."""
    match = _LINE.match(line)
    if not match or match.group(1) not in PARSERS:
        return []
    magic, rest = match.groups()
    words = rest.split(" ")
    last, before = words[-1], [w for w in words[:-1] if w]
    return [w for w in _words(magic, last, before, magics) if w.startswith(last) and w != last]


def _words(magic: str, last: str, before: list[str], magics: TensorMagics) -> Iterable[str]:
    parser = PARSERS[magic]
    if last.startswith("-"):
        return parser.flags
    operators = magics.operators()
    chosen = next((op for w in before if (op := operators.get(w.partition(":")[0])) is not None), None)
    wanted = _argument_at(parser, before)
    if wanted is None:
        return parser.flags
    if wanted.completes is None:
        return ()
    name, colon, _ = last.partition(":")
    if colon and name in operators and not wanted.names[0].startswith("-"):
        return [f"{name}:{version}" for version in ("plain", *operators[name].versions)]
    listed = last.rpartition(",")[0] + "," if wanted.options.get("metavar") == "A,B" and "," in last else ""
    return [listed + word for word in sorted(wanted.completes(magics, chosen))]


def _argument_at(parser: Arguments, before: list[str]) -> Argument | None:
    """The argument that the word after `before` is for."""
    flags = {name: a for a in parser.declared for name in a.names if name.startswith("-")}
    positions = [a for a in parser.declared if not a.names[0].startswith("-")]
    taken, value_of = 0, None
    for word in before:
        if value_of is not None:
            value_of = None
        elif word in flags:
            value_of = None if "action" in flags[word].options else flags[word]
        else:
            taken += 1
    if value_of is None and positions and taken >= len(positions) and positions[-1].options.get("nargs") == "*":
        return positions[-1]
    return value_of or (positions[taken] if taken < len(positions) else None)


# ---------------------------------------------------------------------------- inside cells

_SCOPES = ("global", "local", "shared", "warp")
_STRINGS: dict[str, tuple[str, ...]] = {
    "cache_read": _SCOPES,
    "cache_write": _SCOPES,
    "set_scope": _SCOPES,
    "read_at": _SCOPES,
    "write_at": _SCOPES,
    "pragma": ("auto_unroll_max_step", "unroll_explicit", "parallel_launch_point", "parallel_stride_pattern"),
    "bind": ("threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockIdx.y", "blockIdx.z", "vthread"),
    "thread_axis": ("threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockIdx.y", "blockIdx.z", "vthread"),
}
_STAGE_PARTS = ("axis", "reduce_axis", "op", "leaf_iter_vars", "all_iter_vars")
_SCHEDULE_PARTS = ("stages", "outputs")
_TIR_PARTS = ("mod", "trace", "get", "show", "work_on", "copy")
# What the values of names are that suit a parameter of a primitive.
_KINDS: dict[str, tuple[type, ...]] = {
    "Loop": (LoopRV,),
    "LoopRV": (LoopRV,),
    "BlockRV": (BlockRV,),
    "Loops": (LoopRV,),
    "BlockRef": (BlockRV,),
    "BlocksIn": (BlockRV,),
    "BlockOrLoop": (BlockRV, LoopRV),
    "LoopOrBlocks": (BlockRV, LoopRV),
    "IterVar": (IterVar,),
    "Stage": (te.schedule.Stage,),
    "Tensor": (te.Tensor,),
}


def words_at(cursor: Cursor) -> tuple[str, list[Word]]:
    """What is written before the cursor of the word that it is in, and the words that may be meant, likely ones first."""
    if cursor.in_comment:
        return "", []
    if cursor.string is not None:
        fragment = cursor.before[cursor.string + 1 :]
        return fragment, _matching(fragment, [Word(w) for w in _quoted(cursor)])
    match = re.search(r"\w*$", cursor.before)
    fragment = match[0] if match else ""
    end = len(cursor.before) - len(fragment)
    if cursor.before[:end].endswith("."):
        value = cursor.value(cursor.expression_before(end - 1))
        return fragment, _matching(fragment, members(value)) if value is not None else []
    if fragment[:1].isdigit():
        return "", []
    words = _schedule_words(cursor) if cursor.op is not None else _tensor_words(cursor)
    others = _other_words(cursor) if fragment and not _is_declaration(cursor) else ()
    return fragment, _matching(fragment, [*words, *others])


def _matching(fragment: str, words: Iterable[Word]) -> list[Word]:
    """The words that go on after `fragment`, each once."""
    found: dict[str, Word] = {}
    for word in words:
        if word.text.startswith(fragment) and word.text != fragment:
            found.setdefault(word.text, word)
    return list(found.values())


def _quoted(cursor: Cursor) -> Iterable[str]:
    """The words that may be in quotes here: names of stages or blocks, storage scopes, thread axes."""
    if cursor.op is None or not cursor.open:
        return ()
    start = cursor.open[-1]
    owner = cursor.expression_before(start)
    if cursor.before[start] == "[" and isinstance(cursor.value(owner), te.schedule.Schedule):
        return [stage.op.name for stage in cursor.value(owner).stages if stage.op is not None]
    called, _, method = owner.rpartition(".")
    if method == "get_block" and isinstance(sch := cursor.value(called), Schedule):
        return sorted(block_names(sch))
    return _STRINGS.get(method, ())


def members(value: Any) -> list[Word]:
    """What may follow `value.`: of a schedule or a stage its calls first."""
    if isinstance(value, te.schedule.Stage):
        calls, parts = STAGE_CALLS, _STAGE_PARTS
    elif isinstance(value, te.schedule.Schedule):
        calls, parts = SCHEDULE_CALLS, _SCHEDULE_PARTS
    elif isinstance(value, Schedule):
        calls, parts = tuple(sorted(InstructionKind.methods)), _TIR_PARTS
    else:
        names = [n for n in dir(value) if not n.startswith("_") and not (isinstance(value, Node) and n[:1].isupper())]
        return [Word(n, "function" if callable(inspect.getattr_static(value, n, None)) else "instance") for n in names]
    return [*(Word(n, "function") for n in calls), *(Word(n) for n in parts)]


def _schedule_words(cursor: Cursor) -> Iterator[Word]:
    """The names of a schedule's cell; in a call those first that suit the argument, and its keywords."""
    names = cursor.names
    wanted, keywords = _wanted(cursor)
    own = [n for n, v in names.items() if not inspect.ismodule(v) and n not in ("knob", "root", *SCHEDULES)]
    suits = [n for n in own if wanted and isinstance(names[n], wanted)]
    given = cursor.op.tensors if cursor.op is not None else {}
    yield from (Word(n) for n in sorted(suits, key=lambda n: n in given))  # what the cell itself named before that
    if suits and cursor.before.rstrip().endswith("["):
        return  # `s[` takes a tensor, and nothing else
    yield from (Word(f"{k}=", "keyword") for k in keywords)
    yield from (Word(n) for n in (*reversed(own), *SCHEDULES, "knob") if n in names)


def _wanted(cursor: Cursor) -> tuple[tuple[type, ...], list[str]]:
    """The classes that an argument may have at the cursor, and the keywords of the call."""
    if cursor.open and cursor.before[cursor.open[-1]] == "[":
        is_schedule = isinstance(cursor.value(cursor.expression_before(cursor.open[-1])), te.schedule.Schedule)
        return (te.Tensor,) if is_schedule else (), []
    if cursor.call is None:
        return (), []
    owner, _, method = cursor.call[0].rpartition(".")
    function = getattr(type(cursor.value(owner)), method, None) if owner else None
    if function is None:
        return (), []
    try:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    except (TypeError, ValueError):
        return (), []
    number = min(cursor.call[1], len(parameters) - 1)
    many = [i for i, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL and i <= number]
    at = parameters[many[0] if many else number] if parameters else None
    kind = str(at.annotation).strip("'").rpartition(".")[2] if at is not None else ""  # `ir.IterVar` is `IterVar`
    named = [p for p in parameters[cursor.call[1] :] if p.kind is not p.VAR_POSITIONAL]
    begun = re.search(r"\w$", cursor.before) is not None  # what has to be given is offered if one writes its name
    return _KINDS.get(kind, ()), [p.name for p in named if begun or p.default is not p.empty]


def _is_declaration(cursor: Cursor) -> bool:
    """Whether the cursor is after the colon of `X: ` in a `%%tensor` cell."""
    return cursor.op is None and re.match(r"\s*\w+\s*:\s*\w*$", cursor.before.rpartition("\n")[2]) is not None


def _tensor_words(cursor: Cursor) -> Iterator[Word]:
    """The words of the index notation: data types after a colon, tensors, indices, functions."""
    if _is_declaration(cursor):
        yield from (Word(d, "class") for d in sorted(DTYPES, key=lambda d: (d != "float32", d)))
        yield Word("range", "function")
        return
    if cursor.call is not None and cursor.call[0] in (*REDUCTIONS, *OVER):
        yield Word("over=", "keyword")
    modules = [n for n, v in cursor.names.items() if inspect.ismodule(v)]
    yield from (Word(n) for n in cursor.names if n not in modules)
    if re.search(r"\w$", cursor.before):
        yield from (Word(n, "function") for n in sorted({*FUNCTIONS, *REDUCTIONS, *OVER, *DTYPES}))
        yield from (Word(n, "module") for n in modules)


def _other_words(cursor: Cursor) -> Iterator[Word]:
    """The names of the notebook and of Python."""
    yield from (Word(n) for n in cursor.namespace if not n.startswith("_"))
    yield from (Word(n, "keyword") for n in keyword.kwlist)
    yield from (Word(n, "function") for n in dir(builtins) if not n.startswith("_"))


# ---------------------------------------------------------------------------- IPython


def install(shell: Any, magics: TensorMagics) -> Callable[[], None]:
    """Complete our magics' lines and cells in `shell`; returns what takes that away again."""
    matchers = getattr(shell.Completer, "custom_matchers", None)
    if matchers is None:
        return lambda: None

    @context_matcher(identifier="tvmagic", priority=100)  # type: ignore[misc]
    def match(context: CompletionContext) -> Any:
        """Our words instead of those of others, wherever we have some."""
        fragment, words = _found(context, magics)
        found = [SimpleCompletion(text=word.text, type=word.kind) for word in words]
        return {"completions": found, "matched_fragment": fragment, "suppress": bool(found), "ordered": True}

    matchers.append(match)

    def forget() -> None:
        matchers[:] = [m for m in matchers if m is not match]

    return forget


def _found(context: CompletionContext, magics: TensorMagics) -> tuple[str, list[Word]]:
    line = context.text_until_cursor
    if _LINE.match(line):
        return line.rpartition(" ")[2], [Word(w, "magic") for w in candidates(line, magics)]
    above = context.full_text.split("\n")[: context.cursor_line]
    at = sum(map(len, above)) + len(above) + context.cursor_position
    cursor = cursor_in(context.full_text, at, magics.namespace)
    return words_at(cursor) if cursor is not None else ("", [])
