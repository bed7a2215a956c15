"""The arguments of magics: parsed as a command line, told in `%name?`, completed, and never a crash."""

from __future__ import annotations

import argparse
import difflib
import functools
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from IPython.core.error import UsageError

from tvmagic.errors import InternalError, TVMagicError

__all__ = ["Arguments", "Choice", "did_you_mean", "documented", "duration", "positive"]


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


def duration(text: str) -> float:
    """An argument's type: seconds, more than none."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"`{text}` is not a time in seconds, such as 0.5")
    return seconds


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """`; did you mean X?` where some known word is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean `{close[0]}`?" if close else ""


class _OneLine(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)


class Arguments(argparse.ArgumentParser):
    """The arguments of one magic. A mistake is a `UsageError` of one line."""

    def __init__(self, magic: str, description: str) -> None:
        super().__init__(
            prog=magic, description=description, add_help=False, allow_abbrev=False, formatter_class=_OneLine
        )
        self.magic = magic

    @property
    def flags(self) -> list[str]:
        """Every flag, the long ones first."""
        found = [flag for action in self._actions for flag in action.option_strings]
        return sorted(found, key=lambda f: (not f.startswith("--"), f))

    def read(self, line: str) -> argparse.Namespace:
        """The arguments in a magic's line."""
        line = line.split("#", 1)[0] if " #" in line else line
        try:
            words = shlex.split(line)
        except ValueError as error:
            self.error(f"the line cannot be read: {error}")
        namespace, unknown = self.parse_known_args(words)
        if unknown:
            if unknown[0] in ("-h", "--help"):
                self.error(f"its help is shown by `{self.magic}?`")
            known = self.flags if unknown[0].startswith("-") else []
            self.error(f"there is no argument `{unknown[0]}`{did_you_mean(unknown[0], known)}")
        return namespace

    def error(self, message: str) -> NoReturn:
        text = message.replace("the following arguments are required: ", "missing ")
        raise UsageError(f"{self.magic}: {text} (see {self.magic}?)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        self.error((message or "").strip())

    @property
    def doc(self) -> str:
        """The help that `%name?` shows."""
        return self.format_help().replace("usage: ", "")


def documented(parser: Arguments) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a magic the parser's help as its docstring; a defect of ours in it ends in an `InternalError`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def magic(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except (TVMagicError, UsageError):
                raise
            except MemoryError as error:
                text = f"{parser.magic} needs more memory than there is: {error}"
                raise TVMagicError(text, hint="take smaller sizes") from error
            except Exception as error:
                raise InternalError(f"{parser.magic} failed: {type(error).__name__}: {error}") from error

        magic.__doc__ = parser.doc
        return magic

    return decorate
