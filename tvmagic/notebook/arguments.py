"""How a magic is declared: its arguments, parsed as a command line, shown in `%name?` and completed; never a crash."""

from __future__ import annotations

import argparse
import functools
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import cell_magic, line_cell_magic, line_magic

from tvmagic.errors import DefectError, TVMagicError
from tvmagic.notebook.mistakes import did_you_mean, instead_of_flag, instead_of_word, is_filler, takes
from tvmagic.notebook.results import Shown

LONGEST = 365 * 86_400.0  # seconds; the system's clocks and timers end somewhere beyond


class Choice:
    """An argument's type: one of some words; a wrong one is answered with the nearest."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        if text in self.words:
            return text
        raise argparse.ArgumentTypeError(
            f"`{text}` is not one of {', '.join(self.words)}{did_you_mean(text, self.words)}"
        )


def positive(text: str) -> int:
    """An argument's type: a whole number from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number from 1 on")
    return int(text)


def natural(text: str) -> int:
    """An argument's type: a whole number from 0 on."""
    return 0 if text == "0" else positive(text)


def size(text: str) -> int:
    """An argument's type: the one value of all symbolic sizes."""
    name, equals, value = text.partition("=")
    if equals and name.isidentifier() and value.split(",")[0].isdigit():
        raise argparse.ArgumentTypeError(f"one number is for all symbolic sizes; write `--size {value.split(',')[0]}`")
    return positive(text)


def duration(text: str) -> float:
    """An argument's type: seconds, more than none."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST:
        raise argparse.ArgumentTypeError(f"`{text}` is not a time in seconds, such as 0.5, of at most a year")
    return seconds


class Argument(NamedTuple):
    """One argument of a magic.

    `completes(magics, op)` gives the words that may be written for it; `op` is the operator named before it, or None.
    """

    names: tuple[str, ...]
    options: dict[str, Any]
    completes: Callable[[Any, Any], Iterable[str]] | None


def argument(*names: str, completes: Callable[[Any, Any], Iterable[str]] | None = None, **options: Any) -> Argument:
    """An argument as `argparse` takes it; without `completes`, a `Choice` completes its own words."""
    kind = options.get("type")
    if completes is None and isinstance(kind, Choice):
        words = kind.words
        return Argument(names, options, lambda _magics, _op: words)
    return Argument(names, options, completes)


class Idle(NamedTuple):
    """Options that do nothing `beside` one of some others, or do something only `beside` one of them (`without`)."""

    flags: tuple[str, ...]
    beside: tuple[str, ...]
    without: bool = False

    def problem(self, given: Iterable[str]) -> str | None:
        """What is wrong with the options that are given, in words."""
        flag = next((f for f in self.flags if f in given), None)
        other = next((f for f in self.beside if f in given), None)
        if flag is None or (other is None) is not self.without:
            return None
        if self.without:
            return f"`{flag}` would do nothing without {' or '.join(f'`{f}`' for f in self.beside)}"
        return f"`{flag}` would do nothing with `{other}`"


class _OneLine(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)


class Arguments(argparse.ArgumentParser):
    """The arguments of one magic. A mistake is a `UsageError` of one line."""

    def __init__(
        self,
        magic: str,
        description: str,
        arguments: Sequence[Argument],
        example: str = "",
        idle: Sequence[Idle] = (),
    ) -> None:
        self.magic = magic
        self.idle = tuple(idle)
        self.example = example or f"{magic} dense"
        super().__init__(
            prog=magic, description=description, add_help=False, allow_abbrev=False, formatter_class=_OneLine,
            epilog=f"example: {self.example}",
        )  # fmt: skip
        self.declared = tuple(arguments)
        for names, options, _ in self.declared:
            many = options.get("nargs") == "*"  # none may be given, for argparse only if there is a default
            self.add_argument(*names, **({"default": (), **options} if many else options))

    @property
    def actions(self) -> list[argparse.Action]:
        """Declared arguments in order."""
        return self._actions

    @property
    def flags(self) -> list[str]:
        """Every flag, the long ones first and that for help at the end of them."""
        found = [flag for action in self.actions for flag in action.option_strings]
        return sorted([*found, "--help"], key=lambda f: (not f.startswith("--"), f == "--help", f))

    def read(self, line: str, versions: Callable[[str], Iterable[str]] = lambda _: ()) -> argparse.Namespace | None:
        """The arguments in a magic's line, and the line itself as `line`; None if its help is asked for.

        `versions(name)` gives those that an operator has, for what is said about a word too many.
        """
        whole = line
        line = line.split("#", 1)[0] if " #" in line else line
        try:
            words = words_of(line)
        except ValueError as error:
            self.error(f"the line cannot be read: {error}")
        if "--help" in words or "-h" in words:
            return None
        namespace, unknown = self.parse_known_args(words)
        if unknown:
            wrong = next(filter(is_filler, words), unknown[0])
            self.error(f"there is no argument `{wrong}`{self._meant(wrong, namespace, versions)}")
        self._check_given(words)
        namespace.line = whole
        return namespace

    def _meant(self, word: str, read: argparse.Namespace, versions: Callable[[str], Iterable[str]]) -> str:
        """What would work in place of a word that is not an argument, as the end of a sentence."""
        if word[0] in "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff0d":
            others = [(p.magic, p.flags) for p in PARSERS.values() if p is not self]
            meant = instead_of_flag(word, self.flags, others)
        else:
            name = getattr(read, "name", None)
            makes = "--name" in self.flags and self._option_string_actions["--name"].default is not None
            meant = instead_of_word(
                word, self.flags, name,
                is_pass=_is_pass(word.split(",")[0]), is_version=makes or word in versions(name or ""),
            )  # fmt: skip
        return meant or f"; it takes {takes(self.actions)}"

    def _check_given(self, words: Sequence[str]) -> None:
        """No option is ignored: a value is given once, and none does nothing beside the others."""
        given: set[str] = set()
        for word in words:
            for flag in self._flags_in(word):
                action = self._option_string_actions[flag]
                if given.intersection(action.option_strings) and action.nargs != 0 and not _collects(action):
                    self.error(f"`{flag}` is given twice; one of the two values would be ignored")
                given.update(action.option_strings)
        problem = next((p for idle in self.idle if (p := idle.problem(given)) is not None), None)
        if problem is not None:
            self.error(problem)

    def _flags_in(self, word: str) -> list[str]:
        """The flags of a word of the line: `--size=7` has one, `-qc` has two, `-p7` has one with its value."""
        known = self._option_string_actions
        if not word.startswith("-"):
            return []
        if (flag := word.split("=", 1)[0]) in known:
            return [flag]
        found: list[str] = []
        for letter in word[1:] if not word.startswith("--") else "":
            if (flag := f"-{letter}") not in known:
                break
            found.append(flag)
            if known[flag].nargs != 0:  # the rest is its value
                break
        return found

    def error(self, message: str) -> NoReturn:
        text = message
        if (missing := message.removeprefix("the following arguments are required: ")) != message:
            text = f"missing {missing}; an example is `{self.example}`"
        elif message.startswith("argument ") and message.endswith("expected one argument"):
            flag = message.split()[1].rstrip(":").split("/")[-1]
            text = f"`{flag}` needs a value: `{flag} {self._option_string_actions[flag].metavar}`"
        raise UsageError(f"{self.magic}: {text} (see {self.magic}?)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        self.error((message or "").strip())

    @property
    def doc(self) -> str:
        """The help that `%name?` shows."""
        return self.format_help().replace("usage: ", "")


def words_of(line: str, windows: bool = sys.platform == "win32") -> list[str]:
    """The words of a magic's line, by a shell's rules; on Windows a backslash divides folders, and escapes nothing.

    Raises ValueError for quotes that do not end.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    if windows:
        lexer.escape = ""
    return list(lexer)


