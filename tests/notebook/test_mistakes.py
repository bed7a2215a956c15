"""Every magic answers a wrong line with what would work: each of them, with each kind of mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.error import UsageError

from tvmagic.errors import TVMagicError
from tvmagic.notebook.arguments import PARSERS, Arguments, Choice, duration, positive, size

WAY_OUT = re.compile(
    r"did you mean `|it takes |an example is `|there are |there is |ha(s|ve) it|write |needs a value: `|leave it out"
    r"|such as|is not one of |`%|is a function|whole number from 1 on|name one"
)
LINE_MAGICS = [p for p in PARSERS.values() if not p.magic.startswith("%%")]
PARSER_LIST = list(PARSERS.values())


def required(parser: Arguments) -> str:
    """The words that a magic has to be given."""
    positional = [a for a in parser.actions if not a.option_strings and a.nargs in (None,)]
    return " ".join(["mm", "plain"][: len(positional)])


def wrong_lines() -> Iterator[tuple[str, str]]:
    for parser in PARSER_LIST:
        needed = required(parser)
        for extra in (
            "--nonsense",
            "-Z",
            "--intel",
            "--tol 1e-3",
            "--threads 4",
            "--repeat 10",
            "--verbose",
            "--O3",
            "--target=x=y=z",
        ):
            if extra.split()[0].split("=")[0] not in parser.flags:
                yield parser.magic, f"{needed} {extra}"
        if "*" not in [a.nargs for a in parser.actions]:
            for extra in ("with other", "np.matmul", "cortex-a72", "7", "VectorizeLoop", "C", "mm:V9", "4.5"):
                yield parser.magic, f"{needed or 'mm'} {'' if needed else 'mm'} {extra}"
        if needed:
            yield parser.magic, ""
        for action in parser.actions:
            if not action.option_strings or action.nargs in (0, "?"):
                continue
            flag = action.option_strings[-1]
            yield parser.magic, f"{needed} {flag}"
            if isinstance(action.type, Choice) or action.type in (positive, size, duration):
                yield parser.magic, f"{needed} {flag} wrong"


@pytest.mark.parametrize(("magic", "line"), sorted(set(wrong_lines())))
def test_a_wrong_line_is_answered_with_what_would_work(magic: str, line: str) -> None:
    parser = next(p for p in PARSER_LIST if p.magic == magic)
    with pytest.raises(UsageError) as refused:
        parser.read(line)
    text = str(refused.value)
    assert text.startswith(f"{magic}: ") and "\n" not in text
    assert WAY_OUT.search(text.removesuffix(f" (see {magic}?)")), text


@pytest.mark.parametrize("parser", [p for p in LINE_MAGICS if required(p)], ids=lambda p: p.magic)
@pytest.mark.parametrize("name", ["nn", "np.matmul", "mm.run", "mm,mm", "mm:V9", "numbers", "'two words'", "haswell"])
def test_a_wrong_operator_is_answered_with_those_that_there_are(parser: Arguments, name: str, shell: Any) -> None:
    shell.run_cell_magic("tensor", "mm -q", "A: float32[4]\nB[i] = A[i]")
    shell.user_ns["numbers"] = [1, 2]
    rest = {"%compare": " mm", "%program": " VectorizeLoop"}.get(parser.magic, "")
    with pytest.raises((UsageError, TVMagicError)) as refused:
        shell.run_line_magic(parser.magic[1:], f"{name}{rest}")
    hint = getattr(refused.value, "hint", None) or ""
    assert WAY_OUT.search(f"{refused.value}{hint}") or "`mm` is one" in str(refused.value), str(refused.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%verify mm", "`%passes NAME --verify`"),
        ("%asm mm --intel", "the assembly is in AT&T syntax"),
        ("%bench mm np.matmul", "write `%bench mm --against np.matmul`"),
        ("%compare mm with mm", "there is no argument `with`; leave it out"),
        ("%compare mm mm:auto", "`%auto mm` makes it"),
        ("%compare mm mm:mine", "`%%schedule mm -n mine` makes it"),
        ("%lower mm", "`%passes NAME`"),
        ("%benchmark mm", "`%bench NAME`"),
        ("%passs mm", "`%passes NAME`"),
        ("%%verify mm\nx", "`%passes NAME --verify`"),
        ("%%tensr mm\nx", "`%%tensor NAME`"),
        ("%check mm --rtol 1e-3", "each value has its own bound on rounding errors"),
        ("%check mm --size n=7,m=8", "write `--size 7`"),
        ("%tune mm 20", "`--seconds 20`"),
        ("%graph mm B", "`--stage B`"),
        ("%passes mm --html", "`--html FILE`"),
        ("%compare", "`%compare dense:plain dense:auto`"),
        ("%llvm mm -O3", "`%llvm NAME --raw`"),
        ("%passes mm -p Vectorise", "did you mean `VectorizeLoop`?"),
        ("%puzzle list", "has a number, such as 7"),
        ("%compare mm plain --plot", "`%bench` has it"),
        ("%bench", "missing NAME; an example"),
        ("%check mm \u2014target haswell", "did you mean `--target`?"),
        ("%% tensor mm\nx", "follows its `%` without a blank"),
        ("x = 1\n%%tensor mm\nx", "`%%tensor` is a magic for a cell and begins it"),
    ],
)
def test_what_people_write(line: str, words: str, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell_magic("tensor", "mm -q", "A: float32[4]\nB[i] = A[i]")
    assert not shell.run_cell(line).success
    said = capsys.readouterr()
    assert words in " ".join(f"{said.out}{said.err}".split())


def test_magics_of_others_are_none_of_our_business(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not shell.run_cell("%somewhere").success
    assert "UsageError: Line magic function `%somewhere` not found.\n" in capsys.readouterr().err
    assert not shell.run_cell("%load_ext").success
    assert "UsageError: Missing module name." in capsys.readouterr().err