def _is_pass(word: str) -> bool:
    """Whether a word is the name of a pass, with or without its package."""
    from tvmagic.tir import transform

    return word.rpartition(".")[2] in {*dir(transform), "InferBound", "ScheduleOps"}


def _collects(action: argparse.Action) -> bool:
    """Whether an option keeps the values of all times that it is given."""
    return isinstance(action, argparse._AppendAction)  # pyright: ignore[reportPrivateUsage]


PARSERS: dict[str, Arguments] = {}


def magic(
    description: str,
    *arguments: Argument,
    cell: bool = False,
    either: bool = False,
    example: str = "",
    idle: Sequence[Idle] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a method of `TensorMagics` as the magic of its name.

    The method takes the parsed arguments and, of a cell magic, the cell's text. `either`: it is a magic of lines and of
    cells. Help, completion, registration and the row of `%tvmagic` follow from the declaration. `example` is a line for an
    operator `dense`. `idle` says which options would do nothing beside others; they are refused. A defect of ours in it ends
    in a `DefectError`.
    """

    def declare(function: Callable[..., Any]) -> Any:
        name = function.__name__
        parser = PARSERS[name] = Arguments(f"%%{name}" if cell else f"%{name}", description, arguments, example, idle)

        @functools.wraps(function)
        def run(self: Any, line: str, *text: str) -> Any:
            try:
                arguments = parser.read(line, self.versions_of)
                if arguments is None:
                    print(parser.doc.rstrip())
                    return None
                result = function(self, arguments, *text)
                if isinstance(result, Shown) and not result.of:
                    result.of = self.definition_of(getattr(arguments, "name", None))
                return result
            except (TVMagicError, UsageError):
                raise
            except MemoryError as error:
                message = f"{parser.magic} needs more memory than there is: {error}"
                raise TVMagicError(message, hint="take smaller sizes", code="magic.out_of_memory") from error
            except OSError as error:  # a full disk, a folder that is gone, a limit on processes
                about = f" `{error.filename}`" if error.filename else ""
                message = f"cannot run {parser.magic}: the system refused{about}: {error.strerror or error}"
                raise TVMagicError(
                    message, hint="mend that, and run the cell again", code="magic.file_error"
                ) from error
            except Exception as error:
                raise DefectError(
                    f"{parser.magic} failed: {type(error).__name__}: {error}", code="magic.unexpected_failure"
                ) from error

        run.__doc__ = parser.doc
        return (line_cell_magic if either else cell_magic if cell else line_magic)(run)

    return declare
